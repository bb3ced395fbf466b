// `node --import @ranktrace/sdk/register train.js`: records an unmodified program, with the options of the environment.
//
//   main thread      a profile runs from before the program's first line to its end; each optimizer update of the weights is a step
//   worker thread    has the same flags: its tfjs is recorded into the main thread's profile
//
// When the program starts a profile of its own, this one ends (process-profile.ts).
// Invariant: the program runs as without us: an error here is one line on stderr, and changes neither its output nor its exit code.

import { isMainThread } from 'node:worker_threads';
import { printable } from '@ranktrace/protocol';
import { ProcessProfile } from './profile/process-profile.ts';
import { threadRecorder } from './profile/thread-recorder.ts';

if (isMainThread) start();
else threadRecorder();

function start(): void {
  const prof = new ProcessProfile({}, { isStandIn: true });
  try {
    prof.start();
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    process.stderr.write(`ranktrace: this program is not recorded: ${printable(why)}\n`);
  }
}
