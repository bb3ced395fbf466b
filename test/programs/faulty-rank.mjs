// A rank of a job whose phases wait a little and compute a little, and which has a fault.
//
//   node faulty-rank.mjs STEPS SLOW_RANK PHASE SLOW_MS EVERY        every EVERYth step PHASE takes SLOW_MS longer on SLOW_RANK

import { createHash } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import { profile, recordFunction } from '@ranktrace/sdk';
import { joinMeeting } from './meeting.mjs';

const [steps, slowRank, slowPhase, slowMs, every] = process.argv.slice(2).map((text) => (Number.isNaN(Number(text)) ? text : Number(text)));
const rank = Number(process.env.RANK);
const bytes = new Uint8Array(2 ** 20);
const meet = await joinMeeting();

const prof = profile().start();
for (let step = 0; step < steps; step++) {
  const phase = (name, ms, megabytes) =>
    recordFunction(name, async () => {
      for (let done = 0; done < megabytes; done++) createHash('sha1').update(bytes).digest();
      await setTimeout(ms + (name === slowPhase && rank === slowRank && step % every === 1 % every ? slowMs : 0));
    });
  await phase('data', 4, 0);
  await phase('forward', 10, 2);
  await phase('backward', 16, 4);
  await prof.collective({ op: 'all_reduce', bytes: 1024 }, meet);
  await phase('optimizer', 4, 1);
  prof.step();
}
await prof.stop();
process.exit(0);
