// The Python client writes the same bytes as the SDK: each golden batch is decoded, and encoded again by the client's own encoder.

import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { decodeBatch } from '@ranktrace/protocol';
import { expect, test } from 'vitest';
import { contentOf, inflate } from './setup/batches.ts';

const folder = fileURLToPath(new URL('golden/batch-v1/', import.meta.url));
const program = fileURLToPath(new URL('python-client/encode_batch.py', import.meta.url));
const plain = readdirSync(folder).filter((name) => name.endsWith('.msgpack') && !name.endsWith('.deflate.msgpack'));

test.for(plain)('%s comes back byte by byte', (name) => {
  const bytes = readFileSync(join(folder, name));
  const { header, strings, rows } = contentOf(decodeBatch(bytes, inflate));
  const tables = Object.fromEntries(
    Object.entries(rows).map(([table, of]) => [
      table,
      Object.fromEntries(Object.keys(of[0] ?? {}).map((column) => [column, of.map((row) => row[column])])),
    ]),
  );
  const { status, stdout, stderr } = spawnSync(process.env.PYTHON_BIN ?? 'python3', ['-I', program], {
    input: JSON.stringify({ header, strings, tables }),
  });
  expect({ status, stderr: String(stderr) }).toEqual({ status: 0, stderr: '' });
  expect(stdout.toString('hex')).toBe(bytes.toString('hex'));
});
