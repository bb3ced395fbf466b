// The screen of `ranktrace top`: a state, a width and a height make lines. Nothing here knows a terminal.
//
//   run night-42 (1 of 2) · live                                     12:03:44      headline
//   ranks 4 of 4   step 1 204   step time 231 ms   p50 212 ms  p95 231 ms
//   ▁▁▂▁▁▁▁▁▅▅▅▅▅▅  last 240 steps, 205 ms to 231 ms                               the cluster's last steps
//
//   rank  host   step  mean    excess  forward  backward  …                        ranks: in order where all have room, else the slowest
//
//   alerts, findings                                                               what is left of the height
//
// A line is pieces of text with a style; it is cut to the width before it is painted. Without colour the same is said in letters.

import {
  type Alert,
  nanosPerMs,
  nanosPerSecond,
  type Overview,
  type OverviewRank,
  type RankStatus,
  type ViewFinding,
} from '@ranktrace/protocol';
import { isWaitingPhase } from '@ranktrace/trace';
import { formatCount, formatNanos, printable } from '../format.ts';
import type { TopState } from './top-source.ts';

type Style = 'bold' | 'dim' | 'red' | 'yellow' | 'green';
type Piece = readonly [text: string, style?: Style | undefined];
type Line = readonly Piece[];

export interface TopScreen {
  /** Columns and rows there are. */
  readonly columns: number;
  readonly rows: number;
  readonly colour: boolean;
  /** Whether block characters may be used for the steps; else letters. */
  readonly blocks: boolean;
  /** Ranks to leave out at the top of the list. */
  readonly scroll: number;
  /** Time of day. */
  readonly clock: string;
  /** Why nothing new came, for a person. */
  readonly problem: string | undefined;
}

const codes: Readonly<Record<Style, string>> = { bold: '1', dim: '2', red: '31', yellow: '33', green: '32' };
const blockGlyphs = '▁▂▃▄▅▆▇█';
const letterGlyphs = '_.-=+*%#';
/** A rank stands out when it works longer than the median rank by this share of the step. */
const noticeableShare = 0.03;
/** A rank that is in the middle of one thing for so long, and for so many steps' time, is said to be. */
const staysNsMin = 3 * nanosPerSecond;
const staysSteps = 3;
const hostCharsMax = 20;
const phaseCharsMax = 14;

/** Steps that are shown at a width. */
export const stepsShown = (columns: number): number => Math.max(16, Math.min(240, columns - 2));

/** The screen, line by line: at most `rows`, each at most `columns` wide. */
export function topLines(state: TopState | undefined, screen: TopScreen): string[] {
  const lines = state === undefined ? [headOf('no run yet', screen)] : linesOf(state, screen);
  if (screen.problem !== undefined) lines.splice(1, 0, [[screen.problem, 'red']]);
  return lines.slice(0, screen.rows).map((line) => paint(line, screen));
}

/** The same in one line, for a log. */
export function topLine({ run, worldSize, ranks, overview, alerts }: TopState): string {
  const parts = [`run ${run}: ranks ${ranks.length}/${worldSize}`];
  const ended = ranks.filter((rank) => rank.ended).length;
  if (ended > 0) parts.push(`${ended} ended`);
  if (ranks.length > 0) parts.push(`step ${formatCount(Math.min(...ranks.map(({ step }) => step)))}`);
  if (overview?.percentiles) parts.push(`${formatNanos(overview.percentiles.p50)} a step`);
  const worst = overview === undefined ? undefined : workOf(overview).find(({ standsOut }) => standsOut);
  if (worst !== undefined) parts.push(`rank ${worst.rank.rank} works ${formatNanos(worst.excess)} more${inPhase(worst.phase)}`);
  const lost = lostOf(ranks);
  if (lost > 0) parts.push(`${formatCount(lost)} lost`);
  const firing = (alerts ?? []).filter(({ state }) => state === 'firing');
  if (firing.length > 0) parts.push(`${firing.length} firing: ${firing[0]?.summary}`);
  return printable(parts.join(', '));
}

function linesOf(state: TopState, screen: TopScreen): Line[] {
  const { run, runs, ranks, overview } = state;
  const isLive = ranks.some(({ ended }) => !ended);
  const place = runs.length > 1 ? ` (${runs.indexOf(run) + 1} of ${runs.length}, n: next)` : '';
  const lines: Line[] = [headOf(`run ${run}${place} - ${isLive ? 'live' : 'over'}`, screen), figures(state)];
  if (overview === undefined) lines.push([['no steps yet', 'dim']]);
  else lines.push(...stepLines(overview, screen));
  const told = [...alertLines(state.alerts), ...findingLines(overview, state.alerts)];
  // What is alerted has a third of the screen at most, where ranks need the rest.
  const room = screen.rows - lines.length - 2;
  const wanted = told.length === 0 ? 0 : told.length + 1;
  const rankRows = Math.max(3, room - Math.min(wanted, Math.max(4, Math.floor(room / 3))));
  const table = rankLines(state, screen, rankRows);
  return [...lines, [], ...table, ...(told.length === 0 ? [] : [[], ...told])];
}

