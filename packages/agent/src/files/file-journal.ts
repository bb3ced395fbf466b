// Which files were shipped, so that a restart ships none twice and leaves none out: a text file of JSON lines.
//
//   {"began":KEY,"place":{…}}     before the first batch of the file, with the numbers that its batches get
//   {"shipped":KEY}               when all of them are in the spool
//
// A file that began and is not shipped is sent again under the same numbers: the service drops those that it has. A file is known by device, inode, size and
// time of its last change.
// Invariant: each line is on the disk before what it announces happens. A torn line is ignored, and ended before the next one.

import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, readFileSync, renameSync, type Stats, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { AgentError } from '../model/errors.ts';
import { agentLimits as limits } from '../model/limits.ts';

/** Identity of one state of a file. */
export const fileKey = ({ dev, ino, size, mtimeMs }: Stats): string => `${dev}:${ino}:${size}:${mtimeMs}`;

export class FileJournal<Place> implements Disposable {
  readonly #path: string;
  /** The one that was asked for longest ago first: its file is gone. */
  readonly #shipped = new Set<string>();
  readonly #begun = new Map<string, Place>();
  #file: number;
  /** Whether the last line may lack its end: the process was killed, or the disk was full. */
  #isTorn = false;

  /** Opens or creates it. Throws AgentError `file_unwritable`. */
  constructor(path: string) {
    this.#path = path;
    try {
      mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
      const text = existsSync(path) ? readFileSync(path, 'utf8') : '';
      this.#read(text);
      this.#isTorn = text !== '' && !text.endsWith('\n');
      this.#file = openSync(path, 'a', 0o600);
    } catch (cause) {
      const code = (cause as NodeJS.ErrnoException).code ?? 'error';
      throw new AgentError('file_unwritable', `Cannot write the journal of shipped files "${path}": ${code}`, { cause });
    }
  }

  isShipped(key: string): boolean {
    if (!this.#shipped.delete(key)) return false;
    this.#shipped.add(key);
    return true;
  }

  /** Where the batches of a file stand that was begun and not finished. */
  begun(key: string): Place | undefined {
    return this.#begun.get(key);
  }

  begin(key: string, place: Place): void {
    this.#write({ began: key, place });
    this.#begun.set(key, place);
  }

  finish(key: string): void {
    this.#write({ shipped: key });
    this.#begun.delete(key);
    this.#shipped.add(key);
    if (this.#shipped.size > limits.journalEntriesMax) this.#shorten();
  }

  [Symbol.dispose](): void {
    closeSync(this.#file);
  }

  #read(text: string): void {
    for (const line of text.split('\n')) {
      try {
        const { began, place, shipped } = JSON.parse(line) as { began?: string; place?: Place; shipped?: string };
        if (began !== undefined && place !== undefined) this.#begun.set(began, place);
        if (shipped === undefined) continue;
        this.#begun.delete(shipped);
        this.#shipped.add(shipped);
      } catch {
        // Torn by a crash: what it announced did not happen.
      }
    }
  }

  #write(entry: object): void {
    const line = Buffer.from(`${this.#isTorn ? '\n' : ''}${JSON.stringify(entry)}\n`);
    this.#isTorn = true;
    // A disk that becomes full takes a part: the next write says so.
    for (let done = 0; done < line.length; ) done += writeSync(this.#file, line, done);
    fsyncSync(this.#file);
    this.#isTorn = false;
  }

  /** Keeps the half that was asked for last. */
  #shorten(): void {
    const kept = [...this.#shipped].slice(-Math.floor(limits.journalEntriesMax / 2));
    this.#shipped.clear();
    for (const key of kept) this.#shipped.add(key);
    const draft = `${this.#path}.new`;
    const file = openSync(draft, 'w', 0o600);
    for (const key of kept) writeSync(file, `${JSON.stringify({ shipped: key })}\n`);
    for (const [began, place] of this.#begun) writeSync(file, `${JSON.stringify({ began, place })}\n`);
    fsyncSync(file);
    closeSync(file);
    renameSync(draft, this.#path);
    closeSync(this.#file);
    this.#file = openSync(this.#path, 'a', 0o600);
  }
}
