// The names of one recording thread: text to a small id, defined once in the ring before its first use.
//
// Invariant: at most `namesMax` names, each of at most `stringBytesMax` bytes. Excess is counted and never throws.

import { limits } from '@ranktrace/protocol';
import { recordingLimits } from '../model/recording-limits.ts';
import { fixedName, fixedNames, type RingWriter, recordKind } from './ring.ts';

const encoder = new TextEncoder();

export class NameTable {
  readonly #ring: RingWriter;
  readonly #ids = new Map<string, number>(fixedNames.map((name, id) => [name, id]));
  readonly #scratch = new Uint8Array(limits.stringBytesMax);

  constructor(ring: RingWriter) {
    this.#ring = ring;
  }

  /** The id of `name`; −1 when the ring has no room to define it, so that the event must be dropped. */
  id(name: string): number {
    return this.#ids.get(name) ?? this.#define(name);
  }

  /** Writes a record of `kind` for `key` with `text` after it; false when there is no room. Does not publish. */
  putText(kind: number, key: number, text: string): boolean {
    const { read, written } = encoder.encodeInto(text, this.#scratch);
    if (!this.#ring.hasRoomForText(written)) return false;
    if (read < text.length) this.#ring.dropArgument();
    this.#ring.put(kind, key, 0, written, 0);
    this.#ring.putBytes(this.#scratch, written);
    return true;
  }

  #define(given: unknown): number {
    // JavaScript callers may pass anything; an invalid name must not stop training.
    if (typeof given !== 'string') {
      this.#ring.dropName();
      return fixedName.none;
    }
    if (this.#ids.size >= recordingLimits.namesMax) {
      this.#ring.dropName();
      return fixedName.tooMany;
    }
    const name = given.length <= limits.stringBytesMax ? given : this.#cut(given);
    const known = this.#ids.get(name);
    if (known !== undefined) return known;
    const id = this.#ids.size;
    if (!this.putText(recordKind.defineName, id, name)) return -1;
    this.#ring.publish();
    this.#ids.set(name, id);
    return id;
  }

  /** A copy: a slice would keep the whole long text alive in the table. */
  #cut(name: string): string {
    this.#ring.dropArgument();
    const { written } = encoder.encodeInto(name, this.#scratch);
    return new TextDecoder().decode(this.#scratch.subarray(0, written));
  }
}
