#!/usr/bin/env node
// Arguments in, exit code out. No other file of this package reads the process's arguments and environment.

import { runProgram } from './program.ts';

// The reader, such as `| head`, has closed the pipe: a run continues and writes its trace all the same.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
  });
}

process.exitCode = await runProgram(process.argv.slice(2), process.env);
