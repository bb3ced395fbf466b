// Names of phases, in the order in which a step has them, as they are learnt step by step.

import { blameLimits as limits } from './blame-limits.ts';

export class PhaseNames {
  /** Each with its earliest place: the end of its step, its place among the step's phases, and the one before it. */
  readonly #phases = new Map<string, { end: number; place: number; after: string | undefined }>();
  /** The first step with most phases, but for ranks' own first ones: a loop is entered in its midst. */
  #fullest = { names: [] as readonly string[], isFirst: true, end: Number.POSITIVE_INFINITY };

  get size(): number {
    return this.#phases.size;
  }

  get names(): Iterable<string> {
    return this.#phases.keys();
  }

  has(name: string): boolean {
    return this.#phases.has(name);
  }

  /** The phases of a step that ended at `end`; `isFirst`: of its rank. */
  learn(phases: ReadonlyMap<string, number>, end: number, isFirst: boolean): void {
    let place = 0;
    let after: string | undefined;
    for (const name of phases.keys()) {
      const known = this.#phases.get(name);
      if (known === undefined) {
        if (this.#phases.size < limits.blamePhasesMax) this.#phases.set(name, { end, place, after });
      } else if (end < known.end) Object.assign(known, { end, place, after });
      after = name;
      place++;
    }
    const known = this.#fullest;
    const isSooner = isFirst === known.isFirst ? end < known.end : known.isFirst;
    if (phases.size > known.names.length || (phases.size === known.names.length && isSooner))
      this.#fullest = { names: [...phases.keys()], isFirst, end };
  }

  /** In the order of the step with most phases; others behind the one that they follow in their own step. */
  get inOrder(): string[] {
    const ordered = this.#fullest.names.filter((name) => this.#phases.has(name));
    const known = new Set(ordered);
    const others = [...this.#phases].filter(([name]) => !known.has(name)).sort(([, a], [, b]) => a.end - b.end || a.place - b.place);
    for (const [name, { after }] of others) {
      const before = after === undefined ? -1 : ordered.indexOf(after);
      ordered.splice(before < 0 ? ordered.length : before + 1, 0, name);
    }
    return ordered;
  }
}
