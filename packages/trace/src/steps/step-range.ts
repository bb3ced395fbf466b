// A stretch of a run: its steps from one number to another, and the events of each rank during them.
//
//   first pass    StepTimesSink     start and end of these steps on each rank, on its host and on its devices
//   second pass   StepRangeSink     passes on the events that began in between, and the device work that was launched there
//
//   host     │ 3 ──│ 4 ──│ 5 ──│ 6 ──│
//   device     ██ 3 ████ │██ 4 ██████│██ 5 ██████│ 6        steps 4 to 5: what they launched, whenever it runs
//
// Two passes, because a step event comes at the step's end, after all events inside it.

import { besideOwners } from '../model/beside-owners.ts';
import { isDeviceKind } from '../model/lanes.ts';
import { LaunchTimes } from '../model/launch-times.ts';
import type { ProcessTotals, TraceEvent, TraceHeader, TraceLane, TraceProcess, TraceSink } from '../model/trace-sink.ts';
import { DeviceWindows } from './device-windows.ts';

/** ns of the trace; `until` is excluded. */
interface Stretch {
  readonly from: number;
  readonly until: number;
}

/** The steps on the host of a process; and on its devices, where their windows are known. */
export interface StretchOfSteps extends Stretch {
  readonly devices?: Stretch | undefined;
}

/** Finds the times of the steps from `first` to `last`, both included, on each rank. */
export class StepTimesSink implements TraceSink {
  readonly #first: number;
  readonly #last: number;
  readonly #windows = new DeviceWindows();
  /** By process index: start and end of its steps in the range. Those on devices are there after the merge's end. */
  readonly times = new Map<number, StretchOfSteps>();
  /** The first and the last step of the whole run; undefined when it has none. */
  steps: { readonly first: number; readonly last: number } | undefined;
  /** Begin of the first step of the whole run, on any rank; undefined when it has none. */
  firstStart: number | undefined;

  constructor(first: number, last: number) {
    this.#first = first;
    this.#last = last;
  }

  begin(header: TraceHeader): void {
    this.#windows.begin(header);
  }

  lane(): void {}

  event(event: TraceEvent): void {
    this.#windows.event(event);
    const { kind, step, start, length, lane } = event;
    if (kind !== 'step') return;
    const { first = step, last = step } = this.steps ?? {};
    this.steps = { first: Math.min(first, step), last: Math.max(last, step) };
    this.firstStart = Math.min(this.firstStart ?? start, start);
    if (step < this.#first || step > this.#last) return;
    const { index } = lane.process;
    const { from = start, until = start + length } = this.times.get(index) ?? {};
    this.times.set(index, { from: Math.min(from, start), until: Math.max(until, start + length) });
  }

  endStretch(): void {}

  end(): void {
    for (const process of this.#windows.processes) {
      const hosts = this.times.get(process.index);
      const windows = (this.#windows.of(process) ?? []).filter(({ window: { number } }) => number >= this.#first && number <= this.#last);
      const [from, until] = [windows[0]?.window.start, windows.at(-1)?.window.end];
      if (hosts !== undefined && from !== undefined && until !== undefined)
        this.times.set(process.index, { ...hosts, devices: { from, until } });
    }
  }
}

/**
 * Passes on to `sink` the events that began within `times`, and the work that devices were given there; header, lanes and totals are those of the run. Work
 * without a known launch is passed on where it began within the steps on the devices, or where these are not known, on the host.
 */
export class StepRangeSink implements TraceSink {
  readonly #times: StepTimesSink['times'];
  readonly #sink: TraceSink;
  readonly #launches = new LaunchTimes();
  #owners: ReadonlyMap<number, TraceProcess> = new Map();
  /** Absent where `sink` has none. */
  readonly endStretch?: () => void;

  constructor(times: StepTimesSink['times'], sink: TraceSink) {
    this.#times = times;
    this.#sink = sink;
    if (sink.endStretch !== undefined) this.endStretch = () => sink.endStretch?.();
  }

  begin(header: TraceHeader): void {
    this.#owners = besideOwners(header.processes);
    const busyBefore = new Map([...this.#times].flatMap(([index, { devices }]) => (devices === undefined ? [] : [[index, devices.from]])));
    this.#sink.begin({ ...header, busyBefore });
  }

  lane(lane: TraceLane): void {
    this.#sink.lane(lane);
  }

  event(event: TraceEvent): void {
    const { lane, start } = event;
    const launched = this.#launches.launchOf(event);
    const times = this.#times.get((this.#owners.get(lane.process.index) ?? lane.process).index);
    if (times === undefined) return;
    const isUnlaunched = launched === undefined && isDeviceKind(lane.kind) && this.#launches.has(lane.process);
    const { from, until } = isUnlaunched ? (times.devices ?? times) : times;
    const at = launched ?? start;
    if (at >= from && at < until) this.#sink.event(event);
  }

  end(totals: readonly ProcessTotals[]): void {
    this.#sink.end(totals);
  }
}
