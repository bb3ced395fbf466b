// A rank of a job that trains in lockstep, whose phases have names that do not show what ranks do in them. Ranks meet in `exchange_weights`, which is
// no recorded collective: only its stated role says so. From FROM_STEP on one rank is slower in `recommender_forward`.
//
//   node role-rank.mjs STEPS SLOW_RANK FROM_STEP SLOW_MS

import { setTimeout } from 'node:timers/promises';
import { profile, recordFunction } from '@ranktrace/sdk';
import { joinMeeting } from './meeting.mjs';

const [steps, slowRank, fromStep, slowMs] = process.argv.slice(2).map(Number);
const rank = Number(process.env.RANK);

const meet = await joinMeeting();
const prof = profile({ phaseRoles: { rollouts: 'data' } }).start();
const rearrange = recordFunction('rearrange', { role: 'data' })(() => {});
for (let step = 0; step < steps; step++) {
  const isSlow = rank === slowRank && step >= fromStep;
  await recordFunction('rollouts', () => setTimeout(2));
  await recordFunction('recommender_forward', () => setTimeout(8 + (isSlow ? slowMs : 0)));
  rearrange();
  if (step % 2 === 0) await recordFunction('exchange_weights', meet, { role: 'collective' });
  else await recordFunction('exchange_weights', { step }, meet, { role: 'collective' });
  prof.step();
}
await prof.stop();
process.exit(0);
