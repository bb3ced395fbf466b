// Blame over a whole run of any length: the last steps at full detail, and windows of steps, each judged as it passes.
//
//   steps    |  window 1  |  window 2  |  w 3  ┃  window 4  |  …  |  window n  |
//                 ↓            ↓          ↓    ┃     ↓                  ↓ ← the last steps, 256 at most: the report's tables
//            findings     findings    findings ┃ findings ─► one fault over neighbouring windows is one episode, with its steps
//                                              ^ steps change for good here (step-changes.ts): a window ends, the next one begins
//
// A window is judged just before its first step is forgotten, so all ranks have reported it unless they are 128 steps apart. A fault as long
// as a window fills at least half of one, and medians over steps decide: it is found wherever it was.
//
// Where ranks were started again, a window ends, too, and numbers of steps may go back.
//
// Memory: that of `StepBlameSink` and of `StepChanges`, and `blameEpisodesMax` episodes.

import { nanosPerMs } from '@ranktrace/protocol';
import { finish } from '../model/finish.ts';
import { mean, median } from '../model/robust.ts';
import type { ProcessTotals, TraceEvent, TraceHeader, TraceLane, TraceSink } from '../model/trace-sink.ts';
import { type Blame, type BlameFinding, judgeWindow, mayBeVerdict } from './blame.ts';
import { type BlameLevels, blameOf, levelsOf } from './blame-change.ts';
import { blameLimits as limits } from './blame-limits.ts';
import type { BlameWindow, StepRange } from './blame-window.ts';
import { cpuWaitOf } from './cpu-wait.ts';
import type { FaultCost } from './fault-cost.ts';
import { faultEdge } from './fault-edge.ts';
import { type DeviceLength, longOnDevices } from './long-on-devices.ts';
import { type LongStep, LongSteps } from './long-steps.ts';
import { outlierMin } from './raw-steps.ts';
import { type StepBlameOptions, StepBlameSink } from './step-blame-sink.ts';
import { StepChanges } from './step-changes.ts';
import type { Verdict } from './verdict.ts';

/** A finding, its steps, and its cost over the whole run: `costMsPerStep` and `shareOfStep` are over all steps. */
export interface RunFinding extends Omit<BlameFinding, 'affected' | 'stretch' | 'mayBeScheduling'>, FaultCost {
  readonly steps: StepRange;
  /** Number of separate stretches within `steps`; 1: it is continuous. */
  readonly stretches: number;
}

export interface RunBlame {
  /** The most costly finding's that may be one; else that of the last steps. */
  readonly verdict: Verdict;
  /** Steps that the verdict covers; undefined if there are none. */
  readonly verdictSteps: StepRange | undefined;
  /** Findings over all steps, each fault once, most costly first. */
  readonly findings: readonly RunFinding[];
  /** Blame of the last steps, since their last change, as tables show it. */
  readonly last: Blame;
  /** All judged steps, over all windows; `areRepeated`: ranks that were started again counted some numbers once more. */
  readonly steps: StepRange & { readonly count: number; readonly windows: number; readonly areRepeated?: true };
  /** The recording has no steps: its windows were cut at this collective instead. */
  readonly cutAt?: string | undefined;
}

/** One fault over neighbouring windows; a fault without ranks: over all windows with it. */
interface Episode {
  readonly key: string;
  /** The last window that shows it. */
  window: number;
  steps: StepRange;
  /** Number of stretches; consecutive windows count as one. */
  stretches: number;
  /** Steps that it lengthened, and their total cost, ms. */
  affected: number;
  cost: number;
  /** Steps from its first to its last, as far as windows show it, and their time, ms. */
  lasted: number;
  lastedMs: number;
  /** Scheduling on a busy host may explain all of it, if it did not last. */
  mayBeScheduling: boolean;
  /** It takes enough of the steps of one of its windows: of many more steps, the same few slow ones are a small share. */
  isVerdict: boolean;
  /** The finding to report: the last steps', else the most costly. */
  reported: BlameFinding;
}

