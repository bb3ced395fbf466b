// The ranks of `ranktrace top` as a table: the activity of each, and its comparison to the others.
//
//   rank  host    step   mean    p50    p95    excess  forward       backward  …  ▁▁▂▁  stopped since 12:03:32 (12 s)
//
// A column is shown whole or not at all; the most important ones are kept longest. A rank is marked slow where the findings, or a firing alert,
// charge it with step time (they account for waiting and scatter), and its work exceeds the median rank's by a noticeable amount. Either condition
// alone is no verdict.

import {
  type Alert,
  type FindingCost,
  lowerMedian,
  nanosPerMs,
  nanosPerSecond,
  type Overview,
  type OverviewRank,
  printable,
  type RankStatus,
  rankExcesses,
} from '@ranktrace/protocol';
import { formatCount, formatNanos } from '../terminal/format.ts';
import { scaleOf, stepBars } from './top-chart.ts';
import { cut, type Line, type Style } from './top-lines.ts';
import type { TopState } from './top-source.ts';

/** A rank inside one span for this long, and for this many steps' time, gets a note. */
const staysNsMin = 3 * nanosPerSecond;
const staysSteps = 3;
/** Smallest excess of a slow rank, as a part of the median step. */
const noticeableShare = 0.03;
const hostCharsMax = 20;
const phaseCharsMax = 14;
/** Largest share of the width for notes where figures need it, too. */
const notesShare = 0.4;
const notesCharsMin = 30;
/** Least number of a rank's steps to draw, if there is room. */
const barsMin = 16;
const barsMax = 96;

export interface RankTableScreen {
  readonly columns: number;
  readonly rows: number;
  readonly blocks: boolean;
  readonly scroll: number;
  readonly now: Date;
}

/** A rank's work, and its excess over the median rank; ns per step. */
export interface RankWork {
  readonly rank: OverviewRank;
  readonly excess: number;
  /** Whether findings or alerts charge it with step time that its work explains, and the phase with most of it. */
  readonly isSlow: boolean;
  readonly phase: string | undefined;
  /** Its cost to all ranks' steps, from a finding: less than its excess, as the others would wait for the next rank. */
  readonly cost: FindingCost | undefined;
}

/** All ranks with steps, most work first. Waiting is no work: a rank that waits is not slow. */
export function workOf(overview: Overview, alerts: readonly Alert[] = []): RankWork[] {
  const { ranks, phases, findings } = overview;
  const noticeable = noticeableShare * (lowerMedian(ranks.map(({ mean }) => mean)) ?? 0);
  const charged = new Map<number, Pick<RankWork, 'phase' | 'cost'>>();
  for (const { state, cause } of alerts) {
    if (state !== 'firing' || cause?.kind !== 'straggler') continue;
    for (const rank of cause.ranks) charged.set(rank, { phase: cause.phase ?? undefined, cost: undefined });
  }
  for (const { kind, cause, severity, ranks, phase, cost } of findings) {
    if (kind !== 'straggler' && (severity !== 'alert' || cause !== 'straggler')) continue;
    for (const rank of ranks) {
      const known = charged.get(rank);
      charged.set(rank, { phase: phase ?? known?.phase, cost: known?.cost ?? cost });
    }
  }
  const rows = rankExcesses(overview).map(({ rank, most: excess, worst }): RankWork => {
    const { phase = worst === undefined ? undefined : phases[worst], cost } = charged.get(rank.rank) ?? {};
    return { rank, excess, isSlow: charged.has(rank.rank) && excess > noticeable, phase, cost };
  });
  return rows.sort((a, b) => b.excess - a.excess || a.rank.rank - b.rank.rank);
}

/** Number of batches and events that are missing from these ranks. */
export const lostOf = (ranks: readonly RankStatus[]): number =>
  ranks.reduce((sum, { missing, dropped }) => sum + missing + dropped.events + dropped.batches, 0);

export const inPhase = (phase: string | undefined): string => (phase === undefined ? '' : ` in ${printable(phase)}`);

