// Shown names of a run, by index, with how often each was seen. Whole names are kept nowhere but with their events.
//
// Invariant: no more than `timelineNamesMax` names; index 0 is the stand-in for all that came later.

import { nameText, stepBit } from '@ranktrace/protocol';
import { displayName } from '../model/shown-name.ts';
import { timelineLimits } from './timeline-limits.ts';

const standIn = '(other names)';

export class NameTable {
  /** Whether the name that `indexOf` was asked for last is shown otherwise than it is. */
  isAltered = false;
  readonly #texts: string[] = [standIn];
  readonly #byText = new Map<string, number>([[standIn, 0]]);
  /** Names that are shown cut or escaped; forgotten and found again, so that hostile ones cost time, not memory. */
  readonly #altered = new Map<string, number>();
  #alteredChars = 0;
  #counts = new Float64Array(64);
  #totals = new Float64Array(64);

  get length(): number {
    return this.#texts.length;
  }

  /** The shown name; '' when there is none of this index. */
  text(index: number): string {
    return nameText(this.#texts, index) ?? '';
  }

  /** Index of the shown name of `name`, added if it is new. */
  indexOf(name: string): number {
    const known = this.#byText.get(name);
    this.isAltered = known === undefined;
    if (known !== undefined) return known;
    return this.#altered.get(name) ?? this.#add(name);
  }

  /** The number of a step's name, which takes no room here; of one that is named otherwise, as `indexOf`. */
  ofStep(name: string, step: number): number {
    if (!(step >= 0 && step < stepBit) || name !== `ProfilerStep#${step}`) return this.indexOf(name);
    this.isAltered = false;
    return stepBit + step;
  }

  /** Counts events of a name, and ns of them. */
  count(index: number, events: number, length: number): void {
    if (index >= stepBit) return;
    (this.#counts[index] as number) += events;
    (this.#totals[index] as number) += length;
  }

  countOf(index: number): number {
    return this.#counts[index] ?? 0;
  }

  /** ns. */
  totalOf(index: number): number {
    return this.#totals[index] ?? 0;
  }

  #add(name: string): number {
    const shown = displayName(name);
    const known = this.#byText.get(shown);
    const index = known ?? (this.#texts.length < timelineLimits.timelineNamesMax ? this.#texts.length : 0);
    if (index === this.#texts.length) {
      this.#texts.push(shown);
      this.#byText.set(shown, index);
      if (index === this.#counts.length) {
        this.#counts = doubled(this.#counts);
        this.#totals = doubled(this.#totals);
      }
    }
    this.isAltered = shown !== name || index === 0;
    if (!this.isAltered) return index;
    this.#alteredChars += name.length + 32;
    if (this.#alteredChars > timelineLimits.timelineTextCharsMax) {
      this.#altered.clear();
      this.#alteredChars = 0;
    }
    this.#altered.set(name, index);
    return index;
  }
}

function doubled(column: Float64Array): Float64Array<ArrayBuffer> {
  const grown = new Float64Array(2 * column.length);
  grown.set(column);
  return grown;
}
