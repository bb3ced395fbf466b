// Seeded randomness: the same seed and the same name of a stream give the same numbers on every machine.
//
// Every use has a stream of its own ("clock of host 3"), so that one more ping changes no clock and no message.
// Generator: sfc32 (Doty-Humphrey, PractRand), 128 bits of state; passes BigCrush and needs no 64-bit arithmetic.

const warmUpRounds = 15;
const two32 = 2 ** 32;

export class Random {
  #a: number;
  #b: number;
  #c: number;
  #counter = 1;

  /** The stream `name` of `seed`. */
  constructor(seed: number, ...name: readonly (string | number)[]) {
    const text = [seed, ...name].join('/');
    this.#a = hash(text, 0x811c9dc5);
    this.#b = hash(text, 0x9e3779b9);
    this.#c = hash(text, 0x85ebca6b);
    for (let round = 0; round < warmUpRounds; round++) this.bits();
  }

  /** 32 random bits as a whole number ≥ 0. */
  bits(): number {
    const sum = (this.#a + this.#b + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + sum) | 0;
    return sum >>> 0;
  }

  /** Between `from` and `to`, both excluded. */
  uniform(from = 0, to = 1): number {
    return from + ((this.bits() + 0.5) / two32) * (to - from);
  }

  /** 0 ≤ whole number < `below`. */
  whole(below: number): number {
    return Math.floor(this.uniform(0, below));
  }

  /** True in `share` (0 to 1) of all cases. */
  chance(share: number): boolean {
    return share > 0 && this.uniform() < share;
  }

  /** Normal, by Box–Muller. */
  normal(mean: number, deviation: number): number {
    return mean + deviation * Math.sqrt(-2 * Math.log(this.uniform())) * Math.cos(2 * Math.PI * this.uniform());
  }

  exponential(mean: number): number {
    return -mean * Math.log(this.uniform());
  }

  /** Lognormal; `sigma`: deviation of the logarithm. */
  lognormal(median: number, sigma: number): number {
    return median * Math.exp(this.normal(0, sigma));
  }

  /** `length` random bytes, a multiple of 4. */
  bytes(length: number): Uint8Array {
    const words = new Uint8Array(length);
    for (let at = 0; at < length; at += 4) {
      const bits = this.bits();
      words[at] = bits;
      words[at + 1] = bits >>> 8;
      words[at + 2] = bits >>> 16;
      words[at + 3] = bits >>> 24;
    }
    return words;
  }
}

/** FNV-1a over UTF-16 units (Fowler, Noll, Vo), with MurmurHash3's final mix, so that similar names share no bits. */
function hash(text: string, basis: number): number {
  let value = basis;
  for (let at = 0; at < text.length; at++) value = Math.imul(value ^ text.charCodeAt(at), 0x01000193);
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35);
  return (value ^ (value >>> 16)) | 0;
}
