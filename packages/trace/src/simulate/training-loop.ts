// The work of the ranks' main threads: steps of data, forward, backward, all_reduce and optimizer, in true time.
//
//   rank = tensor + T · (data + D · stage)            T · D · P ranks, numbered as in Megatron
//
//   stage 0   data │ forward │ send ──┐                        ┌─► recv │ backward │ all_reduce │ optimizer
//   stage 1   data │ recv ◄───────────┘ forward │ backward │ send ──────┘          │ all_reduce │ optimizer
//
// Within forward and backward, the T ranks of a tensor group gather and reduce; the D ranks with the same tensor and stage all_reduce.
//
// Invariant: no rank leaves a collective before the last has entered it, and no recv ends before its send began.

import type { Random } from './random.ts';
import type { SimulatedRank } from './simulated-rank.ts';
import type { ResolvedCluster, Straggler, StragglingPhase } from './simulation-options.ts';

/** A collective (or a send with its recv) in true time, ns, even if its parts were not recorded. */
export interface TrueCollective {
  readonly group: string;
  readonly sequence: number;
  /** For the pair of a send and its recv it is `send`; its parts are the sender's and the receiver's. */
  readonly op: string;
  readonly bytes: number;
  readonly parts: readonly { readonly rank: number; readonly entry: number; readonly exit: number; readonly isRecorded: boolean }[];
}

interface Group {
  readonly name: string;
  readonly members: readonly number[];
  sequence: number;
}

/** Shares of a step's time; the rest belongs to the collectives. */
const shares: Readonly<Record<StragglingPhase, number>> = { data: 0.08, forward: 0.27, backward: 0.5, optimizer: 0.1 };
/** Sizes of the reduced data, and transfer times once all ranks are there. */
const transfers = [
  { bytes: 2 ** 20, ns: 40_000 },
  { bytes: 16 * 2 ** 20, ns: 300_000 },
  { bytes: 128 * 2 ** 20, ns: 2_000_000 },
] as const;
const tensorTransfer = transfers[0];
const activations = { bytes: 4 * 2 ** 20, ns: 120_000 } as const;
/** Gap between two parts of a step. */
const gapNs = 3000;
const lengthDeviation = 0.01;
const exitSpreadNs = 8000;
const checkpointEvery = 100;

export class TrainingLoop {
  /** True time up to which each rank's loop has run, ns. */
  readonly now: Float64Array;
  readonly #ranks: readonly SimulatedRank[];
  readonly #cluster: ResolvedCluster;
  /** Delay in leaving every collective, by rank, ns. */
  readonly #exitBias: Float64Array;
  readonly #exitSpreadNs: number;
  readonly #skewNs: number;
  readonly #random: Random;
  readonly #onCollective: ((collective: TrueCollective) => void) | undefined;
  readonly #tensorGroups: readonly Group[];
  readonly #dataGroups: readonly Group[];
  /** By rank. */
  readonly #stragglers: Straggler[][] = [];
  /** Number of sends so far for each ordered pair of ranks. */
  readonly #pairs = new Map<number, number>();
  #step = 0;

  constructor(
    ranks: readonly SimulatedRank[],
    cluster: ResolvedCluster,
    exitBias: Float64Array,
    random: Random,
    onCollective: ((collective: TrueCollective) => void) | undefined,
  ) {
    const { tensorParallel, pipeline, stepMs, exitBiasUs } = cluster;
    this.#ranks = ranks;
    this.#cluster = cluster;
    this.#exitBias = exitBias;
    // The reference's two cases: 8 µs with equal exits, 20 µs with exits biased by 0 to 20 µs.
    this.#exitSpreadNs = Math.max(exitSpreadNs, 2000 * exitBiasUs);
    this.#skewNs = Math.min(1_500_000, 0.05 * stepMs * 1e6);
    this.#random = random;
    this.#onCollective = onCollective;
    this.now = Float64Array.from(ranks, (rank) => rank.about.start + random.exponential(gapNs));
    for (const straggler of cluster.stragglers) {
      this.#stragglers[straggler.rank] ??= [];
      this.#stragglers[straggler.rank]?.push(straggler);
    }
    const all = ranks.map((_, rank) => rank);
    const replicas = ranks.length / (tensorParallel * pipeline);
    const groupsOf = (axis: string, key: (rank: number) => number): Group[] => {
      const members: number[][] = [];
      for (const rank of all) {
        members[key(rank)] ??= [];
        members[key(rank)]?.push(rank);
      }
      return members.map((ranks, number) => ({ name: `${axis}-${number}`, members: ranks, sequence: 0 }));
    };
    this.#tensorGroups = tensorParallel === 1 ? [] : groupsOf('tensor', (rank) => Math.floor(rank / tensorParallel));
    const stageOf = (rank: number): number => Math.floor(rank / (tensorParallel * replicas));
    this.#dataGroups =
      replicas === ranks.length
        ? [{ name: 'world', members: all, sequence: 0 }]
        : replicas === 1
          ? []
          : groupsOf('data', (rank) => (rank % tensorParallel) + tensorParallel * stageOf(rank));
  }

  /** Number of simulated steps. */
  get steps(): number {
    return this.#step;
  }

