import { it } from 'vitest';
import { mergeRun } from '../merge/merge-run.ts';
import { simulatedCluster } from '../simulate/simulated-cluster.ts';
import type { ClusterOptions } from '../simulate/simulation-options.ts';
import { StepBlameSink } from './step-blame-sink.ts';
function sinkOf(options: ClusterOptions) {
  const sink = new StepBlameSink();
  for (const _ of mergeRun(simulatedCluster({ ranks: 8, hosts: 2, rpcsPerSecond: 0, ...options }).sources, sink)) void _;
  return sink;
}
it('all', () => {
  for (const steps of [3, 4, 5, 6, 8, 12, 24]) {
    const bad = new Map<string, number>();
    for (let seed = 0; seed < 60; seed++)
      for (const ranks of [2, 3, 4, 8, 16])
        for (const stepMs of [10, 30, 200]) {
          const { blame } = sinkOf({ seed, ranks, steps, stepMs });
          const f = blame.findings.filter((x) => x.kind === 'straggler').length;
          if (f > 0) bad.set(`${ranks}/${stepMs}`, (bad.get(`${ranks}/${stepMs}`) ?? 0) + 1);
        }
    console.log(steps, JSON.stringify([...bad]));
  }
}, 600000);
