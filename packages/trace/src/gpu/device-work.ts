// Device work of one process, as columns: each kernel, copy, set and sync with its launch, and the host's spans around it.
//
//   host     thread    │ aten::linear ──────────────────────────│
//                      │   aten::addmm ───────────────────────  │
//                      │       cudaLaunchKernel ─│              │        call ── parent ──► op ── parent ──► op
//   device   stream 7              correlation   └────► gemm ───────│    work ── call ──► call
//
// Recording fills columns; `seal` sorts them and links them. A call is never around anything: with whole µs it may end after its op.
//
// Invariant: after `seal`, rows of both tables are in order of start, and links are rows + 1, 0 for none.
// Steps of which not all work was recorded are left out: those outside of a schedule's windows, and before or after an agent recorded. In them, devices
// were not as idle as it looks.
//
// Invariant: work belongs to the step in which it was launched, wherever it runs: its number is in `step`, -1 for none.

import { type DeviceSteps, limits as wire } from '@ranktrace/protocol';
import { ColumnTable } from '../model/column-table.ts';
import { finish } from '../model/finish.ts';
import { sortByTime } from '../model/sort-by-time.ts';
import { windowsOf } from '../steps/device-windows.ts';
import { gpuLimits as limits } from './gpu-limits.ts';
import { Intervals } from './intervals.ts';
import { classOf, kindOf } from './kernel-class.ts';
import type { WorkNames } from './work-names.ts';

export const workColumns = {
  /** ns on the trace's axis. */
  start: 'f64',
  end: 'f64',
  name: 'u32',
  /** Index into `streams`. */
  stream: 'u32',
  /** `kindOf` and `classOf` of kernel-class.ts. */
  kind: 'u8',
  class: 'u8',
  /** 0 for none. */
  correlation: 'u32',
  /** Row + 1 of `shapes`; 0: not recorded. */
  shape: 'u32',
  /** Row + 1 of `transfers`. */
  transfer: 'u32',
} as const;

export const hostColumns = {
  start: 'f64',
  end: 'f64',
  name: 'u32',
  thread: 'u32',
  /** `hostKind`. */
  kind: 'u8',
  correlation: 'u32',
} as const;

/** Kinds of host spans, by number. */
export const hostKind = { op: 0, annotation: 1, module: 2, call: 3 } as const;

/** How a kernel filled the device. */
export const shapeColumns = { blocksPerSm: 'f64', occupancy: 'f64' } as const;

/** A collective that NCCL's plugin saw run. */
export const collectiveColumns = { start: 'f64', end: 'f64', transfer: 'u32' } as const;

/** A span of the host's program as its work on a device: from the first to the last of it. */
export const annotationColumns = { start: 'f64', end: 'f64', name: 'u32' } as const;

/** Payload of a copy, set, collective or sync. */
export const transferColumns = {
  bytes: 'f64',
  /** GB/s, as the profiler reported it. */
  bandwidth: 'f64',
  /** Names of a collective's group and op; 0 for none. */
  group: 'u32',
  op: 'u32',
  /** NaN for a kernel whose collective cannot be matched. */
  sequence: 'f64',
  ranks: 'u32',
  /** The other side's rank of a send or receive, + 1; 0 for none. */
  peer: 'u32',
  /** Sync: correlation of the event's record call that it waits for; 0 for none. */
  waitsFor: 'u32',
  /** Sync: number of the stream on which that event was recorded. */
  waitsOn: 'u32',
} as const;

export interface WorkStream {
  readonly device: number;
  readonly stream: number;
}

export interface WorkStep {
  readonly number: number;
  readonly start: number;
  readonly end: number;
}

/** A piece of time in which the host was in one phase. */
export interface PhaseSpan {
  readonly start: number;
  readonly end: number;
  readonly name: number;
}

/** Links that `seal` makes. */
interface Links {
  /** By row of work: row + 1 of the call that launched it. */
  readonly call: Uint32Array;
  /** By row of work: index into `steps`, -1 for none. */
  readonly step: Int32Array;
  /** By row of host: row + 1 of the innermost op, annotation or module around it. */
  readonly parent: Uint32Array;
  /** By row of host: row + 1 of the innermost op, the outermost op, the outermost annotation and the innermost module at or around it. */
  readonly op: Uint32Array;
  readonly topOp: Uint32Array;
  readonly topAnnotation: Uint32Array;
  readonly module: Uint32Array;
}

