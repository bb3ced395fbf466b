// A rank that records SPANS spans, evenly over SECONDS, and then stops.
//
//   node spans-in-time.mjs SPANS SECONDS

import { setTimeout } from 'node:timers/promises';
import { profile, recordFunction } from '@ranktrace/sdk';

const [spans, seconds] = process.argv.slice(2).map(Number);
const prof = profile().start();
const began = performance.now();
for (let span = 0; span < spans; span++) {
  recordFunction(`part ${span % 97}`, { span }, () => {});
  if (span % 100 === 99) {
    prof.step();
    await setTimeout(Math.max(0, began + (1000 * seconds * span) / spans - performance.now()));
  }
}
await prof.stop();
