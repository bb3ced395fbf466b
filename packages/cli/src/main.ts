#!/usr/bin/env node
// Arguments in, exit code out. The only file of this package that knows the process's arguments and environment.

import { runProgram } from './program.ts';

// `| head` has seen enough: a run goes on and writes its trace all the same.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
  });
}

process.exitCode = await runProgram(process.argv.slice(2), process.env);