/**
 * Of which steps details are there: of `all`, as in a file; of those with any span or work, as of a rank with a schedule (`some`); or of those with work that
 * an agent recorded beside the rank, which begins and ends in the midst of a step (`beside`).
 */
export type StepCoverage = 'all' | 'some' | 'beside';

export interface RankWorkOptions {
  readonly htaCompatible?: boolean;
  readonly origin?: bigint;
  readonly coverage?: StepCoverage;
  /** For `some`: the stretches of steps that the rank says it sent whole. */
  readonly whole?: DeviceSteps | undefined;
  /** Until then its devices worked on steps before the wanted part. */
  readonly busyBefore?: number | undefined;
}

export class RankWork {
  readonly names: WorkNames;
  readonly work = new ColumnTable(workColumns);
  readonly host = new ColumnTable(hostColumns);
  readonly shapes = new ColumnTable(shapeColumns);
  readonly transfers = new ColumnTable(transferColumns);
  readonly annotations = new ColumnTable(annotationColumns);
  readonly collectives = new ColumnTable(collectiveColumns);
  readonly streams: WorkStream[] = [];
  /** In order of time after `seal`, and only those whose details were recorded. */
  steps: WorkStep[] = [];
  coverage: StepCoverage;
  readonly #whole: DeviceSteps | undefined;
  /** HTA's conventions hold: waits on streams count as work, and only calls that HTA knows launch any. */
  readonly htaCompatible: boolean;
  /** ns on the axis of the recording's own file at time 0 of the trace. */
  readonly origin: bigint;
  /** Until then its devices worked on steps before the wanted part, ns. */
  readonly busyBefore: number;
  #links: Links | undefined;
  #phases: readonly PhaseSpan[] | undefined;
  #windows: readonly WorkStep[] | undefined;
  readonly #unions = new Map<string, Intervals>();

  constructor(
    names: WorkNames,
    { htaCompatible = false, origin = 0n, coverage = 'all', whole, busyBefore = Number.NEGATIVE_INFINITY }: RankWorkOptions = {},
  ) {
    this.names = names;
    this.htaCompatible = htaCompatible;
    this.origin = origin;
    this.coverage = coverage;
    this.#whole = whole;
    this.busyBefore = busyBefore;
  }

