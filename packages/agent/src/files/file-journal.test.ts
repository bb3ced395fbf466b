import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { agentLimits as limits } from '../model/limits.ts';
import { FileJournal } from './file-journal.ts';

function journalPath(): string {
  const folder = mkdtempSync(join(tmpdir(), 'ranktrace-journal-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return join(folder, 'journal.jsonl');
}

it('ignores a torn line alone, and none that is written after it', () => {
  const path = journalPath();
  {
    using journal = new FileJournal<{ sequence: number }>(path);
    journal.finish('a');
  }
  appendFileSync(path, '{"shipped":"b');
  {
    using journal = new FileJournal<{ sequence: number }>(path);
    journal.begin('c', { sequence: 7 });
    journal.finish('d');
  }
  using journal = new FileJournal<{ sequence: number }>(path);
  expect(['a', 'b', 'd'].map((key) => journal.isShipped(key))).toEqual([true, false, true]);
  expect(journal.begun('c')).toEqual({ sequence: 7 });
});

it('forgets no file that is still watched when it is too long', () => {
  const path = journalPath();
  const keys = Array.from({ length: limits.journalEntriesMax }, (_, at) => `${at}`);
  writeFileSync(path, keys.map((shipped) => `${JSON.stringify({ shipped })}\n`).join(''));
  const present = keys.slice(0, limits.watchedFilesMax - 1);
  {
    using journal = new FileJournal<object>(path);
    for (const key of present) journal.isShipped(key);
    journal.finish('one more');
  }
  expect(readFileSync(path, 'utf8').split('\n')).toHaveLength(limits.journalEntriesMax / 2 + 1);
  using journal = new FileJournal<object>(path);
  expect([...present, 'one more'].filter((key) => !journal.isShipped(key))).toEqual([]);
});
