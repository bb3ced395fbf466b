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
import { type GpuFault, GpuJobRank, type GpuPipeline, type LaunchedCollective, type RankLaunch } from './gpu-job-rank.ts';
import { type KinetoVintage, kinetoText } from './kineto-text.ts';

/** A clock that shows `offsetNs` more than the truth at the origin, and runs `ppm` fast. */
export interface RankClock {
  readonly offsetNs: number;
  readonly ppm: number;
}

export interface GpuJobOptions {
  readonly seed: number;
  /** Default 8; with a pipeline a multiple of its stages. */
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
  readonly uneven?: number;
  readonly streams?: number;
  readonly pipeline?: GpuPipeline;
  /** Steps after which threads wait for their devices: each, the default, or the last one alone. */
  readonly synchronizes?: 'each' | 'last';
  /** By how much later than others it ran, ns; default 0. */
  readonly laterNs?: bigint;
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
  /** True time at which the last device ended each step, ns from the job's origin. */
  readonly stepEnds: readonly number[];
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
  const { seed, ranks: size = 8, steps = 4, layers = 6, hasSeq = false, vintage = 'today', clocks = [], faults = [] } = options;
  const { spread, uneven, streams, pipeline, synchronizes, laterNs = 0n } = options;
  const base = gpuJobBase + laterNs;
  const common = { seed, size, layers, hasSeq, vintage, faults, spread, uneven, streams, pipeline, synchronizes };
  const ranks = Array.from({ length: size }, (_, rank) => new GpuJobRank({ ...common, rank }));
  const slower = (step: number): number =>
    faults.find(({ kind, inStep }) => kind === 'slow_transfers' && inStep?.(step) !== false)?.amount ?? 1;
  const transfers = new Random(seed, 'transfers');
  const done: Done[] = [];
  for (let step = 0; step < steps; step++) {
    done.push(...runStep(ranks, step + 2, transfers, slower(step + 2)));
    for (const rank of ranks) rank.endStep(step + 2, step === steps - 1);
  }
  const clockOf = (rank: number) => {
    const { offsetNs, ppm } = clocks[rank] ?? { offsetNs: 0, ppm: 0 };
    return (time: number): bigint => origin + BigInt(time + offsetNs + Math.round((time * ppm) / 1e6));
  };
  const files = ranks.map(({ events, pid, windowStart, group }, rank) => ({
    name: `rank${rank}.pt.trace.json`,
    /** Made when it is read: jobs whose truth alone is asked for need no text. */
    get text(): string {
      return kinetoText(events, { rank, ranks: size, pid, vintage, windowStart, groups: [group], base, shown: clockOf(rank) });
    },
  }));
  const collectives = ranks.flatMap(({ windowStart }, rank) => {
    const mine = done.filter((one) => one.rank === rank && one.entry >= windowStart);
    const shown = clockOf(rank);
    const later = new Map<string, number>();
    const fromLast = mine.toReversed().map(({ call, ...one }): GpuCollective => {
      const after = later.get(one.group) ?? 0;
      later.set(one.group, after + 1);
      const isSaid = vintage === 'today' && call >= windowStart;
      return { ...one, bytes: isSaid ? one.bytes : 0, fromEnd: -1 - after, start: shown(one.entry), end: shown(one.exit) };
    });
    return fromLast.reverse();
  });
  const stepEnds = Array.from({ length: steps }, (_, step) => Math.max(...ranks.map(({ stepEnds: ends }) => ends[step] as number)));
  return { files, collectives, stepEnds };
}

/** A collective that some ranks have begun. */
interface Meeting {
  readonly arrived: { readonly rank: GpuJobRank; readonly index: number; readonly launch: RankLaunch; readonly start: number }[];
}

/** Runs threads first, as nothing in a step waits for a GPU; then each rank's launches in order, up to a collective that others have not reached. */
function runStep(ranks: readonly GpuJobRank[], step: number, transfers: Random, slower: number): Done[] {
  const done: Done[] = [];
  const launches = ranks.map((rank) => rank.launchStep(step));
  /** By place in a rank's launches. */
  const factors = Array.from({ length: Math.max(...launches.map(({ length }) => length)) }, () => slower * transfers.lognormal(1, 0.2));
  const next = ranks.map(() => 0);
  const meetings = new Map<string, Meeting>();
  const runnable = [...ranks.keys()];
  const advance = (index: number): void => {
    const rank = ranks[index] as GpuJobRank;
    for (let launch = launches[index]?.[next[index] as number]; launch !== undefined; launch = launches[index]?.[next[index] as number]) {
      const start = rank.startOf(launch);
      if (launch.collective !== undefined) {
        arrive(index, launch, start);
        return;
      }
      rank.finish(launch, start, start + launch.length);
      next[index] = (next[index] as number) + 1;
    }
  };
  const arrive = (index: number, launch: RankLaunch, start: number): void => {
    const { op, group, members, seq, bytes } = launch.collective as LaunchedCollective;
    const sender = op === 'send' ? index : op === 'recv' ? launch.collective?.peer : '';
    const key = `${group} ${members.join()} ${sender} ${seq}`;
    const { arrived } = meetings.get(key) ?? { arrived: [] };
    meetings.set(key, { arrived });
    arrived.push({ rank: ranks[index] as GpuJobRank, index, launch, start });
    if (arrived.length < members.length) return;
    meetings.delete(key);
    const factor = factors[next[Math.min(...members)] as number] as number;
    const transfer = Math.round(factor * (40 * us + bytes / 100));
    const last = Math.max(...arrived.map((part) => part.start));
    for (const part of arrived.sort((a, b) => a.index - b.index)) {
      const exit = last + transfer + Math.round(part.rank.random.exponential(exitLagNs));
      part.rank.finish(part.launch, part.start, exit);
      const { collective, kernel, call } = part.launch;
      done.push({ rank: part.index, op: (collective as LaunchedCollective).op, kernel, group, bytes, entry: part.start, exit, call });
      next[part.index] = (next[part.index] as number) + 1;
      runnable.push(part.index);
    }
  };
  for (let index = runnable.shift(); index !== undefined; index = runnable.shift()) advance(index);
  return done;
}
