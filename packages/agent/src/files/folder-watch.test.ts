import { linkSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { watchFolders } from './folder-watch.ts';

it('names a whole file that is no trace, and takes none of it for one', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ranktrace-watch-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'config.json'), '{"lr":0.1}');
  writeFileSync(join(folder, 'list.json'), '[1,2,3]');
  writeFileSync(join(folder, 'trace.json'), '{"traceEvents":[{"ph":"X","name":"op","pid":1,"tid":1,"ts":1,"dur":2}]}');
  const [notices, taken]: [string[], string[]] = [[], []];
  const ended = new AbortController();
  const endOnce = (): void => {
    if (notices.length + taken.length >= 3) ended.abort();
  };
  await watchFolders({
    folders: [folder],
    isTaken: () => false,
    take: async ({ path }) => {
      taken.push(basename(path));
      endOnce();
    },
    notice: (line) => {
      notices.push(line);
      endOnce();
    },
    signal: ended.signal,
  });
  expect(taken).toEqual(['trace.json']);
  expect(notices.sort()).toEqual([
    `"${join(folder, 'config.json')}" is left out: Cannot read the trace: it must have \`traceEvents\`, got none`,
    `"${join(folder, 'list.json')}" is left out: it is no trace, or has no events`,
  ]);
});

const trace = '{"traceEvents":[{"ph":"X","name":"op","pid":1,"tid":1,"ts":1,"dur":2}]}';

it('takes a file once that two of its folders have, or that has two names, and goes on', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ranktrace-watch-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  mkdirSync(join(folder, 'deeper'));
  symlinkSync(folder, join(folder, 'deeper', 'linked'));
  writeFileSync(join(folder, 'deeper', 'trace.json'), trace);
  linkSync(join(folder, 'deeper', 'trace.json'), join(folder, 'same.json'));
  const taken = new Map<string, number>();
  const ended = new AbortController();
  await watchFolders({
    folders: [folder, join(folder, 'deeper'), join(folder, 'deeper', 'linked')],
    isTaken: (key) => taken.has(key),
    take: async ({ path, key }) => {
      taken.set(key, (taken.get(key) ?? 0) + 1);
      if (basename(path) === 'last.json') ended.abort();
      // Once the look that found it by its other paths is over.
      else setTimeout(() => writeFileSync(join(folder, 'last.json'), trace), 1500);
    },
    notice: (line) => expect.unreachable(line),
    signal: ended.signal,
  });
  expect([...taken.values()]).toEqual([1, 1]);
});

it('names a file that is too much to read with its reason', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ranktrace-watch-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'deep.json'), `{"rest":${'['.repeat(1_000_001)}${']'.repeat(1_000_001)},"traceEvents":[]}`);
  const notices: string[] = [];
  const ended = new AbortController();
  await watchFolders({
    folders: [folder],
    isTaken: () => false,
    take: async () => expect.unreachable(),
    notice: (line) => {
      notices.push(line);
      ended.abort();
    },
    signal: ended.signal,
  });
  expect(notices.map((line) => line.replace(/^"[^"]*"/, 'file'))).toEqual([
    expect.stringMatching(/^file is left out: Cannot read .*values may be 1000000 deep/),
  ]);
});
