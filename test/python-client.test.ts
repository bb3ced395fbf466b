// docs/batch-format.md is enough to write a client: a Python script written from it and the standard library writes a batch that we read.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { decodeBatch } from '@ranktrace/protocol';
import { expect, test } from 'vitest';
import { contentOf, inflate } from './setup/batches.ts';

const script = fileURLToPath(new URL('python-client/write_batch.py', import.meta.url));

test.for(['plain', 'deflate'])('a %s batch from Python is read with the rows it was given', (encoding) => {
  const folder = mkdtempSync(join(tmpdir(), 'ranktrace-python-'));
  try {
    const file = join(folder, 'batch.msgpack');
    execFileSync(process.env.PYTHON_BIN ?? 'python3', ['-I', script, encoding, file], { stdio: 'pipe' });
    const { header, strings, rows } = contentOf(decodeBatch(readFileSync(file), inflate));
    expect(header).toEqual({
      run: 'from-python',
      rank: 1,
      worldSize: 2,
      incarnation: '0192f3a1-py',
      sequence: 0,
      host: 'b1f0c6de-0000-4000-8000-0242ac110002',
      hostName: 'node-b',
      pid: 99,
      epoch: '8123456789012345',
      watermark: 6_000_000,
      last: true,
      dropped: { events: 0, arguments: 0, names: 0, batches: 0 },
    });
    const span = { track: 1, category: 0, id: 0, parent: 0, state: 0 };
    const s = (text: string) => strings.indexOf(text);
    expect(rows).toMatchObject({
      tracks: [{ track: 1, kind: s('thread'), name: s('main'), tid: 2 ** 40 + 1 }],
      spans: [
        { ...span, start: 5_000_000, length: 2_000_000, name: s('forward') },
        { ...span, start: 6_000_000, length: 300_000, name: s('matmul 3×3') },
        { ...span, start: 4_000_000, length: 70_000_000, name: s('forward') },
      ],
      instants: [],
      counters: [
        { time: 7, track: 0, name: s('loss'), unit: s('loss unit'), value: 0.25 },
        { time: 5, track: 0, name: s('loss'), unit: s('loss unit'), value: -1e300 },
      ],
      steps: [{ start: -3, length: 1001, track: 1, step: 42 }],
      rpcs: [
        {
          start: 9,
          length: 8,
          method: s('Push'),
          side: s('server'),
          peer: s('rank 1'),
          status: s('ok'),
          trace: '000102030405060708090a0b0c0d0e0f',
          span: '0001020304050607',
          parentSpan: '0000000000000000',
        },
      ],
      metadata: [{ key: s('device'), value: s('🚀') }],
      numberArguments: [{ table: 1, row: 1, key: s('flops'), value: 54 }],
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
