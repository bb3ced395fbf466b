// A simulated data-parallel job on GPUs, as the files that torch.profiler would write for it, and its truth.
//
//   every rank:
//   main thread   │ data │ forward: mm mm mm … │            │ Adam.step: all_reduce, all_gathers │ synchronize ─┤
//   autograd                                   │ mm, reduce_scatter … │
//   stream 7           │ copy │ mm │ mm │ mm │ … │ mm │ mm │ … │ adam │
//   stream 23                                       │ reduce_scatter ──┤ …        │ all_gather ──┤ …      all ranks
//   stream 24                                                               │ all_reduce ──┤             each half of the ranks
//
// All ranks run one program; a collective's data moves when the last rank's kernel has begun, and each rank leaves a little later, by a lag of
// its own. Each rank's file is a window of the same program: some begin with a step, some in the middle of one, some a step later, and all end
// after the same step. A kernel launched before its window has no data about its collective, as with torch.
//
// Times of the model are whole ns of true time from the job's origin; a rank's clock shows them shifted, and the file prints µs with three
// decimals, beyond a double's precision.

import { Random } from '../simulate/random.ts';
import { type GpuFault, GpuJobRank, type LaunchedCollective, type RankLaunch } from './gpu-job-rank.ts';
import { type KinetoVintage, kinetoText } from './kineto-text.ts';

/** A clock that shows `offsetNs` more than the truth at the origin, and runs `ppm` fast. */
export interface RankClock {
  readonly offsetNs: number;
  readonly ppm: number;
}

export interface GpuJobOptions {
  readonly seed: number;
  /** Even number; default 8. */
  readonly ranks?: number;
  /** Default 4, numbered from 2. */
  readonly steps?: number;
  /** Default 6. */
  readonly layers?: number;
  /** Whether kernels carry torch's own number of their collective; default false. */
  readonly hasSeq?: boolean;
  /** Format of the files; default `today`. */
  readonly vintage?: KinetoVintage;
  /** By rank; default all true. */
  readonly clocks?: readonly RankClock[];
  /** Default none. They draw no random numbers: all else is as without them. */
  readonly faults?: readonly GpuFault[];
  /** See GpuJobRankOptions. */
  readonly spread?: number;
}

/** One rank's kernel of one collective. */
export interface GpuCollective {
  readonly rank: number;
  readonly op: LaunchedCollective['op'];
  readonly kernel: string;
  readonly group: string;
  /** −1 for the last of its group, −2 for the one before, … */
  readonly fromEnd: number;
  /** Bytes that the rank puts in; 0 if not in the file. */
  readonly bytes: number;
  /** Times in the file, ns after `gpuJobBase`. */
  readonly start: bigint;
  readonly end: bigint;
  /** True times, ns from the job's origin. */
  readonly entry: number;
  readonly exit: number;
}

export interface GpuJob {
  /** By rank. */
  readonly files: readonly { readonly name: string; readonly text: string }[];
  /** Collectives in the files, by rank and in order of time within a group. */
  readonly collectives: readonly GpuCollective[];
}

/** `baseTimeNanoseconds` of the files. */
export const gpuJobBase = 1_759_300_074_000_000_000n;

/** ns after the base: as with torch, no time of a file fits a double to the ns. */
const origin = 6_322_354_290_000_123_457n;
const us = 1000;
/** Mean delay of a rank in leaving a collective. */
const exitLagNs = 12 * us;

type Done = Pick<GpuCollective, 'rank' | 'op' | 'kernel' | 'group' | 'bytes' | 'entry' | 'exit'> & { readonly call: number };

/** Makes the job: the same for the same options. */
export function gpuJob(options: GpuJobOptions): GpuJob {
  const { seed, ranks: size = 8, steps = 4, layers = 6, hasSeq = false, vintage = 'today', clocks = [], faults = [], spread } = options;
  const ranks = Array.from({ length: size }, (_, rank) => new GpuJobRank({ seed, rank, size, layers, hasSeq, vintage, faults, spread }));
  const transfers = new Random(seed, 'transfers');
  const slower = faults.find(({ kind }) => kind === 'slow_transfers')?.amount ?? 1;
  const done = Array.from({ length: steps }, (_, step) => runStep(ranks, step + 2, transfers, slower)).flat();
  const clockOf = (rank: number) => {
    const { offsetNs, ppm } = clocks[rank] ?? { offsetNs: 0, ppm: 0 };
    return (time: number): bigint => origin + BigInt(time + offsetNs + Math.round((time * ppm) / 1e6));
  };
  const files = ranks.map(({ events, pid, windowStart, group }, rank) => ({
    name: `rank${rank}.pt.trace.json`,
    text: kinetoText(events, { rank, ranks: size, pid, vintage, windowStart, groups: [group], base: gpuJobBase, shown: clockOf(rank) }),
  }));
  const collectives = ranks.flatMap(({ windowStart }, rank) => {
    const mine = done.filter((one) => one.rank === rank && one.entry >= windowStart);
    const shown = clockOf(rank);
    return mine.map(({ call, ...one }, at): GpuCollective => {
      const later = mine.slice(at + 1).filter(({ group }) => group === one.group).length;
      const isSaid = vintage === 'today' && call >= windowStart;
      return { ...one, bytes: isSaid ? one.bytes : 0, fromEnd: -1 - later, start: shown(one.entry), end: shown(one.exit) };
    });
  });
  return { files, collectives };
}

/** Runs threads first, as nothing in a step waits for a GPU; then kernel by kernel, in the launch order common to all ranks. */
function runStep(ranks: readonly GpuJobRank[], step: number, transfers: Random, slower: number): Done[] {
  const done: Done[] = [];
  const launches = ranks.map((rank) => rank.launchStep(step));
  for (const at of launches[0]?.keys() ?? []) {
    const parts = ranks.map((rank, index) => {
      const launch = launches[index]?.[at] as RankLaunch;
      return { rank, index, launch, start: rank.startOf(launch) };
    });
    const bytes = parts[0]?.launch.collective?.bytes ?? 0;
    const transfer = Math.round(slower * transfers.lognormal(40 * us + bytes / 100, 0.2));
    for (const { rank, index, launch, start } of parts) {
      const { collective, call, kernel } = launch;
      if (collective === undefined) {
        rank.finish(launch, start, start + launch.length);
        continue;
      }
      const { op, group } = collective;
      const members = parts.filter((other) => collective.members.includes(other.index));
      const exit = Math.max(...members.map((part) => part.start)) + transfer + Math.round(rank.random.exponential(exitLagNs));
      rank.finish(launch, start, exit);
      done.push({ rank: index, op, kernel, group, bytes, entry: start, exit, call });
    }
  }
  for (const rank of ranks) rank.synchronize(step);
  return done;
}
