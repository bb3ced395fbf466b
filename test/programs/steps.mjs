// A rank that only steps: for tests that need many, or need to know exactly how far it came.
//
//   node steps.mjs STEPS STEP_MS [PROGRESS_FILE]     writes the number of each finished step to the file, synchronously
//
// Every step has a nested span, an instant, a counter, a collective and an async span.

import { openSync, writeSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { profile, recordFunction } from '@ranktrace/sdk';

const [steps = '100', stepMs = '5', progressFile] = process.argv.slice(2);
const progress = progressFile === undefined ? undefined : openSync(progressFile, 'w');

const prof = profile().start();
for (let step = 0; step < Number(steps); step++) {
  recordFunction('outer', () => recordFunction('inner', { step }, () => {}));
  prof.instant('mark', { step });
  prof.counter('step', step);
  prof.collective({ op: 'all_reduce', bytes: 8 }, () => {});
  await recordFunction('wait', () => setTimeout(Number(stepMs)));
  prof.step();
  if (progress !== undefined) writeSync(progress, `${step}\n`);
}
await prof.stop();
