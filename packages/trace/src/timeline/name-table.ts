// Shown names of a run, by index, with the count of each. Whole names are kept only with their events.
//
// Invariant: at most `timelineNamesMax` names; index 0 stands for all later ones.

import { nameText, stepBit } from '@ranktrace/protocol';
import { displayName } from '../model/shown-name.ts';
import { timelineLimits } from './timeline-limits.ts';

const standIn = '(other names)';

export class NameTable {
  /** Whether the last name given to `indexOf` is shown in an altered form. */
  isAltered = false;
  readonly #texts: string[] = [standIn];
  readonly #byText = new Map<string, number>([[standIn, 0]]);
  /** Names that are shown cut or escaped; a bounded cache, so that hostile ones cost time, not memory. */
  readonly #altered = new Map<string, number>();
  #alteredChars = 0;
  /** Names in the recording of events that are shown by another one, lower case and as they are. */
  readonly #aliases = new Map<number, Map<string, string>>();
  #aliasCount = 0;
  #counts = new Float64Array(64);
  #totals = new Float64Array(64);

  get length(): number {
    return this.#texts.length;
  }

  /** The shown name; '' if the index is unused. */
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

  /** Number for a step's name, which takes no room here; for a differently named step, as `indexOf`. */
  ofStep(name: string, step: number): number {
    if (!(step >= 0 && step < stepBit) || name !== `ProfilerStep#${step}`) return this.indexOf(name);
    this.isAltered = false;
    return stepBit + step;
  }

  /** Adds to the event count and the total ns of a name. */
  count(index: number, events: number, length: number): void {
    if (index >= stepBit) return;
    (this.#counts[index] as number) += events;
    (this.#totals[index] as number) += length;
  }

  /** Notes that events shown by a name have this one in the recording. */
  alias(index: number, name: string): void {
    let aliases = this.#aliases.get(index);
    if (this.#aliasCount >= timelineLimits.timelineAliasesMax) return;
    if (aliases === undefined) {
      aliases = new Map();
      this.#aliases.set(index, aliases);
    }
    if (aliases.size >= timelineLimits.timelineAliasesPerNameMax || aliases.has(name)) return;
    aliases.set(name, displayName(name));
    this.#aliasCount++;
  }

  /** Further names by which a name's events are known, as they are shown. */
  aliasesOf(index: number): Iterable<string> {
    return this.#aliases.get(index)?.values() ?? [];
  }

  countOf(index: number): number {
    return this.#counts[index] ?? 0;
  }

  /** Total length, ns. */
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
