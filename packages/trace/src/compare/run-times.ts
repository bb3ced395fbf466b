// The times of a run by name, over its steps, as a comparison with another run needs them. A sink on the merged events.
//
//   rank 0   │ step 7 ──────────│ step 8 …      spans count to the step of their rank in which they end
//   rank 1     │ step 7 ──────────│
//                                  ▲ all ranks have ended step 7: one value for each name, the mean of the ranks
//
// Ranks may lie further apart than there are steps that wait: then the oldest one is closed with the ranks that it has, and stays closed. A part that
// comes later still counts in all sums, on its rank, and as a late part.
//
// A step without any span (its detail was not recorded) says nothing about names. A recording without steps counts as one step.
// Invariant: memory depends on names, ranks and the steps under way, never on the number of events.

import type { DifferenceKind } from '@ranktrace/protocol';
import { isDeviceKind } from '../model/lanes.ts';
import { NestedTimes } from '../model/nested-times.ts';
import { isMark, workKind } from '../model/span-kind.ts';
import type { TraceEvent, TraceHeader, TraceLane, TraceProcess, TraceSink } from '../model/trace-sink.ts';
import { type RunSummary, StepSummarySink } from '../steps/step-summary.ts';
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

interface ProcessState {
  readonly place: number;
  cells: Map<NameSums, Cell>;
  /** Undefined once a step has ended. */
  early: Early[] | undefined;
}

interface PendingStep {
  ranks: number;
  detailed: number;
  readonly cells: Map<NameSums, Cell>;
  readonly phases: Map<string, number>;
}

const kinds: readonly DifferenceKind[] = ['phase', 'op', 'kernel', 'copy', 'collective', 'call'];
const earlyMax = 65_536;

export class RunTimesSink implements TraceSink {
  readonly #options: RunTimesOptions;
  readonly #summary = new StepSummarySink();
  /** By kind and place: names, with the group of a collective. */
  readonly #names: Map<string, NameSums>[] = Array.from({ length: 2 * kinds.length }, () => new Map());
  readonly #all: NameSums[] = [];
  readonly #processes = new Map<TraceProcess, ProcessState | undefined>();
  readonly #pending = new Map<number, PendingStep>();
  readonly #nested = new NestedTimes<NameSums>((row, lane, length, self, start) => this.#finished(row, lane, length, self, start));
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
  }

  begin({ run, processes }: TraceHeader): void {
    const { hasRank = () => true } = this.#options;
    this.#run = run;
    this.#ranks = [...new Set(processes.map(({ rank }) => rank))].filter(hasRank).sort((a, b) => a - b);
    this.#rankSteps = new Float64Array(this.#ranks.length);
    for (const process of processes) {
      const place = this.#ranks.indexOf(process.rank);
      this.#processes.set(process, place < 0 ? undefined : { place, cells: new Map(), early: [] });
    }
  }

  lane(lane: TraceLane): void {
    this.#nested.lane(lane);
  }

  event(event: TraceEvent): void {
    const { kind, lane } = event;
    if (kind === 'instant' || kind === 'counter') return;
    const state = this.#processes.get(lane.process);
    if (state === undefined) return;
    if (kind === 'step') {
      this.#step(state, event);
      return;
    }
    const isDevice = isDeviceKind(lane.kind);
    if (isDevice && isMark(event.category)) return;
    const row = this.#row(kindOf(event, isDevice), isDevice ? 'device' : 'host', event.name, kind === 'collective' ? event.group : '');
    if (row !== undefined) this.#nested.event(event, row);
    else if (event.state !== 'close') this.#leftOut++;
  }

  end(): void {
    this.#nested.end();
    for (const number of [...this.#pending.keys()].sort((a, b) => a - b)) this.#flush(number);
    if (this.#hasSteps) return;
    // Without steps the whole recording of all ranks is one.
    const step: PendingStep = { ranks: this.#ranks.length, detailed: 0, cells: new Map(), phases: new Map() };
    for (const state of this.#processes.values()) if (state !== undefined) this.#join(state, step, Number.NEGATIVE_INFINITY);
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

  #step(state: ProcessState, event: TraceEvent): void {
    const { step: number, start, length, lane, phases } = event;
    this.#hasSteps = true;
    this.#nested.settle(lane.process, start + length);
    const { steps } = this.#options;
    if (steps !== undefined && (number < steps.first || number > steps.last)) {
      state.cells = new Map();
      state.early = undefined;
      return;
    }
    const isLate = !this.#pending.has(number) && this.#summary.has(number);
    this.#summary.event(event);
    this.#stepParts++;
    const step = this.#pending.get(number) ?? { ranks: 0, detailed: 0, cells: new Map(), phases: new Map() };
    step.ranks++;
    for (const [name, time] of phases ?? []) step.phases.set(name, (step.phases.get(name) ?? 0) + time);
    this.#join(state, step, start);
    if (isLate) {
      this.#lateParts++;
      this.#sum(step);
      return;
    }
    this.#pending.set(number, step);
    if (step.ranks >= this.#ranks.length) this.#flush(number);
    else if (this.#pending.size > limits.compareStepsPendingMax) this.#flush(Math.min(...this.#pending.keys()));
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
    for (const [name, time] of phases) this.#row('phase', 'host', name, '')?.series.add(time / ranks);
    if (detailed === 0) return;
    this.#detailSteps++;
    for (const [row, { self }] of cells) row.series.add(Math.max(0, self) / detailed);
  }

  #sum({ ranks, cells, phases }: PendingStep): void {
    for (const [name, time] of phases) {
      const row = this.#row('phase', 'host', name, '');
      if (row !== undefined) addTo(row, ranks, time, time);
    }
    for (const [row, { count, total, self }] of cells) addTo(row, count, total, self);
  }
}

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
