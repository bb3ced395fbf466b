// Finds the slow ranks, and their phases, by the excess of every rank over the median rank (`rankExcesses`).
//
// Steps of ranks that wait for each other are all equally long, so the length of a step blames nobody; phases do. Phases that are themselves waiting
// (`Overview.phaseRoles`) are shown but never blamed: the rank that is long in them waits for another. Nor is `other` blamed, whose content is
// unknown.
//
// While nothing is analysed, one rank at most stands out, and only if it stands apart from all others (`rankApart`).
// The findings have better evidence, as they account for waiting between ranks: once they exist, the ranks that they charge stand out and no others,
// so that the page and `ranktrace report` agree. A fault that costs little beside the most costly one stays in the list of findings.

import {
  type FindingCost,
  isStraggler,
  lowerMedian,
  type Overview,
  type OverviewRank,
  rankApart,
  rankExcesses,
  runStateOf,
  type ViewFinding,
} from '@ranktrace/protocol';
import { rankCount } from './rank-lives.ts';

/** One rank against the median rank. */
export interface RankPhases {
  readonly rank: OverviewRank;
  /** Excess over the median rank (may be negative), ns per step, by `Overview.phases`. */
  readonly excess: readonly number[];
  /** The phase to blame: largest excess among phases that are neither waiting nor `other`; undefined where no phase is known. */
  readonly worst: number | undefined;
  /** ns per step: excess in `worst`, or of the whole step where no phase is known. */
  readonly score: number;
  /** Whether the excess is large enough to be worth a person's time. */
  readonly isNoticeable: boolean;
  /** Whether it keeps the others waiting; without such evidence, whether its excess stands apart from those of all others. */
  readonly standsOut: boolean;
  /** Share of all waiting in collectives that was for this rank; undefined while that is not known. */
  readonly waitedPart: number | undefined;
}

/** The parts of an overview that identify slow ranks; without an analysis, only phases do. */
export type Blamed = Pick<Overview, 'phases' | 'phaseRoles' | 'ranks'> &
  Partial<Pick<Overview, 'findings' | 'waiting' | 'waitingWhole' | 'waitingStepTime' | 'analysed' | 'toStep' | 'gpus'>>;

/** Least excess that is worth a person's time, as a part of the median step. */
const noticeablePart = 0.03;

/** All ranks with steps, the most important on top: outliers, then by waiting for them, by score, by rank. */
export function rankPhases(overview: Blamed): readonly RankPhases[] {
  const excesses = rankExcesses(overview);
  const ranks = excesses.map(({ rank }) => rank);
  const meanMedian = lowerMedian(ranks.map(({ mean }) => mean)) ?? 0;
  const noticeable = noticeablePart * meanMedian;
  const charged = chargedOf(overview);
  const apart = charged === undefined && overview.analysed !== true ? rankApart(overview, noticeable) : undefined;
  const parts = waitedParts(overview);
  const hasOthers = ranks.some((one) => one.rank !== ranks[0]?.rank);
  const rows = excesses.map(({ rank, phases: excess, worst: longest }): RankPhases => {
    const isApart = rank === apart?.rank;
    // One long step may have made another phase the longest on average.
    const worst = isApart ? apart.worst : longest;
    const score = isApart ? apart.excess : worst === undefined ? rank.mean - meanMedian : (excess[worst] as number);
    const isNoticeable = score > noticeable;
    const standsOut = hasOthers && (isApart || charged?.ranks.has(rank.rank) === true);
    const waitedPart = parts.size > 0 ? (parts.get(rank.rank) ?? 0) : undefined;
    return { rank, excess, worst, score, isNoticeable, standsOut, waitedPart };
  });
  const waited = ({ standsOut, waitedPart = 0 }: RankPhases): number => (standsOut && charged !== undefined ? waitedPart : 0);
  // Outliers come first whatever the usual differences in other phases.
  return inOneLife(rows).sort(
    (a, b) => Number(b.standsOut) - Number(a.standsOut) || waited(b) - waited(a) || b.score - a.score || a.rank.rank - b.rank.rank,
  );
}