  get links(): Links {
    if (this.#links === undefined) this.seal();
    return this.#links as Links;
  }

  /** Sorts and links all rows. Call once, when all are there. */
  seal(): void {
    finish(this.sealing());
  }

  /** The same; yields after each part. */
  *sealing(): Generator<void, void> {
    sortRows(this.work, workColumns);
    this.#nameCollectives();
    yield;
    sortRows(this.host, hostColumns);
    this.steps.sort((a, b) => a.start - b.start || a.number - b.number);
    yield;
    const nested = nest(this);
    yield;
    const call = this.#calls();
    if (this.coverage !== 'all' && this.work.length > 0) this.steps = this.#coveredSteps(call);
    this.#links = { ...nested, call, step: this.#stepsOf(call) };
  }

  /** Row of the call that launched the work in `row`, -1 if it was not recorded. */
  callOf(row: number): number {
    return (this.links.call[row] as number) - 1;
  }

  /** Whether the work in `row` keeps its device busy. */
  isBusy(row: number): boolean {
    const { class: classes, stream } = this.work.columns;
    if (classes[row] !== classOf.other) return true;
    return this.htaCompatible && (this.streams[stream[row] as number] as WorkStream).stream >= 0;
  }

  /** The union of all work of a class, or of everything that keeps a device busy. After `seal`. */
  unionOf(of: keyof typeof classOf | 'busy'): Intervals {
    const known = this.#unions.get(of);
    if (known !== undefined) return known;
    const union = new Intervals();
    this.#unions.set(of, union);
    const { start, end, class: classes } = this.work.columns;
    const wanted = of === 'busy' ? -1 : classOf[of];
    for (let row = 0; row < this.work.length; row++) {
      if (wanted < 0 ? !this.isBusy(row) : classes[row] !== wanted) continue;
      union.add(start[row] as number, end[row] as number);
    }
    return union;
  }

  /** First start and last end of busy work; undefined without any. */
  get extent(): { readonly start: number; readonly end: number } | undefined {
    const busy = this.unionOf('busy');
    if (busy.length === 0) return undefined;
    return { start: busy.from[0] as number, end: busy.until.at(-1) as number };
  }

  /** Devices with work, in order. */
  get devices(): readonly number[] {
    const used = new Set<number>();
    const seen = new Uint8Array(this.streams.length);
    for (let row = 0; row < this.work.length; row++)
      if (this.work.columns.kind[row] !== kindOf.sync) seen[this.work.columns.stream[row] as number] = 1;
    for (const [index, { device }] of this.streams.entries()) if (seen[index] === 1) used.add(device);
    return [...used].sort((a, b) => a - b);
  }

  /**
   * The phases of the thread that has most of them, in order of time: annotations that lie in no other. A backward's launches come from other threads,
   * which have no phase of their own.
   */
  get phases(): readonly PhaseSpan[] {
    this.#phases ??= this.#findPhases();
    return this.#phases;
  }

  /** Name of the host's phase at `time`, 0 outside of all. */
  phaseAt(time: number): number {
    return this.phases[this.phaseIndexAt(time)]?.name ?? 0;
  }

  /** Index into `phases` at `time`, -1 outside of all. */
  phaseIndexAt(time: number): number {
    const at = indexAtOrBefore(this.phases, time);
    return at >= 0 && time < (this.phases[at] as PhaseSpan).end ? at : -1;
  }

  /** The host's phase during most of a stretch of time; undefined where it was outside of all for longer. */
  phaseDuring(from: number, until: number): PhaseSpan | undefined {
    let longest: PhaseSpan | undefined;
    let most = (until - from) / 2;
    for (let at = indexAtOrBefore(this.phases, until); at >= 0; at--) {
      const phase = this.phases[at] as PhaseSpan;
      if (phase.end <= from) break;
      const within = Math.min(until, phase.end) - Math.max(from, phase.start);
      if (within >= most) [longest, most] = [phase, within];
    }
    return longest;
  }

  /** The window of each step on the devices (step-breakdown.ts), in order; disjoint. After `seal`. */
  get windows(): readonly WorkStep[] {
    this.#windows ??= stepWindows(this);
    return this.#windows;
  }

  /** Index into `steps` of the step at `time`, -1 outside of all. */
  stepAt(time: number): number {
    let low = 0;
    let high = this.steps.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.steps[middle] as WorkStep).start <= time) low = middle + 1;
      else high = middle;
    }
    const step = this.steps[low - 1];
    return step !== undefined && time < step.end ? low - 1 : -1;
  }

  /** Kernels of communication get the collective that NCCL's plugin saw at their time. */
  #nameCollectives(): void {
    sortRows(this.collectives, collectiveColumns);
    const { columns, length } = this.collectives;
    const { start, end, class: classes, transfer } = this.work.columns;
    let at = 0;
    for (let row = 0; row < this.work.length && at < length; row++) {
      if (classes[row] !== classOf.communication || transfer[row] !== 0) continue;
      const [from, to] = [start[row] as number, end[row] as number];
      const apart = (of: number): number => Math.abs((columns.start[of] as number) - from);
      while (at < length && (columns.start[at] as number) < from - limits.gpuNcclApartNsMax) at++;
      while (at + 1 < length && apart(at + 1) < apart(at)) at++;
      const isSame =
        at < length && apart(at) <= limits.gpuNcclApartNsMax && Math.abs((columns.end[at] as number) - to) <= limits.gpuNcclApartNsMax;
      if (isSame) transfer[row] = columns.transfer[at++] as number;
    }
  }

  #findPhases(): readonly PhaseSpan[] {
    const { start, end, name, thread, kind } = this.host.columns;
    const { topAnnotation } = this.links;
    const byThread = new Map<number, { total: number; spans: PhaseSpan[] }>();
    for (let row = 0; row < this.host.length; row++) {
      if (kind[row] !== hostKind.annotation || topAnnotation[row] !== row + 1 || this.names.isLibrary(name[row] as number)) continue;
      const of = byThread.get(thread[row] as number) ?? { total: 0, spans: [] };
      byThread.set(thread[row] as number, of);
      of.total += (end[row] as number) - (start[row] as number);
      of.spans.push({ start: start[row] as number, end: end[row] as number, name: this.names.phase(name[row] as number) });
    }
    return [...byThread.values()].sort((a, b) => b.total - a.total)[0]?.spans ?? [];
  }

  /** By row of work: row + 1 of the first call with its correlation. */
  #calls(): Uint32Array {
    const { work, host } = this;
    const call = new Uint32Array(work.length);
    const rows = new CallsById(host.length);
    for (let row = 0; row < host.length; row++) {
      if (host.columns.kind[row] === hostKind.call) rows.add(host.columns.correlation[row] as number, row);
    }
    for (let row = 0; row < work.length; row++) call[row] = rows.get(work.columns.correlation[row] as number) + 1;
    return call;
  }

  #coveredSteps(call: Uint32Array): WorkStep[] {
    const isCovered = new Uint8Array(this.steps.length);
    let lastLaunch = Number.NEGATIVE_INFINITY;
    const cover = (time: number): void => {
      const at = this.stepAt(time);
      if (at >= 0) isCovered[at] = 1;
    };
    const { start, kind } = this.work.columns;
    for (let row = 0; row < this.work.length; row++) {
      const launch = (call[row] as number) - 1;
      if (kind[row] === kindOf.sync) continue;
      const launched = (launch >= 0 ? this.host.columns.start[launch] : start[row]) as number;
      lastLaunch = Math.max(lastLaunch, launched);
      cover(launched);
    }
    if (this.coverage === 'some') {
      for (let row = 0; row < this.host.length; row++) cover(this.host.columns.start[row] as number);
      const told = this.#whole?.length === wire.deviceStretchesMax ? (this.#whole[0]?.[0] ?? 0) : 0;
      return this.steps.filter((step, at) =>
        this.#whole === undefined || step.number < told ? isCovered[at] === 1 : isWhole(step, this.#whole, lastLaunch),
      );
    }
    return this.steps.filter((_, at) => isCovered[at - 1] === 1 && isCovered[at] === 1 && isCovered[at + 1] === 1);
  }

  /** By its launch; where no launch was recorded at all, by its own start. */
  #stepsOf(call: Uint32Array): Int32Array {
    const isLaunched = call.some((row) => row > 0);
    const step = new Int32Array(this.work.length).fill(-1);
    if (this.steps.length === 0) return step;
    for (let row = 0; row < this.work.length; row++) {
      const launch = (call[row] as number) - 1;
      if (launch >= 0) step[row] = this.stepAt(this.host.columns.start[launch] as number);
      else if (!isLaunched) step[row] = this.stepAt(this.work.columns.start[row] as number);
    }
    return step;
  }
}