/** Windows without the fault allowed within one episode: noise may hide it for a while. */
const gapWindows = 1;
/** Most cuts of one window: a fault may begin and end within it, and so may another. */
export const cutsMax = 3;
/** Fewest steps after the last change that are judged on their own. */
export const lastStepsMin = 16;
/**
 * On a busy host some rank gets a CPU less often than its peers, or shares a core, for as long as the system leaves it there: for seconds. A rank
 * is slow by itself if it is for longer, ms, or in more of the steps than not.
 */
const schedulingMsMax = 10_000;
const schedulingShareMax = 1 / 2;

/** Steps of another kind are reported from this share of the run's time on, and are the verdict from this one on, … */
const longShareToReport = 0.02;
const longShareToJudge = 0.1;
/** … if there are so many of one cause: one or two may be chance. */
const longStepsMin = 3;

export interface RunBlameOptions {
  /** The run's beginning, if the sink does not see it. */
  readonly beginning?: BlameLevels | undefined;
  readonly onStep?: StepBlameOptions['onStep'];
  readonly parts?: StepBlameOptions['parts'];
}

export class RunBlameSink implements TraceSink {
  readonly #steps: StepBlameSink;
  #changes = new StepChanges();
  readonly #episodes: Episode[] = [];
  #judgedUpTo = Number.NEGATIVE_INFINITY;
  /** The last step checked for changes. */
  #lookedUpTo = Number.NEGATIVE_INFINITY;
  #first = Number.POSITIVE_INFINITY;
  /** The greatest number of the lives that are over. */
  #lastOver = Number.NEGATIVE_INFINITY;
  #areRepeated = false;
  #count = 0;
  /** Number and total length, ns, of the steps that findings rest on (those of another kind left out). */
  #compared = 0;
  #time = 0;
  #windows = 0;
  readonly #long = new LongSteps();
  /** Blame of the last steps, and these. */
  #last: { readonly numbers: readonly number[]; readonly blame: Blame } | undefined;