function headOf(text: string, { columns, clock }: TopScreen): Line {
  const left = `ranktrace top - ${printable(text)}`.slice(0, Math.max(0, columns - clock.length - 1));
  return [[left, 'bold'], [' '.repeat(Math.max(1, columns - left.length - clock.length))], [clock, 'dim']];
}

function figures({ worldSize, ranks, overview }: TopState): Line {
  const ended = ranks.filter((rank) => rank.ended).length;
  const steps = ranks.map(({ step }) => step);
  const line: Piece[] = [[`ranks ${ranks.length} of ${worldSize}`, ranks.length < worldSize ? 'yellow' : undefined]];
  if (ended > 0) line.push([`, ${ended} ended`]);
  const lost = lostOf(ranks);
  if (lost > 0) line.push([`   lost ${formatCount(lost)}`, 'red']);
  if (steps.length > 0) line.push([`   step ${formatCount(Math.min(...steps))}`]);
  if (overview?.percentiles) {
    const { p50, p95, p99 } = overview.percentiles;
    line.push([`   step time p50 ${formatNanos(p50)}  p95 ${formatNanos(p95)}  p99 ${formatNanos(p99)}`]);
  }
  line.push([`   events ${formatCount(ranks.reduce((sum, { events }) => sum + events, 0))}`]);
  return line;
}

function stepLines({ slowest, fromStep, toStep }: Overview, { columns, blocks }: TopScreen): Line[] {
  const known = slowest.filter((length) => length !== null);
  if (known.length === 0) return [];
  const sorted = [...known].sort((a, b) => a - b);
  const [low, high] = [sorted[0] as number, sorted[sorted.length - 1] as number];
  // A checkpoint of ten steps' length must not flatten all others.
  const top = Math.min(high, 2 * (sorted[sorted.length >> 1] as number));
  const glyphs = blocks ? blockGlyphs : letterGlyphs;
  const glyphOf = (length: number | null): string => {
    if (length === null) return ' ';
    const level = top > low ? (Math.min(length, top) - low) / (top - low) : 0;
    return glyphs[Math.min(glyphs.length - 1, Math.floor(level * glyphs.length))] as string;
  };
  const width = stepsShown(columns);
  return [
    [[slowest.slice(-width).map(glyphOf).join(''), 'green']],
    [
      [
        `steps ${formatCount(fromStep)} to ${formatCount(toStep)}, each as long as its slowest rank: ${formatNanos(low)} to ${formatNanos(high)}`,
        'dim',
      ],
    ],
  ];
}

/** What a rank works, and how much longer than the median rank; ns per step. */
interface RankWork {
  readonly rank: OverviewRank;
  readonly excess: number;
  /** The phase in which most of that is. */
  readonly phase: string | undefined;
  readonly standsOut: boolean;
}

/** All ranks with steps, those that work longest first. Waiting is no work: who waits is not slow. */
function workOf({ ranks, phases }: Overview): RankWork[] {
  const works = phases.flatMap((name, at) => (isWaitingPhase(name) ? [] : [at]));
  const isHidden = works.length === phases.length;
  const totalOf = (rank: OverviewRank): number => (isHidden ? rank.mean : works.reduce((sum, at) => sum + (rank.phases[at] ?? 0), 0));
  const middle = lowerMedian(ranks.map(totalOf));
  const step = lowerMedian(ranks.map(({ mean }) => mean));
  const usual = new Map(works.map((at) => [at, lowerMedian(ranks.map(({ phases }) => phases[at] ?? 0))]));
  const rows = ranks.map((rank): RankWork => {
    const excess = totalOf(rank) - middle;
    let most: number | undefined;
    const inPhase = (at: number): number => (rank.phases[at] ?? 0) - (usual.get(at) ?? 0);
    for (const at of works) if (most === undefined || inPhase(at) > inPhase(most)) most = at;
    const phase = most === undefined ? undefined : phases[most];
    return { rank, excess, phase, standsOut: ranks.length > 1 && excess > noticeableShare * step };
  });
  return rows.sort((a, b) => b.excess - a.excess || a.rank.rank - b.rank.rank);
}

/** The lower one of two: then the slower one of two ranks has an excess. */
function lowerMedian(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[(sorted.length - 1) >> 1] ?? 0;
}

/** What a rank has been in the middle of for much longer than its steps take: `252 s in all_reduce`. */
function staysText({ inside, insideMs }: RankStatus, stepNs = 0): string {
  if (inside === null || insideMs * nanosPerMs < Math.max(staysNsMin, staysSteps * stepNs)) return '';
  return `${formatNanos(insideMs * nanosPerMs)} in ${cut(printable(inside), phaseCharsMax)}`;
}

