import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { afterAll, expect, test } from 'vitest';
import { SdkError } from '../model/errors.ts';
import { TraceTimes, tensorboardTraceHandler } from './tensorboard-trace-handler.ts';

const root = mkdtempSync(join(tmpdir(), 'ranktrace-tensorboard-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

// The plugin's patterns (kineto, tb_plugin/torch_tb_profiler/consts.py).
const workerPattern = /^(.*?)(\.\d+)?\.pt\.trace\.json(?:\.gz)?$/;
const nodeProcessPattern = /^(.*)_(\d+)/;

/** Writes a file as an export does. */
const exporter = {
  exportChromeTrace(path: string) {
    const text = JSON.stringify({ schemaVersion: 1, traceEvents: [] });
    writeFileSync(path, path.endsWith('.gz') ? gzipSync(text) : text);
  },
};

function files(directory: string): string[] {
  return readdirSync(directory).sort();
}

function refused(act: () => unknown): SdkError {
  try {
    act();
  } catch (error) {
    expect(error).toBeInstanceOf(SdkError);
    expect((error as SdkError).message).not.toContain('\n');
    return error as SdkError;
  }
  throw new Error('it was not refused');
}

test('the plugin finds worker, span, node and process in the names', () => {
  const directory = join(root, 'made', 'on', 'the', 'way');
  const before = BigInt(Date.now()) * 1_000_000n;
  const handler = tensorboardTraceHandler(directory);
  handler(exporter);
  handler(exporter);
  const after = BigInt(Date.now() + 2) * 1_000_000n;

  const found = files(directory).map((file) => workerPattern.exec(file));
  expect(found.map((match) => match?.[1])).toEqual(Array(2).fill(`${hostname()}_${process.pid}`));
  const [, node, process_] = nodeProcessPattern.exec(found[0]?.[1] ?? '') ?? [];
  expect([node, process_]).toEqual([hostname(), String(process.pid)]);
  for (const match of found) {
    const ns = BigInt(match?.[2]?.slice(1) ?? 0);
    expect(ns >= before && ns < after).toBe(true);
  }
});

test('gzip is named so, and is', () => {
  const directory = join(root, 'gzip');
  tensorboardTraceHandler(directory, { useGzip: true })(exporter);
  const [file = ''] = files(directory);
  expect(file).toMatch(/_\d+\.\d{19}\.pt\.trace\.json\.gz$/);
  expect(JSON.parse(gunzipSync(readFileSync(join(directory, file))).toString())).toMatchObject({ traceEvents: [] });
});

test.each<[string, (directory: string) => ReturnType<typeof tensorboardTraceHandler>, RegExp]>([
  ['options', (directory) => tensorboardTraceHandler(directory, { workerName: 'rank_3' }), /^rank_3\.\d{19}\.pt\.trace\.json$/],
  ['one by one', (directory) => tensorboardTraceHandler(directory, 'rank_3', true), /^rank_3\.\d{19}\.pt\.trace\.json\.gz$/],
  ['no name, one by one', (directory) => tensorboardTraceHandler(directory, undefined, true), /_\d+\.\d{19}\.pt\.trace\.json\.gz$/],
  ['an empty name', (directory) => tensorboardTraceHandler(directory, ''), /_\d+\.\d{19}\.pt\.trace\.json$/],
  ['dots in the name', (directory) => tensorboardTraceHandler(directory, 'node.7'), /^node\.7\.\d{19}\.pt\.trace\.json$/],
])('takes arguments as torch does: %s', (name, make, expected) => {
  const directory = join(root, `arguments ${name}`);
  make(directory)(exporter);
  const [file = ''] = files(directory);
  expect(file).toMatch(expected);
  expect(workerPattern.exec(file)?.[1]).toBe(file.replace(/\.\d{19}\..*/, ''));
});

test('two handlers of one name and directory never meet', () => {
  const directory = join(root, 'shared');
  const handlers = [tensorboardTraceHandler(directory, 'rank'), tensorboardTraceHandler(directory, 'rank')];
  for (let trace = 0; trace < 200; trace++) handlers[trace % 2]?.(exporter);
  expect(files(directory)).toHaveLength(200);
});

test('nor do threads, whose clock is one', () => {
  const threads = [0, 1, 2, 999].map((thread) => new TraceTimes(() => 1_766_000_000_123, thread));
  const times = threads.flatMap((times) => Array.from({ length: 100 }, () => times.next()));
  expect(new Set(times).size).toBe(400);
});

test('times rise while the clock stands still or is set back', () => {
  let now = 1_766_000_000_123;
  const times = new TraceTimes(() => now, 7);
  const found = [times.next(), times.next()];
  now -= 3_600_000;
  found.push(times.next());
  now += 7_200_000;
  found.push(times.next());
  expect(found).toEqual([1766000000123000007n, 1766000000123001007n, 1766000000123002007n, 1766003600123000007n]);
});

test('a directory that cannot be made is one clear line, when the trace comes', () => {
  const file = join(root, 'a file');
  writeFileSync(file, '');
  const handler = tensorboardTraceHandler(join(file, 'below'));
  const error = refused(() => handler(exporter));
  expect(error.code).toBe('bad_option');
  expect(error.message).toBe(`Can't create directory: ${join(file, 'below')} (ENOTDIR); tensorboardTraceHandler needs one it can write to`);
  expect(error.cause).toMatchObject({ code: 'ENOTDIR' });
  expect(refused(() => tensorboardTraceHandler(file)(exporter)).message).toContain('(EEXIST)');
});

test('a directory that goes away between two traces is made again', () => {
  const directory = join(root, 'goes away');
  const handler = tensorboardTraceHandler(directory);
  handler(exporter);
  rmSync(directory, { recursive: true });
  handler(exporter);
  expect(files(directory)).toHaveLength(1);
});

test('what the export throws is its own', () => {
  const wrong = new Error('disk full');
  const handler = tensorboardTraceHandler(join(root, 'export'));
  expect(() =>
    handler({
      exportChromeTrace() {
        throw wrong;
      },
    }),
  ).toThrow(wrong);
});

test('bad names are refused before training', () => {
  for (const dirName of ['', 'a\0b', undefined, 3] as string[]) {
    expect(refused(() => tensorboardTraceHandler(dirName)).message).toMatch(
      /^Bad dirName of tensorboardTraceHandler: it must be a path, got/,
    );
  }
  for (const workerName of ['../rank', 'a/b', 'a\\b', 'a\0']) {
    expect(refused(() => tensorboardTraceHandler(root, { workerName })).message).toMatch(/^Bad workerName of tensorboardTraceHandler/);
  }
  expect(refused(() => tensorboardTraceHandler(root, 3 as unknown as string)).message).toMatch(/^Bad workerName/);
});
