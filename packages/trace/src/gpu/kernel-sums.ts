// Device work summed up: kernels by name, and their time by the op, module and phase that launched them; copies by direction; sequences of
// kernels that ops launch again and again.
//
// Invariant: a table holds the lines with most time; the line `rest` sums up all others, so a table adds up to all kernels.

import type { RankWork } from './device-work.ts';
import { gpuLimits as limits } from './gpu-limits.ts';
import {
  classOf,
  isTensorCoreOp,
  kindOf,
  launchesNamedCores,
  transferKind,
  usesTensorCores,
  type WorkClass,
  workClasses,
} from './kernel-class.ts';

/** The longest kernel of a line, ns on the trace's axis. */
export interface LongestKernel {
  readonly from: number;
  readonly until: number;
}

/** Times in ns. */
export interface KernelLine {
  readonly name: string;
  readonly class: WorkClass;
  readonly count: number;
  readonly total: number;
  readonly mean: number;
  readonly min: number;
  readonly max: number;
  /** Share of the time of all kernels. */
  readonly share: number;
  readonly tensorCores: boolean;
  /** Weighted by time; undefined where the profiler reported none. */
  readonly blocksPerSm: number | undefined;
  readonly occupancy: number | undefined;
  readonly longest: LongestKernel;
}

/** Kernels of one launcher: an op, a module, a phase. */
export interface LauncherLine {
  /** '' for kernels launched outside of all. */
  readonly name: string;
  readonly kernels: number;
  readonly total: number;
  readonly share: number;
  /** Time on tensor cores. */
  readonly tensorCores: number;
  readonly longest: LongestKernel;
}

export interface Rest {
  readonly lines: number;
  readonly count: number;
  readonly total: number;
}

export interface Table<Line> {
  readonly lines: readonly Line[];
  readonly rest: Rest;
}

export interface KernelTables {
  readonly count: number;
  readonly total: number;
  /** Time of kernels on tensor cores, and of kernels whose op could use them, on devices whose kernels tell by their names. */
  readonly tensorCores: number;
  readonly tensorCoreOps: number;
  readonly byName: Table<KernelLine>;
  readonly byOp: Table<LauncherLine>;
  readonly byModule: Table<LauncherLine>;
  readonly byPhase: Table<LauncherLine>;
}

export interface CopyLine {
  /** `Memcpy HtoD`, `Memset`, … */
  readonly kind: string;
  readonly count: number;
  readonly total: number;
  /** 0 where no size was recorded. */
  readonly bytes: number;
  /** Bytes per second while such a copy runs. */
  readonly bandwidth: number | undefined;
}

export interface SequenceLine {
  readonly op: string;
  readonly kernels: readonly string[];
  readonly count: number;
  readonly total: number;
}

interface LauncherSum {
  count: number;
  total: number;
  tensorCores: number;
  longest: number;
  longestAt: number;
}

/** Sums by number of a name. */
class Sums {
  readonly byName = new Map<number, LauncherSum>();

  add(name: number, start: number, length: number, isTensorCore: boolean): void {
    let sum = this.byName.get(name);
    if (sum === undefined) {
      sum = { count: 0, total: 0, tensorCores: 0, longest: -1, longestAt: 0 };
      this.byName.set(name, sum);
    }
    sum.count++;
    sum.total += length;
    if (isTensorCore) sum.tensorCores += length;
    if (length <= sum.longest) return;
    sum.longest = length;
    sum.longestAt = start;
  }
}

/** Sums of one kernel's name. */
interface KernelSum {
  readonly class: number;
  readonly isTensorCore: boolean;
  count: number;
  total: number;
  min: number;
  max: number;
  longestAt: number;
  blocks: number;
  occupied: number;
  /** Time of the kernels that state them, ns; undefined where none does. */
  blocksTime: number | undefined;
  occupiedTime: number | undefined;
}

/** Cuts lines, longest first, to the limit. */
export function tableOf<Line extends { readonly total: number }>(lines: Line[], countOf: (line: Line) => number): Table<Line> {
  const sorted = lines.sort((a, b) => b.total - a.total);
  const rest = { lines: 0, count: 0, total: 0 };
  for (const line of sorted.splice(limits.gpuLinesMax)) {
    rest.lines++;
    rest.count += countOf(line);
    rest.total += line.total;
  }
  return { lines: sorted, rest };
}

