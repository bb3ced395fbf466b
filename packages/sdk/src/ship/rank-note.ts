// Writes for `ranktrace run` what this rank records, because a program may choose its run, its url and its spool itself.

import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RankNote } from '@ranktrace/protocol';
import type { ResolvedOptions } from '../model/options.ts';
import { spoolPath } from './spool-folders.ts';

/** Writes the note of this life where a launcher wants one. Never throws: without it the launcher looks at the arriving batches. */
export function leaveNote(options: ResolvedOptions, incarnation: string): void {
  const { launchDirectory: directory, run, rank, url } = options;
  if (directory === undefined) return;
  const spool = spoolPath(options.spoolDirectory, { run, rank, incarnation });
  const note: RankNote = { run, rank, url: url ?? null, spool, pid: process.pid };
  const path = join(directory, `rank-${rank}-${incarnation}`);
  try {
    // Under another name until it is complete.
    writeFileSync(`${path}.new`, JSON.stringify(note), { mode: 0o600 });
    renameSync(`${path}.new`, `${path}.json`);
  } catch {
    // The launcher is gone.
  }
}
