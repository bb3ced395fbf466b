import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
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
