// The times of a run by name, over its steps, as a comparison with another run needs them. A sink on the merged events.
//
//   rank 0   │ step 7 ──────────│ step 8 …      spans count to the step of their rank in which they end
//   rank 1     │ step 7 ──────────│
//                                  ▲ all ranks have ended step 7: one value for each name, the mean of the ranks
//
// Work of devices counts to the step that launched it, wherever it runs: a step stays open until each rank's devices have begun the step after the next.
//
// Ranks may lie further apart than there are steps that wait: then the oldest one is closed with the ranks that it has, and stays closed. A part that
// comes later still counts in all sums, on its rank, and as a late part.
//
// A step without any span (its detail was not recorded) says nothing about names. A recording without steps counts as one step.
// Invariant: memory depends on names, ranks and the steps under way, never on the number of events.

import type { DifferenceKind } from '@ranktrace/protocol';
import { countBelow } from '../model/count-below.ts';
import { isDeviceKind } from '../model/lanes.ts';
import { NestedTimes } from '../model/nested-times.ts';
import { isMark, workKind } from '../model/span-kind.ts';
import type { TraceEvent, TraceHeader, TraceLane, TraceProcess, TraceSink } from '../model/trace-sink.ts';
import { CountedStepsSink } from '../steps/counted-steps.ts';
import type { StepSpan } from '../steps/device-windows.ts';
import type { RunSummary } from '../steps/step-summary.ts';
import { compareLimits as limits } from './compare-limits.ts';
import { StepSeries } from './step-series.ts';

/** One name of a run, summed up. Sums are over the ranks, of the steps with detail. */
export interface NameSums {
  readonly kind: DifferenceKind;
  readonly on: 'host' | 'device';
  readonly name: string;
  /** Group of a collective. */
  readonly group: string;
  /** Mean of the ranks, by step: self time of a span, time of a phase. */
  readonly series: StepSeries;
  count: number;
  total: number;
  self: number;
  /** Self time by the index of the rank; undefined beyond the limit. */
  readonly ranks: Float64Array | undefined;
}

/** A run as `compareRuns` takes it. */
export interface RunTimes {
  readonly run: string;
  /** The ranks that were counted, ascending. */
  readonly ranks: readonly number[];
  /** Steps that count for phases, and those with detail. */
  readonly steps: number;
  readonly detailSteps: number;
  /** Steps of all ranks together. */
  readonly stepParts: number;
  /** Those of `stepParts` whose step was closed before: they are in sums, and not in `series`. */
  readonly lateParts: number;
  /** By the index of the rank: its steps with detail; and those of all ranks together. */
  readonly rankSteps: Float64Array;
  readonly rankStepsAll: number;
  readonly summary: RunSummary;
  readonly names: readonly NameSums[];
  /** Spans of names beyond the limit. */
  readonly leftOut: number;
}

export interface RunTimesOptions {
  /** Only these ranks. */
  readonly hasRank?: ((rank: number) => boolean) | undefined;
  /** Only these steps, both included. */
  readonly steps?: { readonly first: number; readonly last: number } | undefined;
}

/** Number and times of spans of one name. */
interface Cell {
  count: number;
  total: number;
  self: number;
}

/** A span seen before the first step of its process has ended: it may lie before that step. */
interface Early {
  readonly row: NameSums;
  readonly length: number;
  readonly self: number;
  readonly start: number;
}

/** A span of a device whose launch is known. */
interface LaunchedRow {
  readonly row: NameSums;
  readonly launched: number;
}

interface Launched extends LaunchedRow {
  readonly length: number;
  readonly self: number;
}

interface ProcessState {
  readonly place: number;
  cells: Map<NameSums, Cell>;
  /** Undefined once a step has ended. */
  early: Early[] | undefined;
  /** The last steps that ended, in order; and how many came before them. */
  ended: StepSpan[];
  endedBefore: number;
  /** Work launched in a step that has not ended. */
  waiting: Launched[];
  /** Whether the launch of any of its work is known; and the place of the last step that its devices have begun. */
  isLaunching: boolean;
  begun: number;
}

interface PendingStep {
  ranks: number;
  /** Ranks whose devices have begun the step after the next. */
  passed: number;
  detailed: number;
  readonly cells: Map<NameSums, Cell>;
  /** `count`: ranks that had the phase in this step. */
  readonly phases: Map<string, { readonly count: number; readonly time: number }>;
}

