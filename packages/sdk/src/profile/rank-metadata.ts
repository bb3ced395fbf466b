// Facts that the program states about its rank, also before the start. JavaScript callers may pass anything: what is no fact is not kept.

import { isValue } from '../record/arguments.ts';

interface Fact {
  /** Parsed JSON, or no object. */
  readonly value: unknown;
  /** As a recorder takes it. */
  readonly text: string;
}

export class RankMetadata {
  readonly #facts = new Map<string, Fact>();

  set(key: string, value: string): void {
    if (typeof key === 'string' && isValue(value)) this.#facts.set(key, { value, text: String(value) });
  }

  /** The text for a recorder, of a string without its quotes; undefined if `json` is not the text of a value. */
  setJson(key: string, json: string): string | undefined {
    if (typeof key !== 'string' || typeof json !== 'string') return undefined;
    try {
      const value: unknown = JSON.parse(json);
      const text = typeof value === 'string' ? value : json;
      this.#facts.set(key, { value, text });
      return text;
    } catch {
      return undefined;
    }
  }

  /** As a recorder takes them. */
  get texts(): readonly (readonly [key: string, text: string])[] {
    return [...this.#facts].map(([key, { text }]) => [key, text]);
  }

  /** As files of torch.profiler have them. */
  get values(): Readonly<Record<string, unknown>> {
    return Object.fromEntries([...this.#facts].map(([key, { value }]) => [key, value]));
  }
}