  /** Simulates one step of all ranks. */
  step(): void {
    const begun = Float64Array.from(this.now);
    this.#compute('data', this.#ranks.keys());
    const stages = [...this.#stages()];
    for (const [stage, members] of stages.entries()) {
      if (stage > 0) this.#handOver(stages[stage - 1] as readonly number[], members);
      this.#compute('forward', members, 'all_gather');
    }
    for (const [back, members] of [...stages].reverse().entries()) {
      if (back > 0) this.#handOver(stages[stages.length - back] as readonly number[], members);
      this.#compute('backward', members, 'reduce_scatter');
    }
    const transfer = transfers[this.#random.whole(transfers.length)] as (typeof transfers)[number];
    for (const group of this.#dataGroups) this.#collective(group, 'all_reduce', transfer, true);
    this.#compute('optimizer', this.#ranks.keys());
    for (const [rank, start] of begun.entries()) this.#endStep(rank, start);
    this.#step++;
  }

  *#stages(): Generator<readonly number[]> {
    const size = this.#ranks.length / this.#cluster.pipeline;
    for (let from = 0; from < this.#ranks.length; from += size) yield Array.from({ length: size }, (_, index) => from + index);
  }

  /** A phase that each rank works through alone, except that its tensor group meets in the middle of it. */
  #compute(phase: StragglingPhase, members: Iterable<number>, tensorOp?: string): void {
    const begun = [...members].map((rank) => {
      this.#pause(rank);
      return { rank, start: this.now[rank] as number, work: this.#workNs(phase, rank) };
    });
    const groups =
      tensorOp === undefined ? [] : this.#tensorGroups.filter(({ members: [first] }) => begun.some(({ rank }) => rank === first));
    const meets = groups.length > 0;
    for (const { rank, work } of begun) this.#advance(rank, meets ? work / 2 : work);
    for (const group of groups) this.#collective(group, tensorOp as string, tensorTransfer, false);
    for (const { rank, start, work } of begun) {
      if (meets) this.#advance(rank, work / 2);
      (this.#ranks[rank] as SimulatedRank).span(start, this.now[rank] as number, phase);
    }
  }

  #workNs(phase: StragglingPhase, rank: number): number {
    const { stepMs, pipeline } = this.#cluster;
    const parts = phase === 'forward' || phase === 'backward' ? pipeline : 1;
    let length = ((shares[phase] * stepMs * 1e6) / parts) * Math.max(0.5, this.#random.normal(1, lengthDeviation));
    if (phase === 'backward') length += this.#random.exponential(this.#skewNs);
    for (const straggler of this.#stragglers[rank] ?? []) {
      const { step = this.#step, lastStep = step } = straggler;
      if (straggler.phase === phase && step <= this.#step && this.#step <= lastStep) length += straggler.ms * 1e6;
    }
    return length;
  }

  /** All members enter, and leave once the last one has entered and the transfer is done. */
  #collective(group: Group, op: string, { bytes, ns }: { readonly bytes: number; readonly ns: number }, isPhase: boolean): void {
    const sequence = group.sequence++;
    let last = 0;
    for (const rank of group.members) {
      this.#pause(rank);
      last = Math.max(last, this.now[rank] as number);
    }
    const parts: TrueCollective['parts'][number][] = [];
    for (const rank of group.members) {
      const about = { op, group: group.name, sequence, bytes, peer: -1 };
      const part = this.#leave(rank, last + ns * this.#cluster.transferScale, about, isPhase);
      if (this.#onCollective !== undefined) parts.push(part);
    }
    this.#onCollective?.({ group: group.name, sequence, op, bytes, parts });
  }

  /** Each rank of a stage sends its result to the rank at the same place in the next one. */
  #handOver(sources: readonly number[], destinations: readonly number[]): void {
    for (const [index, source] of sources.entries()) {
      const destination = destinations[index] as number;
      this.#pause(source);
      this.#pause(destination);
      const ready = Math.max(this.now[source] as number, this.now[destination] as number) + activations.ns * this.#cluster.transferScale;
      const pair = source * this.#ranks.length + destination;
      const sequence = this.#pairs.get(pair) ?? 0;
      this.#pairs.set(pair, sequence + 1);
      const about = { group: `pipeline-${index}`, sequence, bytes: activations.bytes };
      const parts = [
        this.#leave(source, ready, { ...about, op: 'send', peer: destination }, true),
        this.#leave(destination, ready, { ...about, op: 'recv', peer: source }, true),
      ];
      this.#onCollective?.({ ...about, op: 'send', parts });
    }
  }

  #leave(
    rank: number,
    ready: number,
    about: { op: string; group: string; sequence: number; bytes: number; peer: number },
    isPhase: boolean,
  ): TrueCollective['parts'][number] {
    const entry = this.now[rank] as number;
    const exit = ready + (this.#exitBias[rank] as number) + this.#random.exponential(this.#exitSpreadNs);
    this.now[rank] = exit;
    const isRecorded = (this.#ranks[rank] as SimulatedRank).collective({ start: entry, end: exit, ...about }, isPhase);
    return { rank, entry, exit, isRecorded };
  }

  #endStep(rank: number, start: number): void {
    this.#pause(rank);
    const simulated = this.#ranks[rank] as SimulatedRank;
    const end = this.now[rank] as number;
    const loss = 2.3 * Math.exp(-this.#step / 200) + 0.1 * this.#random.uniform();
    simulated.counter(end, 'loss', '1', loss);
    if (rank === 0 && this.#step % checkpointEvery === checkpointEvery - 1) simulated.instant(end, 'checkpoint');
    simulated.step(start, end, this.#step);
  }

  #pause(rank: number): void {
    this.#advance(rank, this.#random.exponential(gapNs));
  }

  #advance(rank: number, ns: number): void {
    this.now[rank] = (this.now[rank] as number) + ns;
  }
}
