// The states of a run's alerts that each output has taken. They are saved with the state behind the alerts: a service that is started again sends those
// that are missing.

import type { Alert } from '@ranktrace/protocol';

type Said = Pick<Alert, 'id' | 'firedAt' | 'state'>;

/** One state of an alert that an output has taken, in JSON's types. */
export type DeliveryMark = readonly [output: string, id: string, firedAt: string, state: Alert['state']];

/** Tells of an output, by its name, whether it has taken an alert in its current state. */
export type IsTaken = (output: string) => boolean;

/** Stands for all outputs: no output has an empty name. */
const allOutputs = '';

export class DeliveryMarks {
  /** The last mark of each output and incident. */
  readonly #marks = new Map<string, DeliveryMark>();

  /** `saved` is undefined where a service that knew no marks reported the alerts: then all outputs count as having taken `known`. */
  constructor(saved: readonly DeliveryMark[] | undefined, known: Iterable<Said>) {
    if (saved === undefined) for (const alert of known) this.note(allOutputs, alert);
    else for (const [output, id, firedAt, state] of saved) this.note(output, { id, firedAt, state });
  }

  note(output: string, { id, firedAt, state }: Said): void {
    this.#marks.set(keyOf(output, id), [output, id, firedAt, state]);
  }

  isTaken(output: string, { id, firedAt, state }: Said): boolean {
    return [output, allOutputs].some((name) => {
      const [, , markedAt, marked] = this.#marks.get(keyOf(name, id)) ?? [];
      return markedAt === firedAt && (marked === state || marked === 'resolved');
    });
  }

  /** The marks of the alerts with these ids. The others are dropped. */
  saved(ids: { has(id: string): boolean }): DeliveryMark[] {
    for (const [key, [, id]] of this.#marks) if (!ids.has(id)) this.#marks.delete(key);
    return [...this.#marks.values()];
  }
}

const keyOf = (output: string, id: string): string => `${output}\n${id}`;
