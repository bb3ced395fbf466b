// The stretches of a collective in which its process did nothing else: a wait hidden by work costs nothing.
//
//   collective (its own thread or stream)   ├──────────────────────┤
//   work (kernels, ops)                   ───────┤  ├──────┤
//   exposed                                      ├──┤      ├───────┤
//
// A collective on the step's own line blocks it. One on another line is hidden where kernels (if the process has any) or ops on other lines
// run; the gap between two pieces of work in close succession counts as work.

import type { TraceLane } from '../model/trace-sink.ts';
import { blameLimits as limits } from './blame-limits.ts';

/** A collective and its exposed stretches as found so far; undefined: all of it is exposed. */
export interface ExposedPart {
  readonly entry: number;
  readonly exit: number | undefined;
  exposed: [from: number, until: number][] | undefined;
}

/** A gap between two pieces of work shorter than this, ns, is launch overhead, not idle time. */
const gapNsMin = 20_000;

/** Categories that Kineto and our own hooks give to work on a thread; annotations, runtime calls and frames only surround it. */
const workCategories: ReadonlySet<string> = new Set(['cpu_op', 'op', 'Operator']);

export class ExposedTime {
  /** The line of the steps' phases. */
  stepLane: number | undefined;
  readonly #active: { readonly lane: number; readonly part: ExposedPart }[] = [];
  #onDevice = false;
  /** Time until which work is known to run. */
  #busyUntil = Number.NEGATIVE_INFINITY;

  /** Adds a span; they come in order of start. */
  span(lane: TraceLane, category: string, from: number, until: number): void {
    if (lane.kind === 'stream') {
      if (!this.#onDevice) this.#busyUntil = Number.NEGATIVE_INFINITY;
      this.#onDevice = true;
    } else if (this.#onDevice || lane.kind !== 'thread' || !workCategories.has(category)) return;
    if (until <= this.#busyUntil) return;
    const since = from - this.#busyUntil < gapNsMin ? this.#busyUntil : from;
    this.#busyUntil = until;
    for (const { lane: own, part } of this.#active) if (own !== lane.index) cover(part, since, until);
  }

  collective(lane: TraceLane, part: ExposedPart): void {
    if (lane.index === this.stepLane || this.stepLane === undefined) return;
    if (this.#busyUntil > part.entry) cover(part, part.entry, this.#busyUntil);
    this.#active.push({ lane: lane.index, part });
  }

  /** Forgets work that ended before `time`. */
  until(time: number): void {
    let kept = 0;
    for (const one of this.#active) if ((one.part.exit ?? Number.POSITIVE_INFINITY) > time) this.#active[kept++] = one;
    this.#active.length = Math.min(kept, limits.blameCollectivesPerStepMax);
  }
}

function cover(part: ExposedPart, from: number, until: number): void {
  const { entry, exit = Number.POSITIVE_INFINITY } = part;
  if (until <= entry || from >= exit) return;
  const exposed: [number, number][] = part.exposed ?? [[entry, exit]];
  const last = exposed.at(-1);
  part.exposed = exposed;
  if (last === undefined || until <= last[0]) return;
  exposed.pop();
  if (from > last[0] && exposed.length < limits.blameExposedMax) exposed.push([last[0], Math.min(from, last[1])]);
  if (until < last[1]) exposed.push([until, last[1]]);
}
