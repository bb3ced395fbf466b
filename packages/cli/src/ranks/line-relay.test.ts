import { PassThrough, Readable, Writable } from 'node:stream';
import { setTimeout } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { LineOutput } from './line-relay.ts';

async function check(chunks: readonly (string | Buffer)[], expected: string): Promise<void> {
  const to = new PassThrough({ highWaterMark: 1 << 30 });
  await new LineOutput(to).relay(Readable.from(chunks.map((chunk) => Buffer.from(chunk))), '> ');
  expect(String(to.read() ?? '')).toBe(expected);
}

test('hands on whole lines, whatever the pieces they came in', () =>
  Promise.all([
    check([], ''),
    check(['a\nb', 'c\n', '\n', 'd'], '> a\n> bc\n> \n> d\n'),
    check(['a\r', '\nb\r\nc\r\n'], '> a\n> b\n> c\n'),
    check(['10 %\r20 %\r', '30 %\r'], '> 10 %\n> 20 %\n> 30 %\n'),
    check(['\r', '\n', '\n'], '> \n> \n'),
    check([Buffer.from('ä\n').subarray(0, 1), Buffer.from('ä\n').subarray(1)], '> ä\n'),
  ]));

test('a line without an end is handed on in pieces, never within a character', async () => {
  const to = new PassThrough({ highWaterMark: 1 << 30 });
  const piece = Buffer.from('€'.repeat(10_000));
  await new LineOutput(to).relay(Readable.from(Array(40).fill(piece)), '');
  const lines = String(to.read()).trimEnd().split('\n');
  expect(Math.max(...lines.map((line) => Buffer.byteLength(line)))).toBeLessThanOrEqual(64 * 1024);
  expect(lines.join('')).toBe('€'.repeat(400_000));
});

test('a reader that is slow is waited for by all, one that has gone by nobody', async () => {
  const release: (() => void)[] = [];
  const to = new Writable({ highWaterMark: 1, write: (_chunk, _encoding, done) => void release.push(done) });
  const output = new LineOutput(to);
  const ranks = Array.from({ length: 64 }, () => output.relay(Readable.from([Buffer.from('a\nb\nc\n')]), ''));
  await setTimeout(20);
  expect(to.listenerCount('drain')).toBeLessThanOrEqual(1);
  to.destroy(new Error('EPIPE'));
  await Promise.all(ranks);
});
