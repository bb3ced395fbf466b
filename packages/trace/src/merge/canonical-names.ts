// One string object per name of a run. Every batch brings its own copies; sinks look names up millions of times, and a look-up of the very
// same object compares a pointer instead of its text.

import type { Batch } from '@ranktrace/protocol';

/** Names kept; a run with names that never repeat gains nothing from more. */
const namesMax = 65_536;

export class CanonicalNames {
  readonly #names = new Map<string, string>();

  /** The same texts, each as the object first seen; signatures of ops, long and rarely read, as they are. */
  canonical({ strings, tables }: Pick<Batch, 'strings' | 'tables'>): string[] {
    const isSignature = new Uint8Array(strings.length);
    const { columns, length } = tables.ops;
    for (let row = 0; row < length; row++) isSignature[columns.signature[row] as number] = 1;
    return strings.map((text, index) => {
      if (isSignature[index] === 1) return text;
      const known = this.#names.get(text);
      if (known !== undefined) return known;
      if (this.#names.size < namesMax) this.#names.set(text, text);
      return text;
    });
  }
}
