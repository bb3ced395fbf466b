// The tables of a run: those of each rank, cut to their limits, and all ranks' together. Made once for an analysis; pages ask for one of them.
//
// Invariant: a table adds up to everything: lines that are cut off count in its `rest`.

import {
  isBeside,
  type ProfileAdvice,
  type ProfileAllocator,
  type ProfileCopy,
  type ProfileDevice,
  type ProfileGroup,
  type ProfileIdle,
  type ProfileKernel,
  type ProfileLauncher,
  type ProfileMemory,
  type ProfileOp,
  type ProfilePath,
  type ProfileSequence,
  type ProfileTable,
  type RunProfile,
  tfKeys,
} from '@ranktrace/protocol';
import type { GpuRank, GpuSummary } from '../gpu/gpu-summary.ts';
import type { LauncherLine, Rest, Table } from '../gpu/kernel-sums.ts';
import { evidenceText } from '../gpu/recommendations.ts';
import { displayName } from '../model/shown-name.ts';
import { analyseLimits as limits } from './analyse-limits.ts';
import type { RankOps } from './op-sums.ts';
import { hostsByRank, livesOf } from './rank-hosts.ts';

/** Tables that belong to a rank, or to several together. */
type Tables = Pick<RunProfile, 'operators' | 'kernels' | 'modules' | 'phases' | 'copies' | 'sequences' | 'groups' | 'idle' | 'allocators'>;

/** A name beside another key part. */
const keyOf = (...parts: readonly string[]): string => JSON.stringify(parts);

export class RunProfiles {
  readonly #all: RunProfile;
  readonly #ranks = new Map<number, Tables>();

  /** `firstStep`: trace time of the first step's begin, where there is one. */
  constructor(gpu: GpuSummary, hosts: readonly RankOps[], firstStep?: number) {
    const byRank = new Map<number, { gpu: GpuRank | undefined; host: RankOps | undefined }>();
    for (const [rank, host] of hostsByRank(hosts)) byRank.set(rank, { gpu: undefined, host });
    // The last life counts where a rank was started again: lives are in order of time.
    const lasts = new Map(gpu.ranks.map((rank) => [rank.rank, rank]));
    for (const [rank, of] of lasts) byRank.set(rank, { gpu: of, host: byRank.get(rank)?.host });
    const linesMax = Math.max(
      limits.profileLinesPerRankMin,
      Math.min(limits.profileLinesMax, Math.floor(limits.profileRankLinesMax / (6 * Math.max(1, byRank.size)))),
    );
    const sums = new TableSums();
    for (const [rank, of] of byRank) {
      const tables = tablesOf(rank, of.gpu, of.host);
      sums.add(tables);
      this.#ranks.set(rank, cutTables(tables, linesMax));
    }
    // The page gets those that it has on top, where there are too many.
    const devices = [...lasts.values()].flatMap(devicesOf);
    const leastUsed = [...devices].sort((a, b) => a.utilisation - b.utilisation).slice(0, limits.profileRanksMax);
    const lifeOf = livesOf(hosts);
    const memory = hosts.flatMap((host) => {
      const life = lifeOf.get(host.process.index) ?? 1;
      return memoryOf(host).map((one): ProfileMemory => (life > 1 ? { ...one, life } : one));
    });
    const highest = [...memory].sort((a, b) => b.peak - a.peak).slice(0, limits.profileRanksMax);
    const lives = new Map<number, Set<string>>();
    for (const { rank, incarnation } of [...gpu.ranks, ...hosts.map(({ process }) => process)])
      if (!isBeside(incarnation)) lives.set(rank, (lives.get(rank) ?? new Set()).add(incarnation));
    this.#all = {
      rank: null,
      ranks: [...this.#ranks.keys()].sort((a, b) => a - b),
      restarted: [...lives].flatMap(([rank, { size }]) => (size > 1 ? [rank] : [])).sort((a, b) => a - b),
      firstStep: firstStep ?? null,
      analysed: true,
      ...cutTables(sums.tables, limits.profileLinesMax),
      devices: leastUsed,
      devicesLeftOut: Math.max(0, devices.length - limits.profileRanksMax),
      memory: highest.map((one) => (memory.length > 16 ? { ...one, curve: [], holders: [] } : one)),
      memoryLeftOut: Math.max(0, memory.length - limits.profileRanksMax),
      path: pathOf(gpu),
      advice: adviceOf(gpu),
      leftOut: gpu.leftOut,
    };
    this.#devices = devices;
    this.#memory = memory;
  }

