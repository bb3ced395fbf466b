// A rank that only steps, as steps.mjs does, until a given file exists: for tests that look at a job in its middle.
//
//   node steps-until.mjs FILE STEP_MS

import { existsSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { profile, recordFunction } from '@ranktrace/sdk';

const [file = '', stepMs = '5'] = process.argv.slice(2);
const prof = profile().start();
for (let step = 0; !existsSync(file); step++) {
  recordFunction('outer', () => recordFunction('inner', { step }, () => {}));
  prof.instant('mark', { step });
  prof.counter('step', step);
  prof.collective({ op: 'all_reduce', bytes: 8 }, () => {});
  await recordFunction('wait', () => setTimeout(Number(stepMs)));
  prof.step();
}
await prof.stop();
