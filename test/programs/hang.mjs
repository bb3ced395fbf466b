// A job with a hang: in step 5 rank 2 waits for data and never enters that step's all-reduce; the others wait for it there without end.
// Prints `hanging` once it does.

import { setTimeout } from 'node:timers/promises';
import { profile, recordFunction } from '@ranktrace/sdk';

const rank = Number(process.env.RANK);
const prof = profile().start();
const never = () => new Promise(() => {});
setInterval(() => {}, 1000);

for (let step = 0; ; step++) {
  await recordFunction('load data', async () => {
    await setTimeout(10);
    if (step === 5 && rank === 2) {
      console.log('hanging');
      await never();
    }
  });
  await prof.collective({ op: 'all_reduce', bytes: 1024 }, async () => {
    await setTimeout(20);
    if (step === 5) {
      console.log('hanging');
      await never();
    }
  });
  prof.step();
}
