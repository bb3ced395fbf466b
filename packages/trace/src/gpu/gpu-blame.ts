// Blame of a job whose work runs on GPUs: which rank, or what of all ranks, makes its steps long on the devices.
//
//   device work (GpuSink) ─┐
//   collectives ───────────┴─► steps on the devices ─► blame ─► host_bound, communication_bound, straggler, …
//
// Without steps in the recording, its windows are cut at a collective that repeats on all ranks, about once a step. Each attempt of a job that was
// started again is judged on its own.

import { nanosPerMs } from '@ranktrace/protocol';
import { type Blame, type BlameContext, type BlameFinding, judgeWindow } from '../blame/blame.ts';
import {
  type BlameChange,
  type BlameLevels,
  baselineSteps,
  blameOf,
  changeStepsMin,
  levelsOf,
  warmUpSteps,
} from '../blame/blame-change.ts';
import { blameLimits } from '../blame/blame-limits.ts';
import type { BlameWindow } from '../blame/blame-window.ts';
import { CollectiveParts } from '../blame/collective-parts.ts';
import { faultEdge } from '../blame/fault-edge.ts';
import { joinedBlame, withLast } from '../blame/join-blames.ts';
import type { DeviceLength } from '../blame/long-on-devices.ts';
import { transfersOnRanks } from '../blame/network.ts';
import { OwnWork } from '../blame/own-work.ts';
import type { RawCollective } from '../blame/raw-steps.ts';
import { Replay } from '../blame/replay.ts';
import { cutsMax, lastStepsMin, type RunBlame, runBlameOf } from '../blame/run-blame-sink.ts';
import type { Verdict } from '../blame/verdict.ts';
import { finish } from '../model/finish.ts';
import { isNcclLane } from '../model/lanes.ts';
import { deviation, mean, median } from '../model/robust.ts';
import type { ProcessTotals, TraceEvent, TraceHeader, TraceLane, TraceSink } from '../model/trace-sink.ts';
import { copyPhase, type DeviceRank, DeviceSteps, devicePhases, hostLatePhase } from './device-window.ts';
import type { WorkStep } from './device-work.ts';
import { busyEvidence, communicationEvidence, copyEvidence, hostEvidence, mostlyIn, percent, type Transfers } from './gpu-evidence.ts';
import { gpuLimits as limits } from './gpu-limits.ts';
import type { GpuSink } from './gpu-sink.ts';
import type { GpuRank, GpuSummary } from './gpu-summary.ts';
import { withHostPaces } from './host-paced.ts';
import { kernelsPerStep } from './kernel-sums.ts';
import type { RankRecord } from './record-work.ts';
import { type RepeatingWindows, repeatingWindows } from './repeating-windows.ts';
import { afterFirst } from './step-paces.ts';

/** From this share of the step on, idle time or exposed communication of a single rank is its verdict. */
const shareToJudgeAlone = 0.1;
/** One rank is to blame for uneven work if it works longest in this share of at least so many steps, … */
const leaderShareMin = 0.75;
const leaderStepsMin = 3;
/** … and this share of all waiting is for it, … */
const waitedShareMin = 0.6;
/** … and chance makes a rank lead so often in at most this share of jobs, or its excess is so many deviations of the others from each other. */
const leaderChanceMax = 0.02;
const leaderSpreadsMin = 3;

/** Steps on the devices in a few numbers. */
export interface DeviceLevels {
  readonly blame: BlameLevels;
  /** Mean time of each kernel per step and rank, ns; the longest ones. */
  readonly kernels: ReadonlyMap<string, number>;
  /** Names beyond those. */
  readonly kernelsLeftOut: number;
}

/** Explains the change of steps on the devices. */
export function changeOnDevices(before: BlameLevels, now: BlameLevels): BlameChange {
  return inWordsOfDevices(blameOf(before, now));
}

/** Blames what GPUs did. It must be in one merge with `gpus`. */
export class GpuBlameSink implements TraceSink {
  readonly #gpus: GpuSink;
  readonly #parts: CollectiveParts;
  readonly #ownsParts: boolean;
  /** By index of the process: parts on its streams, and as NCCL's plugin saw them. */
  readonly #collectives = new Map<number, { readonly stream: RawCollective[]; readonly nccl: RawCollective[] }>();
  readonly #names = new Map<RawCollective, string>();
  readonly #lengths = new Map<number, DeviceLength>();
  #header: TraceHeader | undefined;
  #count = 0;

