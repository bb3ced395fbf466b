#!/usr/bin/env node
// The committed bin. npm links a bin at install, and only where its file exists: dist/ is built later in a clone.

import { existsSync } from 'node:fs';
import * as module from 'node:module';

// From Node 22 on: what was compiled at one start is there at the next.
module.enableCompileCache?.();
const main = new URL('../dist/main.js', import.meta.url);
if (existsSync(main)) await import(main.href);
else {
  process.stderr.write('ranktrace: nothing is built in this clone yet; run "npm run build"\n');
  process.exitCode = 2;
}
