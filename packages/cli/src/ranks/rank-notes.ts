// Ranks of one command note their run, url and spool when they begin (protocol's rank-note.ts); the launcher reads the notes here.

import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isRunName, type RankProcess } from '@ranktrace/aggregator';
import { type RankNote, rankNoteSchema } from '@ranktrace/protocol';

/** Allows a job of 256 ranks on a host to start each of them 16 times. */
const notesMax = 4096;
const noteBytesMax = 16 * 1024;

/** A directory for notes, until it is disposed. */
export class RankNotes {
  /** Value of `RANKTRACE_LAUNCH_DIRECTORY`. */
  readonly directory = mkdtempSync(join(tmpdir(), 'ranktrace-run-'));
  readonly #notes = new Map<string, RankNote | undefined>();

  /** The notes so far, in order of discovery. */
  read(): readonly RankNote[] {
    for (const name of this.#names()) {
      if (this.#notes.size >= notesMax) break;
      if (!this.#notes.has(name)) this.#notes.set(name, noteIn(join(this.directory, name)));
    }
    return [...this.#notes.values()].filter((note) => note !== undefined);
  }

  /** A rank that was started through a shell or another launcher, as the process that records it; any other as it is. */
  recorded = <Started extends RankProcess>(started: Started): Started => {
    const pids = this.read().flatMap(({ rank, pid }) => (rank === started.rank && pid !== undefined ? [pid] : []));
    const last = pids.at(-1);
    return last === undefined || pids.includes(started.pid) ? started : { ...started, pid: last };
  };

  [Symbol.dispose](): void {
    rmSync(this.directory, { recursive: true, force: true });
  }

  #names(): string[] {
    try {
      return readdirSync(this.directory)
        .filter((name) => name.endsWith('.json'))
        .sort();
    } catch {
      return [];
    }
  }
}

/** Programs may write any file here: files that are no notes are skipped. */
function noteIn(path: string): RankNote | undefined {
  try {
    if (statSync(path).size > noteBytesMax) return undefined;
    const note = rankNoteSchema.safeParse(JSON.parse(readFileSync(path, 'utf8')));
    return note.success && isRunName(note.data.run) ? note.data : undefined;
  } catch {
    return undefined;
  }
}
