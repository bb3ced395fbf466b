// The number of each name's colour, kept by the name's index: names are hashed once, not at each frame.
//
//   bit 7   the name ends in an odd digit (steps alternate)
//   bit 6   known
//   bits 4…0  number in Palette.spans

import { nameText, stepBit } from '@ranktrace/protocol';
import type { NameColours } from './frame-painter.ts';
import { colourOf } from './palette.ts';

const oddBit = 0x80;
const knownBit = 0x40;
const stepColour = colourOf('ProfilerStep#');

export class NameColourTable implements NameColours {
  readonly #names: () => readonly string[];
  #known = new Uint8Array(1024);

  /** `names` returns the run's current names; until `clear` they only grow. */
  constructor(names: () => readonly string[]) {
    this.#names = names;
  }

  span(name: number): number {
    return this.#of(name) & 31;
  }

  step(name: number): number {
    return this.#of(name) >>> 7;
  }

  clear(): void {
    this.#known = new Uint8Array(1024);
  }

  #of(name: number): number {
    if (name >= stepBit) return stepColour | ((name & 1) === 1 ? oddBit : 0);
    const known = this.#known[name] ?? 0;
    if (known !== 0) return known;
    const text = nameText(this.#names(), name);
    // A name that has not arrived yet is not cached.
    if (text === undefined) return 0;
    if (name >= this.#known.length) {
      const grown = new Uint8Array(2 * (name + 1));
      grown.set(this.#known);
      this.#known = grown;
    }
    const number = colourOf(text) | knownBit | (/[13579]$/.test(text) ? oddBit : 0);
    this.#known[name] = number;
    return number;
  }
}
