// Facts that the program states about its rank, also before the start. JavaScript callers may pass anything: what is no fact is not kept.

import { isValue } from '../record/arguments.ts';

export class RankMetadata {
  /** Values are parsed JSON, or no objects. */
  readonly #facts = new Map<string, unknown>();

  set(key: string, value: string): void {
    if (typeof key === 'string' && isValue(value)) this.#facts.set(key, value);
  }

  /** Whether `json` is the text of a value. */
  setJson(key: string, json: string): boolean {
    if (typeof key !== 'string' || typeof json !== 'string') return false;
    try {
      this.#facts.set(key, JSON.parse(json));
      return true;
    } catch {
      return false;
    }
  }

  /** As a recorder takes them. */
  get texts(): readonly (readonly [key: string, text: string])[] {
    return [...this.#facts].map(([key, value]) => [key, typeof value === 'object' ? JSON.stringify(value) : String(value)]);
  }

  /** As files of torch.profiler have them. */
  get values(): Readonly<Record<string, unknown>> {
    return Object.fromEntries(this.#facts);
  }
}
