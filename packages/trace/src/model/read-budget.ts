// The memory that one command may use to read and analyse all of its files. Readers charge memory before they allocate it;
// beyond the bound they throw an error before the system kills the process.
//
// A file of 3 MB can unfold to gigabytes, and 50 bytes of JSON can become an event of 90: so bytes are counted where they are allocated, and a
// small file may take at most `readBytesMin`, whatever it unfolds to.
//
// Invariant: the charge is at least what is held: the allocated size of the columns, twice, as their consumer sorts them; for texts and objects,
// the most that V8 takes for them.

import { TraceError } from './errors.ts';
import { limits } from './limits.ts';

export class ReadBudget {
  readonly bytesMax: number;
  readonly #within: ReadBudget | undefined;
  #held = 0;

  /** `within`: a budget for several readers, which this one's bytes count against, too. */
  constructor(bytesMax = Number.POSITIVE_INFINITY, within?: ReadBudget) {
    this.bytesMax = bytesMax;
    this.#within = within;
  }

  /** Budget for files of `fileBytes` on disk, on a machine that can give `hostBytes`. */
  static forFiles(fileBytes: number, hostBytes: number): ReadBudget {
    return new ReadBudget(Math.min(hostBytes, Math.max(limits.readBytesMin, limits.readBytesPerFileByteMax * fileBytes)));
  }

  /** Bytes held now. */
  get held(): number {
    return this.#held;
  }

  /** Charges `bytes` before they are allocated. Throws TraceError `memory`. */
  take(bytes: number): void {
    this.#held += bytes;
    this.#within?.take(bytes);
    if (this.#held <= this.bytesMax) return;
    const allowed = `${Math.round(this.bytesMax / 1024 ** 2)} MiB`;
    throw new TraceError('memory', `Cannot read the trace: it must fit in ${allowed} of memory, and what it unfolds to does not`);
  }

  /** Charges a kept text and its table entry. */
  takeText(text: string): void {
    this.take(textBytes + 2 * text.length);
  }

  /** Releases `bytes`. */
  give(bytes: number): void {
    this.#held -= bytes;
    this.#within?.give(bytes);
  }

  /** Releases all that is held: nothing of what was read is used any more. */
  giveAll(): void {
    this.give(this.#held);
  }
}

/** A string's header, its place in a list and in a Map. */
export const textBytes = 128;
/** A track, with its lane in its consumer. */
export const trackBytes = 1536;
/** Memory per byte of JSON with arrays and objects, once parsed: `{},` is three bytes and takes 40. */
export const parsedBytesPerByte = 16;
