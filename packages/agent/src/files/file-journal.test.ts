import { appendFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
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