function rankLines({ ranks, overview }: TopState, { columns, scroll }: TopScreen, rows: number): Line[] {
  const works = new Map((overview === undefined ? [] : workOf(overview)).map((work, place) => [work.rank.rank, { ...work, place }]));
  const fits = ranks.length + 1 <= rows;
  const order = [...ranks].sort((a, b) =>
    fits
      ? a.rank - b.rank
      : (works.get(a.rank)?.place ?? Number.MAX_SAFE_INTEGER) - (works.get(b.rank)?.place ?? Number.MAX_SAFE_INTEGER) || a.rank - b.rank,
  );
  const shownRows = fits ? ranks.length : rows - 2;
  const first = Math.max(0, Math.min(scroll, order.length - shownRows));
  const shown = order.slice(first, first + shownRows);
  const phases = overview?.phases ?? [];
  const head = ['rank', 'host', 'step', 'mean', 'p95', 'excess', ...phases.map((name) => cut(printable(name), phaseCharsMax)), ''];
  const cells = shown.map((rank) => {
    const work = works.get(rank.rank);
    const lost = lostOf([rank]);
    const notes = [
      rank.ended ? 'ended' : '',
      lost > 0 ? `lost ${formatCount(lost)}` : '',
      work?.standsOut ? `slow${inPhase(work.phase)}` : '',
      staysText(rank, work?.rank.mean),
    ];
    return [
      String(rank.rank),
      cut(printable(rank.hostName), hostCharsMax),
      rank.step < 0 ? '-' : formatCount(rank.step),
      ...(work === undefined
        ? ['-', '-', '-', ...phases.map(() => '-')]
        : [
            formatNanos(work.rank.mean),
            formatNanos(work.rank.p95),
            signed(work.excess),
            ...phases.map((_, at) => formatNanos(work.rank.phases[at] ?? 0)),
          ]),
      notes.filter((note) => note !== '').join(', '),
    ];
  });
  const widths = head.map((name, column) => Math.max(name.length, ...cells.map((row) => (row[column] ?? '').length)));
  // What has no room is left out whole, but for the notes: a cut number is a wrong one.
  const notesAt = head.length - 1;
  let width = (widths[notesAt] ?? 0) + (widths[notesAt] === 0 ? 0 : 2);
  const kept = head.flatMap((_, column) => {
    if (column === notesAt) return widths[notesAt] === 0 ? [] : [column];
    width += (widths[column] as number) + (column === 0 ? 0 : 2);
    return width <= columns ? [column] : [];
  });
  const lineOf = (row: readonly string[]): string =>
    kept
      .map((column) => {
        const [cell, size] = [row[column] ?? '', widths[column] as number];
        return column === 1 || column === notesAt ? cell.padEnd(size) : cell.padStart(size);
      })
      .join('  ')
      .trimEnd();
  const lines: Line[] = [[[lineOf(head), 'dim']]];
  for (const [at, row] of cells.entries()) {
    const rank = shown[at]?.rank as number;
    const style = works.get(rank)?.standsOut === true ? 'yellow' : shown[at]?.ended === true ? 'dim' : undefined;
    lines.push([[lineOf(row), style]]);
  }
  if (!fits) {
    const order = works.size === 0 ? '' : ', those that work longest first';
    lines.push([[`ranks ${first + 1} to ${first + shown.length} of ${ranks.length}${order} (up, down: scroll)`, 'dim']]);
  }
  return lines;
}

function alertLines(alerts: readonly Alert[] | undefined): Line[] {
  const firing = (alerts ?? []).filter(({ state }) => state === 'firing');
  const resolved = (alerts ?? []).length - firing.length;
  const lines = firing.map(({ severity, summary, cause }): Line => {
    const why = cause === null ? '' : ` (${cause.text})`;
    return [[`alert ${severity}`, severity === 'critical' ? 'red' : 'yellow'], [`  ${printable(summary + why)}`]];
  });
  if (resolved > 0) lines.push([[`${formatCount(resolved)} alerts resolved: ranktrace alerts`, 'dim']]);
  return lines;
}

function findingLines(overview: Overview | undefined, alerts: readonly Alert[] | undefined): Line[] {
  const styles: Readonly<Record<ViewFinding['severity'], Style>> = { alert: 'red', warning: 'yellow', note: 'dim' };
  // Where alerts are told by themselves they are not told twice.
  const findings = (overview?.findings ?? []).filter(({ severity }) => alerts === undefined || severity !== 'alert');
  return findings.map(({ severity, kind, text }): Line => [[severity, styles[severity]], [`  ${printable(`${kind}: ${text}`)}`]]);
}

function paint(line: Line, { columns, colour }: TopScreen): string {
  let left = columns;
  let text = '';
  for (const [piece, style] of line) {
    const shown = piece.slice(0, left);
    left -= shown.length;
    text += colour && style !== undefined && shown !== '' ? `\u001b[${codes[style]}m${shown}\u001b[0m` : shown;
  }
  return text;
}

const lostOf = (ranks: TopState['ranks']): number =>
  ranks.reduce((sum, { missing, dropped }) => sum + missing + dropped.events + dropped.batches, 0);
const inPhase = (phase: string | undefined): string => (phase === undefined ? '' : ` in ${printable(phase)}`);
const cut = (text: string, charsMax: number): string => (text.length <= charsMax ? text : `${text.slice(0, charsMax - 1)}…`);
const signed = (ns: number): string => (ns < 0 ? `-${formatNanos(-ns)}` : `+${formatNanos(ns)}`);
