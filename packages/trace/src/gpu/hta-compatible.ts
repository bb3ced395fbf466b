// The conventions of Holistic Trace Analysis (facebookresearch/HolisticTraceAnalysis @f4d0062), where they differ from what happened: for people
// who compare with its figures. docs/gpu.md describes each difference.
//
//   last step     of several profiler steps, events of the host from the start of the last one on, and the work that they launched, are left out
//   rounding      where a file has fractions of µs, an event begins at the next whole µs and ends at the last one
//   launches      work whose launch was not recorded is left out
//   waits         waits on a stream (`Stream Sync`) count as work
//
// HTA reads times into doubles: 1712195495505583.123 µs becomes …583.0, …583.25. So rounding repeats its arithmetic, on the file's own times.

import { RankWork } from './device-work.ts';
import { type Intervals, sweep } from './intervals.ts';
import { classOf, kindOf, transferKind } from './kernel-class.ts';

/** The work as HTA sees it. */
export function htaWork(work: RankWork): RankWork {
  const round = new HtaTimes(work);
  const seen = new RankWork(work.names, { htaCompatible: true, origin: work.origin, busyBefore: work.busyBefore });
  seen.streams.push(...work.streams);
  seen.steps = work.steps.map(({ number, start, end }) => ({ number, start: round.start(start), end: round.end(start, end) }));
  const limit = seen.steps.length > 1 ? Math.max(...seen.steps.map(({ start }) => start)) : Number.POSITIVE_INFINITY;
  seen.steps = seen.steps.filter(({ start }) => start < limit);
  const launches = new Set<number>();
  const { host } = work;
  for (let from = 0; from < host.length; from++) {
    const start = round.start(host.columns.start[from] as number);
    if (start >= limit) continue;
    const row = seen.host.add();
    const { columns } = seen.host;
    columns.start[row] = start;
    columns.end[row] = round.end(host.columns.start[from] as number, host.columns.end[from] as number);
    columns.name[row] = host.columns.name[from] as number;
    columns.thread[row] = host.columns.thread[from] as number;
    columns.kind[row] = host.columns.kind[from] as number;
    columns.correlation[row] = host.columns.correlation[from] as number;
    launches.add(host.columns.correlation[from] as number);
  }
  addWork(work, seen, round, launches, limit);
  const { columns: given, length } = work.annotations;
  for (let from = 0; from < length; from++) {
    const start = round.start(given.start[from] as number);
    if (start >= limit) continue;
    const row = seen.annotations.add();
    const { columns } = seen.annotations;
    columns.start[row] = start;
    columns.end[row] = round.end(given.start[from] as number, given.end[from] as number);
    columns.name[row] = given.name[from] as number;
  }
  seen.seal();
  return seen;
}

function addWork(
  { work, shapes, transfers, streams }: RankWork,
  seen: RankWork,
  round: HtaTimes,
  launches: Set<number>,
  limit: number,
): void {
  const { columns: given } = work;
  for (let from = 0; from < work.length; from++) {
    const start = round.start(given.start[from] as number);
    // HTA takes a wait on no stream for an event of the host.
    const isOnHost = (streams[given.stream[from] as number]?.stream ?? -1) < 0;
    const correlation = given.correlation[from] as number;
    if (isOnHost ? start >= limit : correlation === 0 || !launches.has(correlation)) continue;
    const row = seen.work.add();
    const { columns } = seen.work;
    columns.start[row] = start;
    columns.end[row] = round.end(given.start[from] as number, given.end[from] as number);
    columns.name[row] = given.name[from] as number;
    columns.stream[row] = given.stream[from] as number;
    columns.kind[row] = given.kind[from] as number;
    columns.class[row] = given.class[from] as number;
    columns.correlation[row] = correlation;
    const shape = given.shape[from] as number;
    columns.shape[row] = shape === 0 ? 0 : copyRow(shapes, seen.shapes, shape - 1) + 1;
    const transfer = given.transfer[from] as number;
    columns.transfer[row] = transfer === 0 ? 0 : copyRow(transfers, seen.transfers, transfer - 1) + 1;
  }
}

function copyRow<Table extends RankWork['shapes'] | RankWork['transfers']>(from: Table, to: Table, row: number): number {
  const added = to.add();
  const columns = to.columns as Record<string, Float64Array>;
  for (const [name, column] of Object.entries(from.columns)) (columns[name] as Float64Array)[added] = column[row] as number;
  return added;
}

/** HTA's times: ns on the trace's axis, whole µs of the file. */
class HtaTimes {
  readonly #isWhole: boolean;
  /** µs and ns of the file at time 0 of the trace. */
  readonly #micros: number;
  readonly #nanos: number;

