// Blame over a whole run, however long it was: the last steps at full detail, and windows of steps, each judged as it passes.
//
//   steps    |  window 1  |  window 2  |  w 3  ┃  window 4  |  …  |  window n  |
//                 ↓            ↓          ↓    ┃     ↓                  ↓ ← the last steps, 256 at most: the report's tables
//            findings     findings    findings ┃ findings ─► one fault over neighbouring windows is one episode, with its steps
//                                              ^ steps become longer here for good (step-changes.ts): a window ends, the next one begins
//
// A window is judged when its first step is about to be forgotten, so all ranks have told it unless they are 128 steps apart. A fault that lasts
// as long as a window fills at least half of one, and what counts is a median over steps: it is found wherever it was.
//
// Memory: that of `StepBlameSink` and of `StepChanges`, and `blameEpisodesMax` episodes.

import { finish } from '../model/finish.ts';
import type { ProcessTotals, TraceEvent, TraceHeader, TraceLane, TraceSink } from '../model/trace-sink.ts';
import { type Blame, type BlameFinding, judgeWindow, mayBeVerdict } from './blame.ts';
import { type BlameLevels, blameOf, levelsOf } from './blame-change.ts';
import { blameLimits as limits } from './blame-limits.ts';
import type { StepRange } from './blame-window.ts';
import type { FaultCost } from './fault-cost.ts';
import { faultEdge } from './fault-edge.ts';
import { StepBlameSink } from './step-blame-sink.ts';
import { StepChanges } from './step-changes.ts';
import type { Verdict } from './verdict.ts';

/** A finding, the steps that it covers, and what it costs over the whole run: `costMsPerStep` and `shareOfStep` are of all steps. */
export interface RunFinding extends Omit<BlameFinding, 'affected' | 'stretch'>, FaultCost {
  readonly steps: StepRange;
  /** It comes and goes within `steps`, so often; 1: it does not. */
  readonly stretches: number;
}

export interface RunBlame {
  /** The most costly finding's that may be one; without any, that of the last steps. */
  readonly verdict: Verdict;
  /** Steps that the verdict is about; undefined without any. */
  readonly verdictSteps: StepRange | undefined;
  /** Of all steps, each fault once, the most costly first. */
  readonly findings: readonly RunFinding[];
  /** The last steps in full, since they changed last: what tables show. */
  readonly last: Blame;
  /** Steps that were judged, all windows together. */
  readonly steps: StepRange & { readonly count: number; readonly windows: number };
}

/** One fault over windows that are next to each other; of what is nobody's fault, over all windows that show it. */
interface Episode {
  readonly key: string;
  /** The window it was seen in last. */
  window: number;
  steps: StepRange;
  /** Windows in a row count as one. */
  stretches: number;
  /** Steps that it made longer, and what that cost in all, ms. */
  affected: number;
  cost: number;
  /** What it is told with: that of the last steps, else where it cost most. */
  told: BlameFinding;
}

/** Windows that may lie between two of one episode: noise hides a fault for a while. */
const gapWindows = 1;
/** A fault may begin and end within a window, and so may another one. */
const cutsMax = 3;
/** Steps after the last change that say something by themselves. */
const lastStepsMin = 16;

export interface RunBlameOptions {
  /** What the run began with, where that is not told again. */
  readonly beginning?: BlameLevels | undefined;
}

export class RunBlameSink implements TraceSink {
  readonly #steps: StepBlameSink;
  readonly #changes = new StepChanges();
  readonly #episodes: Episode[] = [];
  #judgedUpTo = Number.NEGATIVE_INFINITY;
  /** The last step that was looked at for changes. */
  #lookedUpTo = Number.NEGATIVE_INFINITY;
  #first = Number.POSITIVE_INFINITY;
  #count = 0;
  /** Of the steps that findings rest on (those of another kind left out), how many there are and their sum, ns. */
  #compared = 0;
  #time = 0;
  #windows = 0;

