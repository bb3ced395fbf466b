import { it } from 'vitest';
import { overviewOf, StepBudget, StepHistory, simulatedCluster, analyseRun, mergeRun, dumpWriter } from '../index.ts';
import { traceProcess } from '../testing/trace-events.ts';
it('speed', () => {
  for (const [ranks, steps] of [[1024, 2000], [1024, 100_000], [8, 65_536], [128, 16_000]] as const) {
    const budget = new StepBudget(); let a = performance.now();
    const parts = Array.from({ length: ranks }, (_, rank) => ({ process: traceProcess({ index: rank + 1, rank }), index: rank + 1, clock: { toTrace: (n: number) => n }, steps: new StepHistory(budget) }));
    const ph = new Map([['forward', 5], ['backward', 6], ['optimizer', 4]]);
    const count = ranks * Math.min(steps, 20000);
    for (let s = 0; s < Math.min(steps, 20000); s++) for (const p of parts) p.steps.add(s, s * 1e8, 1e8 + (s * 31 % 1000) * 1e4, ph);
    const add = performance.now() - a; 
    for (let k = 0; k < 3; k++) { a = performance.now(); const o = overviewOf(parts, { bins: 512 }); const t = performance.now() - a; if (k === 2) { const j = performance.now(); const json = JSON.stringify(o); console.log(ranks, steps, 'add ns/step', (add / count * 1e6).toFixed(0), 'overview ms', t.toFixed(0), 'bins', o.bins.length, 'json MB', (json.length / 1e6).toFixed(1), 'json ms', (performance.now() - j).toFixed(0), 'binSteps', parts[0]!.steps.binSteps); } }
  }
  const { sources } = simulatedCluster({ ranks: 64, hosts: 8, seconds: 20, stepMs: 50, seed: 1 });
  for (let k = 0; k < 2; k++) {
    let a = performance.now(); let n = 0; for (const _ of mergeRun(sources, { begin() {}, lane() {}, event() { n++; }, end() {} })); const m = performance.now() - a;
    a = performance.now(); for (const _ of analyseRun(sources)); console.log('merge', m.toFixed(0), 'analyse', (performance.now() - a).toFixed(0), n);
  }
}, 100000);