/** Sums over all kernels (work that is no copy, set or sync). */
export function kernelTables(work: RankWork): KernelTables {
  const { columns, length } = work.work;
  const { names, links } = work;
  const { name: hostNames } = work.host.columns;
  const kernels: (KernelSum | undefined)[] = [];
  const isCoreKernel = names.matching(usesTensorCores);
  const isCoreOp = names.matching(isTensorCoreOp);
  const isNamed = names.matching(launchesNamedCores);
  const [ops, modules, phases] = [new Sums(), new Sums(), new Sums()];
  let [count, total, tensorCores, tensorCoreOps] = [0, 0, 0, 0];
  for (let row = 0; row < length; row++) {
    if (!isCounted(columns, row)) continue;
    const name = columns.name[row] as number;
    const start = columns.start[row] as number;
    const time = (columns.end[row] as number) - start;
    while (kernels.length <= name) kernels.push(undefined);
    kernels[name] ??= emptySum(columns.class[row] as number, isCoreKernel[name] === 1);
    const sum = kernels[name] as KernelSum;
    addKernel(work, sum, row, start, time);
    count++;
    total += time;
    if (sum.isTensorCore) tensorCores += time;
    const call = work.callOf(row);
    const op = nameAt(links.op, hostNames, call);
    if (op !== 0 && isCoreOp[op] === 1 && isNamed[hostNames[call] as number] === 1) tensorCoreOps += time;
    ops.add(op, start, time, sum.isTensorCore);
    modules.add(nameAt(links.module, hostNames, call), start, time, sum.isTensorCore);
    phases.add(phaseOf(work, call), start, time, sum.isTensorCore);
  }
  const lines = kernels.flatMap((sum, name) => (sum === undefined ? [] : [lineOf(sum, names.text(name), total)]));
  const launchers = (sums: Sums): Table<LauncherLine> => launcherTable(sums, work, total);
  return {
    ...{ count, total, tensorCores, tensorCoreOps },
    byName: tableOf(lines, (line) => line.count),
    byOp: launchers(ops),
    byModule: launchers(modules),
    byPhase: launchers(phases),
  };
}

const isCounted = ({ kind, class: of }: RankWork['work']['columns'], row: number): boolean =>
  kind[row] === kindOf.kernel && of[row] !== classOf.memory && of[row] !== classOf.other;

/** Mean time of each kernel that steps launched, per step and rank, ns. */
export function kernelsPerStep(works: readonly RankWork[]): ReadonlyMap<string, number> {
  const totals = new Map<string, number>();
  let steps = 0;
  for (const { work, links, names, steps: own } of works) {
    steps += own.length;
    const byName = new Map<number, number>();
    const { name, start, end } = work.columns;
    for (let row = 0; row < work.length; row++) {
      if ((links.step[row] as number) < 0 || !isCounted(work.columns, row)) continue;
      const [key, time] = [name[row] as number, (end[row] as number) - (start[row] as number)];
      byName.set(key, (byName.get(key) ?? 0) + time);
    }
    for (const [key, time] of byName) totals.set(names.text(key), (totals.get(names.text(key)) ?? 0) + time);
  }
  return new Map([...totals].map(([name, total]) => [name, total / Math.max(1, steps)]));
}

/** Name of the span that a link of the call leads to, 0 for none. */
function nameAt(link: Uint32Array, names: Uint32Array, call: number): number {
  const at = call < 0 ? 0 : (link[call] as number);
  return at === 0 ? 0 : (names[at - 1] as number);
}

/** The phase in which a call was made: that of the main thread, else the one on the call's own thread. */
function phaseOf(work: RankWork, call: number): number {
  if (call < 0) return 0;
  const phase = work.phaseAt(work.host.columns.start[call] as number);
  if (phase !== 0) return phase;
  const around = work.links.topAnnotation[call] as number;
  return around === 0 ? 0 : work.names.phase(work.host.columns.name[around - 1] as number);
}

const emptySum = (kernelClass: number, isTensorCore: boolean): KernelSum => ({
  class: kernelClass,
  isTensorCore,
  count: 0,
  total: 0,
  min: Number.POSITIVE_INFINITY,
  max: -1,
  longestAt: 0,
  blocks: 0,
  occupied: 0,
  blocksTime: undefined,
  occupiedTime: undefined,
});

function addKernel({ work, shapes }: RankWork, sum: KernelSum, row: number, start: number, time: number): void {
  sum.count++;
  sum.total += time;
  sum.min = Math.min(sum.min, time);
  if (time > sum.max) {
    sum.max = time;
    sum.longestAt = start;
  }
  const shape = (work.columns.shape[row] as number) - 1;
  if (shape < 0) return;
  const [blocks, occupancy] = [shapes.columns.blocksPerSm[shape] as number, shapes.columns.occupancy[shape] as number];
  if (!Number.isNaN(blocks)) {
    sum.blocks += blocks * time;
    sum.blocksTime = (sum.blocksTime ?? 0) + time;
  }
  if (Number.isNaN(occupancy)) return;
  sum.occupied += occupancy * time;
  sum.occupiedTime = (sum.occupiedTime ?? 0) + time;
}

