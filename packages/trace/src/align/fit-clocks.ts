// Evidence of a run → one clock model per host.
//
//   reference = the host that answered most pings (the aggregator's); without pings the lowest rank's host
//   the reference's own ranks: exact · hosts with pings to it: sampled · hosts with collectives or calls shared with those: messages, or shared
//   where nothing contradicts that files of unknown hosts have one wall clock · all others: unaligned, placed by the steps that they share
//   or by their wall clock
//   of a later attempt of the job, which shares nothing with the one before: its lowest rank's host by its wall clock, the others by that one
//
//   hostPings ─► fitHostOffset  (tiers 0 and 1)          host-pings.ts, host-offset.ts
//   SharedEvents ─► messagePings ─► fitHostOffset        message-pings.ts; these also locate a clock step between two pings
//   ClockCoupling ─► corrections (tier 2)                clock-coupling.ts, fed by the merge
//
// Worked numbers are in docs/clock-alignment.md.
//
// Invariant: ranks on one host share one model; a host without evidence is labelled, never merged silently; no evidence, however wrong,
// throws.

import { nanos, type TraceTime, traceTime } from '@ranktrace/protocol';
import type { Alignment } from '../model/trace-sink.ts';
import { ApartProof, type AxisClock } from './apart-proof.ts';
import { type ClockCoupling, type CoupledHosts, isNearStep } from './clock-coupling.ts';
import type { ClockEvidence } from './clock-evidence.ts';
import { ClockModel, type ClockProof, type RankClock } from './clock-model.ts';
import { fitHostOffset, type HostOffset, increasing, type OffsetHints } from './host-offset.ts';
import { type HostPing, hostPings, isPossible, referenceTime, windowNs } from './host-pings.ts';
import { earliest, type Host, hostsOf, ofLowestRank, wallClockOf } from './hosts.ts';
import type { LastResort } from './last-resort.ts';
import { exitOffsets, messagePings, sharedOffset, stepOffset } from './message-pings.ts';
import { FirstsOfSteps, MetHosts } from './met-hosts.ts';
import type { OffsetLimits } from './offset-envelope.ts';
import { axis } from './solve-constraints.ts';
import type { SharedPing } from './step-places.ts';

export type { ClockEvidence, ClockSample } from './clock-evidence.ts';

export interface FittedClocks {
  /** One per evidence, in its order. */
  readonly clocks: readonly {
    readonly clock: RankClock;
    readonly model: ClockModel;
    /** RankTime 0 on the host's clock, ns. */
    readonly epoch: number;
  }[];
  /** Unix time in ns at TraceTime 0. */
  readonly unixEpoch: bigint | undefined;
}

/** A host's clock by tiers 0 and 1. */
interface PlacedHost {
  readonly model: ClockModel;
  readonly offset?: HostOffset;
  /** Host times between which its ranks ran. */
  readonly from: number;
  readonly until: number;
  /** ± of the host that its evidence is relative to, ns. */
  readonly referenceBound: number;
  /** The host that owns its clock: itself, or the one that shares it. */
  readonly leader: number;
}

/** Margin on either side of the pings next to a step, ns. */
const besideNs = 50e6;

/** A rank's last batch may hold events from after its watermark, by the recorder's margin of 100 ms plus the length of a flush. */
const afterWatermarkNs = 200e6;

/** The clocks of a run by each host's own evidence; `fitted` adds evidence shared between hosts. */
export class ClusterClocks {
  readonly #evidence: readonly ClockEvidence[];
  readonly #hosts: readonly Host[];
  readonly #hostOf: ReadonlyMap<ClockEvidence, number>;
  readonly #placed: (PlacedHost | undefined)[];
  readonly #reference: string;
  readonly #origin: bigint;
  readonly #unixEpoch: bigint | undefined;

