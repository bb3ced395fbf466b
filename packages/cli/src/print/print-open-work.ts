// The report's part about open work: collectives in which some ranks wait and that others never entered, and the last open spans of each rank; and
// the same as data.

import { printable } from '@ranktrace/protocol';
import { collectiveNumber, type OpenCollective, type OpenRank, type OpenSpanSummary, type OpenWorkSummary } from '@ranktrace/trace';
import { collectiveNumberData } from '@ranktrace/trace/torch';
import { formatCount, formatNanos, formatTable } from '../terminal/format.ts';

const collectivesShown = 10;
const ranksShown = 32;
const linesShown = 3;
const spansAround = 3;
const differingShown = 8;

export interface OpenWorkShown {
  /** The trace time from which times count; default 0. */
  readonly zero?: number;
  /** Whether the run hung: then ranks that a signal ended are listed, too, and else any of them were in the midst of a step. Default false. */
  readonly isHanging?: boolean;
}

/** The part as text, without a final line end; '' when every rank ended in good order, without open work. */
export function formatOpenWork(summary: OpenWorkSummary, { zero = 0, isHanging = false }: OpenWorkShown = {}): string {
  const { until, collectivesLeftOut, spansLeftOut } = summary;
  const ranks = summary.ranks.filter(({ endedBy }) => isHanging || endedBy === undefined);
  const shown = new Set(ranks.map(({ rank }) => rank));
  const collectives = summary.collectives.filter(({ inside }) => inside.some(({ rank }) => shown.has(rank)));
  if (until === undefined || (ranks.length === 0 && collectives.length === 0)) return '';
  const lines: string[] = [];
  if (collectives.length > 0) {
    lines.push('collectives that never ended');
    for (const collective of collectives.slice(0, collectivesShown)) lines.push(...collectiveLines(collective, until, zero));
    const hidden = collectives.length + collectivesLeftOut - Math.min(collectives.length, collectivesShown);
    if (hidden > 0) lines.push(`  and ${formatCount(hidden)} more, entered later`);
    lines.push('');
  }
  if (ranks.length > 0) lines.push(ranksTable(ranks, until));
  if (ranks.length > ranksShown) lines.push(`(${ranksShown} of ${formatCount(ranks.length)} ranks; all of them with --json)`);
  if (spansLeftOut > 0) lines.push(`(${formatCount(spansLeftOut)} open spans are not listed: there were too many)`);
  return lines.join('\n').trimEnd();
}

/** The part as data: times in ns on the axis of the trace; unknown values are left out. */
export function openWorkData({ until, ranks, collectives, collectivesLeftOut, spansLeftOut }: OpenWorkSummary): unknown {
  return {
    untilNs: until,
    ranks: ranks.map(({ until: heard, lastStep, open, place: _place, phases: _phases, ...rank }) => ({
      ...rank,
      untilNs: heard,
      lastStep: lastStep === undefined ? undefined : { step: lastStep.step, endNs: lastStep.end },
      open: open.map(({ since, ...span }) => ({ ...span, sinceNs: since })),
    })),
    collectives: collectives.map(({ sequence, inside, ...collective }) => ({
      ...collective,
      ...collectiveNumberData(sequence),
      inside: inside.map(({ rank, since }) => ({ rank, sinceNs: since })),
    })),
    collectivesLeftOut,
    spansLeftOut,
  };
}

function collectiveLines(
  { op, group, sequence, pair, inside, left, missing, unheard, differing, bytes }: OpenCollective,
  until: number,
  zero: number,
): string[] {
  const since = inside[0]?.since ?? until;
  const between = pair === undefined ? '' : `, rank ${pair[0]} → rank ${pair[1]}`;
  const lines = [
    `  ${printable(`${op} ${group}${collectiveNumber(sequence)}`)}${between}: open for ${formatNanos(until - since)}, since ${formatNanos(since - zero)}`,
  ];
  if (missing.length > 0) lines.push(`    never entered  ${rankRanges(missing)}`);
  if (unheard.length > 0) lines.push(`    not heard of   ${rankRanges(unheard)}`);
  lines.push(`    inside         ${rankRanges(inside.map(({ rank }) => rank))}`);
  if (left.length > 0) lines.push(`    left           ${rankRanges(left)}`);
  for (const other of differing.slice(0, differingShown)) {
    const call = other.op === op ? `${op} with ${other.bytes} bytes, where most have ${bytes}` : printable(other.op);
    lines.push(`    called other   rank ${other.rank}: ${call}`);
  }
  if (differing.length > differingShown) lines.push(`                   and ${formatCount(differing.length - differingShown)} more ranks`);
  return lines;
}

function ranksTable(ranks: readonly OpenRank[], until: number): string {
  const head = ['last heard of', 'before the end', 'last step', 'inside of', 'for'];
  const rows: string[][] = [];
  for (const { rank, hostName, until: heard, lastStep, open } of ranks.slice(0, ranksShown)) {
    const step = lastStep === undefined ? '-' : `${lastStep.step}, ${formatNanos(until - lastStep.end)} before`;
    const who = `rank ${rank} · ${hostName}`;
    const first = [who, formatNanos(until - heard), step];
    const shown = open.slice(0, linesShown);
    if (shown.length === 0) rows.push([...first, '-', '']);
    for (const [place, span] of shown.entries()) {
      rows.push([...(place === 0 ? first : ['', '', '']), spanText(span), formatNanos(until - span.since)]);
    }
    if (open.length > shown.length) rows.push(['', '', '', `and ${formatCount(open.length - shown.length)} more lines`, '']);
  }
  return formatTable([head, ...rows], [false, true, true, false, true]);
}

/** `main: forward › layer 3 › matMul`, with the nearest spans around it. */
function spanText({ lane, name, around }: OpenSpanSummary): string {
  const nearest = around.slice(-spansAround);
  const path = [...(nearest.length < around.length ? ['…'] : []), ...nearest, name];
  return `${lane}: ${path.join(' › ')}`;
}

/** `ranks 0–2, 5 and 7–1023`; long lists are cut. */
export function rankRanges(ranks: readonly number[]): string {
  const sorted = [...new Set(ranks)].sort((a, b) => a - b);
  const ranges: string[] = [];
  for (let from = 0; from < sorted.length; ) {
    let to = from;
    while (to + 1 < sorted.length && sorted[to + 1] === (sorted[to] as number) + 1) to++;
    ranges.push(to === from ? `${sorted[from]}` : `${sorted[from]}${to === from + 1 ? ', ' : '–'}${sorted[to]}`);
    from = to + 1;
  }
  const shown = ranges.slice(0, 8).join(', ');
  return `${sorted.length === 1 ? 'rank' : 'ranks'} ${shown}${ranges.length > 8 ? ', …' : ''}${sorted.length > 3 ? ` (${formatCount(sorted.length)})` : ''}`;
}