/** A finding charges a rank: of its lives, the one that is slowest stands out. */
function inOneLife(rows: readonly RankPhases[]): RankPhases[] {
  const slowest = new Map<number, RankPhases>();
  for (const row of rows)
    if (row.standsOut && !(row.score <= (slowest.get(row.rank.rank)?.score ?? Number.NEGATIVE_INFINITY))) slowest.set(row.rank.rank, row);
  return rows.map((row) => (row.standsOut && slowest.get(row.rank.rank) !== row ? { ...row, standsOut: false } : row));
}

interface Charged {
  readonly ranks: ReadonlySet<number>;
  /** Findings that charge single ranks, the most costly first. */
  readonly stragglers: readonly ViewFinding[];
  /** The cause, where it is not single ranks. */
  readonly cause: string | undefined;
}

/** A fault is negligible below this part of the most costly one. */
const negligiblePart = 0.1;

/** The causes that the findings charge steps to; undefined without such findings. A note is no verdict. */
function chargedOf({ findings = [] }: Blamed): Charged | undefined {
  const costOf = ({ cost }: ViewFinding): number => cost?.nsPerStep ?? Number.POSITIVE_INFINITY;
  const known = findings.flatMap(({ kind, cost }) => (kind === 'straggler' && cost !== undefined ? [cost.nsPerStep] : []));
  const least = negligiblePart * Math.max(0, ...known);
  const stragglers = findings.filter((finding) => isStraggler(finding) && costOf(finding) >= least);
  if (stragglers.length > 0) return { ranks: new Set(stragglers.flatMap(({ ranks }) => ranks)), stragglers, cause: undefined };
  const { state, findings: deciding } = runStateOf(findings.filter(({ kind }) => !isOfOneRank(kind)));
  const shared = state === 'regression' || state === 'cause' ? deciding[0] : undefined;
  return shared === undefined ? undefined : { ranks: new Set(shared.ranks), stragglers: [], cause: shared.text };
}

/** Kinds that say nothing of the length of steps. */
const isOfOneRank = (kind: string): boolean => runStateOf([{ kind, severity: 'alert' }]).state === 'dead' || kind === 'hang';

/** All waiting, also where no rank was clearly the last. */
export function wholeWaiting({ waiting = [], waitingWhole = 0 }: Pick<Blamed, 'waiting' | 'waitingWhole'>): number {
  return Math.max(
    waitingWhole,
    waiting.reduce((sum, { waitedFor }) => sum + waitedFor, 0),
  );
}

function waitedParts({ waiting = [], waitingWhole = 0 }: Blamed): ReadonlyMap<number, number> {
  const whole = wholeWaiting({ waiting, waitingWhole });
  return new Map(whole > 0 ? waiting.map(({ rank, waitedFor }) => [rank, waitedFor / whole]) : []);
}

/** The run's state in one sentence. It is an alert without ranks when only the findings report one. */
export interface Headline {
  readonly tone: 'alert' | 'good' | 'note';
  /** The cause in words of a finding, where it is not single ranks. */
  readonly cause: string | undefined;
  readonly ranks: readonly RankPhases[];
  /** Phase in which those ranks are slow; undefined where none is known, or they differ in it. */
  readonly phase: string | undefined;
  /** Costs from the findings about those ranks; undefined where no finding charges them. */
  readonly costs: readonly FindingCost[];
  /** Excess of the slowest of them in its phase, ns per step, where no finding states its cost; undefined if negligible. */
  readonly more: number | undefined;
  /** Whether the last examined steps are no longer affected. */
  readonly isOver: boolean;
  /** `more` as part of the median step. */
  readonly part: number;
  /** Whether the findings report that the recording does not show who waits for whom. */
  readonly isUnknown: boolean;
  /** Waiting in collectives; undefined where no rank waits for another. */
  readonly waiting: HeadlineWaiting | undefined;
}

/** The ranks that others wait for, as in the panel beside the headline. */
export interface HeadlineWaiting {
  /** Part of all waiting that is for the ranks of the headline; 0 without any. */
  readonly forRanks: number;
  /** The rank that is waited for longest, and its part. */
  readonly most: { readonly rank: number; readonly part: number };
  /** Whether one rank clearly causes it: its share is nearer to all than to an equal share by turns. */
  readonly isOneRank: boolean;
  /** Waiting as part of the steps: all of it, of all ranks' steps; that for `most`, of the others' steps. */
  readonly ofSteps: number;
  readonly ofStepsForMost: number;
}