  constructor({ beginning, onStep, parts }: RunBlameOptions = {}) {
    this.#steps = new StepBlameSink({
      beginning,
      onForget: (held) => this.#pass(held),
      onRestart: (over) => this.#restart(over),
      onStep,
      parts,
    });
  }

  begin(header: TraceHeader): void {
    this.#steps.begin(header);
  }

  lane(lane: TraceLane): void {
    this.#steps.lane(lane);
  }

  event(event: TraceEvent): void {
    this.#steps.event(event);
  }

  endStretch(): void {
    this.#steps.endStretch();
  }

  end(_totals: readonly ProcessTotals[]): void {
    this.#steps.end();
  }

  /** The run's beginning, for the blame of a later part. */
  get beginning(): BlameLevels | undefined {
    return this.#steps.beginning;
  }

  /** Blame of all steps. Call once, at the end. */
  get blame(): RunBlame {
    return finish(this.judging());
  }

  /** The same; yields as often as it can. */
  *judging(): Generator<void, RunBlame> {
    this.#steps.settleOver();
    const { held } = this.#steps;
    this.#look(held);
    let since = this.#sinceLastChange(held);
    let last = yield* this.#steps.judging(since);
    for (let cut = 0; cut < cutsMax; cut++) {
      const edge = faultEdge(this.#steps.windowOf(held.filter((step) => step >= since)), last.step);
      if (edge === undefined || held.filter((step) => step >= edge).length < lastStepsMin) break;
      since = edge;
      yield;
      last = yield* this.#steps.judging(since);
    }
    let left = held.filter((step) => step > this.#judgedUpTo);
    while (left.length > 0 && (left[0] as number) < since) {
      const before = left.filter((step) => step < since);
      this.#judge(before.slice(0, this.#windowLength(left, before.length)));
      left = left.filter((step) => step > this.#judgedUpTo);
      yield;
    }
    this.#last = { numbers: held.filter((step) => step >= since), blame: last };
    const reported = this.#addLast(last, { first: since, last: held.at(-1) ?? since }, left.length);
    const lastLong = last.long.filter(({ step }) => step > this.#judgedUpTo);
    if (lastLong.length > 0) {
      const { ranks } = this.#steps.windowOf(held.filter((step) => step >= since));
      this.#addLong(held[0] ?? 0, lastLong, ranks, last.step * last.steps.count);
    }
    while (left.length > 0) {
      this.#judge(left.slice(0, this.#windowLength(left, left.length)), reported);
      left = left.filter((step) => step > this.#judgedUpTo);
      yield;
    }
    const { first = 0, last: final = 0 } = last.steps;
    this.#leaveToScheduling();
    const episodes = this.#episodes.sort((a, b) => b.cost - a.cost).slice(0, 2 * limits.blameFindingsMax);
    const about = episodes.find(({ isVerdict }) => isVerdict);
    const most = about && this.#findingOf(about);
    return this.#withLong({
      verdict: most?.kind ?? (last.verdict === 'inconclusive' ? 'inconclusive' : 'balanced'),
      verdictSteps: most?.steps ?? (last.steps.count > 0 ? { first, last: final } : undefined),
      findings: episodes.map((episode) => this.#findingOf(episode)),
      last,
      steps: {
        ...{ first: Math.min(this.#first, first), last: Math.max(this.#lastOver, final), count: this.#count, windows: this.#windows },
        ...(this.#areRepeated && { areRepeated: true }),
      },
    });
  }

  /**
   * Blame of devices with the hosts' long steps: devices are recorded in some steps, their hosts in all. `onDevices`: lengths of steps there by number.
   * Call it instead of `judging`.
   */
  addLongSteps(blame: RunBlame, onDevices: ReadonlyMap<number, DeviceLength> = new Map()): RunBlame {
    this.#steps.settleOver();
    const left = this.#steps.held.filter((step) => step > this.#judgedUpTo);
    const lengths = left.map((step) => this.#steps.lengthOf(step));
    // To cut steps takes longer than to judge the devices of a short recording, and most have no long ones.
    const hasLong = Math.max(0, ...lengths) > outlierMin * median(lengths);
    const { long = [], ranks = [] } = hasLong ? this.#steps.windowOf(left) : {};
    const isLong = new Set(long.map(({ step }) => step));
    const others = lengths.filter((_, place) => !isLong.has(left[place] as number));
    const time = others.reduce((sum, length) => sum + length, 0);
    this.#addLong(left[0] ?? 0, long, ranks, time);
    this.#compared += others.length + this.#long.amend((long) => longOnDevices(long, onDevices));
    this.#time += time;
    // Hosts that run ahead take less time for a step than their devices.
    const compared = [...onDevices.values()].filter(({ isCompared }) => isCompared);
    if (2 * compared.length >= this.#compared) this.#time = this.#compared * mean(compared.map((step) => step.mean));
    return this.#withLong(blame);
  }

  #withLong(blame: RunBlame): RunBlame {
    const long = this.#longFindings();
    const findings = [...blame.findings, ...long.map(({ finding }) => finding)].sort((a, b) => b.costMsPerStep - a.costMsPerStep);
    const judged = blame.findings.find(({ kind }) => kind === blame.verdict)?.costMsPerStep ?? 0;
    const longest = long.find(({ isVerdict }) => isVerdict)?.finding;
    if (longest === undefined || longest.costMsPerStep <= judged) return { ...blame, findings };
    return { ...blame, findings, verdict: 'long_steps', verdictSteps: longest.steps };
  }

  /** Removes episodes that scheduling on a busy host explains; they count to `cpu_contention`. */
  #leaveToScheduling(): void {
    const contention = this.#episodes.find(({ key }) => key === contentionKey);
    for (const [at, { mayBeScheduling, lasted, lastedMs, cost }] of [...this.#episodes.entries()].reverse()) {
      if (!mayBeScheduling || lastedMs > schedulingMsMax || lasted > schedulingShareMax * this.#compared) continue;
      this.#episodes.splice(at, 1);
      if (contention !== undefined) contention.cost += cost;
    }
  }

  /** Judges a window that is about to be forgotten. */
  #pass(held: readonly number[]): void {
    // Some ranks may not have reported the newer half yet.
    const half = Math.max(1, held.length >> 1);
    this.#look(held.slice(0, half));
    if ((held[0] as number) <= this.#judgedUpTo) return;
    this.#judge(held.slice(0, this.#windowLength(held, half)));
  }

  /** Judges the rest of the lives that are over: the next ones may count the same steps. */
  #restart(over: readonly number[]): void {
    this.#look(over);
    for (let left = over; ; ) {
      left = left.filter((step) => step > this.#judgedUpTo);
      if (left.length === 0) break;
      this.#judge(left.slice(0, this.#windowLength(left, left.length)));
    }
    this.#lastOver = Math.max(this.#lastOver, over.at(-1) as number);
    this.#changes = new StepChanges();
    this.#judgedUpTo = Number.NEGATIVE_INFINITY;
    this.#lookedUpTo = Number.NEGATIVE_INFINITY;
  }

  /** Looks for changes in complete steps. */
  #look(numbers: readonly number[]): void {
    for (const step of numbers) {
      if (step <= this.#lookedUpTo) continue;
      this.#lookedUpTo = step;
      this.#changes.add(step, this.#steps.lengthOf(step));
    }
  }

  /** Length of the window that begins with the first of `numbers`, at most `most` steps: up to the next change, if one is near. */
  #windowLength(numbers: readonly number[], most: number): number {
    const { blameWindowSteps: usual } = limits;
    const first = numbers[0] as number;
    const change = this.#changes.changes.find((step) => step > first);
    const at = change === undefined ? -1 : numbers.findIndex((step) => step >= change);
    // A few steps prove little: the rest after the last whole window, or before a change, is judged with that window.
    const end = at < 0 ? numbers.length : at;
    const length = end < 1.5 * usual ? end : end < 2 * usual ? end >> 1 : usual;
    return Math.max(1, Math.min(length, most));
  }

  /** The first of the steps that are like the last one. */
  #sinceLastChange(held: readonly number[]): number {
    const change = this.#changes.changes.findLast((step) => held.length - held.findIndex((one) => one >= step) >= lastStepsMin);
    return Math.max(change ?? Number.NEGATIVE_INFINITY, held[0] ?? 0);
  }

  /** `reported`: what the last steps together show, by key; `cuts`: how often the window was cut already. */
  #judge(numbers: readonly number[], reported?: ReadonlyMap<string, Episode>, cuts = 0): void {
    const first = numbers[0] as number;
    const window = this.#steps.windowOf(numbers);
    const { length: count } = window.steps;
    const { findings, step } = this.#blameOf(numbers, window);
    const edge = cuts < cutsMax ? faultEdge(window, step) : undefined;
    if (edge !== undefined) {
      for (const isAfter of [false, true]) {
        this.#judge(
          numbers.filter((number) => number >= edge === isAfter),
          reported,
          cuts + 1,
        );
      }
      return;
    }
    this.#judgedUpTo = numbers.at(-1) as number;
    this.#windows++;
    this.#count += count + window.leftOut;
    this.#compared += count;
    this.#first = Math.min(this.#first, first);
    if (first <= this.#lastOver) this.#areRepeated = true;
    this.#time += step * count;
    // Long steps among the last ones are added once, by `judging`.
    if (reported === undefined) this.#addLong(first, window.long ?? [], window.ranks, step * count);
    for (const [key, finding] of keyed(findings)) {
      if (finding.kind === 'inconclusive' || !mayBeVerdict(finding)) continue;
      // The remainder of a fault in a few steps beside its edge shows as uneven work, too.
      if (finding.kind === 'rotating_imbalance' && count < lastStepsMin) continue;
      const known = reported === undefined ? [] : amongReported(reported, key, finding);
      // The cost of what the last steps show was counted with them.
      for (const episode of known) episode.isVerdict = true;
      if (known.length === 0) this.#add(key, finding, { first, last: this.#judgedUpTo }, { count, step, isNew: count });
    }
  }

  /** Blame of a window of these steps. A short run is one window: its last steps are all steps. */
  #blameOf(numbers: readonly number[], window: BlameWindow): Blame {
    const before = this.#steps.beginning;
    const known = this.#last;
    if (before === undefined && known?.numbers.length === numbers.length && known.numbers[0] === numbers[0]) return known.blame;
    const now = before && levelsOf(window);
    const change = before && now && blameOf(before, now);
    return finish(judgeWindow(window, { missing: this.#steps.missingRanks, change }));
  }

  /** Adds the last steps as a window; `left` of them were in none before. Returns the episodes of their findings, by key. */
  #addLast({ findings, step, steps: { count } }: Blame, range: StepRange, left: number): Map<string, Episode> {
    const episodes = new Map<string, Episode>();
    for (const [key, finding] of keyed(findings)) {
      const episode = this.#add(key, finding, range, { count, step, isNew: Math.min(count, left) });
      episode.reported = finding;
      episodes.set(key, episode);
    }
    return episodes;
  }

  /** Adds `finding` of `count` steps of `step` ns in the mean; if an episode continues, `isNew` of them are new to it. */
  #add(
    key: string,
    finding: BlameFinding,
    steps: StepRange,
    { count, step, isNew }: { readonly count: number; readonly step: number; readonly isNew: number },
  ): Episode {
    const seen: StepRange = finding.stretch ?? steps;
    const window = this.#windows;
    const isNext = (of: Episode): boolean => of.window >= window - 1 - gapWindows;
    let episode = this.#episodes.findLast((of) => of.key === key && (finding.ranks.length === 0 || isNext(of)));
    const taken = episode === undefined ? count : isNew;
    if (episode === undefined) {
      const about = { key, window, steps: seen, stretches: 1, reported: finding };
      episode = { ...about, affected: 0, cost: 0, lasted: 0, lastedMs: 0, mayBeScheduling: true, isVerdict: false };
      this.#episodes.push(episode);
    } else if (!isNext(episode)) episode.stretches++;
    episode.window = window;
    episode.steps = { first: Math.min(episode.steps.first, seen.first), last: Math.max(episode.steps.last, seen.last) };
    const share = taken / Math.max(1, count);
    const lasted = share * Math.min(count, finding.stretch === undefined ? count : seen.last - seen.first + 1);
    episode.affected += Math.round((finding.affected ?? count) * share);
    episode.lasted += lasted;
    episode.lastedMs += (lasted * step) / nanosPerMs;
    if (finding.mayBeScheduling !== true) episode.mayBeScheduling = false;
    if (mayBeVerdict(finding)) episode.isVerdict = true;
    episode.cost += taken * finding.costMsPerStep;
    if (finding.costMsPerStep > episode.reported.costMsPerStep) episode.reported = finding;
    if (this.#episodes.length > limits.blameEpisodesMax) {
      const least = this.#episodes.reduce((of, other) => (of === episode || (other !== episode && other.cost < of.cost) ? other : of));
      this.#episodes.splice(this.#episodes.indexOf(least), 1);
    }
    return episode;
  }

  /** Long steps of a window; `time`: the length of its other steps, ns. */
  #addLong(first: number, long: readonly LongStep[], ranks: BlameWindow['ranks'], time: number): void {
    const sum = (of: 'cost' | 'length'): number => long.reduce((total, { [of]: part }) => total + part, 0);
    this.#long.add(first, long, cpuWaitOf(ranks).explains(sum('cost'), time + sum('length')));
  }

  /** Steps that comparisons leave out, by cause, as far as they cost the run something. */
  #longFindings(): { readonly finding: RunFinding; readonly isVerdict: boolean }[] {
    const { count: left, time } = this.#long;
    const [steps, all] = [this.#compared + left, this.#time + time];
    return this.#long
      .groups(longShareToReport * all)
      .map(({ ranks, phase, cause, steps: range, count, quiet, cost, isRegular, evidence }) => {
        const [perStep, share] = [cost / Math.max(1, steps) / nanosPerMs, cost / all];
        const finding: RunFinding = {
          ...{ kind: 'long_steps', ranks, phase, steps: range, stretches: 1, affectedSteps: count, comparedSteps: steps, evidence },
          ...{ costMsPerAffectedStep: cost / count / nanosPerMs, costMsPerStep: perStep, shareOfStep: share, gainMsPerStep: perStep },
        };
        const isCertain = cause !== 'unknown' && (isRegular || (quiet >= longStepsMin && 2 * quiet >= count));
        return { finding, isVerdict: isCertain && share >= longShareToJudge };
      });
  }

  #findingOf({ reported, steps, stretches, affected, cost }: Episode): RunFinding {
    const { affected: _, stretch: __, mayBeScheduling: ___, ...finding } = reported;
    // Steps that their windows leave out may be compared among the last steps: these and their time count, too.
    const compared = Math.max(1, this.#compared, affected);
    return {
      ...finding,
      steps,
      stretches,
      affectedSteps: affected,
      comparedSteps: compared,
      costMsPerAffectedStep: cost / Math.max(1, affected),
      costMsPerStep: cost / compared,
      shareOfStep: this.#time > 0 ? Math.min(1, (nanosPerMs * cost) / this.#time) : 0,
    };
  }
}

/** The blame of one window as that of a whole run. */
export function runBlameOf(last: Blame): RunBlame {
  const { count, first = 0, last: final = 0 } = last.steps;
  const steps: StepRange = { first, last: final };
  return {
    verdict: last.verdict,
    verdictSteps: count > 0 ? steps : undefined,
    findings: last.findings.map(({ affected = count, stretch, mayBeScheduling: _, ...finding }) => ({
      ...finding,
      steps: stretch ?? steps,
      stretches: 1,
      affectedSteps: affected,
      comparedSteps: count,
      costMsPerAffectedStep: (finding.costMsPerStep * count) / Math.max(1, affected),
    })),
    last,
    steps: { ...steps, count, windows: 1 },
  };
}

/** The reported episodes that have the finding: of its ranks, or of these one by one or with others, as all ranks of a host are one finding in some steps. */
function amongReported(reported: ReadonlyMap<string, Episode>, key: string, { kind, ranks }: BlameFinding): readonly Episode[] {
  const same = reported.get(key);
  if (same !== undefined) return [same];
  const sharing = [...reported.values()].filter(({ reported: of }) => of.kind === kind && of.ranks.some((rank) => ranks.includes(rank)));
  return ranks.every((rank) => sharing.some(({ reported: of }) => of.ranks.includes(rank))) ? sharing : [];
}

/** `keyed`: of a finding without ranks. */
const contentionKey = 'cpu_contention ';

/** Keys that identify one fault across windows: the most costly finding of a kind and its ranks, whatever its phase there. */
function keyed(findings: readonly BlameFinding[]): [key: string, finding: BlameFinding][] {
  const keys = new Set<string>();
  return findings.map((finding) => {
    const { kind, ranks, phase, evidence } = finding;
    const plain = kind === 'inconclusive' ? `${kind} ${evidence[0]}` : `${kind} ${ranks.join()}`;
    const key = keys.has(plain) ? `${plain} ${phase}` : plain;
    keys.add(key);
    return [key, finding];
  });
}