  /** `parts`: collectives of the same merge, which they get before the sink; default its own. */
  constructor(gpus: GpuSink, parts?: CollectiveParts) {
    this.#gpus = gpus;
    this.#parts = parts ?? new CollectiveParts();
    this.#ownsParts = parts === undefined;
  }

  begin(header: TraceHeader): void {
    this.#header = header;
    if (this.#ownsParts) this.#parts.begin(header);
  }

  lane(_lane: TraceLane): void {}

  event(event: TraceEvent): void {
    if (event.kind !== 'collective') return;
    if (this.#ownsParts) this.#parts.event(event);
    const { process, kind } = event.lane;
    const raw = this.#parts.part;
    const isNccl = isNcclLane(event.lane);
    if (raw === undefined || (kind !== 'stream' && !isNccl) || this.#count >= limits.gpuBlameCollectivesMax) return;
    this.#count++;
    const of = this.#collectives.get(process.index) ?? { stream: [], nccl: [] };
    this.#collectives.set(process.index, of);
    of[isNccl ? 'nccl' : 'stream'].push(raw);
    this.#names.set(raw, `${event.name} ${event.group} ${event.bytes}`);
  }

  endStretch(): void {
    if (this.#ownsParts) this.#parts.endStretch();
  }

  end(totals: readonly ProcessTotals[]): void {
    if (this.#ownsParts) this.#parts.end(totals);
  }

  /** After the merge's end; undefined where not every rank with steps has device work, or nothing repeats. */
  get blame(): RunBlame | undefined {
    return finish(this.judging());
  }

  /** The same; yields as often as it can. */
  *judging(): Generator<void, RunBlame | undefined> {
    const summary = yield* this.#gpus.summing();
    const judged: RunBlame[] = [];
    for (const [attempt, together] of this.#attempts) {
      const ranks = summary.ranks.filter((rank) => rank.attempt === attempt);
      judged.push(...(yield* this.#judging(together, { ...summary, ranks })));
    }
    return judged.length === 0 ? undefined : joinedBlame(judged);
  }

  /**
   * The last steps on the devices, to be compared with those of another run by `changeOnDevices`; after the merge's end. Undefined where not every rank with steps
   * has device work, or no step was recorded of all of them.
   */
  get levels(): DeviceLevels | undefined {
    const attempts = this.#attempts.map(([, together]) => together);
    const most = Math.max(...attempts.map(({ length }) => length));
    const together = attempts.findLast(({ length }) => length === most) ?? [];
    const lap = lapsOf(together.map((record) => this.#rankOf(record))).at(-1);
    if (lap === undefined) return undefined;
    const steps = new DeviceSteps(lap, this.#parts.groups);
    const from = Math.max(Math.min(warmUpSteps, steps.count >> 1), steps.count - baselineSteps);
    const blame = levelsOf(finish(steps.window(from, steps.count)));
    const works = together.map(({ work }) => work);
    const all = kernelsPerStep(works);
    const kernels = new Map([...all].sort(([, a], [, b]) => b - a).slice(0, limits.comparedKernelsMax));
    return blame && { blame, kernels, kernelsLeftOut: all.size - kernels.size };
  }

  /** Attempts in order, without a single rank's where others have more; none where a rank with steps has no device work. */
  get #attempts(): readonly (readonly [number, readonly RankRecord[]])[] {
    // A rank that only waits for its device has no device work.
    const recorded = this.#gpus.record.ranks.filter(({ work }) => work.work.length > 0 && work.extent !== undefined);
    const seen = new Set(recorded.map(({ process }) => process.rank));
    if (recorded.length === 0 || this.#header?.processes.some(({ rank }) => !seen.has(rank))) return [];
    const attempts = new Map<number, RankRecord[]>();
    for (const record of recorded) {
      const attempt = this.#gpus.attemptOf(record.process);
      const together = attempts.get(attempt);
      if (together === undefined) attempts.set(attempt, [record]);
      else together.push(record);
    }
    const most = Math.max(...[...attempts.values()].map(({ length }) => length));
    return [...attempts].filter(([, { length }]) => length > 1 || most === 1).sort(([a], [b]) => a - b);
  }

  #rankOf({ process, members, work }: RankRecord): DeviceRank {
    return { process, work, windows: work.windows, collectives: this.#collectivesOf(members) };
  }

  /** Length of the judged steps on the devices, by number; the longest of those that have one number. */
  get stepLengths(): ReadonlyMap<number, DeviceLength> {
    return this.#lengths;
  }

  #addLengths(lengths: ReadonlyMap<number, DeviceLength>): void {
    for (const [step, length] of lengths) {
      const known = this.#lengths.get(step);
      if (known === undefined || known.longest < length.longest) this.#lengths.set(step, length);
    }
  }

  /** Ranks that ran together: a blame of each lap of their steps. */
  *#judging(together: readonly RankRecord[], summary: GpuSummary): Generator<void, RunBlame[]> {
    const known = together.map((record) => this.#rankOf(record));
    const hasSteps = known.some(({ windows }) => windows.length > 0);
    const cut = hasSteps ? undefined : (repeatingWindows(known, this.#names) ?? wholeWindow(known));
    const ranks = cut === undefined ? known : known.map((rank, place) => ({ ...rank, windows: cut.windows[place] ?? [] }));
    const judged: RunBlame[] = [];
    const missing = ranks.length === 1 ? [] : this.#missing;
    const stepless = ranks.flatMap(({ process, windows }) => (windows.length === 0 ? [process.rank] : []));
    const paced = (blame: Blame, { steps }: BlameWindow): Blame => {
      if (!hasSteps || !blame.findings.some(({ kind }) => kind === 'straggler')) return blame;
      const judgedSteps = new Set(steps.map(({ step }) => step));
      const paces = ranks.flatMap(({ process, work }) => {
        const own = afterFirst(work.steps).filter(({ number }) => judgedSteps.has(number));
        return own.length === 0 ? [] : [[process.rank, mean(own.map(({ start, end }) => end - start))] as const];
      });
      return withHostPaces(blame, new Map(paces), hostLatePhase);
    };
    const told: Told = (blame, window) =>
      runBlameOf(
        ranks.length === 1
          ? ofOneRank(blame, summary.ranks[0] as GpuRank, this.#missing.length)
          : ofDevices(paced(blame, window), summary, transfersOnRanks(window)),
      );
    for (const lap of lapsOf(ranks)) {
      const steps = new DeviceSteps(lap, this.#parts.groups);
      const blame = yield* blameOfSteps(steps, { missing, stepless }, told);
      if (cut === undefined) this.#addLengths(steps.lengths);
      judged.push({ ...blame, ...(cut && { cutAt: cut.name }) });
    }
    return judged;
  }

  /** Ranks of which nothing was recorded. */
  get #missing(): number[] {
    const seen = new Set(this.#header?.processes.map(({ rank }) => rank));
    return Array.from({ length: this.#header?.worldSize ?? 0 }, (_, rank) => rank).filter((rank) => !seen.has(rank));
  }

  /** A collective that both a profiler and NCCL's plugin recorded counts once. */
  #collectivesOf(members: ReadonlySet<number>): readonly RawCollective[] {
    const parts = [...members].flatMap((index) => this.#collectives.get(index) ?? []);
    const ofStreams = parts.flatMap(({ stream }) => stream);
    return (ofStreams.length > 0 ? ofStreams : parts.flatMap(({ nccl }) => nccl)).sort((a, b) => a.entry - b.entry);
  }
}

/** The blame of a window in the words of devices. */
type Told = (blame: Blame, window: BlameWindow) => RunBlame;

interface Judged {
  readonly blame: RunBlame;
  /** The place of the first step after the clearest edge of a fault. */
  readonly edge: number | undefined;
}

/**
 * Judges steps in windows, and the last ones together, as those of hosts are: a window is cut where a fault begins or ends. A long recording is compared
 * with its beginning.
 */
function* blameOfSteps(steps: DeviceSteps, context: BlameContext, told: Told): Generator<void, RunBlame> {
  const { count } = steps;
  const { blameWindowSteps: usual } = blameLimits;
  const keptFrom = Math.max(0, count - limits.gpuBlameStepsMax);
  let beginning: BlameLevels | undefined;
  const judge = function* (from: number, until: number): Generator<void, Judged> {
    const window = yield* steps.window(from, until, Math.min(from, keptFrom));
    const now = { ...window, steps: window.steps.slice(-baselineSteps) };
    const change = beginning && blameOf(beginning, now);
    if (count >= changeStepsMin) beginning ??= levelsOf({ ...window, steps: window.steps.slice(warmUpSteps) });
    const blame = withLeader(yield* judgeWindow(window, { ...context, change }), window);
    yield;
    return { blame: told(blame, window), edge: steps.placeOf(faultEdge(window, blame.step)) };
  };
  const judgeParts = function* (from: number, until: number, cuts: number): Generator<void, RunBlame[]> {
    const { blame, edge } = yield* judge(from, until);
    if (edge === undefined || cuts === 0) return [blame];
    return [...(yield* judgeParts(from, edge, cuts - 1)), ...(yield* judgeParts(edge, until, cuts - 1))];
  };
  const windows: RunBlame[] = [];
  let from = 0;
  do {
    const left = count - from;
    const until = left < 1.5 * usual ? count : from + (from === 0 ? warmUpSteps : 0) + usual;
    windows.push(...(yield* judgeParts(from, until, cutsMax)));
    from = until;
  } while (from < count);
  if (windows.length === 1) return windows[0] as RunBlame;
  let since = keptFrom;
  let last = yield* judge(since, count);
  for (let cut = 0; cut < cutsMax && last.edge !== undefined && count - last.edge >= lastStepsMin; cut++) {
    since = last.edge;
    last = yield* judge(since, count);
  }
  return withLast(joinedBlame(windows), last.blame);
}

/**
 * Recordings of devices have few steps, too few to distinguish a rank's excess from noise by its size alone. But where one rank is the last into nearly all
 * collectives, and works longest in nearly all steps, uneven work is that rank's.
 */
function withLeader(blame: Blame, window: BlameWindow): Blame {
  const uneven = blame.findings.find(({ kind }) => kind === 'rotating_imbalance');
  if (uneven === undefined || window.steps.length < leaderStepsMin) return blame;
  const own = new OwnWork(window);
  const totals = window.ranks.map((_, rank) => own.total(rank));
  const leads = window.ranks.map(() => 0);
  const groups = [...own.groups.values()].filter(({ length }) => length > 1);
  for (const step of window.steps.keys()) {
    for (const group of groups) {
      const longest = group.reduce((most, rank) => ((totals[rank]?.[step] as number) > (totals[most]?.[step] as number) ? rank : most));
      leads[longest] = (leads[longest] as number) + 1;
    }
  }
  const leader = leads.indexOf(Math.max(...leads));
  const [lead, waited] = [(leads[leader] as number) / window.steps.length, waitedFor(window, window.ranks[leader]?.rank ?? -1)];
  if (lead < leaderShareMin || waited < waitedShareMin) return blame;
  const others = (groups.find((group) => group.includes(leader)) ?? []).filter((rank) => rank !== leader);
  if (!isSure(totals, leader, others, leads[leader] as number)) return blame;
  const phases = [...devicePhases.keys()];
  const usual = phases.map((phase) =>
    Float64Array.from(window.steps, (_, step) => median(others.map((rank) => own.of(rank, phase, step)))),
  );
  const isSlow = phases.map((phase) => median(own.inPhase(leader, phase)) > median(usual[phase] as Float64Array));
  const step = blame.step;
  const mended = new Replay(window).meanStep((rank, at, phase, length) => {
    const [mine, theirs] = [own.of(leader, phase, at), usual[phase]?.[at] as number];
    return rank !== leader || isSlow[phase] !== true || mine <= theirs ? length : (length * theirs) / mine;
  });
  const cost = step - mended;
  if (cost < 0.5 * uneven.shareOfStep * step) return blame;
  const more = phases.map((phase) => median(own.inPhase(leader, phase)) - median(usual[phase] as Float64Array));
  const [rank, ms] = [window.ranks[leader]?.rank ?? -1, cost / nanosPerMs];
  const straggler: BlameFinding = {
    ...{ kind: 'straggler', ranks: [rank], phase: devicePhases[more.indexOf(Math.max(...more))] as string },
    ...{ costMsPerStep: ms, shareOfStep: cost / step, gainMsPerStep: ms },
    evidence: [
      `rank ${rank} works longest in ${leads[leader]} of ${window.steps.length} steps, and ${percent(waited)} of all waiting in collectives is for it`,
    ],
  };
  const findings = onceEach(blame.findings, uneven, straggler);
  return { ...blame, findings, verdict: blame.verdict === 'rotating_imbalance' ? 'straggler' : blame.verdict };
}

/** The ranks with the windows of each lap, the last ones as one: between two, numbers of steps go back, as with profilers one after the other. */
function lapsOf(ranks: readonly DeviceRank[]): readonly (readonly DeviceRank[])[] {
  const laps = ranks.map(({ windows }) => {
    const of: WorkStep[][] = [];
    for (const window of windows) {
      const lap = of.at(-1);
      if (lap === undefined || window.number <= (lap.at(-1) as WorkStep).number) of.push([window]);
      else lap.push(window);
    }
    return of.slice(-limits.gpuBlameLapsMax);
  });
  const most = Math.max(0, ...laps.map(({ length }) => length));
  return Array.from({ length: most }, (_, lap) =>
    ranks.map((rank, place) => {
      const own = laps[place] as WorkStep[][];
      return { ...rank, windows: own[own.length - most + lap] ?? [] };
    }),
  );
}

/** `straggler` in the place of `uneven`; where the rank is one already, by its size, both are one finding with the evidence and the larger cost of both. */
function onceEach(findings: readonly BlameFinding[], uneven: BlameFinding, straggler: BlameFinding): BlameFinding[] {
  const same = findings.find(
    ({ kind, ranks, phase }) => kind === 'straggler' && ranks.join() === straggler.ranks.join() && phase === straggler.phase,
  );
  if (same === undefined) return findings.map((finding) => (finding === uneven ? straggler : finding));
  const costly = same.costMsPerStep >= straggler.costMsPerStep ? same : straggler;
  const both = { ...costly, evidence: [...same.evidence, ...straggler.evidence] };
  return findings.flatMap((finding) => (finding === same ? both : finding === uneven ? [] : finding));
}

/** Whether chance does not make one rank of these the longest in so many steps: few steps, or few ranks, prove little unless it stands out of their noise. */
function isSure(totals: readonly Float64Array[], leader: number, others: readonly number[], leads: number): boolean {
  const mine = totals[leader] as Float64Array;
  const [steps, ranks] = [mine.length, others.length + 1];
  let [chance, ways] = [0, 1];
  for (let count = 0; count <= steps; count++) {
    if (count >= leads) chance += ways * (1 / ranks) ** count * (1 - 1 / ranks) ** (steps - count);
    ways = (ways * (steps - count)) / (count + 1);
  }
  if (ranks * chance <= leaderChanceMax) return true;
  const middles = Float64Array.from(mine, (_, step) => median(others.map((rank) => totals[rank]?.[step] as number)));
  const more = mine.map((total, step) => total - (middles[step] as number));
  const apart = others.flatMap((rank) => Array.from(totals[rank] as Float64Array, (total, step) => total - (middles[step] as number)));
  const noise = ranks > 2 ? deviation(apart) : deviation(more);
  return median(more) >= leaderSpreadsMin * (1 + 4 / Math.max(1, (steps - 1) * others.length)) * noise;
}

/** The share of all waiting that is for one rank. */
function waitedFor({ steps }: BlameWindow, rank: number): number {
  let [all, forRank] = [0, 0];
  for (const { ranks } of steps) {
    for (const { pieces } of ranks) {
      for (const piece of pieces) {
        if (piece.kind !== 'wait') continue;
        all += piece.length;
        if (piece.meeting.lastRank === rank) forRank += piece.length;
      }
    }
  }
  return all > 0 ? forRank / all : 0;
}

/** The same findings in the words of devices, with what the hosts were doing and what the network could do. */
function ofDevices(blame: Blame, { ranks }: GpuSummary, transfers: Transfers): Blame {
  const findings = blame.findings.map((finding): BlameFinding => {
    const about = finding.ranks.length === 0 ? ranks : ranks.filter(({ rank }) => finding.ranks.includes(rank));
    const isHost = finding.phase === hostLatePhase;
    const kind = onDevices(finding.kind);
    const evidence =
      kind === 'host_bound'
        ? hostEvidence(about)
        : kind === 'communication_bound'
          ? [...communicationEvidence(ranks, transfers), ...finding.evidence]
          : kind === 'copy_bound'
            ? copyEvidence(about)
            : kind === 'inconclusive'
              ? finding.evidence
              : [...finding.evidence, ...busyEvidence(about, ranks), ...(isHost ? hostEvidence(about) : [])];
    return { ...finding, ...(isHost && { hostIn: mostlyIn(about) }), kind, evidence };
  });
  return { ...blame, verdict: onDevices(blame.verdict), findings, change: blame.change && inWordsOfDevices(blame.change) };
}

const inWordsOfDevices = (change: BlameChange): BlameChange => ({ ...change, kind: onDevices(change.kind) });

/** Devices wait for their host as ranks do for data, and for communication as ranks do for the network. */
const onDevices = <Kind extends Verdict>(kind: Kind): Kind =>
  (kind === 'data_loading' ? 'host_bound' : kind === 'network' ? 'communication_bound' : kind) as Kind;

/** All of one rank's recording as one window. */
function wholeWindow(ranks: readonly DeviceRank[]): RepeatingWindows | undefined {
  const extent = ranks.length === 1 ? ranks[0]?.work.extent : undefined;
  return extent && { name: 'the whole recording', windows: [[{ number: 0, ...extent }]] };
}

/** One rank's file shows nothing of its peers, of which there are `missing`, but how its own devices were held up. */
function ofOneRank(inHostsWords: Blame, rank: GpuRank, missing: number): Blame {
  const { totals, idle } = rank;
  const blame = { ...inHostsWords, change: inHostsWords.change && inWordsOfDevices(inHostsWords.change) };
  const steps = Math.max(1, rank.steps.length + rank.stepsLeftOut);
  const finding = (
    kind: 'host_bound' | 'communication_bound' | 'copy_bound',
    time: number,
    phase: string | undefined,
    evidence: string[],
    hostIn?: string,
  ): BlameFinding => {
    const ms = time / steps / nanosPerMs;
    const cost = { costMsPerStep: ms, shareOfStep: time / totals.length, gainMsPerStep: ms };
    return { kind, ranks: [rank.rank], phase, ...(hostIn !== undefined && { hostIn }), ...cost, evidence };
  };
  const findings = [
    finding('host_bound', idle.hostBound, hostLatePhase, [...busyEvidence([rank], [rank]), ...hostEvidence([rank])], mostlyIn([rank])),
    finding('communication_bound', totals.exposed, 'GPU communication', [...communicationEvidence([rank]), ...unknownWaiting(missing)]),
    finding('copy_bound', totals.copies, copyPhase, copyEvidence([rank])),
  ]
    .filter(({ shareOfStep }) => shareOfStep >= shareToJudgeAlone)
    .sort((a, b) => b.shareOfStep - a.shareOfStep);
  const unknown = idle.byCause.dependency + idle.byCause.other;
  if (findings.length > 0 || unknown < shareToJudgeAlone * totals.length)
    return { ...blame, verdict: findings[0]?.kind ?? 'balanced', findings };
  const text = `the GPU idles for ${percent(unknown / totals.length)} of the time because of something that this file does not show: launches that were not recorded, or waits for another stream, device or rank`;
  const why: BlameFinding = { kind: 'inconclusive', ranks: [], phase: undefined, ...noCost, evidence: [text] };
  return { ...blame, verdict: 'inconclusive', findings: [why] };
}

const unknownWaiting = (missing: number): string[] =>
  missing === 0 ? [] : [`it communicates, or waits for ranks that are not here: ${missing} of ${missing + 1}`];

const noCost = { costMsPerStep: 0, shareOfStep: 0, gainMsPerStep: 0 } as const;
