// The memory that the files of one command may take while they are read and looked at, all of them together. Readers say what they are about to hold;
// beyond the bound that is an error, not a process that the system kills.
//
// A file of 3 MB can unfold to gigabytes, and 50 bytes of JSON can be an event of 90: so bytes are counted where they are allocated, and a small file
// may not take more than `readBytesMin`, whatever it unfolds to.
//
// Invariant: what is charged is at least what is held: the columns as allocated, twice, for whoever reads them sorts them; texts and objects by what
// V8 takes for them at most.

import { TraceError } from './errors.ts';
import { limits } from './limits.ts';

export class ReadBudget {
  readonly bytesMax: number;
  #held = 0;

  constructor(bytesMax = Number.POSITIVE_INFINITY) {
    this.bytesMax = bytesMax;
  }

  /** For files of so many bytes, as they lie on disk, on a machine that can give `hostBytes`. */
  static forFiles(fileBytes: number, hostBytes: number): ReadBudget {
    return new ReadBudget(Math.min(hostBytes, Math.max(limits.readBytesMin, limits.readBytesPerFileByteMax * fileBytes)));
  }

  /** Bytes held now. */
  get held(): number {
    return this.#held;
  }

  /** Takes so many bytes, before they are allocated. Throws TraceError `memory`. */
  take(bytes: number): void {
    this.#held += bytes;
    if (this.#held <= this.bytesMax) return;
    const allowed = `${Math.round(this.bytesMax / 1024 ** 2)} MiB`;
    throw new TraceError('memory', `Cannot read the trace: it must fit in ${allowed} of memory, and what it unfolds to does not`);
  }

  /** Takes a text that is kept, with what it takes to find it again. */
  takeText(text: string): void {
    this.take(textBytes + 2 * text.length);
  }

  /** Gives back so many bytes. */
  give(bytes: number): void {
    this.#held -= bytes;
  }
}

/** A string's header, its place in a list and in a Map. */
export const textBytes = 128;
/** A track, with its lane in whatever reads it. */
export const trackBytes = 1536;
/** JSON of arrays and objects, as objects: `{},` is three bytes and takes 40. */
export const parsedBytesPerByte = 16;