const kinds: readonly DifferenceKind[] = ['phase', 'op', 'kernel', 'copy', 'collective', 'call'];
const earlyMax = 65_536;
/** Steps of a rank that are kept after its devices have passed them, in case of more work. */
const stepsKept = 64;

export class RunTimesSink implements TraceSink {
  readonly #options: RunTimesOptions;
  readonly #summary: CountedStepsSink;
  /** By kind and place: names, with the group of a collective. */
  readonly #names: Map<string, NameSums>[] = Array.from({ length: 2 * kinds.length }, () => new Map());
  readonly #all: NameSums[] = [];
  readonly #processes = new Map<TraceProcess, ProcessState | undefined>();
  readonly #pending = new Map<number, PendingStep>();
  readonly #nested = new NestedTimes<NameSums | LaunchedRow>((row, lane, length, self, start) => {
    if ('launched' in row) this.#launched(lane, { row: row.row, launched: row.launched, length, self });
    else this.#finished(row, lane, length, self, start);
  });
  /** Ranks whose work has known launches. */
  #launching = 0;
  #run = '';
  #ranks: readonly number[] = [];
  #rankSteps = new Float64Array(0);
  #rankSums = 0;
  #steps = 0;
  #detailSteps = 0;
  #stepParts = 0;
  #lateParts = 0;
  #hasSteps = false;
  #leftOut = 0;

  constructor(options: RunTimesOptions = {}) {
    this.#options = options;
    this.#summary = new CountedStepsSink({ hasRank: options.hasRank, hasStep: (step) => this.#isWanted(step) });
  }

  begin(header: TraceHeader): void {
    const { run, processes } = header;
    const { hasRank = () => true } = this.#options;
    this.#summary.begin(header);
    this.#run = run;
    this.#ranks = [...new Set(processes.map(({ rank }) => rank))].filter(hasRank).sort((a, b) => a - b);
    this.#rankSteps = new Float64Array(this.#ranks.length);
    for (const process of processes) {
      const place = this.#ranks.indexOf(process.rank);
      this.#processes.set(process, place < 0 ? undefined : stateAt(place));
    }
  }

  lane(lane: TraceLane): void {
    this.#nested.lane(lane);
  }

  event(event: TraceEvent): void {
    const { kind, lane } = event;
    if (kind === 'instant' || kind === 'counter') return;
    const isKnown = kind === 'step' && this.#summary.has(event.step);
    const launched = this.#summary.event(event);
    const state = this.#processes.get(lane.process);
    if (state === undefined) return;
    if (kind === 'step') {
      this.#step(state, event, isKnown);
      return;
    }
    const isDevice = isDeviceKind(lane.kind);
    if (isDevice && isMark(event.category)) return;
    const row = this.#row(kindOf(event, isDevice), isDevice ? 'device' : 'host', event.name, kind === 'collective' ? event.group : '');
    if (row === undefined) {
      if (event.state !== 'close') this.#leftOut++;
      return;
    }
    const steps = isDevice && event.state === 'whole' ? this.#processes.get(this.#summary.windows.ownerOf(lane.process)) : undefined;
    if (steps === undefined || (launched === undefined && !steps.isLaunching && !this.#summary.windows.isLaunchedBefore(event))) {
      this.#nested.event(event, row);
      return;
    }
    // Work that was launched before the recording is of none of its steps.
    this.#nested.event(event, { row, launched: launched ?? Number.NEGATIVE_INFINITY });
    if (launched !== undefined) this.#begin(steps, lane.process, launched, event.start);
  }

  end(): void {
    this.#nested.end();
    for (const number of [...this.#pending.keys()].sort((a, b) => a - b)) this.#flush(number);
    if (this.#hasSteps) return;
    // Without steps the whole recording of all ranks is one.
    const step: PendingStep = { ranks: this.#ranks.length, passed: 0, detailed: 0, cells: new Map(), phases: new Map() };
    for (const state of this.#processes.values()) {
      if (state === undefined) continue;
      for (const { row, length, self } of state.waiting) addTo(cellOf(state.cells, row), 1, length, self);
      this.#join(state, step, Number.NEGATIVE_INFINITY);
    }
    this.#count(step);
    this.#steps = 0;
  }

  /** The sums; whole after `end`. */
  get times(): RunTimes {
    return {
      run: this.#run,
      ranks: this.#ranks,
      steps: this.#steps,
      detailSteps: this.#hasSteps ? this.#detailSteps : 0,
      stepParts: this.#stepParts,
      lateParts: this.#lateParts,
      rankSteps: this.#rankSteps,
      rankStepsAll: this.#rankSteps.reduce((sum, steps) => sum + steps, 0),
      summary: this.#summary.summary,
      names: this.#all.filter(({ count }) => count > 0),
      leftOut: this.#leftOut,
    };
  }

  #row(kind: DifferenceKind, on: 'host' | 'device', name: string, group: string): NameSums | undefined {
    const names = this.#names[2 * kinds.indexOf(kind) + (on === 'device' ? 1 : 0)] as Map<string, NameSums>;
    const key = group === '' ? name : `${name}\0${group}`;
    const known = names.get(key);
    if (known !== undefined) return known;
    if (this.#all.length >= limits.compareNamesMax) return undefined;
    const { length } = this.#ranks;
    const hasRanks = this.#rankSums + length <= limits.compareRankSumsMax;
    if (hasRanks) this.#rankSums += length;
    const ranks = hasRanks ? new Float64Array(length) : undefined;
    const row: NameSums = { kind, on, name, group, series: new StepSeries(), count: 0, total: 0, self: 0, ranks };
    names.set(key, row);
    this.#all.push(row);
    return row;
  }

  #finished(row: NameSums, lane: TraceLane, length: number, self: number, start: number): void {
    const state = this.#processes.get(lane.process) as ProcessState;
    if (state.early === undefined) {
      addTo(cellOf(state.cells, row), 1, length, self);
      return;
    }
    state.early.push({ row, length, self, start });
    // The spans just before the first step's end are the ones that are needed.
    if (state.early.length >= 2 * earlyMax) state.early = state.early.slice(-earlyMax);
  }

  /** Counts work of a device to the step that launched it. */
  #launched(lane: TraceLane, work: Launched): void {
    const state = this.#processes.get(this.#summary.windows.ownerOf(lane.process)) as ProcessState;
    const { ended, waiting } = state;
    if (work.launched >= (ended.at(-1)?.end ?? Number.NEGATIVE_INFINITY)) {
      waiting.push(work);
      if (waiting.length >= 2 * earlyMax) state.waiting = waiting.slice(-earlyMax);
      return;
    }
    const step = ended[placeIn(ended, work.launched)] as StepSpan;
    if (step === ended[0] && work.launched < step.start) return;
    this.#countLaunched(state, step.number, work);
  }

  /** To the step where it waits for other ranks; to sums alone where it was closed. */
  #countLaunched({ place }: ProcessState, number: number, { row, length, self }: Launched): void {
    if (!this.#isWanted(number)) return;
    const pending = this.#pending.get(number);
    addTo(pending === undefined ? row : cellOf(pending.cells, row), 1, length, self);
    if (row.ranks !== undefined) row.ranks[place] = (row.ranks[place] as number) + self;
  }

  #isWanted(number: number): boolean {
    const { steps } = this.#options;
    return steps === undefined || (number >= steps.first && number <= steps.last);
  }

  /** A rank's devices begin work that was launched at a time: they have passed the steps up to the last but one before. */
  #begin(state: ProcessState, process: TraceProcess, launched: number, now: number): void {
    if (!state.isLaunching) this.#launching++;
    state.isLaunching = true;
    const { ended, endedBefore, begun } = state;
    const place = endedBefore + placeIn(ended, launched);
    if (place <= begun) return;
    this.#nested.settle(process, now);
    state.begun = place;
    for (let passed = Math.max(endedBefore, begun - 1); passed <= place - 2; passed++) {
      const { number } = ended[passed - endedBefore] as StepSpan;
      const step = this.#pending.get(number);
      if (step === undefined) continue;
      step.passed++;
      this.#flushWhole(number, step);
    }
    // Steps that have been passed are needed no more.
    const past = Math.min(ended.length, place - 2 - endedBefore - stepsKept);
    if (past < stepsKept) return;
    ended.splice(0, past);
    state.endedBefore += past;
  }

  #flushWhole(number: number, { ranks, passed }: PendingStep): void {
    if (ranks >= this.#ranks.length && passed >= this.#launching) this.#flush(number);
  }

  /** `isKnown`: a rank has ended this step before. */
  #step(state: ProcessState, event: TraceEvent, isKnown: boolean): void {
    const { step: number, start, length, lane, phases } = event;
    this.#hasSteps = true;
    const end = start + length;
    this.#nested.settle(lane.process, end);
    const isFirst = state.ended.length === 0 && state.endedBefore === 0;
    state.ended.push({ number, start, end });
    // No work of devices will ask for them.
    if (!state.isLaunching && state.ended.length > stepsKept) {
      state.ended.shift();
      state.endedBefore++;
    }
    const launched = state.waiting.filter((work) => work.launched < end && (!isFirst || work.launched >= start));
    state.waiting = state.waiting.filter((work) => work.launched >= end);
    if (!this.#isWanted(number)) {
      state.cells = new Map();
      state.early = undefined;
      return;
    }
    const isLate = isKnown && !this.#pending.has(number);
    this.#stepParts++;
    const step = this.#pending.get(number) ?? { ranks: 0, passed: 0, detailed: 0, cells: new Map(), phases: new Map() };
    step.ranks++;
    for (const [name, time] of phases ?? []) {
      const before = step.phases.get(name);
      step.phases.set(name, { count: (before?.count ?? 0) + 1, time: (before?.time ?? 0) + time });
    }
    this.#join(state, step, start);
    if (isLate) {
      this.#lateParts++;
      this.#sum(step);
    } else this.#pending.set(number, step);
    for (const work of launched) this.#countLaunched(state, number, work);
    if (isLate) return;
    this.#flushWhole(number, step);
    const most = this.#launching > 0 ? limits.compareLaunchedStepsPendingMax : limits.compareStepsPendingMax;
    if (this.#pending.size > most) this.#flush(Math.min(...this.#pending.keys()));
  }

  /** Moves a process's spans into a step; of early ones, those that began from `since` on. */
  #join(state: ProcessState, step: PendingStep, since: number): void {
    for (const { row, length, self, start } of state.early ?? []) if (start >= since) addTo(cellOf(state.cells, row), 1, length, self);
    state.early = undefined;
    if (state.cells.size === 0) return;
    step.detailed++;
    this.#rankSteps[state.place] = (this.#rankSteps[state.place] as number) + 1;
    for (const [row, { count, total, self }] of state.cells) {
      addTo(cellOf(step.cells, row), count, total, self);
      if (row.ranks !== undefined) row.ranks[state.place] = (row.ranks[state.place] as number) + self;
    }
    state.cells = new Map();
  }

  #flush(number: number): void {
    const step = this.#pending.get(number) as PendingStep;
    this.#pending.delete(number);
    this.#count(step);
  }

  #count(step: PendingStep): void {
    const { ranks, detailed, cells, phases } = step;
    this.#sum(step);
    this.#steps++;
    for (const [name, { time }] of phases) this.#row('phase', 'host', name, '')?.series.add(time / ranks);
    if (detailed === 0) return;
    this.#detailSteps++;
    for (const [row, { self }] of cells) row.series.add(Math.max(0, self) / detailed);
  }

  #sum({ cells, phases }: PendingStep): void {
    for (const [name, { count, time }] of phases) {
      const row = this.#row('phase', 'host', name, '');
      if (row !== undefined) addTo(row, count, time, time);
    }
    for (const [row, { count, total, self }] of cells) addTo(row, count, total, self);
  }
}

const stateAt = (place: number): ProcessState => {
  return { place, cells: new Map(), early: [], ended: [], endedBefore: 0, waiting: [], isLaunching: false, begun: -1 };
};

/** The place of the first step that ends after `time`, their number for none. */
const placeIn = (ended: readonly StepSpan[], time: number): number => countBelow(ended.length, (at) => (ended[at] as StepSpan).end <= time);

function cellOf(cells: Map<NameSums, Cell>, row: NameSums): Cell {
  let cell = cells.get(row);
  if (cell === undefined) {
    cell = { count: 0, total: 0, self: 0 };
    cells.set(row, cell);
  }
  return cell;
}

function addTo(sums: Cell, count: number, total: number, self: number): void {
  sums.count += count;
  sums.total += total;
  sums.self += self;
}

function kindOf({ kind, name }: TraceEvent, isDevice: boolean): DifferenceKind {
  if (kind === 'collective') return 'collective';
  if (kind === 'rpc') return 'call';
  if (!isDevice) return 'op';
  return workKind(name);
}
