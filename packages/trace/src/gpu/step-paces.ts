// How fast steps can follow each other: what each host and each stream needs for a step without its waits. Where hosts run ahead of their devices,
// or streams overlap two steps, no single step shows it.
//
//   host     step 0 ─┤ step 1 ─┤ step 2 ─┤ … waits            its pace is the length of a step here
//   stream      step 0 ███████████████│ step 1 ███████████████│ …

import type { RankOfPath } from './cluster-path.ts';
import type { RankWork } from './device-work.ts';
import { waitingCall } from './idle-time.ts';
import { Intervals } from './intervals.ts';
import { kindOf } from './kernel-class.ts';
import { blockedLaunches } from './launch-queue.ts';
import { copiesOfCalls } from './path-reasons.ts';
import type { Change } from './what-if.ts';

/** Without the first, of several: its work on a device has the lead of its host, too. */
export const afterFirst = <Step>(steps: readonly Step[]): readonly Step[] => steps.slice(steps.length > 1 ? 1 : 0);

/** Time that a host or a stream needs for a step, ns, and how much of that is of each part of the work; the array has holes. */
interface Pace {
  needs: number;
  readonly parts: number[];
}

export interface StepPacesOptions {
  readonly ranks: readonly RankOfPath[];
  /** By rank and row of work: when the last rank came into its collective; NaN for all other work. */
  readonly lastIn: readonly Float64Array[];
  /** The part that a row of a rank's work belongs to, -1 for none. */
  readonly partOf: (work: RankWork, row: number) => number;
}

/** Means of the steps after the first. */
export class StepPaces {
  readonly #hosts: readonly Pace[];
  readonly #streams: Pace[] = [];

  constructor({ ranks, lastIn, partOf }: StepPacesOptions) {
    this.#hosts = ranks.map(({ work }) => ({ needs: hostNeeds(work), parts: [] }));
    for (const [rank, { work }] of ranks.entries()) this.#addStreams(work, lastIn[rank] as Float64Array, (row) => partOf(work, row));
  }

  /** Time of a rank's host in a step that is of a part of its work. */
  addHost(rank: number, part: number, ns: number): void {
    const { parts } = this.#hosts[rank] as Pace;
    parts[part] = (parts[part] ?? 0) + ns;
  }

  /** Least ns between two steps. */
  with({ isChanged, factor }: Change): number {
    let slowest = 0;
    for (const { needs, parts } of [...this.#hosts, ...this.#streams]) {
      const changed = parts.reduce((sum, ns, part) => (isChanged[part] === 1 ? sum + ns : sum), 0);
      slowest = Math.max(slowest, needs - (1 - factor) * changed);
    }
    return slowest;
  }

  #addStreams(of: RankWork, lastIn: Float64Array, partOf: (row: number) => number): void {
    const { work, streams, steps, links } = of;
    const first = afterFirst(steps)[0];
    const count = afterFirst(steps).length;
    if (first === undefined) return;
    const from = steps.indexOf(first);
    const paces = streams.map((): Pace => ({ needs: 0, parts: [] }));
    this.#streams.push(...paces);
    const { start, end, stream, kind } = work.columns;
    for (let row = 0; row < work.length; row++) {
      if (kind[row] === kindOf.sync || (links.step[row] as number) < from) continue;
      const begin = Math.max(start[row] as number, Number.isNaN(lastIn[row]) ? Number.NEGATIVE_INFINITY : (lastIn[row] as number));
      const ns = Math.max(0, (end[row] as number) - begin) / count;
      const pace = paces[stream[row] as number] as Pace;
      pace.needs += ns;
      const part = partOf(row);
      if (part >= 0) pace.parts[part] = (pace.parts[part] ?? 0) + ns;
    }
  }
}

/** Time that a rank's host needs for a step without its waits for devices, ns: the mean of the steps after the first; 0 without a step. */
function hostNeeds(work: RankWork): number {
  const { host, names } = work;
  const { start, end } = host.columns;
  const isWaiting = names.matching(waitingCall);
  /** By row of a call: its time without the wait, ns. */
  const waits = new Map<number, number>(blockedLaunches(work).map(({ call, own }) => [call, own]));
  for (const row of copiesOfCalls(work, () => true).keys()) waits.set(row, 0);
  for (let row = 0; row < host.length; row++) if (isWaiting[host.columns.name[row] as number] === 1) waits.set(row, 0);
  const waiting = new Intervals();
  const stretches = [...waits].map(([row, own]) => ({ from: (start[row] as number) + own, until: end[row] as number }));
  for (const { from, until } of stretches.sort((a, b) => a.from - b.from)) waiting.add(from, until);
  const steps = afterFirst(work.steps);
  const sum = steps.reduce((all, step) => all + step.end - step.start - waiting.covered(step.start, step.end), 0);
  return sum / Math.max(1, steps.length);
}