  constructor({ beginning }: RunBlameOptions = {}) {
    this.#steps = new StepBlameSink({ beginning, onForget: (held) => this.#pass(held) });
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

  end(_totals: readonly ProcessTotals[]): void {
    this.#steps.end();
  }

  /** What the run began with, for the blame of a later part of it. */
  get beginning(): BlameLevels | undefined {
    return this.#steps.beginning;
  }

  /** Of all steps. To be asked once, at the end. */
  get blame(): RunBlame {
    return finish(this.judging());
  }

  /** The same; yields as often as it can. */
  *judging(): Generator<void, RunBlame> {
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
    const isVerdict = this.#addLast(last, { first: since, last: held.at(-1) ?? since }, left.length);
    // What the last steps say together, their windows need not say again.
    const told = new Set(keyed(last.findings).map(([key]) => key));
    while (left.length > 0) {
      this.#judge(left.slice(0, this.#windowLength(left, left.length)), told);
      left = left.filter((step) => step > this.#judgedUpTo);
      yield;
    }
    const { first = 0, last: final = 0 } = last.steps;
    const episodes = this.#episodes.sort((a, b) => b.cost - a.cost).slice(0, 2 * limits.blameFindingsMax);
    const about = episodes.find((episode) => isVerdict.get(episode) ?? true);
    return {
      verdict: about?.told.kind ?? (last.verdict === 'inconclusive' ? 'inconclusive' : 'balanced'),
      verdictSteps: about?.steps ?? (last.steps.count > 0 ? { first, last: final } : undefined),
      findings: episodes.map((episode) => this.#findingOf(episode)),
      last,
      steps: { first: Math.min(this.#first, first), last: final, count: this.#count, windows: this.#windows },
    };
  }

  /** A window that is about to be forgotten. */
  #pass(held: readonly number[]): void {
    // The newer half has not been told by all ranks yet, maybe.
    const half = Math.max(1, held.length >> 1);
    this.#look(held.slice(0, half));
    if ((held[0] as number) <= this.#judgedUpTo) return;
    this.#judge(held.slice(0, this.#windowLength(held, half)));
  }

  /** Looks for changes in steps that are whole. */
  #look(numbers: readonly number[]): void {
    for (const step of numbers) {
      if (step <= this.#lookedUpTo) continue;
      this.#lookedUpTo = step;
      this.#changes.add(step, this.#steps.lengthOf(step));
    }
  }

  /** Steps of the window that begins with the first of `numbers`, `most` at most: up to the next change, if that is near. */
  #windowLength(numbers: readonly number[], most: number): number {
    const { blameWindowSteps: usual } = limits;
    const first = numbers[0] as number;
    const change = this.#changes.changes.find((step) => step > first);
    const at = change === undefined ? -1 : numbers.findIndex((step) => step >= change);
    // Few steps say little: what is left behind the last whole window is judged with it, and so is what is left before a change.
    const end = at < 0 ? numbers.length : at;
    const length = end < 1.5 * usual ? end : end < 2 * usual ? end >> 1 : usual;
    return Math.max(1, Math.min(length, most));
  }

  /** The first of the steps that are like the last one. */
  #sinceLastChange(held: readonly number[]): number {
    const change = this.#changes.changes.findLast((step) => held.length - held.findIndex((one) => one >= step) >= lastStepsMin);
    return Math.max(change ?? Number.NEGATIVE_INFINITY, held[0] ?? 0);
  }

  /** `told`: findings (by their keys) that are told without it; `cuts`: how often it was cut already. */
  #judge(numbers: readonly number[], told?: ReadonlySet<string>, cuts = 0): void {
    const first = numbers[0] as number;
    const window = this.#steps.windowOf(numbers);
    const { length: count } = window.steps;
    const [before, now] = [this.#steps.beginning, levelsOf(window)];
    const change = before && now && blameOf(before, now);
    const { findings, step } = finish(judgeWindow(window, { missing: this.#steps.missingRanks, change }));
    const edge = cuts < cutsMax ? faultEdge(window, step) : undefined;
    if (edge !== undefined) {
      for (const isAfter of [false, true]) {
        this.#judge(
          numbers.filter((number) => number >= edge === isAfter),
          told,
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
    this.#time += step * count;
    for (const [key, finding] of keyed(findings)) {
      if (finding.kind === 'inconclusive' || !mayBeVerdict(finding) || told?.has(key)) continue;
      // The rest of a fault in a few steps beside its edge is uneven work, too.
      if (finding.kind === 'rotating_imbalance' && count < lastStepsMin) continue;
      this.#add(key, finding, { first, last: this.#judgedUpTo }, count, count);
    }
  }

  /** The last steps are a window like others, of which `left` were in none before. Gives which of their findings may be the verdict. */
  #addLast({ findings, steps: { count } }: Blame, range: StepRange, left: number): Map<Episode, boolean> {
    const isVerdict = new Map<Episode, boolean>();
    for (const [key, finding] of keyed(findings)) {
      const episode = this.#add(key, finding, range, count, Math.min(count, left));
      episode.told = finding;
      isVerdict.set(episode, mayBeVerdict(finding));
    }
    return isVerdict;
  }

  /** `finding` of `count` steps; where an episode goes on, `isNew` of them are in no window of it. */
  #add(key: string, finding: BlameFinding, steps: StepRange, count: number, isNew: number): Episode {
    const seen: StepRange = finding.stretch ?? steps;
    const window = this.#windows;
    const isNext = (of: Episode): boolean => of.window >= window - 1 - gapWindows;
    let episode = this.#episodes.findLast((of) => of.key === key && (finding.ranks.length === 0 || isNext(of)));
    const taken = episode === undefined ? count : isNew;
    if (episode === undefined) {
      episode = { key, window, steps: seen, stretches: 1, affected: 0, cost: 0, told: finding };
      this.#episodes.push(episode);
    } else if (!isNext(episode)) episode.stretches++;
    episode.window = window;
    episode.steps = { first: Math.min(episode.steps.first, seen.first), last: Math.max(episode.steps.last, seen.last) };
    episode.affected += Math.round(((finding.affected ?? count) * taken) / Math.max(1, count));
    episode.cost += taken * finding.costMsPerStep;
    if (finding.costMsPerStep > episode.told.costMsPerStep) episode.told = finding;
    if (this.#episodes.length > limits.blameEpisodesMax) {
      const least = this.#episodes.reduce((of, other) => (of === episode || (other !== episode && other.cost < of.cost) ? other : of));
      this.#episodes.splice(this.#episodes.indexOf(least), 1);
    }
    return episode;
  }

  #findingOf({ told, steps, stretches, affected, cost }: Episode): RunFinding {
    const { affected: _, stretch: __, ...finding } = told;
    return {
      ...finding,
      steps,
      stretches,
      affectedSteps: affected,
      comparedSteps: this.#compared,
      costMsPerAffectedStep: cost / Math.max(1, affected),
      costMsPerStep: cost / Math.max(1, this.#compared),
      shareOfStep: this.#time > 0 ? (1e6 * cost) / this.#time : 0,
    };
  }
}

/** What of one window is the same fault as what of another: the most costly one of a kind and of ranks, whatever its phase is there. */
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
