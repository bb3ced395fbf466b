// The phases of a batch's steps: rows (step, name, length), which belong to the step of the same number.
//
//   phases   4 forward 10 │ 4 backward 20 │ 5 forward 9 │ 4 forward 5       →   4: forward 15, backward 20   5: forward 9
//
// A step may have several rows of one name, and they need not be adjacent: their lengths add up. A phase may also come in another batch than its
// step; live state and metrics keep steps across batches, so they add up rows in rings of their own.

import { type Batch, type Nanos, nanos } from '@ranktrace/protocol';

/**
 * Time in each phase of a batch's steps, by step number, then by name, ns. Of a step's names the first `namesMax` are taken; without it, the limits
 * of a batch bound them.
 */
export function phasesOfSteps({ strings, tables }: Batch, namesMax: number = Number.POSITIVE_INFINITY): Map<number, Map<string, Nanos>> {
  const steps = new Map<number, Map<string, Nanos>>();
  const { length } = tables.phases;
  const { step: numbers, name: names, length: lengths } = tables.phases.columns;
  let number = Number.NaN;
  let phases = new Map<string, Nanos>();
  for (let row = 0; row < length; row++) {
    // Rows of one step mostly follow each other.
    if (numbers[row] !== number) {
      number = numbers[row] as number;
      phases = steps.get(number) ?? new Map();
      if (phases.size === 0) steps.set(number, phases);
    }
    const name = strings[names[row] as number] ?? '';
    const before = phases.get(name);
    if (before !== undefined) phases.set(name, nanos(before + (lengths[row] as number)));
    else if (phases.size < namesMax) phases.set(name, nanos(lengths[row] as number));
  }
  return steps;
}
