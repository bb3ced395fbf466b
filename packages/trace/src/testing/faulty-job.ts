// Noisy jobs of data-parallel ranks with known faults: windows for blame, and their truth.
//
//   noise   jitter   each phase of each step 1 to 5 % longer or shorter, one in a hundred up to 50 % longer
//           busy     the hosts run more threads than cores: work stops for time slices, for some seconds on some ranks more than on others
//
// The same job without its faults, or without one of them, has the same noise, so a fault's cost is their difference.

import { type Blame, blameOfWindow } from '../blame/blame.ts';
import { Random } from '../simulate/random.ts';
import { workedWindow } from './worked-window.ts';

export interface JobFault {
  readonly rank: number;
  readonly phase: string;
  readonly ms: number;
  readonly isAffected: (step: number) => boolean;
}

export interface FaultyJobOptions {
  readonly seed: number;
  readonly ranks: number;
  readonly steps: number;
  readonly noise: 'jitter' | 'busy';
  readonly faults: readonly JobFault[];
}

export interface FaultyJob {
  readonly blame: Blame;
  /** By fault: ms per step that the job would be shorter without it, all others mended. */
  readonly costs: readonly number[];
}

export const jobLine = 'data 4, forward 12, backward 24, all_reduce 1, optimizer 4';
export const jobPhases = ['data', 'forward', 'backward', 'optimizer'] as const;

const sliceMs = 3;

export function faultyJob({ seed, ranks, steps, noise, faults }: FaultyJobOptions): FaultyJob {
  const lengths = noise === 'jitter' ? jittery(seed) : onBusyHosts(seed, ranks, steps);
  const cpuWait = noise === 'jitter' ? 0.01 : lengths.cpuWait;
  const window = (of: readonly JobFault[]) =>
    workedWindow(
      Array.from({ length: ranks }, () => jobLine),
      {
        steps,
        about: () => ({ cpuWait }),
        length: (usual, rank, name, step) =>
          lengths.of(usual, rank, name, step) +
          of.reduce(
            (sum, { rank: slow, phase, ms, isAffected }) => sum + (slow === rank && phase === name && isAffected(step) ? ms : 0),
            0,
          ),
      },
    );
  const stepOf = (of: readonly JobFault[]): number => blameOfWindow(window(of)).step / 1e6;
  const even = stepOf([]);
  return { blame: blameOfWindow(window(faults)), costs: faults.map((fault) => stepOf([fault]) - even) };
}

interface Lengths {
  /** Time for work of `usual` ms, ms. */
  readonly of: (usual: number, rank: number, phase: string, step: number) => number;
  readonly cpuWait: number;
}

function jittery(seed: number): Lengths {
  const share = new Random(seed, 'jitter').uniform(0.01, 0.05);
  const of: Lengths['of'] = (usual, rank, phase, step) => {
    const random = new Random(seed, 'length', rank, phase, step);
    return usual * Math.max(0.2, 1 + random.normal(0, share) + (random.chance(0.01) ? random.uniform(0, 0.5) : 0));
  };
  return { of, cpuWait: 0 };
}

/** Threads per core change every few steps, differently for a host's ranks; one slice passes for each of the other threads. */
function onBusyHosts(seed: number, ranks: number, steps: number): Lengths {
  const random = new Random(seed, 'busy');
  const threads = random.uniform(1.5, 6);
  const perRank = Array.from({ length: ranks }, () => {
    let now = threads;
    return Float64Array.from({ length: steps }, () => {
      if (random.chance(0.2)) now = threads * random.uniform(0.6, 1.4);
      return now;
    });
  });
  const of: Lengths['of'] = (usual, rank, phase, step) => {
    const own = new Random(seed, 'slices', rank, phase, step);
    const others = Math.max(0, (perRank[rank]?.[step] as number) - 1);
    let length = usual;
    for (let left = own.exponential(sliceMs); left < usual; left += own.exponential(sliceMs)) length += own.exponential(sliceMs * others);
    return length;
  };
  return { of, cpuWait: (threads - 1) / threads };
}
