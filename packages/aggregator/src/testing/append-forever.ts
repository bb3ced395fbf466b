// Child process of run-store-kill.test.ts: appends batches after those in the store, and prints each sequence after its acknowledgement.
//
//   node append-forever.mjs <out> <segmentBytesMax>      stdout: one sequence number per line

import { writeSync } from 'node:fs';
import { RunStore } from '../store/run-store.ts';
import { makeBatch, makeHeader } from './make-batch.ts';

const [, , out = '', segmentBytesMax = ''] = process.argv;
const store = new RunStore(out, 'demo', { segmentBytesMax: Number(segmentBytesMax) });
const source = store.source(makeHeader());
let sequence = source === undefined ? 0 : source.count + source.missing;
for (;;) {
  const shape = { sequence, spans: 1 + (sequence % 40) };
  store.append(makeBatch(shape), makeHeader(shape));
  writeSync(1, `${sequence}\n`);
  sequence++;
}
