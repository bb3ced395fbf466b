// The bytes of version 1, fixed. A change here is a change of the format: existing decoders must be able to read the output of existing
// encoders, so it needs a new protocol version. `UPDATE_GOLDEN=1 npx vitest run --project cluster test/golden.test.ts` writes
// the files anew; a reviewer reads the .txt beside each .msgpack in the diff.

import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { decodeBatch, encodeBatch, tableColumns, tableNames } from '@ranktrace/protocol';
import { describe, expect, test } from 'vitest';
import { contentOf, deflate, dumpBatch, exampleBatches, inflate, noDeflate } from './setup/batches.ts';

const folder = fileURLToPath(new URL('golden/batch-v1/', import.meta.url));
const batches = Object.entries(exampleBatches());
const update = process.env.UPDATE_GOLDEN === '1';

if (update) {
  mkdirSync(folder, { recursive: true });
  for (const [name, batch] of batches) {
    writeFileSync(`${folder}${name}.msgpack`, encodeBatch(batch, noDeflate));
    writeFileSync(`${folder}${name}.txt`, dumpBatch(batch));
    // A deflated one, written once: zlib versions may compress differently, but all of them must read it.
    if (!existsSync(`${folder}${name}.deflate.msgpack`)) writeFileSync(`${folder}${name}.deflate.msgpack`, encodeBatch(batch, deflate));
  }
}

describe.for(batches)('golden batch %s', ([name, batch]) => {
  const bytes = readFileSync(`${folder}${name}.msgpack`);

  test('is what the encoder writes, byte for byte', () => {
    expect(Buffer.from(encodeBatch(batch, noDeflate)).toString('hex')).toBe(bytes.toString('hex'));
  });

  test('is read as its text says, plain and deflated', () => {
    const text = readFileSync(`${folder}${name}.txt`, 'utf8');
    expect(dumpBatch(decodeBatch(bytes, inflate))).toBe(text);
    expect(dumpBatch(decodeBatch(readFileSync(`${folder}${name}.deflate.msgpack`), inflate))).toBe(text);
    expect(contentOf(decodeBatch(bytes, inflate))).toEqual(contentOf(batch));
  });
});

test('every column of every table has a value other than 0 in some golden batch', () => {
  const missing = tableNames.flatMap((name) =>
    Object.keys(tableColumns[name])
      .filter(
        (column) =>
          !batches.some(([, { tables }]) =>
            (tables[name].columns as unknown as Record<string, Uint8Array>)[column]?.some((value) => value !== 0),
          ),
      )
      .map((column) => `${name}.${column}`),
  );
  expect(missing).toEqual([]);
});

test('there is no golden file without its batch', () => {
  const names = readdirSync(folder).map((file) => file.replace(/(\.deflate)?\.(msgpack|txt)$/, ''));
  expect([...new Set(names)].sort()).toEqual(batches.map(([name]) => name).sort());
});
