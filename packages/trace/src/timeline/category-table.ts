// Categories of events by a 16-bit index; 0 means none, or that the table was full.

import { timelineLimits } from './timeline-limits.ts';

export class CategoryTable {
  readonly #texts: string[] = [''];
  readonly #indexes = new Map<string, number>([['', 0]]);

  indexOf(category: string): number {
    const known = this.#indexes.get(category);
    if (known !== undefined) return known;
    if (this.#texts.length >= timelineLimits.timelineCategoriesMax) return 0;
    this.#indexes.set(category, this.#texts.length);
    return this.#texts.push(category) - 1;
  }

  text(index: number): string {
    return this.#texts[index] ?? '';
  }
}
