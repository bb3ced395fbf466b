// A rank of a job that trains in lockstep: some work, then an all-reduce that ends when all ranks have entered it. From FROM_STEP to UNTIL_STEP one
// rank is slower in `forward`.
//
//   node slow-rank.mjs STEPS SLOW_RANK FROM_STEP UNTIL_STEP SLOW_MS [BATCH_SIZE_STEP]
//
// From BATCH_SIZE_STEP on the batch is twice as large, and so is `forward`, on all ranks.

import { setTimeout } from 'node:timers/promises';
import { profile, recordFunction } from '@ranktrace/sdk';
import { joinMeeting } from './meeting.mjs';

const [steps, slowRank, fromStep, untilStep, slowMs, batchSizeStep = Number.POSITIVE_INFINITY] = process.argv.slice(2).map(Number);
const rank = Number(process.env.RANK);

const meet = await joinMeeting();
const prof = profile().start();
prof.addMetadata('batch_size', '32');
for (let step = 0; step < steps; step++) {
  const isSlow = rank === slowRank && step >= fromStep && step < untilStep;
  if (step === batchSizeStep) prof.addMetadata('batch_size', '64');
  await recordFunction('data', () => setTimeout(2));
  await recordFunction('forward', () => setTimeout((step >= batchSizeStep ? 16 : 8) + (isSlow ? slowMs : 0)));
  await prof.collective({ op: 'all_reduce', bytes: 1024 }, meet);
  prof.step();
}
await prof.stop();
process.exit(0);