/** `, costs 58.5 ms a step`, per affected step; `then`, where not all are. */
const costPerStep = (cost: FindingCost | undefined): string =>
  cost === undefined
    ? ''
    : `, costs ${formatNanos(cost.nsPerAffectedStep)} a step${cost.affectedSteps < cost.comparedSteps ? ' then' : ''}`;

const clockText = (at: Date): string => at.toTimeString().slice(0, 8);

/** `stopped since 12:03:32 (12 s)`. */
function stateText({ state, silentMs }: RankStatus, now: Date): string {
  if (state === 'live') return '';
  if (state === 'ended') return 'ended';
  return `${state} since ${clockText(new Date(now.getTime() - silentMs))} (${formatNanos(silentMs * nanosPerMs)})`;
}

/** The span that a rank has been inside for much longer than its steps take: `252 s in all_reduce`. */
function staysText({ inside, insideMs }: RankStatus, stepNs = 0): string {
  if (inside === null || insideMs * nanosPerMs < Math.max(staysNsMin, staysSteps * stepNs)) return '';
  return `${formatNanos(insideMs * nanosPerMs)} in ${cut(printable(inside), phaseCharsMax)}`;
}

/** One column: its head, its cells, and how early it is dropped for lack of room (0: never). */
interface Column {
  readonly name: string;
  readonly cells: readonly string[];
  readonly goes: number;
  readonly isText?: boolean;
}

const widthOf = ({ name, cells }: Column): number => Math.max(name.length, ...cells.map((cell) => cell.length));
const widthOfAll = (columns: readonly Column[]): number =>
  columns.reduce((sum, column) => sum + widthOf(column), 2 * Math.max(0, columns.length - 1));

/** The table in at most `rows` lines: in order of rank if all fit, else most work first, from the `scroll`th on. */
export function rankLines(state: TopState, screen: RankTableScreen): Line[] {
  const { ranks, overview, alerts } = state;
  const { columns, rows, scroll } = screen;
  const works = new Map(
    (overview === undefined ? [] : workOf(overview, alerts)).map((work, place) => [work.rank.rank, { ...work, place }]),
  );
  const fits = ranks.length + 1 <= rows;
  const urgency = ({ rank, state }: RankStatus): number =>
    state === 'lost' || state === 'stopped' ? -1 : (works.get(rank)?.place ?? Number.MAX_SAFE_INTEGER);
  const order = [...ranks].sort((a, b) => (fits ? 0 : urgency(a) - urgency(b)) || a.rank - b.rank);
  // With room for only two lines, the second is a rank.
  const hasFoot = !fits && rows > 2;
  const shownRows = Math.max(0, fits ? ranks.length : rows - (hasFoot ? 2 : 1));
  const first = Math.max(0, Math.min(scroll, order.length - shownRows));
  const shown = order.slice(first, first + shownRows).map((rank) => ({ rank, work: works.get(rank.rank) }));
  const kept = columnsThatFit(shown, overview, screen);
  const lineOf = (row: number): string =>
    kept
      .map((column) => {
        const cell = row < 0 ? column.name : (column.cells[row] ?? '');
        return column.isText === true ? cell.padEnd(widthOf(column)) : cell.padStart(widthOf(column));
      })
      .join('  ')
      .trimEnd();
  const lines: Line[] = [[[lineOf(-1), 'dim']]];
  for (const [at, { rank, work }] of shown.entries()) lines.push([[lineOf(at), styleOf(rank, work)]]);
  if (hasFoot) {
    const order = works.size === 0 ? '' : ', those that work longest first';
    const which = `ranks ${first + 1} to ${first + shown.length} of ${ranks.length}`;
    lines.push([[cut(`${which}${order} (up, down: scroll)`, columns), 'dim']]);
  }
  return lines;
}

function styleOf({ state }: RankStatus, work: RankWork | undefined): Style | undefined {
  if (state === 'stopped' || state === 'lost') return 'red';
  if (work?.isSlow === true) return 'yellow';
  return state === 'ended' ? 'dim' : undefined;
}

type Shown = readonly { readonly rank: RankStatus; readonly work: RankWork | undefined }[];

