// The report's part about collectives and sends: a table by (group, operation), one by (group, source → destination), anomalies, the collectives with
// the longest waits, and the same as data.

import { isBarrierLike, printable } from '@ranktrace/protocol';
import {
  type CollectiveLine,
  type CollectiveRank,
  type CollectiveRecord,
  type CollectiveSummary,
  collectiveNumber,
  type SendLine,
  type SpreadSummary,
} from '@ranktrace/trace';
import { collectiveNumberData } from '@ranktrace/trace/torch';
import { formatCount, formatLengths, formatNanos, formatTable } from '../terminal/format.ts';

const linesShown = 20;
const longestShown = 5;

/** The part as text, without a final line end; '' when there were none. `zero`: the trace time from which times count. */
export function formatCollectives(summary: CollectiveSummary, zero = 0): string {
  const { collectives, sends, leftOut, parts } = summary;
  const blocks: string[] = [];
  if (collectives.length > 0) blocks.push(collectivesTable(summary, zero));
  if (sends.length > 0) blocks.push(sendsTable(sends));
  const notes: string[] = [];
  if (leftOut > 0) notes.push(`(${formatCount(leftOut)} collectives and sends share the lines of other groups: there were too many)`);
  if (parts.overflow > 0)
    notes.push(`  ${formatCount(parts.overflow)} of ${formatCount(parts.added)} parts could not be matched: too many waited at once`);
  if (parts.duplicates > 0)
    notes.push(`  ${formatCount(parts.duplicates)} of ${formatCount(parts.added)} parts could not be matched: recorded twice`);
  if (notes.length > 0) blocks.push(notes.join('\n'));
  return blocks.join('\n\n');
}

/** The part as data: lengths in ns, bandwidths in bytes per second; unknown values are left out. */
export function collectivesData({ collectives, sends, longest, leftOut, parts }: CollectiveSummary): unknown {
  return {
    collectives: collectives.map(({ exitSpread, waiting, perRank, ...line }) => ({
      ...lineData(line),
      exitSpreadNs: exitSpread,
      waitingNs: waiting,
      perRank: perRank.map(({ waiting: waited, ...rank }) => ({ ...rank, waitingNs: waited })),
    })),
    sends: sends.map(({ lateSender, lateReceiver, ...line }) => ({
      ...lineData(line),
      lateSenderNs: lateSender,
      lateReceiverNs: lateReceiver,
    })),
    longest: longest.map(({ sequence, time, entrySkew, transfer, epsilon, waiting, ...record }) => ({
      ...record,
      ...collectiveNumberData(sequence),
      timeNs: time,
      entrySkewNs: entrySkew,
      transferNs: transfer,
      epsilonNs: epsilon,
      waiting: waiting.map(({ rank, waiting: waited }) => ({ rank, waitingNs: waited })),
    })),
    leftOut,
    parts,
  };
}

type CommonLine = Pick<CollectiveLine, 'entrySkew' | 'transfer' | 'epsilon'>;

const lineData = <L extends CommonLine>({ entrySkew, transfer, epsilon, ...line }: L) => ({
  ...line,
  entrySkewNs: entrySkew,
  transferNs: transfer,
  epsilonNs: epsilon,
});

function collectivesTable({ collectives, longest }: CollectiveSummary, zero: number): string {
  const shown = collectives.slice(0, linesShown);
  const head = ['collectives', 'group', 'ranks', 'calls', 'skew p50/p95/max', 'transfer p50', 'bus p50', 'waited', 'last in'];
  const rows = shown.map((line) => [
    line.op === '' ? '(several)' : line.op,
    line.group,
    formatCount(line.ranks),
    formatCount(line.count + line.incomplete),
    spread(line.entrySkew),
    isEarlyExit(line) ? 'none' : transferOf(line),
    bandwidthOf(line),
    formatNanos(line.waiting),
    lastIn(line),
  ]);
  const lines = [formatTable([head, ...rows], [false, false, true, true, true, true, true, true, false])];
  if (collectives.length > shown.length)
    lines.push(`(the ${shown.length} of ${formatCount(collectives.length)} that ranks waited in longest; all of them with --json)`);
  const early = shown.some(isEarlyExit) ? ' (none: ranks leave before the last is in)' : '';
  lines.push(`skew = last − first rank in, waited = by all ranks for the last, transfer = from the last in to the first out${early}`);
  lines.push(
    ...shown.flatMap((line) => oddities(`${line.op} ${line.group}`, [...commonOddities(line), ...missingParts(line), ...exits(line)])),
  );
  const single = longest.filter(({ pair, waiting }) => pair === undefined && waiting.some(waited)).slice(0, longestShown);
  if (single.length > 0) lines.push('waited in longest:', ...single.map((record) => recordLine(record, zero)));
  return lines.join('\n');
}

function sendsTable(sends: readonly SendLine[]): string {
  const shown = sends.slice(0, linesShown);
  const head = ['sends', 'from → to', 'calls', 'late sender', 'late receiver', 'transfer p50', 'bandwidth p50'];
  const rows = shown.map((line) => [
    line.group,
    placesOf(line),
    formatCount(line.count + line.incomplete),
    formatNanos(line.lateSender),
    formatNanos(line.lateReceiver),
    transferOf(line),
    bandwidthOf(line),
  ]);
  const lines = [formatTable([head, ...rows], [false, false, true, true, true, true, true])];
  if (sends.length > shown.length)
    lines.push(`(the ${shown.length} of ${formatCount(sends.length)} pairs that waited longest; all of them with --json)`);
  lines.push('late sender = the receiver waited so long in all for the sender to begin, late receiver = the other way round');
  for (const line of shown) {
    const unmatched = [
      [line.withoutReceive, 'without a receive'],
      [line.withoutSend, 'without a send'],
    ] as const;
    lines.push(...oddities(`${line.group} ${placesOf(line)}`, [...commonOddities(line), ...counted(unmatched)]));
  }
  return lines.join('\n');
}