/** The outliers among the ranks, and their phase. */
export function headlineOf(overview: Blamed & Pick<Overview, 'findings'>): Headline {
  const all = rankPhases(overview);
  const ranks = all.filter(({ standsOut }) => standsOut);
  const first = ranks[0];
  const median = lowerMedian(all.map(({ rank }) => rank.mean)) ?? 0;
  const charged = chargedOf(overview);
  // A rank that is dead or hangs comes before every question of pace.
  const { state, findings: deciding } = runStateOf(overview.findings);
  const stopped = state === 'dead' || state === 'hung' ? deciding[0]?.text : undefined;
  const cause = stopped ?? charged?.cause;
  const isUnknown = overview.findings.some(({ kind, severity }) => kind === 'inconclusive' && severity !== 'note');
  const nobody = { isUnknown, cause, ranks: [], phase: undefined, costs: [], more: undefined, isOver: false, part: 0 };
  if (first === undefined || cause !== undefined) {
    const waiting = waitingOf(overview, charged?.ranks ?? new Set());
    const hasAlert = cause !== undefined || charged !== undefined || overview.findings.some(({ severity }) => severity === 'alert');
    // A rank that others wait for is no good news, whether a finding charges it or not.
    const isWaitedFor = waiting?.isOneRank === true && waiting.ofStepsForMost >= noticeablePart;
    const isGood = rankCount(overview.ranks) > 1 && !isWaitedFor && !isUnknown;
    return { ...nobody, tone: hasAlert ? 'alert' : isGood ? 'good' : 'note', waiting };
  }
  const isOne = first.isNoticeable && ranks.every(({ worst, isNoticeable }) => isNoticeable && worst === first.worst);
  const stragglers = charged?.stragglers ?? [];
  const phases = new Set(stragglers.map(({ phase }) => phase));
  const phase = stragglers.some((finding) => finding.phase !== undefined)
    ? phases.size === 1
      ? stragglers[0]?.phase
      : undefined
    : isOne && first.worst !== undefined
      ? overview.phases[first.worst]
      : undefined;
  const costs = stragglers.flatMap(({ cost }) => (cost === undefined ? [] : [cost]));
  const most = Math.max(...ranks.map(({ score }) => score));
  const isKnown = costs.length === 0 && ranks.some(({ isNoticeable }) => isNoticeable);
  return {
    ...{ tone: 'alert', cause, ranks, phase, costs, isUnknown },
    more: isKnown ? most : undefined,
    isOver: costs.length > 0 && costs.every(({ toStep }) => toStep < (overview.toStep ?? 0)),
    part: median > 0 && isKnown ? most / median : 0,
    waiting: charged === undefined ? undefined : waitingOf(overview, charged.ranks),
  };
}

function waitingOf(
  { ranks, waiting = [], waitingWhole = 0, waitingStepTime = 0, gpus = [] }: Blamed,
  charged: ReadonlySet<number>,
): HeadlineWaiting | undefined {
  const whole = wholeWaiting({ waiting, waitingWhole });
  if (waiting.every(({ waitedFor }) => waitedFor <= 0)) return undefined;
  const most = waiting.reduce((of, other) => (other.waitedFor > of.waitedFor ? other : of));
  const forRanks = waiting.reduce((sum, { rank, waitedFor }) => (charged.has(rank) ? sum + waitedFor : sum), 0);
  const part = most.waitedFor / whole;
  const count = rankCount(ranks);
  const others = count > 0 ? (count - 1) / count : 0;
  // Waits behind compute hold no step up: of devices, only communication alone may.
  const exposed = timeOfAll(gpus, 'exposed') / timeOfAll(gpus, 'length');
  const ofStepsMax = Number.isNaN(exposed) ? Number.POSITIVE_INFINITY : exposed;
  const ofSteps = (time: number): number => (waitingStepTime > 0 ? time / waitingStepTime : 0);
  return {
    forRanks: forRanks / whole,
    most: { rank: most.rank, part },
    isOneRank: part >= (1 + 1 / Math.max(1, count)) / 2,
    ofSteps: Math.min(ofStepsMax, ofSteps(whole)),
    ofStepsForMost: others > 0 ? Math.min(ofStepsMax, ofSteps(most.waitedFor)) / others : 0,
  };
}

const timeOfAll = (gpus: NonNullable<Overview['gpus']>, part: 'exposed' | 'length'): number => gpus.reduce((sum, of) => sum + of[part], 0);
