#!/usr/bin/env node
// Arguments in, exit code out. No other file of this package reads the process's arguments and environment.

import { doesMoreThanPrint, runProgram } from './program.ts';
import { say } from './terminal/output.ts';

/** The first error of stdout or stderr but that of a reader that has gone, such as `| head`: a full disk under a log. */
let unwritten: Error | undefined;
for (const stream of [process.stdout, process.stderr]) {
  // Ranks train on, and a service serves on, whatever becomes of what they print.
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') unwritten ??= error;
  });
}

const args = process.argv.slice(2);
const exitCode = await runProgram(args, process.env);
// Errors of the last writes come a turn later.
await new Promise((resolve) => setImmediate(resolve));
if (unwritten !== undefined && !doesMoreThanPrint(args)) {
  say(`The output could not be written: ${unwritten.message}`);
  process.exitCode = 2;
} else process.exitCode = exitCode;