  /** TraceTime 0 is the earliest RankTime 0 among the reference host's ranks (or among all, where it has none). */
  constructor(evidence: readonly ClockEvidence[]) {
    this.#evidence = evidence;
    this.#hosts = hostsOf(evidence);
    this.#hostOf = new Map(this.#hosts.flatMap(({ ranks }, index) => ranks.map((rank) => [rank, index] as const)));
    this.#reference = chooseReference(evidence, this.#hosts);
    this.#origin = this.#hosts.find(({ name }) => name === this.#reference)?.epoch ?? originWithoutRanks(evidence, this.#reference);
    this.#placed = this.#hosts.map((host, index) => placeByPings(host, index, this.#reference, this.#origin));
    placeSteps(this.#hosts, this.#placed, this.#reference, this.#origin);
    placeByMessages(this.#hosts, this.#placed);
    placeAttempts(this.#hosts, this.#placed);
    this.#unixEpoch = placeUnaligned(this.#hosts, this.#placed);
  }

  /** The clock of each evidence, in its order: an index into `coupled`; undefined for one that is not aligned. */
  get clockOf(): readonly (number | undefined)[] {
    return this.#evidence.map((rank) => {
      const { model, leader } = this.#placed[this.#hostOf.get(rank) as number] as PlacedHost;
      return model.alignment.method === 'unaligned' ? undefined : leader;
    });
  }

  /** Whether shared events could place some host, and no evidence holds any yet. */
  get wantsSharedEvents(): boolean {
    const isOpen = ({ model }: PlacedHost): boolean => model.alignment.method === 'unaligned';
    return (
      this.#hosts.length > 1 &&
      this.#placed.some((placed) => isOpen(placed as PlacedHost)) &&
      this.#evidence.every(({ shared }) => shared === undefined)
    );
  }

  /**
   * RankTimes, per evidence, during which some clock stepped: shared events in them locate the step. Empty where no clock stepped, or where the
   * evidence already holds shared events.
   */
  get stepWindows(): readonly (readonly { readonly from: number; readonly until: number }[])[] {
    if (this.wantsSharedEvents || this.#evidence.some(({ shared }) => shared !== undefined)) return this.#evidence.map(() => []);
    const steps = this.#placed.flatMap((placed, host) => (placed?.offset?.steps ?? []).map((step) => ({ ...step, host })));
    return this.#evidence.map((rank) => {
      const own = this.#hostOf.get(rank) as number;
      const { model } = this.#placed[own] as PlacedHost;
      const epoch = Number(rank.epoch - (this.#hosts[own] as Host).epoch);
      return steps.map(({ host, last, first }) => {
        const times = host === own ? [last.at, first.at] : [referenceTime(last), referenceTime(first)].map((time) => model.toHost(time));
        return { from: Math.min(...times) - epoch - besideNs, until: Math.max(...times) - epoch + besideNs };
      });
    });
  }

  /** The basis of the axis as text: the hosts, the epochs of their clocks, the reference and its origin. */
  get basis(): string {
    return JSON.stringify([
      this.#hosts.map(({ name, epoch }) => [name, String(epoch)]),
      this.#reference,
      String(this.#origin),
      this.clockOf,
    ]);
  }

  /** The name of the host that owns `clock`. */
  nameOf(clock: number): string {
    return (this.#hosts[clock] as Host).name;
  }

  /** The clocks for a `ClockCoupling`, with the axis of `fitted()`. */
  get coupled(): CoupledHosts {
    const reference = this.#placed.findIndex((placed) => placed?.model.alignment.method === 'exact');
    return {
      count: this.#hosts.length,
      reference: reference < 0 ? axis : reference,
      hub: Math.max(0, reference < 0 ? this.#placed.findIndex((placed) => placed?.model.alignment.method !== 'unaligned') : reference),
      limits: (host, time) => {
        const { model, offset } = this.#placed[host] as PlacedHost;
        if (offset === undefined) return { lower: 0, upper: 0 };
        const own = model.toHost(time);
        const { lower, upper } = offset.limits.at(own);
        const at = model.offsetAt(own);
        return { lower: lower - at, upper: upper - at };
      },
      spread: (host, time) => {
        const { model, offset } = this.#placed[host] as PlacedHost;
        return offset === undefined ? 0 : offset.spread.around(model.toHost(time));
      },
      steps: (host) => stepsOf(this.#placed[host] as PlacedHost),
    };
  }

  /** The clocks, with the corrections of `coupling` and the shifts of `resort` (which must have ended) where given. */
  fitted(coupling?: ClockCoupling, resort?: LastResort): FittedClocks {
    const bare = this.#placed.map((placed) => corrected(placed as PlacedHost, coupling, resort));
    const models = coupling === undefined ? bare : bare.map((model, host) => this.#apart(model, host, bare, coupling));
    const clocks = this.#evidence.map((rank) => {
      const host = this.#hostOf.get(rank) as number;
      const model = models[host] as ClockModel;
      const epoch = Number(rank.epoch - (this.#hosts[host] as Host).epoch);
      return { model, epoch, clock: model.forRank(epoch) };
    });
    return { clocks, unixEpoch: this.#unixEpoch };
  }

  /** The model of a host, with what proves how far it is from the hub. */
  #apart(model: ClockModel, host: number, models: readonly ClockModel[], { apart }: ClockCoupling): ClockModel {
    const [placed, ofHub] = [this.#placed[host], this.#placed[apart.hub]] as [PlacedHost, PlacedHost];
    const hub = models[apart.hub] as ClockModel;
    // One that reads another's clock is compared by that one's evidence, which has no limits of its own.
    if (placed.leader !== host || ofHub.leader !== apart.hub || model.alignment.method === 'unaligned') return model;
    if (host === apart.hub) return model.knownApart({ apartAt: () => 0, apartWithin: () => 0 });
    const [clock, hubClock] = [axisClock(placed), axisClock(ofHub)];
    let made: ApartProof | undefined;
    const proof = (): ApartProof => {
      made ??= new ApartProof(apart, host, clock, hubClock);
      return made;
    };
    /** `own`: host time at `time`; `moved`: ns by which the offsets shown change while the limits hold; `bounds`: of both clocks then. */
    const distance = ({ lower, upper }: OffsetLimits, time: number, own: number, moved: number, bounds: number): number => {
      // offset[host] − offset[hub], as shown.
      const shown = hub.toHost(time) - own;
      // As in the proof: one time of the axis is that of both to within their bounds.
      const late = 2 * (clock.drift + hubClock.drift) * bounds;
      return Math.ceil(Math.max(upper - shown, shown - lower, 0) + moved + late) + roundingNs;
    };
    return model.knownApart({
      apartAt: (time) => {
        const own = model.toHost(time);
        return distance(proof().at(placed.model.toTrace(own)), time, own, 0, boundOf(model, time) + boundOf(hub, time));
      },
      apartWithin: (from, until) => {
        const [begin, end] = [model.toHost(from), model.toHost(until)];
        const limits = proof().within(placed.model.toTrace(begin), placed.model.toTrace(end));
        const moved = model.wiggle(begin, end) + hub.wiggle(hub.toHost(from), hub.toHost(until)) + roundingNs;
        return distance(limits, from, begin, moved, boundWithin(model, from, until) + boundWithin(hub, from, until));
      },
    });
  }
}

/** The clocks of a run by each host's own evidence. */
export function fitClocks(evidence: readonly ClockEvidence[]): FittedClocks {
  return new ClusterClocks(evidence).fitted();
}

/** Whole ns of three clocks. */
const roundingNs = 3;

const boundOf = ({ alignment }: ClockModel, time: TraceTime): number =>
  alignment.boundAt?.(time) ?? alignment.bound ?? Number.POSITIVE_INFINITY;

const boundWithin = ({ alignment }: ClockModel, from: TraceTime, until: TraceTime): number =>
  alignment.boundWithin?.(from, until) ?? alignment.bound ?? Number.POSITIVE_INFINITY;

const stepsOf = ({ model, offset }: PlacedHost) => (offset?.steps ?? []).map(({ at, jump }) => ({ time: model.toTrace(at), jump }));

function axisClock(placed: PlacedHost): AxisClock {
  const { model, offset } = placed;
  const steps = stepsOf(placed);
  return {
    drift: offset?.drift ?? 0,
    toHost: (time) => model.toHost(time),
    boundAt: (time) => boundOf(model, traceTime(time)),
    wiggle: (from, until) => model.wiggle(model.toHost(from), model.toHost(until)),
    mayStep: (from, until) => steps.some(({ time, jump }) => isNearStep(from, until, time, jump)),
  };
}

function chooseReference(evidence: readonly ClockEvidence[], hosts: readonly Host[]): string {
  const answers = new Map<string, number>();
  for (const { samples } of evidence) {
    for (const sample of samples) if (isPossible(sample)) answers.set(sample.remoteHost, (answers.get(sample.remoteHost) ?? 0) + 1);
  }
  const [most] = [...answers].sort(([hostA, a], [hostB, b]) => b - a || (hostA < hostB ? -1 : 1));
  if (most !== undefined) return most[0];
  return ofLowestRank(hosts)?.name ?? '';
}

/** Number of a rank's first pings that locate its RankTime 0: only first ones, so that later pings do not move the axis. */
const originPings = 16;

/** TraceTime 0 on the monotonic clock of a reference without ranks: the middle of each rank's first pings locates its RankTime 0. */
function originWithoutRanks(evidence: readonly ClockEvidence[], reference: string): bigint {
  const starts: bigint[] = [];
  for (const rank of evidence) {
    const own: bigint[] = [];
    for (const sample of rank.samples) {
      if (own.length === originPings) break;
      if (sample.remoteHost !== reference || !isPossible(sample)) continue;
      own.push(sample.remoteEpoch + BigInt(Math.round(sample.remoteReceived - sample.sent)));
    }
    own.sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
    if (own.length > 0) starts.push(own[own.length >> 1] as bigint);
  }
  return starts.length === 0 ? 0n : earliest(starts);
}

/** Places the reference, and a host that pinged it; undefined without a credible ping. */
function placeByPings(host: Host, leader: number, reference: string, origin: bigint): PlacedHost | undefined {
  if (host.name === reference) return { model: ClockModel.shifted('exact', 0, nanos(0)), from: 0, until: 0, referenceBound: 0, leader };
  const pings = hostPings(host.ranks, host.epoch, reference, origin);
  return pings.length === 0 ? undefined : placedBy(pings, { method: 'sampled', host, leader, referenceBound: 0 });
}

/** Refines the places of steps where hosts shared events around them: each by the clocks before this refinement. */
function placeSteps(hosts: readonly Host[], placed: (PlacedHost | undefined)[], reference: string, origin: bigint): void {
  const known = [...placed];
  for (const [index, host] of hosts.entries()) {
    const { offset, leader } = known[index] ?? {};
    if (offset === undefined || leader === undefined || offset.steps.length === 0) continue;
    const others = hosts.flatMap((_, other) => (other !== index && known[other] !== undefined ? [other] : []));
    const together = others
      .slice(0, comparedMax)
      .flatMap((other) => boundedPings(host, hosts[other] as Host, (known[other] as PlacedHost).model));
    if (together.length === 0) continue;
    const pings = hostPings(host.ranks, host.epoch, reference, origin);
    placed[index] = placedBy(pings, { method: 'sampled', host, leader, referenceBound: 0, together });
  }
}

/** `messagePings`, and how far the other clock is known. */
const boundedPings = (host: Host, other: Host, model: ClockModel): SharedPing[] =>
  messagePings(host, other, model).map((ping) => ({ ...ping, bound: boundOf(model, traceTime(referenceTime(ping))) }));

interface Placing extends OffsetHints {
  readonly method: Alignment['method'];
  readonly host: Host;
  readonly leader: number;
  readonly referenceBound: number;
}

function placedBy(pings: readonly HostPing[], { method, host, leader, referenceBound, ...hints }: Placing): PlacedHost {
  const { from, until } = lifeOf(host, pings);
  const offset = fitHostOffset(pings, from, until, hints);
  const model = ClockModel.proven(method, offset.knots, proofOf(offset, from, until, referenceBound));
  return { model, offset, from, until, referenceBound, leader };
}

const proofOf = ({ limits, steps, drift }: HostOffset, from: number, until: number, referenceBound: number): ClockProof => ({
  limits,
  steps,
  drift,
  from,
  until,
  referenceBound,
});

/** Host times between which a host's ranks ran and its pings lie. */
function lifeOf({ ranks, epoch }: Host, pings: readonly HostPing[]): { from: number; until: number } {
  const last = (pings.at(-1) as HostPing).at;
  let [from, until] = [(pings[0] as HostPing).at, last];
  for (const rank of ranks) {
    const start = Number(rank.epoch - epoch);
    // If a rank's end is unknown, it is taken to have run for one window after the last ping.
    const end = rank.until === undefined ? last + windowNs : start + rank.until + afterWatermarkNs;
    from = Math.min(from, start);
    if (Number.isFinite(end)) until = Math.max(until, start, end);
  }
  return { from, until };
}

/** Placed hosts that an unplaced one is compared with. */
const comparedMax = 16;

/** Places hosts without pings by the events that they share with placed ones, until no more can be placed. */
function placeByMessages(hosts: readonly Host[], placed: (PlacedHost | undefined)[]): void {
  let open = hosts.flatMap(({ ranks }, host) =>
    placed[host] === undefined && ranks.some(({ shared }) => shared !== undefined) ? [host] : [],
  );
  const met = new MetHosts(hosts);
  for (let left = Number.POSITIVE_INFINITY; open.length < left; ) {
    left = open.length;
    for (const host of open) placed[host] = placeByMessage(hosts, placed, host, met);
    open = open.filter((host) => placed[host] === undefined);
  }
}

/** Places a host by one with which it shares its clock, else by the one with which it shares most events: half as good where that clock stepped. */
function placeByMessage(
  hosts: readonly Host[],
  placed: readonly (PlacedHost | undefined)[],
  index: number,
  met: MetHosts,
): PlacedHost | undefined {
  const host = hosts[index] as Host;
  let best: { by: number; pings: readonly HostPing[]; worth: number } | undefined;
  let compared = 0;
  for (const by of met.of(index)) {
    if (compared >= comparedMax) break;
    const known = placed[by];
    if (known === undefined || known.model.alignment.method === 'unaligned') continue;
    const pings = messagePings(host, hosts[by] as Host, known.model);
    if (pings.length === 0) continue;
    compared++;
    const referenceBound = known.model.alignment.bound ?? 0;
    const offset = sharedOffset(host, hosts[by] as Host, known.model, pings);
    if (offset !== undefined) {
      const windows = [{ at: (pings[0] as HostPing).at, offset, width: 0, slope: 0 }];
      return placedBy(pings, { method: 'shared', host, leader: known.leader, referenceBound, known: () => windows, isSteady: true });
    }
    const worth = pings.length / (1 + (known.offset?.steps.length ?? 0));
    if (worth > (best?.worth ?? 0)) best = { by, pings, worth };
  }
  if (best === undefined) return undefined;
  const { model } = placed[best.by] as PlacedHost;
  return placedBy(best.pings, { method: 'messages', host, leader: index, referenceBound: model.alignment.bound ?? 0, known: exitOffsets });
}

/**
 * Places attempts of which no host is placed: one host by its wall clock, the others by it. Attempts do not overlap, so nothing rests on how far
 * apart they are.
 */
function placeAttempts(hosts: readonly Host[], placed: (PlacedHost | undefined)[]): void {
  const known = new Set(hosts.flatMap(({ attempt }, index) => (placed[index] === undefined ? [] : [attempt])));
  const others = new Set(hosts.flatMap(({ attempt }) => (known.has(attempt) ? [] : [attempt])));
  const unixEpoch = others.size === 0 ? undefined : unixEpochOf(hosts, placed);
  if (unixEpoch === undefined) return;
  for (const attempt of others) {
    const host = ofLowestRank(hosts.filter((one) => one.attempt === attempt)) as Host;
    const reading = wallClockOf(host);
    if (reading === undefined) continue;
    const [leader, offset] = [hosts.indexOf(host), Number(reading.unix - BigInt(reading.time) - unixEpoch)];
    placed[leader] = { model: ClockModel.shifted('shared', offset, nanos(0)), from: 0, until: 0, referenceBound: 0, leader };
  }
  placeByMessages(hosts, placed);
}

/** Unix time in ns at TraceTime 0, by the first aligned host that has a wall clock. */
function unixEpochOf(hosts: readonly Host[], placed: readonly (PlacedHost | undefined)[]): bigint | undefined {
  for (const method of ['exact', 'sampled', 'messages'] as const) {
    for (const [index, host] of hosts.entries()) {
      const model = placed[index]?.model;
      const reading = model?.alignment.method === method ? wallClockOf(host) : undefined;
      if (model !== undefined && reading !== undefined) return reading.unix - BigInt(model.toTrace(reading.time));
    }
  }
  return undefined;
}

/**
 * Models for the hosts without evidence: placed by shared steps or by their wall clocks, good only for viewing.
 * The wall clock of the trace is that of the first aligned host that has one. Returns unix time in ns at TraceTime 0.
 */
function placeUnaligned(hosts: readonly Host[], placed: (PlacedHost | undefined)[]): bigint | undefined {
  let unixEpoch = unixEpochOf(hosts, placed);
  const firsts = new FirstsOfSteps();
  for (const [index, host] of hosts.entries()) if (placed[index] !== undefined) firsts.add(index, host);
  for (const [index, host] of hosts.entries()) {
    if (placed[index] !== undefined) continue;
    const reading = wallClockOf(host);
    const unixAtEpoch = reading && reading.unix - BigInt(reading.time);
    unixEpoch ??= unixAtEpoch;
    const byWallClock = unixAtEpoch === undefined || unixEpoch === undefined ? 0 : Number(unixAtEpoch - unixEpoch);
    const first = firsts.of(host);
    const known = first === undefined ? undefined : placed[first]?.model;
    const bySteps = known === undefined ? undefined : stepOffset(host, hosts[first as number] as Host, known);
    // Steps of ranks that train together begin within a step of each other: where the wall clocks agree to within that, they are more precise.
    const isWallClockGood = reading !== undefined && bySteps !== undefined && Math.abs(bySteps.offset - byWallClock) < bySteps.apart;
    const offset = bySteps === undefined || isWallClockGood ? byWallClock : bySteps.offset;
    placed[index] = { model: ClockModel.shifted('unaligned', offset, undefined), from: 0, until: 0, referenceBound: 0, leader: index };
    firsts.add(index, host);
  }
  return unixEpoch;
}

/** A host's model with its corrections, then with its shifts: knots where any of them bends. */
function corrected(placed: PlacedHost, coupling: ClockCoupling | undefined, resort: LastResort | undefined): ClockModel {
  const { model, offset, from, until, referenceBound, leader } = placed;
  if (coupling === undefined || offset === undefined) return model;
  const proof = proofOf(offset, from, until, referenceBound);
  const coupled = bent(model, coupling.knots, (time) => coupling.correction(leader, time), proof);
  const shifted = resort?.shifted(leader) ?? [];
  if (resort === undefined || shifted.length === 0) return coupled;
  return bent(coupled, resort.bends(leader), (time) => resort.shift(leader, time), { ...proof, shifted });
}

/** `model` plus `correction`, a function of the axis that bends at the times `bends`. */
function bent(model: ClockModel, bends: Iterable<number>, correction: (time: number) => number, proof: ClockProof): ClockModel {
  const at = [...model.knots.at];
  for (const time of bends) {
    // A jump lies between two times of the host's clock, however the inverse is rounded.
    const near = Math.round(model.toHost(time));
    at.push(near - 1, near, near + 1);
  }
  at.sort((a, b) => a - b);
  const offset = at.map((time) => {
    const before = model.offsetAt(time);
    return before + correction(time + before);
  });
  return ClockModel.proven(model.alignment.method, increasing(at, offset), proof);
}
