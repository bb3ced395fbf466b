// A real rank of the benchmark `soak`: steps of four phases with some spans, a collective and a counter, until it gets SIGTERM.
//
//   node soak-rank.js STEP_MS

import { setTimeout } from 'node:timers/promises';
import { profile, recordFunction } from '@ranktrace/sdk';

const stepMs = Number(process.argv[2]);
const phases = ['data', 'forward', 'backward', 'optimizer'];
const spansPerPhase = 8;

const prof = profile().start();
for (let step = 0; ; step++) {
  for (const phase of phases) {
    recordFunction(phase, () => {
      for (let span = 0; span < spansPerPhase; span++) recordFunction(`layer ${span}`, { step }, () => {});
    });
  }
  prof.collective({ op: 'all_reduce', bytes: 1 << 20 }, () => {});
  prof.counter('loss', 1 / (step + 1));
  await setTimeout(stepMs);
  prof.step();
}
