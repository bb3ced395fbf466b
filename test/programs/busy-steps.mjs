// A rank that steps until it is killed, in a loop that never returns to the event loop or in one that does.
//
//   node busy-steps.mjs sync|await PROGRESS_FILE [HANDLER]      writes a dot per finished step to the file, synchronously
//
// RANK in the file's name is the rank's number.
//
// HANDLER, of SIGINT and SIGTERM: `exit` ends the process with code 3; `ignore` does nothing; `once` handles the first one and lets the next end the
// process; `raise` removes itself and sends the signal again, as clean-up libraries do.

import { openSync, writeSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { profile, recordFunction } from '@ranktrace/sdk';

const [loop, progressFile, handler] = process.argv.slice(2);
const progress = openSync(progressFile.replace('RANK', process.env.RANK ?? ''), 'w');
const word = new Int32Array(new SharedArrayBuffer(4));

const handlers = {
  exit: () => process.exit(3),
  ignore: () => {},
  once: () => writeSync(1, 'asked\n'),
  raise: (signal) => {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  },
};
for (const signal of ['SIGINT', 'SIGTERM']) {
  if (handler === 'once') process.once(signal, handlers.once);
  else if (handler !== undefined) process.on(signal, handlers[handler]);
}

const prof = profile().start();
for (let step = 0; ; step++) {
  recordFunction('forward', { step }, () => Atomics.wait(word, 0, 0, 2));
  if (loop === 'await') await recordFunction('wait', () => setTimeout(1));
  prof.step();
  writeSync(progress, '.');
}
