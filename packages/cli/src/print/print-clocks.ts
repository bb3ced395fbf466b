// The clocks behind a trace: a table by rank, in which a bound limits the error of times, and the clocks' anomalies.

import { printable } from '@ranktrace/protocol';
import { betweenHosts, type ClockConflictAt, type ClockOfRank, hostsText } from '@ranktrace/trace';
import { formatCount, formatNanos, formatTable } from '../terminal/format.ts';

const ranksShown = 32;
const oddShown = 5;

const meanings: Record<ClockOfRank['method'], string> = {
  exact: 'the reference',
  sampled: 'clock pings',
  messages: 'collectives and calls',
  shared: 'its own; nothing contradicts it',
  unaligned: 'NOT ALIGNED: by its wall clock',
};

/** The clocks as text, without a final line end. With many ranks, those with the largest bounds. `zero`: the trace time from which times count. */
export function formatClocks(clocks: readonly ClockOfRank[], conflicts: readonly ClockConflictAt[] = [], zero = 0): string {
  const all = distinct(clocks);
  const widest = all.toSorted((a, b) => boundOf(b) - boundOf(a) || a.rank - b.rank).slice(0, ranksShown);
  const shown = widest.sort((a, b) => a.rank - b.rank);
  const head = ['clocks', 'host', 'aligned by', '± median', '± worst', 'stepped'];
  const rows = shown.map(({ rank, hostName, host, method, medianBound, bound, clockSteps }) => [
    `rank ${rank}`,
    hostName === '' ? host : hostName,
    meanings[method],
    medianBound === undefined ? '?' : formatNanos(medianBound),
    bound === undefined ? '?' : formatNanos(bound),
    clockSteps.length === 0 ? '-' : clockSteps.map((at) => `at ${formatNanos(at - zero)}`).join(', '),
  ]);
  const lines = [formatTable([head, ...rows], [false, false, false, true, true, false])];
  if (all.length > shown.length)
    lines.push(`(the ${shown.length} of ${formatCount(all.length)} ranks with the largest bounds; all of them with --json)`);
  const between = betweenHosts(clocks);
  if (between !== undefined && between.together < between.byBounds)
    lines.push(
      `  two hosts: to within ± ${formatNanos(between.together)} in the median, by what their ranks did together (by these bounds: ± ${formatNanos(between.byBounds)})`,
    );
  lines.push(
    ...first(
      clocks.flatMap((clock) => shiftLine(clock, zero)),
      'ranks with shifted events',
    ),
  );
  lines.push(
    ...first(
      conflicts.map((conflict) => conflictLine(conflict, clocks, zero)),
      'conflicts',
    ),
  );
  return lines.join('\n');
}

/** A rank and what an agent recorded beside it read one clock, and say the same of it. */
function distinct(clocks: readonly ClockOfRank[]): ClockOfRank[] {
  const lines = new Map<string, ClockOfRank>();
  for (const clock of clocks) {
    const { rank, host, method, medianBound, bound, clockSteps } = clock;
    lines.set(JSON.stringify([rank, host, method, medianBound, bound, clockSteps]), clock);
  }
  return [...lines.values()];
}

const boundOf = ({ bound = Number.POSITIVE_INFINITY }: ClockOfRank): number => bound;

/** The first of many lines, and the number of the others. */
const first = (lines: readonly string[], of: string): string[] =>
  lines.length <= oddShown ? [...lines] : [...lines.slice(0, oddShown), `  and ${formatCount(lines.length - oddShown)} more ${of}`];

function shiftLine({ rank, shifted }: ClockOfRank, zero: number): string[] {
  if (shifted.length === 0) return [];
  const most = Math.max(...shifted.map((stretch) => stretch.most));
  const times = shifted.length === 1 ? '' : ` at ${formatCount(shifted.length)} times`;
  const [begin] = shifted.map(({ from }) => formatNanos(from - zero));
  return [`  rank ${rank}: events from ${begin} on are shown up to ${formatNanos(most)} late${times}, so that none comes before its cause`];
}

function conflictLine({ time, hosts, slack, isAtStep }: ClockConflictAt, clocks: readonly ClockOfRank[], zero: number): string {
  const why = isAtStep ? 'a clock stepped, and messages of that moment are reversed by up to' : 'messages contradict each other by';
  return `  conflict about ${formatNanos(time - zero)} among ${printable(hostsText(hosts, clocks))}: ${why} ${formatNanos(slack)}`;
}

/** The clocks as data; times and bounds in ns. */
export function clocksData(clocks: readonly ClockOfRank[], conflicts: readonly ClockConflictAt[] = []): unknown {
  return {
    ranks: clocks.map(({ medianBound, bound, medianApart, clockSteps, shifted, ...clock }) => ({
      ...clock,
      medianBoundNs: medianBound,
      boundNs: bound,
      medianApartNs: medianApart,
      clockStepsNs: clockSteps,
      shiftedNs: shifted,
    })),
    conflicts: conflicts.map(({ time, hosts, slack, isAtStep }) => ({ timeNs: time, hosts, slackNs: slack, isAtStep })),
  };
}
