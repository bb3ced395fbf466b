// Child process of prune-kill.test.ts: prunes its directory again and again.
//
//   node prune-forever.mjs <out>      stdout: a line when it begins

import { writeSync } from 'node:fs';
import { pruneStore } from '../prune/prune-store.ts';

const [, , out = ''] = process.argv;
writeSync(1, 'pruning\n');
await pruneStore(out, { keepDetailMs: 1 });
await pruneStore(out, { keepDetailMs: 1, keepStepsMs: 1000 * 24 * 3600 * 1000 });
writeSync(1, 'done\n');
