// One string object per name of a run. Every batch brings its own copies; sinks look names up millions of times, and a look-up of the very
// same object compares a pointer instead of its text.

/** Names kept; a run with names that never repeat gains nothing from more. */
const namesMax = 65_536;

export class CanonicalNames {
  readonly #names = new Map<string, string>();

  /** The same texts, each as the object first seen. */
  canonical(strings: readonly string[]): string[] {
    return strings.map((text) => {
      const known = this.#names.get(text);
      if (known !== undefined) return known;
      if (this.#names.size < namesMax) this.#names.set(text, text);
      return text;
    });
  }
}
