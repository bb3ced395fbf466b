// A rank that numbers its spans and keeps a journal of them until a given file exists: for tests that count arrived spans.
//
//   node numbered-rank.mjs FOLDER STEP_MS SPANS_PER_STEP_MAX
//
// Span N is `numbered` with the arguments `n` and `life` (the process id). FOLDER/RANK-PID.journal gets a line `SPANS STEPS MS` after each
// step, written before the next begins; MS is CLOCK_MONOTONIC. FOLDER/end ends the rank; FOLDER/burst-RANK lets it record 30,000 spans without a pause, once.

import { existsSync, openSync, unlinkSync, writeSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { profile, recordFunction } from '@ranktrace/sdk';

const [folder, stepMs, spansMax] = process.argv.slice(2);
const rank = process.env.RANK;
const journal = openSync(`${folder}/${rank}-${process.pid}.journal`, 'w');
const burst = `${folder}/burst-${rank}`;
const burstSpans = 30_000;

let spans = 0;
const record = (count) => {
  for (let done = 0; done < count; done++) recordFunction('numbered', { n: spans++, life: process.pid }, () => {});
};

const prof = profile().start();
for (let steps = 1; !existsSync(`${folder}/end`); steps++) {
  record(1 + (steps % Number(spansMax)));
  if (existsSync(burst)) {
    unlinkSync(burst);
    record(burstSpans);
  }
  await setTimeout(Number(stepMs));
  prof.step();
  writeSync(journal, `${spans} ${steps} ${Number(process.hrtime.bigint() / 1000n) / 1000}\n`);
}
await prof.stop();
