import { readdirSync, readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { it } from 'vitest';
import { mergeRun } from '../merge/merge-run.ts';
import { readKineto } from '../read/kineto.ts';
import { kinetoSource } from '../read/kineto-source.ts';
import { simulatedCluster } from '../simulate/simulated-cluster.ts';
import { StepBlameSink } from './step-blame-sink.ts';
import { OwnWork } from './own-work.ts';

const data = new URL('../../../../../shared/data/kineto/', import.meta.url);
function show(name: string, sink: StepBlameSink) {
  const t = performance.now();
  const { window } = sink;
  const blame = sink.blame;
  const r = (x: number) => Math.round(x / 1e4) / 100;
  console.log(name, blame.verdict, blame.basis, JSON.stringify(blame.steps), 'step', r(blame.step), 'eps', blame.alignment, Math.round(performance.now() - t), 'ms');
  console.log(' findings', JSON.stringify(blame.findings, null, 0));
  console.log(' whatif', JSON.stringify(blame.whatIf));
  console.log(' frontier', blame.frontier.map((f) => `${f.phase} ${r(f.advance)} r${f.leader} ${f.leaderShare.toFixed(2)}`).join(' | '));
  console.log(' excess', blame.excess.slice(0, 16).map((e) => `${e.rank}:${r(e.excess)} ${e.phase}`).join(' | '));
  for (const b of blame.breakdown.slice(0, 4)) console.log('  ', b.rank, r(b.step), [...b.own].map(([p, x]) => `${p} ${r(x)}`).join(' '), '| waits', b.waits.map((w) => `${w.name}<-${w.rank} ${r(w.length)}`).slice(0, 4).join(', '), '| tr', r(b.transfer), 'un', r(b.unmatched), 'other', r(b.other));
  const own = new OwnWork(window);
  void own;
  if (blame.change) console.log(' change', JSON.stringify(blame.change));
}
for (const folder of ['ddp-4rank/balanced', 'ddp-4rank/rank1_forward', 'ddp-4rank/rank2_data_load', 'nanogpt-8rank']) {
  it.skipIf(!process.env.X?.includes(folder.slice(0, 4)))(folder, () => {
    const files = readdirSync(new URL(`${folder}/`, data)).filter((name) => name.endsWith('.json.gz'));
    const sources = files.map((name, rank) => {
      const table = readKineto(gunzipSync(readFileSync(new URL(`${folder}/${name}`, data))), { keep: 'all' });
      return kinetoSource({ run: 'job', rank, worldSize: files.length, files: [{ name, table }] });
    });
    const sink = new StepBlameSink();
    for (const _ of mergeRun(sources, sink)) void _;
    show(folder, sink);
  }, 100000);
}
it.skipIf(!process.env.X?.includes('sim'))('sim', () => {
  for (const options of [
    {},
    { stragglers: [{ rank: 5, phase: 'backward', ms: 20 }] },
    { pipeline: 2, tensorParallel: 2, stragglers: [{ rank: 5, phase: 'forward', ms: 20 }] },
    { ranks: 4, stepMs: 50 },
    { stragglers: [{ rank: 5, phase: 'backward', ms: 20 }, { rank: 3, phase: 'data', ms: 12 }] },
  ] as const) {
    const sink = new StepBlameSink();
    for (const _ of mergeRun(simulatedCluster({ ranks: 16, hosts: 4, seconds: 10, seed: 1, ...options }).sources, sink)) void _;
    show(JSON.stringify(options), sink);
  }
});
import { ndtimelineWindow } from '../testing/ndtimeline-window.ts';
import { blameOfWindow } from './blame.ts';
for (const job of ['AR', 'SE'])
  it.skipIf(!process.env.X?.includes('nd'))(job, () => {
    const window = ndtimelineWindow(gunzipSync(readFileSync(new URL(`../ndtimeline/${job}/trace-${job}.csv.gz`, data))).toString());
    const fake = { window, blame: blameOfWindow(window) } as unknown as StepBlameSink;
    show(job, fake);
  }, 60000);