function columnsThatFit(shown: Shown, overview: Overview | undefined, { columns, blocks, now }: RankTableScreen): Column[] {
  const notes = shown.map(({ rank, work }) => {
    const lost = lostOf([rank]);
    const all = [
      stateText(rank, now),
      work?.isSlow === true ? `slow${inPhase(work.phase)}${costPerStep(work.cost)}` : '',
      staysText(rank, work?.rank.mean),
      lost > 0 ? `lost ${formatCount(lost)}` : '',
    ];
    return all.filter((note) => note !== '').join(', ');
  });
  const figure = (name: string, goes: number, text: (work: RankWork) => string): Column => ({
    ...{ name, goes },
    cells: shown.map(({ work }) => (work === undefined ? '-' : text(work))),
  });
  const phases = overview?.phases ?? [];
  const phaseColumns = (hasShares: boolean): Column[] =>
    phases.map((name, at) =>
      figure(cut(printable(name), phaseCharsMax), 8 + at, ({ rank }) => {
        const length = rank.phases[at] ?? 0;
        // Phases are parts of the host's steps.
        const whole = rank.hostMean ?? rank.mean;
        return hasShares && whole > 0 ? `${formatNanos(length)} ${Math.round((100 * length) / whole)} %` : formatNanos(length);
      }),
    );
  const before: Column[] = [
    { name: 'rank', goes: 0, cells: shown.map(({ rank }) => String(rank.rank)) },
    { name: 'host', goes: 7, isText: true, cells: shown.map(({ rank }) => cut(printable(rank.hostName), hostCharsMax)) },
    { name: 'step', goes: 1, cells: shown.map(({ rank: { step } }) => (step < 0 ? '-' : formatCount(step))) },
    figure('mean', 3, ({ rank }) => formatNanos(rank.mean)),
    figure('p50', 6, ({ rank }) => (rank.p50 === null ? '-' : formatNanos(rank.p50))),
    figure('p95', 5, ({ rank }) => (rank.p95 === null ? '-' : formatNanos(rank.p95))),
    figure('excess', 4, ({ excess }) => signed(excess)),
  ];
  const notesWidth = Math.max(0, ...notes.map(({ length }) => length));
  const notesMost = Math.max(notesCharsMin, Math.floor(notesShare * columns));
  const noteColumn = (charsMax: number): Column[] =>
    notesWidth === 0 || charsMax < 1 ? [] : [{ name: '', goes: 0, isText: true, cells: notes.map((note) => cut(note, charsMax)) }];
  // All columns, with shares; otherwise figures are dropped until the rest fits, while notes are words and can be cut.
  const everything = [...before, ...phaseColumns(true), ...noteColumn(notesWidth)];
  if (widthOfAll(everything) <= columns) return withBars(everything, shown, overview, columns, blocks);
  const rankWidth = widthOf(before[0] as Column);
  const noted = noteColumn(Math.min(notesWidth, notesMost, columns - rankWidth - 2));
  let kept = [...before, ...phaseColumns(false)];
  while (kept.length > 1 && widthOfAll([...kept, ...noted]) > columns) {
    const goes = Math.max(...kept.map(({ goes }) => goes));
    kept = kept.filter((column) => column.goes !== goes);
  }
  const left = columns - widthOfAll(kept) - 2;
  return withBars([...kept, ...noteColumn(Math.min(notesWidth, left))], shown, overview, columns, blocks);
}

/** Draws the last steps of each rank before the notes, if there is room. */
function withBars(kept: Column[], shown: Shown, overview: Overview | undefined, columns: number, blocks: boolean): Column[] {
  const room = Math.min(barsMax, columns - widthOfAll(kept) - 2);
  const scale = overview === undefined ? undefined : scaleOf(overview.slowest);
  if (room < barsMin || scale === undefined) return kept;
  const cells = shown.map(({ work }) => (work === undefined ? '' : (stepBars(work.rank.cells, scale, room, 1, blocks)[0] ?? '')));
  const bars: Column = { name: 'last steps', goes: 0, isText: true, cells };
  const last = kept.at(-1);
  return last?.name === '' ? [...kept.slice(0, -1), bars, last] : [...kept, bars];
}

const signed = (ns: number): string => (ns < 0 ? `-${formatNanos(-ns)}` : `+${formatNanos(ns)}`);
