// Where the time of each step went on a rank's devices: shares that add up exactly to the step.
//
//   host     │ step 4 ─────────────│ step 5 ─────────────│ step 6 ─────────────│
//   device          ████ 4 ██████████████│██ 5 ███████ 5 ██████│ 6 …
//   window   │ 4 ────────────────────────│ 5 ──────────────────│ 6 …
//
// The host runs ahead of its devices, so a step of the host is no step of theirs. A window begins where the one before ends, or with the host's
// step if that is later, and ends with the last work that the step launched, or with the host's step. This is the rule of the TensorBoard plugin.
//
//   compute       only compute runs           overlapped    compute and communication run
//   exposed       only communication runs     copies        copies and sets run, and neither of the two
//   idle          nothing runs

import type { RankWork } from './device-work.ts';
import { type Intervals, sweep } from './intervals.ts';

/** ns; `length` is the sum of the others. */
export interface StepParts {
  length: number;
  compute: number;
  overlapped: number;
  exposed: number;
  copies: number;
  idle: number;
}

export interface StepBreakdown extends StepParts {
  readonly step: number;
  /** The window, ns on the trace's axis. */
  readonly start: number;
  readonly end: number;
}

export const noParts = (): StepParts => ({ length: 0, compute: 0, overlapped: 0, exposed: 0, copies: 0, idle: 0 });

/** Stretches of the three classes of work. */
interface Unions {
  readonly compute: Intervals;
  readonly communication: Intervals;
  readonly memory: Intervals;
}

const unionsOf = (work: RankWork): Unions => ({
  compute: work.unionOf('compute'),
  communication: work.unionOf('communication'),
  memory: work.unionOf('memory'),
});

/** Parts by the set of classes that run: bit 0 compute, 1 communication, 2 memory. */
const partOf = ['idle', 'compute', 'exposed', 'overlapped', 'copies', 'compute', 'exposed', 'overlapped'] as const;

function addParts(into: StepParts, { compute, communication, memory }: Unions, from: number, until: number): void {
  into.length += until - from;
  sweep([compute, communication, memory], from, until, (running, start, end) => {
    const part = partOf[running] as (typeof partOf)[number];
    into[part] += end - start;
  });
}

/** The breakdown of every step. */
export function stepBreakdown(work: RankWork): readonly StepBreakdown[] {
  const unions = unionsOf(work);
  return work.windows.map(({ number, start, end }) => {
    const parts = noParts();
    addParts(parts, unions, start, end);
    return { step: number, start, end, ...parts };
  });
}

/** The breakdown of one stretch of time, steps or not. */
export function breakdownBetween(work: RankWork, from: number, until: number): StepParts {
  const parts = noParts();
  if (until > from) addParts(parts, unionsOf(work), from, until);
  return parts;
}

/** HTA's breakdown of a rank, from its first work to the end of its last. ns. */
export interface TemporalBreakdown {
  readonly kernelTime: number;
  readonly idle: number;
  readonly compute: number;
  /** Communication and copies that no compute hides. */
  readonly nonCompute: number;
}

/** Undefined for a rank without device work. */
export function temporalBreakdown(work: RankWork): TemporalBreakdown | undefined {
  const busy = work.unionOf('busy');
  if (busy.length === 0) return undefined;
  const kernelTime = (busy.until.at(-1) as number) - (busy.from[0] as number);
  const idle = kernelTime - busy.total;
  const compute = work.unionOf('compute').total;
  return { kernelTime, idle, compute, nonCompute: kernelTime - compute - idle };
}