  constructor({ origin, work, host }: RankWork) {
    this.#micros = Number(origin / 1000n);
    this.#nanos = Number(origin % 1000n);
    this.#isWhole = [work, host].every((table) => isWhole(table.columns.start, table.columns.end, table.length));
  }

  start(start: number): number {
    return this.#isWhole ? start : this.#nanosOf(Math.ceil(this.#at(start)));
  }

  end(start: number, end: number): number {
    return this.#isWhole ? end : this.#nanosOf(Math.floor(this.#at(start) + (end - start) / 1000));
  }

  /** The file's number at a time of the trace: a double, as HTA reads it. */
  #at(time: number): number {
    const nanos = this.#nanos + time;
    const whole = Math.floor(nanos / 1000);
    return this.#micros + whole + (nanos - 1000 * whole) / 1000;
  }

  #nanosOf(micros: number): number {
    return (micros - this.#micros) * 1000 - this.#nanos;
  }
}

/** Whether all events begin and end a whole number of µs after the first one. */
function isWhole(start: Float64Array, end: Float64Array, length: number): boolean {
  for (let row = 0; row < length; row++) {
    if (((end[row] as number) - (start[row] as number)) % 1000 !== 0 || ((start[row] as number) - (start[0] as number)) % 1000 !== 0)
      return false;
  }
  return true;
}

const htaTypes = ['COMPUTATION', 'COMMUNICATION', 'MEMORY'] as const;
export type HtaType = (typeof htaTypes)[number];
const htaClasses = [classOf.compute, classOf.communication, classOf.memory] as const;

/** Time by the types that run together, `COMPUTATION overlapping MEMORY`, ns. */
export function htaTypeTimes(work: RankWork): ReadonlyMap<string, number> {
  const times = new Map<string, number>();
  const unions: readonly Intervals[] = [work.unionOf('compute'), work.unionOf('communication'), work.unionOf('memory')];
  const from = Math.min(...unions.map((union) => union.from[0] ?? Number.POSITIVE_INFINITY));
  const until = Math.max(...unions.map((union) => union.until.at(-1) ?? Number.NEGATIVE_INFINITY));
  sweep(unions, from, until, (running, start, end) => {
    if (running === 0) return;
    const name = htaTypes.filter((_, bit) => (running >> bit) & 1).join(' overlapping ');
    times.set(name, (times.get(name) ?? 0) + end - start);
  });
  return times;
}

/** One line of HTA's kernel breakdown; lengths in ns. */
export interface HtaKernelLine {
  readonly type: HtaType;
  readonly name: string;
  readonly sum: number;
  readonly max: number;
  readonly min: number;
  readonly mean: number;
  /** Standard deviation of a sample; 0 for one value. */
  readonly deviation: number;
}

/** Kernels by name as HTA sums them: beyond ten names, the smaller ones of a type are `others`, whose figures are those of the names' sums. */
export function htaKernelLines(work: RankWork, { durationShare = 0.8, namesMax = 10 } = {}): readonly HtaKernelLine[] {
  return htaTypes.flatMap((type, index) => {
    const lengths = new Map<number, number[]>();
    const { columns, length } = work.work;
    for (let row = 0; row < length; row++) {
      if (columns.class[row] !== htaClasses[index]) continue;
      const of = lengths.get(columns.name[row] as number) ?? [];
      lengths.set(columns.name[row] as number, of);
      of.push((columns.end[row] as number) - (columns.start[row] as number));
    }
    const named = [...lengths]
      .map(([name, values]) => ({ name: work.names.text(name), values }))
      .sort((a, b) => (a.name < b.name ? -1 : 1));
    const lines = named.map(({ name, values }) => lineOf(type, name, values)).sort((a, b) => b.sum - a.sum);
    if (lines.length <= namesMax) return lines;
    let sum = 0;
    const running = lines.map((line) => {
      sum += line.sum;
      return sum;
    });
    const limit = linearQuantile(running, durationShare);
    const kept = new Map<string, number[]>();
    for (const [at, line] of lines.entries()) {
      const name = (running[at] as number) > limit || at >= namesMax ? 'others' : line.name;
      kept.set(name, [...(kept.get(name) ?? []), line.sum]);
    }
    return [...kept].map(([name, sums]) => lineOf(type, name, sums));
  });
}