function lineOf(sum: KernelSum, name: string, all: number): KernelLine {
  const { count, total, min, max, isTensorCore } = sum;
  const weighted = (value: number, time: number | undefined): number | undefined => time && value / time;
  const occupancy = weighted(sum.occupied, sum.occupiedTime);
  return {
    name,
    class: workClasses[sum.class] as WorkClass,
    ...{ count, total, mean: total / count, min, max, share: all > 0 ? total / all : 0, tensorCores: isTensorCore },
    blocksPerSm: weighted(sum.blocks, sum.blocksTime),
    occupancy: occupancy && occupancy / 100,
    longest: { from: sum.longestAt, until: sum.longestAt + max },
  };
}

function launcherTable({ byName }: Sums, { names }: RankWork, all: number): Table<LauncherLine> {
  const lines = [...byName].map(([name, { count, total, tensorCores, longest, longestAt }]): LauncherLine => {
    const place = { from: longestAt, until: longestAt + longest };
    return { name: names.text(name), kernels: count, total, share: all > 0 ? total / all : 0, tensorCores, longest: place };
  });
  return tableOf(lines, (line) => line.kernels);
}

/** Copies and sets by direction, the longest first. */
export function copyLines(work: RankWork): readonly CopyLine[] {
  const { columns, length } = work.work;
  const kinds = new Map<string, { count: number; total: number; bytes: number; sized: number }>();
  const kindOfName = new Map<number, string>();
  for (let row = 0; row < length; row++) {
    if (columns.class[row] !== classOf.memory) continue;
    const name = columns.name[row] as number;
    let kind = kindOfName.get(name);
    if (kind === undefined) {
      kind = transferKind(work.names.text(name));
      kindOfName.set(name, kind);
    }
    const line = kinds.get(kind) ?? { count: 0, total: 0, bytes: 0, sized: 0 };
    kinds.set(kind, line);
    const time = (columns.end[row] as number) - (columns.start[row] as number);
    const transfer = (columns.transfer[row] as number) - 1;
    const bytes = transfer < 0 ? 0 : (work.transfers.columns.bytes[transfer] as number);
    line.count++;
    line.total += time;
    line.bytes += bytes;
    if (bytes > 0) line.sized += time;
  }
  return [...kinds]
    .map(([kind, { count, total, bytes, sized }]) => ({
      kind,
      count,
      total,
      bytes,
      bandwidth: sized > 0 ? (1e9 * bytes) / sized : undefined,
    }))
    .sort((a, b) => b.total - a.total);
}

/** Sequences of three kernels or more that an outermost op launches at least twice, most time first. */
export function kernelSequences(work: RankWork): readonly SequenceLine[] {
  const { columns, length } = work.work;
  const launched = new Map<number, number[]>();
  for (let row = 0; row < length; row++) {
    if (columns.kind[row] !== kindOf.kernel) continue;
    const call = work.callOf(row);
    const op = call < 0 ? 0 : (work.links.topOp[call] as number);
    if (op === 0) continue;
    const rows = launched.get(op);
    if (rows === undefined) launched.set(op, [row]);
    else if (rows.length < limits.gpuSequenceKernelsMax) rows.push(row);
  }
  const sequences = new Map<string, { op: number; rows: readonly number[]; count: number; total: number }>();
  for (const [op, rows] of launched) {
    if (rows.length < 3) continue;
    const name = work.host.columns.name[op - 1] as number;
    const key = `${name}:${rows.map((row) => columns.name[row]).join()}`;
    let sequence = sequences.get(key);
    if (sequence === undefined) {
      if (sequences.size >= limits.gpuSequencesMax) continue;
      sequence = { op: name, rows, count: 0, total: 0 };
      sequences.set(key, sequence);
    }
    sequence.count++;
    for (const row of rows) sequence.total += (columns.end[row] as number) - (columns.start[row] as number);
  }
  return [...sequences.values()]
    .filter(({ count }) => count > 1)
    .sort((a, b) => b.total - a.total)
    .slice(0, limits.gpuLinesMax)
    .map(({ op, rows, count, total }) => {
      const kernels = rows.map((row) => work.names.text(columns.name[row] as number));
      return { op: work.names.text(op), kernels, count, total };
    });
}
