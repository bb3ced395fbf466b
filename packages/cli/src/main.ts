#!/usr/bin/env node
// Arguments in, exit code out. The only file of this package that knows the process's arguments and environment.

import { runProgram } from './program.ts';

process.exitCode = await runProgram(process.argv.slice(2), process.env);