  /** Devices of all ranks. */
  readonly #devices: readonly ProfileDevice[];
  readonly #memory: readonly ProfileMemory[];

  /** The tables of one rank, or without one of all; undefined where the rank has none. */
  of(rank?: number): RunProfile | undefined {
    if (rank === undefined) return this.#all;
    const tables = this.#ranks.get(rank);
    if (tables === undefined) return undefined;
    const devices = this.#devices.filter((one) => one.rank === rank);
    const memory = this.#memory.filter((one) => one.rank === rank);
    const restarted = this.#all.restarted.filter((one) => one === rank);
    return { ...this.#all, rank, restarted, ...tables, devices, devicesLeftOut: 0, memory, memoryLeftOut: 0 };
  }
}

function tablesOf(rank: number, gpu: GpuRank | undefined, host: RankOps | undefined): Tables {
  const place = ({ from, until }: { readonly from: number; readonly until: number }) => ({ rank, from, until });
  const launchers = ({ lines, rest }: Table<LauncherLine>): ProfileTable<ProfileLauncher> => ({
    lines: lines.map(({ name, longest, kernels, total, share, tensorCores }) => {
      return { name: displayName(name), kernels, total, share, tensorCores, place: place(longest) };
    }),
    rest,
  });
  const hasOps = host !== undefined && [...host.ops.values()].some(({ isOp }) => isOp);
  return {
    operators: gpu === undefined ? hostOps(host, hasOps, rank) : deviceOps(gpu, rank),
    kernels: {
      lines: (gpu?.kernels.byName.lines ?? []).map(({ name, class: kind, longest, min, max, mean: _, ...line }) => ({
        ...{ name: displayName(name), class: kind, count: line.count, total: line.total, share: line.share, shortest: min, longest: max },
        ...{ ranks: 1, leastOfRank: line.total, mostOfRank: line.total, tensorCores: line.tensorCores },
        ...{ blocksPerSm: line.blocksPerSm ?? null, occupancy: line.occupancy ?? null, place: place(longest) },
      })),
      rest: gpu?.kernels.byName.rest ?? nothing,
    },
    modules: gpu === undefined ? empty : withoutUnnamed(launchers(gpu.kernels.byModule)),
    phases: gpu === undefined ? empty : launchers(gpu.kernels.byPhase),
    copies: (gpu?.copies ?? []).map(({ bandwidth, ...line }) => ({ ...line, kind: displayName(line.kind), bandwidth: bandwidth ?? null })),
    sequences: (gpu?.sequences ?? []).map(({ op, kernels, count, total }) => {
      return { op: displayName(op), first: kernels.slice(0, namesOfSequence).map(displayName), kernels: kernels.length, count, total };
    }),
    groups: (gpu?.overlap ?? []).slice(1).map(({ group, kernels, total, overlapped, exposed, bytes, busBandwidth }) => {
      return { group: displayName(group), ranks: 1, kernels, total, overlapped, exposed, bytes, busBandwidth: busBandwidth ?? null };
    }),
    idle: gpu === undefined ? empty : idleOf(gpu),
    allocators: {
      lines: [...(host?.allocators.values() ?? [])].map(({ name, device, allocations, bytes, largest, largestAt }) => {
        return { name: displayName(name), device, allocations, bytes, largest, place: { rank, from: largestAt, until: largestAt + 1 } };
      }),
      rest: nothing,
    },
  };
}

/** Places that are left out have no gaps of their own, but their time is known: idle time by cause is all of it. */
function idleOf({ idle: { places, placesLeftOut, byCause } }: GpuRank): ProfileTable<ProfileIdle> {
  const lines = places.map((line) => ({ ...line, phase: displayName(line.phase), op: displayName(line.op) }));
  if (placesLeftOut === 0) return { lines, rest: nothing };
  const all = Object.values(byCause).reduce((sum, time) => sum + time, 0);
  const total = places.reduce((left, { time }) => left - time, all);
  return { lines, rest: { lines: placesLeftOut, count: 0, total: Math.max(0, total) } };
}

/** Names of its kernels that a sequence has. */
const namesOfSequence = 4;

const nothing: Rest = { lines: 0, count: 0, total: 0 };
const empty = { lines: [], rest: nothing };

/** A run without modules has no table of them, rather than one line without a name. */
const withoutUnnamed = (table: ProfileTable<ProfileLauncher>): ProfileTable<ProfileLauncher> =>
  table.lines.some(({ name }) => name !== '') ? table : empty;

const deviceOps = ({ ops }: GpuRank, rank: number): ProfileTable<ProfileOp> => ({
  lines: ops.lines.map(({ name, longest, calls, hostTotal, hostSelf, deviceTotal, deviceSelf, tensorCoreSelf }) => ({
    ...{ name: displayName(name), calls, hostTotal, hostSelf, deviceTotal, deviceSelf, tensorCores: tensorCoreSelf, ranks: 1 },
    place: { rank, ...longest },
  })),
  rest: ops.rest,
});

function hostOps(host: RankOps | undefined, opsOnly: boolean, rank: number): ProfileTable<ProfileOp> {
  if (host === undefined) return empty;
  const sums = [...host.ops.values()].filter(({ isOp }) => isOp || !opsOnly);
  return {
    lines: sums.map(({ name, calls, total, self, longest, longestAt }) => ({
      ...{ name: displayName(name), calls, hostTotal: total, hostSelf: self, deviceTotal: null, deviceSelf: null },
      ...{ tensorCores: 0, ranks: 1, place: { rank, from: longestAt, until: longestAt + longest } },
    })),
    rest: { lines: host.rest.calls > 0 ? 1 : 0, count: host.rest.calls, total: host.rest.self },
  };
}

function devicesOf({ rank, devices, launches, queues }: GpuRank): readonly ProfileDevice[] {
  return devices.map(({ device, utilisation, smEfficiency, occupancy }) => {
    const own = queues.filter((queue) => queue.device === device);
    return {
      ...{ rank, device, utilisation, smEfficiency: smEfficiency ?? null, occupancy: occupancy ?? null },
      ...{ launchP50: launches.delay?.p50 ?? null, launchP95: launches.delay?.p95 ?? null },
      ...{ queueMost: Math.max(0, ...own.map(({ max }) => max)), blocked: own.reduce((sum, { blocked }) => sum + blocked, 0) },
    };
  });
}

/** Memory of a rank's devices, as data for reports. */
export const memoryOf = ({ process: { rank, metadata }, memory }: RankOps): readonly ProfileMemory[] =>
  [...memory.values()].map(({ device, peak, peakAt, allocations, reserved, curve, held }) => {
    const { kinds, holders } = held.held;
    const lines = holders.map((holder) => ({ ...holder, name: displayName(holder.name) }));
    return {
      rank,
      device,
      of: metadata.has(tfKeys.backend) ? 'tensors' : 'allocator',
      peak,
      peakAt,
      allocations,
      reserved: reserved > 0 ? reserved : null,
      curve: curve.points,
      kinds,
      holders: lines,
    };
  });

function pathOf({ path: across, ranks, worth }: GpuSummary): ProfilePath | null {
  const alone = across === undefined ? ranks.find(({ path }) => path !== undefined) : undefined;
  const path = across ?? alone?.path;
  if (path === undefined) return null;
  const byBound = Object.entries(path.byBound).filter(([bound, time]) => bound !== 'none' && time > 0);
  const total = byBound.reduce((sum, [, time]) => sum + time, 0);
  const rankOf = (line: object): number => ('rank' in line ? (line.rank as number) : (alone?.rank ?? 0));
  return {
    ...{ step: path.step, total, byBound: byBound.sort(([, a], [, b]) => b - a), isAcross: ranks.length > 1 },
    byRank: across === undefined ? [[alone?.rank ?? 0, total]] : across.byRank.map((one) => [one.rank, one.total] as const),
    lines: path.lines.map((line) => ({
      ...{ rank: rankOf(line), bound: line.bound, name: displayName(line.name), total: line.total, count: line.count },
    })),
    worth: worth.map(({ name, ...one }) => ({ ...one, name: name === undefined ? null : displayName(name) })),
  };
}

function adviceOf({ recommendations, ranks, attempt }: GpuSummary): readonly ProfileAdvice[] {
  const life = attempt === undefined ? '' : `, in life ${attempt + 1} of the ranks`;
  const hasSteps = ranks.some(({ steps }) => steps.length > 0);
  return recommendations.map(({ rule, ranks: of, advice, saves = null, ...one }) => {
    return { rule, ranks: of, evidence: `${evidenceText({ rule, ...one })}${life}`, advice, saves: hasSteps ? saves : null };
  });
}

/** Sums of lines by their keys, over ranks. */
class Lines<Line> {
  readonly #lines = new Map<string, Line>();
  rest: Rest = nothing;

