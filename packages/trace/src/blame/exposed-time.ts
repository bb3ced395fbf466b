// In which stretches of a collective its process did nothing else: a wait that work hides costs nothing.
//
//   collective (its own thread or stream)   ├──────────────────────┤
//   work (kernels, ops)                   ───────┤  ├──────┤
//   exposed                                      ├──┤      ├───────┤
//
// A collective on the line of the step itself blocks it. Of one beside it, what kernels (where the process has any) or ops on other lines cover
// is not exposed; between two pieces of work that follow closely, nothing is.

import type { TraceLane } from '../model/trace-sink.ts';
import { blameLimits as limits } from './blame-limits.ts';

/** A collective of which the exposed stretches are being found; undefined: all of it is. */
export interface ExposedPart {
  readonly entry: number;
  readonly exit: number | undefined;
  exposed: [from: number, until: number][] | undefined;
}

/** Shorter than this, ns, a gap between two pieces of work is how work is started, no time without any. */
const gapNsMin = 20_000;

/** What Kineto and our own hooks call work on a thread; annotations, calls of a runtime and frames only surround it. */
const workCategories: ReadonlySet<string> = new Set(['cpu_op', 'op', 'Operator']);

export class ExposedTime {
  /** The line that the phases of steps are on. */
  stepLane: number | undefined;
  readonly #active: { readonly lane: number; readonly part: ExposedPart }[] = [];
  #onDevice = false;
  /** Up to when work is known to run. */
  #busyUntil = Number.NEGATIVE_INFINITY;

  /** A span, in order of start. */
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

  /** Nothing that ended before `time` is covered any more. */
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