/** Steps after the last launch have work that is still to come, where their stretch goes on. */
const isWhole = ({ number, end }: WorkStep, stretches: DeviceSteps, lastLaunch: number): boolean =>
  stretches.some(([from, to]) => number >= from && (to === null ? end <= lastLaunch : number <= to));

/** See `RankWork.windows`. */
function stepWindows(work: RankWork): readonly WorkStep[] {
  const { steps } = work;
  if (steps.length === 0) return [];
  const { start, end, kind } = work.work.columns;
  const { step } = work.links;
  const firsts = new Float64Array(steps.length).fill(Number.POSITIVE_INFINITY);
  const lasts = new Float64Array(steps.length).fill(Number.NEGATIVE_INFINITY);
  for (let row = 0; row < work.work.length; row++) {
    const of = step[row] as number;
    if (of < 0 || kind[row] === kindOf.sync) continue;
    firsts[of] = Math.min(firsts[of] as number, start[row] as number);
    lasts[of] = Math.max(lasts[of] as number, end[row] as number);
  }
  // Work of an earlier step, launched before the recording, may still run when the first step begins.
  let before = Math.max((steps[0] as WorkStep).start, work.busyBefore);
  for (let row = 0; row < work.work.length; row++) {
    if ((step[row] as number) >= 0 || kind[row] === kindOf.sync) continue;
    if ((end[row] as number) <= (firsts[0] as number) && Number.isFinite(firsts[0])) before = Math.max(before, end[row] as number);
  }
  return windowsOf(steps, lasts, before);
}