  add(lines: readonly Line[], rest: Rest, keyOfLine: (line: Line) => string, join: (into: Line, line: Line) => Line): void {
    for (const line of lines) {
      const key = keyOfLine(line);
      const known = this.#lines.get(key);
      this.#lines.set(key, known === undefined ? line : join(known, line));
    }
    this.rest = addRest(this.rest, rest.lines, rest.count, rest.total);
  }

  get table(): ProfileTable<Line> {
    return { lines: [...this.#lines.values()], rest: this.rest };
  }
}

const addRest = (rest: Rest, lines: number, count: number, total: number): Rest => ({
  lines: rest.lines + lines,
  count: rest.count + count,
  total: rest.total + total,
});

type Placed = { readonly place: RunProfile['kernels']['lines'][number]['place'] };
const length = ({ place }: Placed): number => (place === null ? -1 : place.until - place.from);
const longer = (a: Placed, b: Placed): Placed['place'] => (length(b) > length(a) ? b.place : a.place);
const most = (a: number | null, b: number | null): number | null => (a === null || b === null ? (a ?? b) : Math.max(a, b));
const plus = (a: number | null, b: number | null): number | null => (a === null || b === null ? (a ?? b) : a + b);
/** The mean of two figures by the weight of each. */
const mixed = (a: number | null, b: number | null, ofA: number, ofB: number): number | null =>
  a === null || b === null ? (a ?? b) : ofA + ofB > 0 ? (a * ofA + b * ofB) / (ofA + ofB) : a;

class TableSums {
  readonly #operators = new Lines<ProfileOp>();
  readonly #kernels = new Lines<ProfileKernel>();
  readonly #modules = new Lines<ProfileLauncher>();
  readonly #phases = new Lines<ProfileLauncher>();
  readonly #copies = new Lines<ProfileCopy>();
  readonly #sequences = new Lines<ProfileSequence>();
  readonly #groups = new Lines<ProfileGroup>();
  readonly #idle = new Lines<ProfileIdle>();
  readonly #allocators = new Lines<ProfileAllocator>();

  add({ operators, kernels, modules, phases, copies, sequences, groups, idle, allocators }: Tables): void {
    const name = (line: { readonly name: string }): string => line.name;
    this.#operators.add(operators.lines, operators.rest, name, (a, b) => ({
      ...a,
      ...{ calls: a.calls + b.calls, hostTotal: a.hostTotal + b.hostTotal, hostSelf: a.hostSelf + b.hostSelf },
      ...{ deviceTotal: plus(a.deviceTotal, b.deviceTotal), deviceSelf: plus(a.deviceSelf, b.deviceSelf) },
      ...{ tensorCores: a.tensorCores + b.tensorCores, ranks: a.ranks + b.ranks, place: longer(a, b) },
    }));
    this.#kernels.add(kernels.lines, kernels.rest, name, (a, b) => ({
      ...a,
      ...{ count: a.count + b.count, total: a.total + b.total, ranks: a.ranks + b.ranks, place: longer(a, b) },
      ...{ shortest: Math.min(a.shortest, b.shortest), longest: Math.max(a.longest, b.longest) },
      ...{ leastOfRank: Math.min(a.leastOfRank, b.leastOfRank), mostOfRank: Math.max(a.mostOfRank, b.mostOfRank) },
      blocksPerSm: mixed(a.blocksPerSm, b.blocksPerSm, a.total, b.total),
      occupancy: mixed(a.occupancy, b.occupancy, a.total, b.total),
    }));
    const launched = (a: ProfileLauncher, b: ProfileLauncher): ProfileLauncher => ({
      ...a,
      ...{ kernels: a.kernels + b.kernels, total: a.total + b.total, tensorCores: a.tensorCores + b.tensorCores, place: longer(a, b) },
    });
    this.#modules.add(modules.lines, modules.rest, name, launched);
    this.#phases.add(phases.lines, phases.rest, name, launched);
    this.#copies.add(
      copies,
      nothing,
      ({ kind }) => kind,
      (a, b) => ({
        ...a,
        ...{ count: a.count + b.count, total: a.total + b.total, bytes: a.bytes + b.bytes },
        bandwidth: mixed(a.bandwidth, b.bandwidth, a.total, b.total),
      }),
    );
    this.#sequences.add(
      sequences,
      nothing,
      ({ op, first, kernels: length }) => keyOf(op, String(length), ...first),
      (a, b) => ({ ...a, count: a.count + b.count, total: a.total + b.total }),
    );
    this.#groups.add(
      groups,
      nothing,
      ({ group }) => group,
      (a, b) => ({
        ...a,
        ...{ ranks: a.ranks + b.ranks, kernels: a.kernels + b.kernels, total: a.total + b.total, bytes: a.bytes + b.bytes },
        ...{ overlapped: a.overlapped + b.overlapped, exposed: a.exposed + b.exposed },
        busBandwidth: most(a.busBandwidth, b.busBandwidth),
      }),
    );
    this.#idle.add(
      idle.lines,
      idle.rest,
      ({ cause, phase, op }) => keyOf(cause, phase, op),
      (a, b) => ({ ...a, time: a.time + b.time, gaps: a.gaps + b.gaps }),
    );
    this.#allocators.add(
      allocators.lines,
      allocators.rest,
      ({ name: of, device }) => keyOf(of, device),
      (a, b) => ({
        ...a,
        ...{ allocations: a.allocations + b.allocations, bytes: a.bytes + b.bytes },
        ...{ largest: Math.max(a.largest, b.largest), place: b.largest > a.largest ? b.place : a.place },
      }),
    );
  }

  get tables(): Tables {
    const share = ({ lines, rest }: ProfileTable<ProfileLauncher>): ProfileTable<ProfileLauncher> => shared(lines, rest);
    const kernels = this.#kernels.table;
    return {
      operators: this.#operators.table,
      kernels: shared(kernels.lines, kernels.rest),
      modules: share(this.#modules.table),
      phases: share(this.#phases.table),
      copies: this.#copies.table.lines,
      sequences: this.#sequences.table.lines,
      groups: this.#groups.table.lines,
      idle: this.#idle.table,
      allocators: this.#allocators.table,
    };
  }
}

/** Shares of the time of all lines. */
function shared<Line extends { readonly total: number; readonly share: number }>(lines: readonly Line[], rest: Rest): ProfileTable<Line> {
  const all = lines.reduce((sum, { total }) => sum + total, rest.total);
  return { lines: lines.map((line) => ({ ...line, share: all > 0 ? line.total / all : 0 })), rest };
}

/** Cuts each table to its lines with most time. */
function cutTables(tables: Tables, linesMax: number): Tables {
  const cut = <Line>(
    { lines, rest }: ProfileTable<Line>,
    timeOf: (line: Line) => number,
    countOf: (line: Line) => number,
  ): ProfileTable<Line> => {
    const sorted = [...lines].sort((a, b) => timeOf(b) - timeOf(a));
    const left = sorted.splice(linesMax);
    const sum = (of: (line: Line) => number): number => left.reduce((all, line) => all + of(line), 0);
    return { lines: sorted, rest: addRest(rest, left.length, sum(countOf), sum(timeOf)) };
  };
  return {
    operators: cutOperators(tables.operators, linesMax),
    kernels: cut(
      tables.kernels,
      ({ total }) => total,
      ({ count }) => count,
    ),
    modules: cut(
      tables.modules,
      ({ total }) => total,
      ({ kernels }) => kernels,
    ),
    phases: cut(
      tables.phases,
      ({ total }) => total,
      ({ kernels }) => kernels,
    ),
    copies: [...tables.copies].sort((a, b) => b.total - a.total).slice(0, linesMax),
    sequences: [...tables.sequences].sort((a, b) => b.total - a.total).slice(0, Math.min(linesMax, limits.profileSequencesMax)),
    groups: [...tables.groups].sort((a, b) => b.total - a.total).slice(0, linesMax),
    idle: cut(
      tables.idle,
      ({ time }) => time,
      () => 0,
    ),
    allocators: cut(
      tables.allocators,
      ({ bytes }) => bytes,
      ({ allocations }) => allocations,
    ),
  };
}

/** Half of the operators have most device time, the others most host time; `rest` is time of the host. */
function cutOperators({ lines, rest }: ProfileTable<ProfileOp>, linesMax: number): ProfileTable<ProfileOp> {
  const sorted = [...lines].sort((a, b) => (b.deviceSelf ?? 0) - (a.deviceSelf ?? 0) || b.hostSelf - a.hostSelf);
  const kept = sorted.splice(0, Math.ceil(linesMax / 2));
  sorted.sort((a, b) => b.hostSelf - a.hostSelf);
  kept.push(...sorted.splice(0, linesMax - kept.length));
  const count = sorted.reduce((sum, { calls }) => sum + calls, 0);
  const total = sorted.reduce((sum, { hostSelf }) => sum + hostSelf, 0);
  return { lines: kept, rest: addRest(rest, sorted.length, count, total) };
}
