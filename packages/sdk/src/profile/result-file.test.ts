import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, expect, test } from 'vitest';
import { writeResult, writeResultBy } from './result-file.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-result-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));
const mib = 1024 * 1024;

/** Bytes that hardly repeat. */
function piece(length: number, seed: number): Uint8Array {
  const bytes = new Uint8Array(length);
  let state = seed;
  for (let at = 0; at < length; at++) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) | 0;
    bytes[at] = state >>> 24;
  }
  return bytes;
}

test.each([
  ['nothing', []],
  ['a little', [3]],
  ['less than a block, in pieces', [0, 70_000, 1, 300_000]],
  ['a block', [mib]],
  ['a block in two pieces', [mib - 1, 1]],
  ['several blocks in one piece', [3 * mib + 5]],
  ['several blocks in pieces', [mib + 1, mib - 2, 17, 2 * mib]],
])('%s is in the file, compressed and not', (_name, lengths) => {
  const pieces = lengths.map((length, index) => piece(length, index + 1));
  const whole = Buffer.concat(pieces);
  for (const name of ['a.json', 'a.json.gz']) {
    const path = join(directory, name);
    writeFileSync(path, 'an older and longer file'.repeat(10));
    writeResultBy(path, (write) => {
      for (const bytes of pieces) write(bytes);
    });
    const written = readFileSync(path);
    expect(whole.equals(name.endsWith('.gz') ? gunzipSync(written) : written)).toBe(true);
  }
});

test('more bytes than Node writes at once', () => {
  const bytes = new Uint8Array(16 * mib);
  let pieces = 0;
  writeResultBy('/dev/null', (write) => {
    for (; pieces <= 2 ** 31 / bytes.length; pieces++) write(bytes);
  });
  expect(pieces * bytes.length).toBeGreaterThan(2 ** 31);
});

test('a file that cannot be written, or only in part, is one error', () => {
  const refused = (write: () => void): unknown => {
    try {
      write();
    } catch (error) {
      return (error as { code?: unknown }).code;
    }
    return undefined;
  };
  expect(refused(() => writeResult(join(directory, 'no', 'a.json'), '{}'))).toBe('file_unwritable');
  expect(refused(() => writeResult(directory, '{}'))).toBe('file_unwritable');
  if (existsSync('/dev/full')) expect(refused(() => writeResult('/dev/full', new Uint8Array(3 * mib)))).toBe('file_unwritable');
  expect(refused(() => writeResult(7 as never, '{}'))).toBe('bad_option');
});

test('a new file is there once it is whole, and nothing of one that is not', () => {
  const folder = join(directory, 'new');
  mkdirSync(folder);
  const path = join(folder, 'a.pt.trace.json');
  const make = (fails: boolean) =>
    writeResultBy(path, (write) => {
      write(piece(3 * mib, 1));
      expect(existsSync(path)).toBe(false);
      if (fails) throw new RangeError('too late');
      write(piece(10, 2));
    });
  expect(() => make(true)).toThrow(new RangeError('too late'));
  expect(readdirSync(folder)).toEqual([]);
  make(false);
  expect(readdirSync(folder)).toEqual(['a.pt.trace.json']);
  expect(statSync(path).size).toBe(3 * mib + 10);
});

test('a file that is there is written in its place, also through a link', () => {
  const [path, link] = [join(directory, 'there.json'), join(directory, 'link.json')];
  writeFileSync(path, 'old');
  symlinkSync(path, link);
  const { ino } = statSync(path);
  writeResult(link, 'new');
  expect(readFileSync(path, 'utf8')).toBe('new');
  expect(statSync(path).ino).toBe(ino);
});
