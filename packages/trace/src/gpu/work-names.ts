// Names of device work and of what launched it, by number, shared by all ranks.
//
// Invariant: 0 is the empty name. Beyond the limit all names are `otherNames`.

import { isLibraryAnnotation } from '../torch/kineto-collectives.ts';
import { phaseName } from '../torch/kineto-source-steps.ts';
import { gpuLimits as limits } from './gpu-limits.ts';

/** Name of all names beyond the limit. */
export const otherNames = '(other names)';

export type NameTest = RegExp | ((name: string) => boolean);

export class WorkNames {
  readonly texts: string[] = [''];
  readonly #indexes = new Map<string, number>([['', 0]]);
  readonly #phases = new Map<number, number>();
  readonly #matching = new Map<NameTest, Uint8Array>();
  readonly #libraries: (boolean | undefined)[] = [];

  index(text: string): number {
    const known = this.#indexes.get(text);
    if (known !== undefined) return known;
    if (this.texts.length >= limits.gpuNamesMax - 1 && text !== otherNames) return this.index(otherNames);
    const index = this.texts.push(text) - 1;
    this.#indexes.set(text, index);
    return index;
  }

  text(index: number): string {
    return this.texts[index] as string;
  }

  /** By number: 1 for names that match. Worked out once per name and pattern, for all ranks. */
  matching(pattern: NameTest): Uint8Array {
    const known = this.#matching.get(pattern) ?? new Uint8Array(0);
    if (known.length === this.texts.length) return known;
    const matching = new Uint8Array(this.texts.length);
    matching.set(known);
    const isMatch = typeof pattern === 'function' ? pattern : (text: string): boolean => pattern.test(text);
    for (let index = known.length; index < matching.length; index++) if (isMatch(this.texts[index] as string)) matching[index] = 1;
    this.#matching.set(pattern, matching);
    return matching;
  }

  /** The number of the phase that an annotation stands for: torch.compile names each graph by a hash. */
  phase(index: number): number {
    let phase = this.#phases.get(index);
    if (phase === undefined) {
      phase = this.index(phaseName(this.text(index)));
      this.#phases.set(index, phase);
    }
    return phase;
  }

  /** Whether it is an annotation of a communication library. */
  isLibrary(index: number): boolean {
    let known = this.#libraries[index];
    if (known === undefined) {
      while (this.#libraries.length < index) this.#libraries.push(undefined);
      known = isLibraryAnnotation(this.text(index));
      this.#libraries[index] = known;
    }
    return known;
  }
}