/** -1 for none. */
function indexAtOrBefore(spans: readonly PhaseSpan[], time: number): number {
  let low = 0;
  let high = spans.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((spans[middle] as PhaseSpan).start <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** Rows of calls by correlation. CUPTI counts correlations up, so nearly all fit an array. */
class CallsById {
  readonly #dense: Int32Array;
  readonly #sparse = new Map<number, number>();
  #base = 0;

  constructor(calls: number) {
    this.#dense = new Int32Array(4 * calls + 1024).fill(-1);
  }

  add(id: number, row: number): void {
    if (id === 0) return;
    if (this.#base === 0) this.#base = Math.max(1, id - 512);
    const place = id - this.#base;
    if (place >= 0 && place < this.#dense.length) {
      if (this.#dense[place] === -1) this.#dense[place] = row;
    } else if (!this.#sparse.has(id)) this.#sparse.set(id, row);
  }

  /** -1 without one. */
  get(id: number): number {
    const place = id - this.#base;
    if (id === 0) return -1;
    return (place >= 0 && place < this.#dense.length ? this.#dense[place] : this.#sparse.get(id)) ?? -1;
  }
}

/** Puts rows in order of start, longest first; nothing moves where they are in order. */
function sortRows<Schema extends typeof workColumns | typeof hostColumns | typeof collectiveColumns>(
  table: ColumnTable<Schema>,
  schema: Schema,
): void {
  const { start, end } = table.columns as { start: Float64Array; end: Float64Array };
  let isSorted = true;
  for (let row = 1; row < table.length && isSorted; row++) {
    const [before, now] = [start[row - 1] as number, start[row] as number];
    isSorted = before < now || (before === now && (end[row - 1] as number) >= (end[row] as number));
  }
  if (isSorted) return;
  const lengths = new Float64Array(table.length);
  for (let row = 0; row < table.length; row++) lengths[row] = (end[row] as number) - (start[row] as number);
  const order = sortByTime(start, lengths, table.length);
  const columns = table.columns as Record<string, Float64Array | Uint32Array | Uint8Array>;
  for (const name of Object.keys(schema)) {
    const column = columns[name] as Float64Array;
    const before = column.slice(0, table.length);
    for (let at = 0; at < table.length; at++) column[at] = before[order[at] as number] as number;
  }
}

/** One sweep over all threads: each keeps the stack of what runs on it. */
function nest({ host, names }: RankWork): Omit<Links, 'call' | 'step'> {
  const { start, end, thread, kind, name } = host.columns;
  const { length } = host;
  const make = (): Uint32Array => new Uint32Array(length);
  const links = { parent: make(), op: make(), topOp: make(), topAnnotation: make(), module: make() };
  const stacks: number[][] = [];
  for (let row = 0; row < length; row++) {
    const time = start[row] as number;
    const of = thread[row] as number;
    while (stacks.length <= of) stacks.push([]);
    const stack = stacks[of] as number[];
    while (stack.length > 0 && (end[stack[stack.length - 1] as number] as number) <= time) stack.pop();
    const around = stack.length > 0 ? (stack[stack.length - 1] as number) : -1;
    if (around >= 0) {
      links.parent[row] = around + 1;
      links.op[row] = links.op[around] as number;
      links.topOp[row] = links.topOp[around] as number;
      links.topAnnotation[row] = links.topAnnotation[around] as number;
      links.module[row] = links.module[around] as number;
    }
    if (kind[row] === hostKind.call) continue;
    if (kind[row] === hostKind.op) {
      links.op[row] = row + 1;
      if (links.topOp[row] === 0) links.topOp[row] = row + 1;
    } else if (kind[row] === hostKind.module) links.module[row] = row + 1;
    // A library's annotation (nccl:all_reduce) is no phase of the program.
    else if (links.topAnnotation[row] === 0 && !names.isLibrary(name[row] as number)) links.topAnnotation[row] = row + 1;
    stack.push(row);
  }
  return links;
}
