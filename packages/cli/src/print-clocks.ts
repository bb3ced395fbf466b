// The clocks that a trace rests on: a table by rank, where a bound says how far times may be off.

import type { ClockConflictAt, ClockOfRank } from '@ranktrace/trace';
import { formatNanos, formatTable, printable } from './format.ts';

const ranksShown = 32;
const conflictsShown = 5;

const meanings: Record<ClockOfRank['method'], string> = {
  exact: 'the reference',
  sampled: 'clock pings',
  messages: 'collectives and calls',
  shared: 'its own; nothing contradicts it',
  unaligned: 'NOT ALIGNED: by its wall clock',
};

/** The clocks as text, without a final line end. Of many ranks those with the largest bounds. */
export function formatClocks(clocks: readonly ClockOfRank[], conflicts: readonly ClockConflictAt[] = []): string {
  const shown = [...clocks]
    .sort((a, b) => (b.bound ?? Number.POSITIVE_INFINITY) - (a.bound ?? Number.POSITIVE_INFINITY) || a.rank - b.rank)
    .slice(0, ranksShown)
    .sort((a, b) => a.rank - b.rank);
  const head = ['clocks', 'host', 'aligned by', '± median', '± worst', 'steps of the clock'];
  const rows = shown.map(({ rank, hostName, host, method, medianBound, bound, clockSteps }) => [
    `rank ${rank}`,
    hostName === '' ? host : hostName,
    meanings[method],
    medianBound === undefined ? '?' : formatNanos(medianBound),
    bound === undefined ? '?' : formatNanos(bound),
    clockSteps.length === 0 ? '-' : clockSteps.map((at) => `at ${formatNanos(at)}`).join(', '),
  ]);
  const lines = [formatTable([head, ...rows], [false, false, false, true, true, false])];
  if (clocks.length > shown.length)
    lines.push(`(the ${shown.length} of ${clocks.length} ranks with the largest bounds; all of them with --json)`);
  for (const { rank, shifted } of clocks) {
    for (const { from, until, most } of shifted) {
      lines.push(
        `  rank ${rank}: events from ${formatNanos(from)} to ${formatNanos(until)} are shown up to ${formatNanos(most)} late, behind their causes`,
      );
    }
  }
  for (const { time, hosts, slack } of conflicts.slice(0, conflictsShown)) {
    lines.push(
      `  conflict at ${formatNanos(time)}: messages among ${printable(hosts.join(' → '))} contradict each other by ${formatNanos(slack)}`,
    );
  }
  if (conflicts.length > conflictsShown) lines.push(`  and ${conflicts.length - conflictsShown} more conflicts`);
  return lines.join('\n');
}

/** The clocks as data; times and bounds in ns. */
export function clocksData(clocks: readonly ClockOfRank[], conflicts: readonly ClockConflictAt[] = []): unknown {
  return {
    ranks: clocks.map(({ medianBound, bound, clockSteps, shifted, ...clock }) => ({
      ...clock,
      medianBoundNs: medianBound,
      boundNs: bound,
      clockStepsNs: clockSteps,
      shiftedNs: shifted,
    })),
    conflicts: conflicts.map(({ time, hosts, slack, isAtStep }) => ({ timeNs: time, hosts, slackNs: slack, isAtStep })),
  };
}