const placesOf = ({ source, destination }: SendLine): string => (source < 0 ? '(several)' : `rank ${source} → rank ${destination}`);

/** In powers of 1000, as in nccl-tests and data sheets of links: `1.50 GB/s`. */
function formatBandwidth(bytesPerSecond: number): string {
  const units = ['B/s', 'kB/s', 'MB/s', 'GB/s', 'TB/s'];
  let value = bytesPerSecond;
  let unit = 0;
  for (; value >= 1000 && unit < units.length - 1; unit++) value /= 1000;
  return `${value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2)} ${units[unit]}`;
}

/** A transfer within the clocks' error could have any length. */
/** The root of a broadcast may leave before the last rank comes; out of an all-reduce no rank may, and what seems so is shown. */
const isEarlyExit = ({ op, transfer }: CollectiveLine): boolean => transfer !== undefined && transfer.p50 <= 0 && !isBarrierLike(op);

function transferOf({ transfer, epsilon, distinguishable }: Pick<SendLine, 'transfer' | 'epsilon' | 'distinguishable'>): string {
  if (transfer === undefined || epsilon === undefined) return '-';
  if (Math.abs(transfer.p50) <= epsilon && !isMostlyKnown({ transfer, distinguishable })) return `within ± ${formatNanos(epsilon)}`;
  return `${formatNanos(transfer.p50)}${epsilon > 0 ? ` ± ${formatNanos(epsilon)}` : ''}`;
}

/** The few sends that exceed the clocks' error are the slow ones, and so would be the bandwidth. */
const bandwidthOf = (line: Pick<SendLine, 'transfer' | 'distinguishable' | 'busBandwidth'>): string =>
  line.busBandwidth === undefined || !isMostlyKnown(line) ? '-' : formatBandwidth(line.busBandwidth.p50);

const isMostlyKnown = ({ transfer, distinguishable }: Pick<SendLine, 'transfer' | 'distinguishable'>): boolean =>
  transfer !== undefined && distinguishable * 2 >= transfer.count;

const spread = (summary: SpreadSummary | undefined): string =>
  summary === undefined ? '-' : formatLengths([summary.p50, summary.p95, summary.max]);

/** The rank that was awaited most often, by more than the clocks' error, and in how many of the calls. */
function lastIn({ perRank, count, unaligned }: CollectiveLine): string {
  let most: CollectiveRank | undefined;
  for (const rank of perRank) if (rank.lastIn > (most?.lastIn ?? 0)) most = rank;
  return most === undefined ? '-' : `rank ${most.rank} ${Math.round((100 * most.lastIn) / Math.max(count - unaligned, 1))} %`;
}

type CountOf = readonly [number, string];

const counted = (counts: readonly CountOf[]): string[] =>
  counts.flatMap(([count, what]) => (count === 0 ? [] : [`${formatCount(count)} ${what}`]));

const commonOddities = ({ unfinished, unaligned, violations }: Pick<SendLine, 'unfinished' | 'unaligned' | 'violations'>): string[] =>
  counted([
    [unfinished, 'that a rank never left'],
    [unaligned, 'with a clock that is not aligned: not timed'],
    [violations, 'drawn against causality'],
  ]);

function missingParts({ incomplete, perRank }: CollectiveLine): string[] {
  if (incomplete === 0) return [];
  const missing = perRank.filter((rank) => rank.missing > 0);
  const whose = missing.slice(0, 8).map((rank) => `rank ${rank.rank} in ${formatCount(rank.missing)}`);
  const more = missing.length > 8 ? [`and ${missing.length - 8} more ranks`] : [];
  return [`${formatCount(incomplete)} with a part missing, not timed (${[...whose, ...more].join(', ')})`];
}

const exits = ({ exitSpread }: CollectiveLine): string[] =>
  exitSpread === undefined ? [] : [`left within ${formatNanos(exitSpread.p50)} of each other, ${formatNanos(exitSpread.max)} at most`];

const oddities = (what: string, reported: readonly string[]): string[] =>
  reported.length === 0 ? [] : [`  ${printable(what)}: ${reported.join(', ')}`];

const waited = ({ waiting }: CollectiveRecord['waiting'][number]): boolean => waiting > 0;

function recordLine({ op, group, sequence, time, entrySkew, waiting, lastIn: last }: CollectiveRecord, zero: number): string {
  const total = waiting.reduce((sum, rank) => sum + rank.waiting, 0);
  const waiters = waiting.filter(waited).length;
  const ranks = `${waiters} ${waiters === 1 ? 'rank' : 'ranks'}`;
  const what = printable(`${op} ${group}${collectiveNumber(sequence)}`);
  const who = last === undefined ? 'the last, which clocks cannot distinguish from others,' : `rank ${last}`;
  return `  ${what} at ${formatNanos(time - zero)}: ${who} came ${formatNanos(entrySkew)} after the first, ${ranks} waited ${formatNanos(total)} in all`;
}
