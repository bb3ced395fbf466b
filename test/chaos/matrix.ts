// The matrix of faults, its possible cells, and the plan of a round that a seed makes.
//
// Invariant: a plan depends on (seed, round, requested cells, abilities of this machine) alone, so that one round can be played again.

export const targets = ['rank', 'broker', 'aggregator', 'disk', 'network', 'clock'] as const;
export const hows = ['killed', 'frozen', 'slow', 'full', 'cut', 'set back'] as const;
export type Target = (typeof targets)[number];
export type How = (typeof hows)[number];

/** The transport of the batches. */
export type Way = 'websocket' | 'nats';

export interface Fault {
  readonly target: Target;
  readonly how: How;
  /** The rank, if the target is one; also the one that a network or clock fault concerns. */
  readonly rank: number;
  /** The part of the target: of a full rank `ring` or `descriptors`, of the disk `spool` or `store`, of network and clock `ranks` or `aggregator`. */
  readonly part: 'ring' | 'descriptors' | 'spool' | 'store' | 'ranks' | 'aggregator';
  /** Counted from when all ranks are at work. */
  readonly afterMs: number;
  readonly lastsMs: number;
  /** A killed rank starts again in the same run; otherwise `merge` reads its spool. Of a clock: its rank is killed and restarts behind the step. */
  readonly restarts: boolean;
  /** Whether it lasts until the ranks have ended. */
  readonly staysToTheEnd: boolean;
  /** How far a clock is set back. */
  readonly backMs: number;
}

export interface Plan {
  readonly seed: number;
  readonly round: number;
  readonly way: Way;
  readonly ranks: number;
  readonly stepMs: number;
  readonly spansPerStepMax: number;
  readonly exitDeadlineMs: number;
  readonly faults: readonly Fault[];
}

/** Cells without a round, and the reason. */
const senseless: Readonly<Partial<Record<`${Target} ${How}`, string>>> = {
  'rank cut': 'a rank is cut off by its network: see network × cut',
  'rank set back': 'a rank reads the clock of its host: see clock × set back',
  'broker cut': 'a broker is cut off by its network: see network × cut',
  'broker set back': 'nats-server reads the clock without the C library, where no seam of ours is',
  'aggregator cut': 'an aggregator is cut off by its network: see network × cut',
  'aggregator set back': 'an aggregator reads the clock of its host: see clock × set back',
  'disk killed': 'a disk that is gone takes all of the job along',
  'disk frozen': 'a write that never returns cannot be made without a device of our own',
  'disk slow': 'a slow write cannot be made without a device of our own',
  'disk cut': 'a disk has no network here',
  'disk set back': 'a disk that shows an older state was restored by a person',
  'network killed': 'the same as cut',
  'network set back': 'TCP does not deliver again',
  'clock killed': 'a clock does not end',
  'clock full': 'a clock holds nothing',
  'clock cut': 'a clock has no network here: a lost time server is drift, clock × slow',
};

export interface Cell {
  readonly target: Target;
  readonly how: How;
}

export const cellName = ({ target, how }: Cell): string => `${target} × ${how}`;

/** The faults that this machine lets a round use. */
export interface Machine {
  /** tmpfs can be mounted, so that a disk can be full. */
  readonly mounts: boolean;
  /** The limits of a running process can be set, so that it can be out of descriptors. */
  readonly limits: boolean;
}

/** The matrix: cells that are played, and those that are not, with the reason. */
export function matrix(machine: Machine): { readonly played: readonly Cell[]; readonly skipped: readonly (Cell & { why: string })[] } {
  const all = targets.flatMap((target) => hows.map((how) => ({ target, how })));
  const whyNot = ({ target, how }: Cell): string | undefined => {
    const stated = senseless[`${target} ${how}`];
    if (stated !== undefined || how !== 'full') return stated;
    if ((target === 'disk' || target === 'broker') && !machine.mounts) return 'NOT RUN: a full disk is a small tmpfs, which takes root';
    if ((target === 'rank' || target === 'aggregator') && !machine.limits)
      return 'NOT RUN: it takes prlimit to leave a process no descriptor';
    return undefined;
  };
  return {
    played: all.filter((cell) => whyNot(cell) === undefined),
    skipped: all.flatMap((cell) => {
      const why = whyNot(cell);
      return why === undefined ? [] : [{ ...cell, why }];
    }),
  };
}

/** A rank that may take no longer than this to end may be cut off on a machine without a free CPU. */
export const shortExitMs = 100;

/** The plan of a round: its first fault goes through `cells` in turn; one round in three has a second one. */
export function planRound(seed: number, round: number, cells: readonly Cell[]): Plan {
  const random = randomOf(seed * 1_000_003 + round);
  const between = (least: number, most: number): number => least + Math.floor(random() * (most - least + 1));
  const first = cells[round % cells.length] as Cell;
  const ranks = between(2, 4);
  const fault = (cell: Cell, afterMs: number): Fault => ({
    ...cell,
    rank: between(0, ranks - 1),
    part: partOf(cell, random() < 0.5),
    afterMs,
    lastsMs: random() < 0.15 ? between(2500, 6000) : between(200, 2000),
    restarts: random() < 0.5,
    staysToTheEnd: cell.target === 'disk' && random() < 0.3,
    backMs: Math.round(10 ** (3 + 5 * random())),
  });
  const faults = [fault(first, between(0, 300))];
  const second = cells[between(0, cells.length - 1)] as Cell;
  if (random() < 0.35 && together(first, second)) faults.push(fault(second, between(0, 1500)));
  const needsBroker = faults.some(({ target }) => target === 'broker');
  return {
    seed,
    round,
    way: needsBroker || random() < 0.5 ? 'nats' : 'websocket',
    ranks,
    stepMs: between(2, 10),
    spansPerStepMax: between(1, 12),
    // Sometimes less than a busy receiver needs, or one that accepts nothing: then the rest goes by the spool.
    exitDeadlineMs: random() < 0.2 || faults.some(({ part, staysToTheEnd }) => staysToTheEnd && part === 'store') ? shortExitMs : 60_000,
    faults,
  };
}

function partOf({ target }: Cell, first: boolean): Fault['part'] {
  if (target === 'rank') return first ? 'ring' : 'descriptors';
  if (target === 'disk') return first ? 'spool' : 'store';
  return first ? 'ranks' : 'aggregator';
}

/** Whether two faults in one round leave something to count: a killed rank cannot report the losses of its full disk. */
function together(one: Cell, other: Cell): boolean {
  const isPair = (a: Target, b: Target): boolean => (one.target === a && other.target === b) || (one.target === b && other.target === a);
  return one.target !== other.target && !isPair('disk', 'rank') && !isPair('disk', 'clock') && !isPair('rank', 'clock');
}

/** mulberry32: the same numbers on every machine, 0 … 1. */
function randomOf(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
