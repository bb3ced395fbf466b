// Runs one command line of `ranktrace` after the other: each line of stdin is JSON, `{ "module": "file:…", "args": […], "mark": "…" }`. The mark follows
// the output of each on stdout and stderr; on stdout a zero byte and the exit code stand before it.

import { createInterface } from 'node:readline';

for await (const line of createInterface({ input: process.stdin })) {
  const { module, args, mark } = JSON.parse(line);
  const { runProgram } = await import(module);
  const code = await runProgram(args, process.env);
  process.stdout.write(`\0${code}${mark}`);
  process.stderr.write(mark);
}
