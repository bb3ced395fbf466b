// Blame over a whole run, however long it was: the last steps at full detail, and windows of steps, each judged as it passes.
//
//   steps    |  window 1  |  window 2  |  window 3  |  …  |  window n  |
//                 ↓            ↓            ↓                  ↓ ← the last 256 steps: the report's tables
//            findings     findings      findings  ─► one fault over neighbouring windows is one episode, with its steps
//
// A window is judged when its first step is about to be forgotten, so all ranks have told it unless they are 128 steps apart. A fault that lasts
// as long as a window fills at least half of one, and what counts is a median over steps: it is found wherever it was.
//
// Memory: that of `StepBlameSink`, and `blameEpisodesMax` episodes.

import { finish } from '../finish.ts';
import type { ProcessTotals, TraceEvent, TraceHeader, TraceLane, TraceSink } from '../trace-sink.ts';
import { type Blame, type BlameFinding, judgeWindow, mayBeVerdict } from './blame.ts';
import { blameOf, levelsOf } from './blame-change.ts';
import { blameLimits as limits } from './blame-limits.ts';
import type { StepRange } from './blame-window.ts';
import { StepBlameSink } from './step-blame-sink.ts';
import type { Verdict } from './verdict.ts';

/** A finding, and the steps that it covers. */
export interface RunFinding extends BlameFinding {
  readonly steps: StepRange;
}

export interface RunBlame {
  /** Of the last steps; where they are balanced, of the fault that cost most before them. */
  readonly verdict: Verdict;
  /** Steps that the verdict is about; undefined without any. */
  readonly verdictSteps: StepRange | undefined;
  /** Of the last steps, then of stretches before them, each the most costly first. */
  readonly findings: readonly RunFinding[];
  /** The last steps in full: what tables show. */
  readonly last: Blame;
  /** Steps that were judged, all windows together. */
  readonly steps: StepRange & { readonly count: number; readonly windows: number };
}

/** One fault over windows that are next to each other. */
interface Episode {
  readonly key: string;
  /** The window it was seen in last. */
  window: number;
  steps: StepRange;
  /** Steps in which it was seen, and the sums over them of what it cost, ms, and of its share. */
  count: number;
  cost: number;
  share: number;
  /** Where it cost most. */
  worst: BlameFinding;
}

/** Windows that may lie between two of one episode: noise hides a fault for a while. */
const gapWindows = 1;

export class RunBlameSink implements TraceSink {
  readonly #steps = new StepBlameSink({ onForget: (held) => this.#pass(held) });
  readonly #episodes: Episode[] = [];
  #judgedUpTo = Number.NEGATIVE_INFINITY;
  #first = Number.POSITIVE_INFINITY;
  #count = 0;
  #windows = 0;

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

  /** Of all steps. To be asked once, at the end. */
  get blame(): RunBlame {
    return finish(this.judging());
  }

  /** The same; yields as often as it can. */
  *judging(): Generator<void, RunBlame> {
    const last = yield* this.#steps.judging();
    const left = this.#steps.held.filter((step) => step > this.#judgedUpTo);
    for (let at = 0; at < left.length; ) {
      // What is left behind the last whole window is judged with it: few steps say little.
      const until = left.length - at < 2 * limits.blameWindowSteps ? left.length : at + limits.blameWindowSteps;
      this.#judge(left.slice(at, until));
      at = until;
      yield;
    }
    const { first = 0, last: final = 0 } = last.steps;
    const lastSteps = { first, last: final };
    const findings = this.#findings(last, lastSteps);
    const isQuiet = last.verdict === 'balanced';
    const before = isQuiet ? findings.find((finding) => mayBeVerdict(finding)) : undefined;
    const verdict = before?.kind ?? last.verdict;
    const about = isQuiet ? before : findings.find(({ kind }) => kind === verdict);
    return {
      ...{ verdict, verdictSteps: about?.steps ?? (last.steps.count > 0 ? lastSteps : undefined), findings, last },
      steps: { first: Math.min(this.#first, first), last: final, count: this.#count, windows: this.#windows },
    };
  }

  /** A window that is about to be forgotten. */
  #pass(held: readonly number[]): void {
    if ((held[0] as number) <= this.#judgedUpTo) return;
    // The newer half has not been told by all ranks yet, maybe.
    this.#judge(held.slice(0, Math.max(1, Math.min(limits.blameWindowSteps, held.length >> 1))));
  }

  #judge(numbers: readonly number[]): void {
    this.#judgedUpTo = numbers.at(-1) as number;
    const window = this.#steps.windowOf(numbers);
    this.#windows++;
    this.#count += window.steps.length + window.leftOut;
    this.#first = Math.min(this.#first, numbers[0] as number);
    const [before, now] = [this.#steps.beginning, levelsOf(window)];
    const change = before && now && blameOf(before, now);
    const { findings } = finish(judgeWindow(window, { missing: this.#steps.missingRanks, change }));
    for (const finding of findings) {
      if (finding.kind === 'inconclusive' || !mayBeVerdict(finding)) continue;
      this.#add(finding, { first: numbers[0] as number, last: this.#judgedUpTo }, window.steps.length);
    }
  }

  #add(finding: BlameFinding, steps: StepRange, count: number): void {
    const seen: StepRange = finding.stretch ?? steps;
    const key = keyOf(finding);
    let episode = this.#episodes.findLast((of) => of.key === key && of.window >= this.#windows - 1 - gapWindows);
    if (episode === undefined) {
      episode = { key, window: this.#windows, steps: seen, count: 0, cost: 0, share: 0, worst: finding };
      this.#episodes.push(episode);
    }
    episode.window = this.#windows;
    episode.steps = { first: episode.steps.first, last: seen.last };
    episode.count += finding.stretch?.count ?? count;
    episode.cost += count * finding.costMsPerStep;
    episode.share += count * finding.shareOfStep;
    if (finding.costMsPerStep > episode.worst.costMsPerStep) episode.worst = finding;
    if (this.#episodes.length <= limits.blameEpisodesMax) return;
    const least = this.#episodes.reduce((of, other) => (other !== episode && other.cost < of.cost ? other : of));
    this.#episodes.splice(this.#episodes.indexOf(least), 1);
  }

  /** What the last steps say, from when on; then the rest. */
  #findings({ findings }: Blame, lastSteps: StepRange): RunFinding[] {
    const told = new Set<Episode>();
    const ofLast = findings.map((finding): RunFinding => {
      const key = keyOf(finding);
      const episodes = this.#episodes.filter((of) => of.key === key && of.steps.last >= lastSteps.first);
      for (const episode of episodes) told.add(episode);
      const first = Math.min(lastSteps.first, ...episodes.map(({ steps }) => steps.first));
      return { ...finding, steps: { first, last: lastSteps.last } };
    });
    const others = this.#episodes
      .filter((episode) => !told.has(episode))
      .sort((a, b) => b.cost - a.cost)
      .map(({ worst, steps, count, cost, share }): RunFinding => {
        return { ...worst, costMsPerStep: cost / count, shareOfStep: share / count, steps };
      });
    return [...ofLast, ...others.slice(0, limits.blameFindingsMax)];
  }
}

const keyOf = ({ kind, ranks }: BlameFinding): string => `${kind} ${ranks.join()}`;
