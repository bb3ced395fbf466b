// Whether a program rounded the times of a file before it was read: µs since 1970 (1.7e15) in a double are multiples of 0.25 µs. A file that Python's
// json read and wrote has them so, and a span of it may begin up to that much before the one before it has ended.
//
//   recorded   1700000000000412.107   →  as a double   …412.0 (or .25, .5, .75)   →  in the file, shortest   …412.0  …412.2  …412.5  …412.8
//
// Lengths are small numbers, and stay exact. Whole µs are exact, too: no rounding shows in them.

/** From here on a double's step is a quarter or more, so that three decimals are lost. */
const coarseFromMicros = 2 ** 50;
/** Bits of a double's fraction. */
const fractionBits = 52;

export class TimeRounding {
  #isExact = false;
  #hasFraction = false;
  #greatest = 0;

  /** Adds a time of the file: whole µs, and ns below that. */
  add(micros: number, nanos: number): void {
    if (this.#isExact || micros < coarseFromMicros) return;
    if (micros > this.#greatest) this.#greatest = micros;
    if (nanos === 0) return;
    // A rounded time has one decimal, as the shortest text of its double, or is a multiple of a quarter.
    if (nanos % 100 === 0 || nanos % 250 === 0) this.#hasFraction = true;
    else this.#isExact = true;
  }

  /** ns by which the distance of two times may be off, at most: half a step for each, and as much for their texts. 0 for exact times. */
  get error(): number {
    if (this.#isExact || !this.#hasFraction) return 0;
    return 1000 * 2 * 2 ** (Math.floor(Math.log2(this.#greatest)) - fractionBits);
  }
}