function lineOf(type: HtaType, name: string, values: readonly number[]): HtaKernelLine {
  const sum = values.reduce((total, value) => total + value, 0);
  const mean = sum / values.length;
  const squares = values.reduce((total, value) => total + (value - mean) ** 2, 0);
  const deviation = values.length > 1 ? Math.sqrt(squares / (values.length - 1)) : 0;
  const [min, max] = [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
  return { type, name, sum, max, min, mean, deviation };
}

/** Of sorted values, between the two nearest, as pandas interpolates. */
function linearQuantile(sorted: readonly number[], share: number): number {
  const place = (sorted.length - 1) * share;
  const [low, high] = [sorted[Math.floor(place)] as number, sorted[Math.ceil(place)] as number];
  return low + (high - low) * (place - Math.floor(place));
}

/** Kernels that HTA looks at; it knows the first name alone, of NCCL before 2.20. */
const stragglerKernel = /^nccl(?:Dev)?Kernel/;
/** Share of the mean step that such a kernel takes at least. */
const stragglerShareMin = 0.01;

/**
 * The ranks that HTA calls potential stragglers (`get_potential_stragglers`): those that most often begin last with the collective of longest deviation.
 * It always names `candidates` of them, so it is no verdict. Undefined with one rank, or without such a collective. `ranks`: by index their work.
 */
export function htaStragglers(ranks: readonly RankWork[], candidates = 2): readonly number[] | undefined {
  /** By stream and kernel, by step: the last kernel of each rank. */
  const kinds = new Map<string, Map<number, Map<number, { readonly start: number; readonly length: number }>>>();
  for (const [rank, of] of ranks.entries()) {
    const { columns, length } = of.work;
    const mean = of.steps.reduce((sum, { start, end }) => sum + end - start, 0) / Math.max(1, of.steps.length);
    for (let row = 0; row < length; row++) {
      const [start, time] = [columns.start[row] as number, (columns.end[row] as number) - (columns.start[row] as number)];
      const step = of.links.step[row] as number;
      if (step < 0 || time <= stragglerShareMin * mean || !stragglerKernel.test(of.names.text(columns.name[row] as number))) continue;
      const key = `${of.streams[columns.stream[row] as number]?.stream} ${columns.name[row]}`;
      const steps = kinds.get(key) ?? new Map<number, Map<number, { readonly start: number; readonly length: number }>>();
      kinds.set(key, steps);
      const { number } = of.steps[step] as (typeof of.steps)[number];
      const last = steps.get(number) ?? new Map<number, { readonly start: number; readonly length: number }>();
      steps.set(number, last.set(rank, { start, length: time }));
    }
  }
  let best: { readonly steps: readonly ReadonlyMap<number, { readonly start: number }>[]; readonly deviation: number } | undefined;
  for (const of of kinds.values()) {
    const steps = [...of.values()].filter(({ size }) => size > 1);
    const deviations = steps.map(
      (last) =>
        lineOf(
          'COMMUNICATION',
          '',
          Array.from(last.values(), ({ length }) => length),
        ).deviation,
    );
    const deviation = deviations.reduce((sum, value) => sum + value, 0) / Math.max(1, deviations.length);
    if (steps.length > 0 && (best === undefined || deviation > best.deviation)) best = { steps, deviation };
  }
  if (best === undefined) return undefined;
  const votes = new Map<number, number>();
  for (const last of best.steps) {
    const latest = [...last].sort(([, a], [, b]) => b.start - a.start).slice(0, candidates);
    for (const [rank] of latest) votes.set(rank, (votes.get(rank) ?? 0) + 1);
  }
  const most = [...votes].sort(([, a], [, b]) => b - a).slice(0, candidates);
  return most.map(([rank]) => rank).sort((a, b) => a - b);
}

/** The highest bandwidth of one kind of copy, GB/s. */
export interface HtaPeak {
  /** As if at equal times copies ended before others began, and after. HTA's own figure lies between: its sort leaves the order to chance. */
  readonly least: number;
  readonly most: number;
}

/** The highest bandwidth of each kind of copy: copies that run together add up. A copy without length lasts 1 µs. */
export function htaPeakBandwidth(work: RankWork): ReadonlyMap<string, HtaPeak> {
  const series = new Map<string, { time: number; change: number }[]>();
  const { columns, length } = work.work;
  for (let row = 0; row < length; row++) {
    if (columns.class[row] !== classOf.memory || columns.kind[row] === kindOf.sync) continue;
    const transfer = (columns.transfer[row] as number) - 1;
    const change = transfer < 0 ? 0 : (work.transfers.columns.bandwidth[transfer] as number);
    const kind = transferKind(work.names.text(columns.name[row] as number));
    const of = series.get(kind) ?? [];
    series.set(kind, of);
    const [start, end] = [columns.start[row] as number, columns.end[row] as number];
    of.push({ time: start, change }, { time: end === start ? end + 1000 : end, change: -change });
  }
  const peakOf = (changes: readonly { readonly time: number; readonly change: number }[], sign: number): number => {
    let [now, most] = [0, 0];
    for (const { change } of changes.toSorted((a, b) => a.time - b.time || sign * (b.change - a.change))) {
      now += change;
      most = Math.max(most, now);
    }
    return most;
  };
  return new Map([...series].map(([kind, changes]) => [kind, { least: peakOf(changes, -1), most: peakOf(changes, 1) }]));
}
