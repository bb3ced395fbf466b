// The screen of `ranktrace top`: turns a state, a width and a height into lines. It is independent of terminals.
//
//   run night-42 - live (1 of 2)                                    12:03:44      headline
//   ranks 4 of 4   p50 212 ms   step 1 204   p95 231 ms                            figures, the ones that matter first
//   ▁▁▂▁▁▁▁▁▅▅▅▅▅▅                                                                 the cluster's last steps, higher on a high terminal
//   steps 725 to 1 204   205 ms to 231 ms
//
//   rank  host   step  mean    excess  forward  backward  …                        ranks: top-ranks.ts
//
//   alerts, findings                                                               whole where there is room, causes before all
//
// Figures cover the steps that were read, however many of them are drawn: they are the same at any size of the terminal.

import { type Alert, type Overview, printable, runStateOf, type ViewFinding } from '@ranktrace/protocol';
import { costText } from '@ranktrace/trace/blame';
import { formatCount, formatNanos } from '../terminal/format.ts';
import { scaleOf, stepBars } from './top-chart.ts';
import { cut, firstLines, flowed, type Line, type Piece, paint, type Style, wrapped } from './top-lines.ts';
import { inPhase, lostOf, rankLines, workOf } from './top-ranks.ts';
import type { TopState } from './top-source.ts';

export interface TopScreen {
  /** Available columns and rows. */
  readonly columns: number;
  readonly rows: number;
  readonly colour: boolean;
  /** Whether block characters may be used for the steps; else letters. */
  readonly blocks: boolean;
  /** Number of ranks to skip at the top of the list. */
  readonly scroll: number;
  /** Time of day. */
  readonly now: Date;
  /** Reason why no news came, for a person. */
  readonly problem: string | undefined;
}

/** Least number of rows for blank lines between the parts. */
const airyRows = 16;
/** Height of the chart of steps, in lines, from this number of rows on. */
const chartHeights = [
  [45, 6],
  [32, 3],
] as const;
const messageIndent = 2;

/** The screen, line by line: at most `rows`, each at most `columns` wide. */
export function topLines(state: TopState | undefined, screen: TopScreen): string[] {
  const { columns, rows, colour, problem } = screen;
  const lines = state === undefined ? [headOf('no run yet', screen)] : linesOf(state, screen);
  if (problem !== undefined) lines.splice(1, 0, [[problem, 'red']]);
  return lines.slice(0, rows).map((line) => paint(line, columns, colour));
}

/** The state in one line, for a log. */
export function topLine(state: TopState): string {
  const { run, worldSize, ranks, overview, alerts } = state;
  const parts = [`run ${run}: ranks ${ranks.length}/${worldSize}`, ...statesOf(ranks).map(([text]) => text)];
  if (ranks.length > 0) parts.push(`step ${leastStep(ranks)}`);
  if (overview?.percentiles) parts.push(`${formatNanos(overview.percentiles.p50)} a step${takersText(overview)}`);
  if (overview?.allRead === false) parts.push('still being read');
  if (isUnread(state)) parts.push(unread);
  const { state: runState, findings: deciding } = runStateOf(overview?.findings ?? []);
  if (runState === 'dead' || runState === 'hung') parts.push(...deciding.slice(0, 1).map(({ text }) => text));
  const worst = overview === undefined ? undefined : workOf(overview, alerts).find(({ isSlow }) => isSlow);
  if (worst !== undefined) {
    const by = worst.cost === undefined ? `works ${formatNanos(worst.excess)} more` : 'is slow';
    const cost = worst.cost === undefined ? '' : `: ${costText(worst.cost)}`;
    parts.push(`rank ${worst.rank.rank} ${by}${inPhase(worst.phase)}${cost}`);
  }
  const lost = lostOf(ranks);
  if (lost > 0) parts.push(`${formatCount(lost)} lost`);
  const firing = (alerts ?? []).filter(({ state }) => state === 'firing');
  if (firing.length > 0) parts.push(`${firing.length} firing: ${firing[0]?.summary}`);
  return printable(parts.join(', '));
}

function linesOf(state: TopState, screen: TopScreen): Line[] {
  const { run, runs, overview } = state;
  const { columns, rows, blocks, scroll, now } = screen;
  const place = runs.length > 1 ? ` (${runs.indexOf(run) + 1} of ${runs.length}, n: next)` : '';
  const lines: Line[] = [headOf(`run ${run} - ${goesOn(state)}${place}`, screen), ...figures(state, columns)];
  if (overview === undefined) lines.push([[isUnread(state) ? unread : 'no steps yet', 'dim']]);
  else lines.push(...stepLines(overview, screen));
  const air: Line[] = rows >= airyRows ? [[]] : [];
  const messages = [...alertMessages(state.alerts), ...findingMessages(overview, state.alerts)];
  const problemRows = screen.problem === undefined ? 0 : 1;
  const room = rows - lines.length - problemRows - air.length - (messages.length === 0 ? 0 : air.length);
  const reported = messageLines(messages, columns, messageRows(messages, columns, room, state.ranks.length + 1));
  const table = room - reported.length < 2 ? [] : rankLines(state, { columns, rows: room - reported.length, blocks, scroll, now });
  return [...lines, ...air, ...table, ...(reported.length === 0 ? [] : [...air, ...reported])];
}

const unread = 'the last steps are not read yet';

/** Ranks have made steps that the service, as after a restart, has still to read. */
const isUnread = ({ ranks, overview }: TopState): boolean => overview === undefined && ranks.some(({ step }) => step >= 0);

/** Whether the run is still active. */
function goesOn({ ranks }: TopState): string {
  if (ranks.some(({ state }) => state === 'live')) return 'live';
  return ranks.every(({ ended }) => ended) ? 'over' : 'silent';
}

function headOf(text: string, { columns, now }: TopScreen): Line {
  const clock = now.toTimeString().slice(0, 8);
  const room = Math.max(0, columns - clock.length - 1);
  const whole = `ranktrace top - ${printable(text)}`;
  const left = (whole.length <= room ? whole : printable(text)).slice(0, room);
  return [[left, 'bold'], [' '.repeat(Math.max(1, columns - left.length - clock.length))], [clock, 'dim']];
}

/** Number of ranks in each abnormal state. */
function statesOf(ranks: TopState['ranks']): Piece[] {
  const styles = { lost: 'red', stopped: 'red', ended: undefined } as const;
  return (['lost', 'stopped', 'ended'] as const).flatMap((state): Piece[] => {
    const count = ranks.filter((rank) => rank.state === state).length;
    return count === 0 ? [] : [[`${formatCount(count)} ${state}`, styles[state]]];
  });
}

/** The step of the rank that is furthest behind; `-` while one has ended none. */
function leastStep(ranks: TopState['ranks']): string {
  const least = Math.min(...ranks.map(({ step }) => step));
  return least < 0 ? '-' : formatCount(least);
}

function figures({ worldSize, ranks, overview }: TopState, columns: number): Line[] {
  const items: Piece[] = [
    [`ranks ${formatCount(ranks.length)} of ${formatCount(worldSize)}`, ranks.length < worldSize ? 'yellow' : undefined],
    ...statesOf(ranks),
  ];
  const { percentiles } = overview ?? {};
  if (percentiles) items.push([`step time p50 ${formatNanos(percentiles.p50)}${takersText(overview)}`]);
  if (ranks.length > 0) items.push([`step ${leastStep(ranks)}`]);
  const lost = lostOf(ranks);
  if (lost > 0) items.push([`data lost ${formatCount(lost)}`, 'red']);
  if (overview?.allRead === false) items.push(['still being read', 'yellow']);
  if (percentiles) items.push([`p95 ${formatNanos(percentiles.p95)}`], [`p99 ${formatNanos(percentiles.p99)}`]);
  items.push([`events ${formatCount(ranks.reduce((sum, { events }) => sum + events, 0))}`]);
  return flowed(items, columns, 2);
}

/** Whose steps these are, where hosts run ahead of their GPUs. */
function takersText({ stepsTakenBy }: Pick<Overview, 'stepsTakenBy'> = {}): string {
  return stepsTakenBy === undefined ? '' : stepsTakenBy === 'devices' ? ' on the GPUs' : ' on the hosts';
}

function stepLines({ slowest, fromStep, toStep }: Overview, { columns, rows, blocks }: TopScreen): Line[] {
  const scale = scaleOf(slowest);
  if (scale === undefined) return [];
  const height = chartHeights.find(([from]) => rows >= from)?.[1] ?? 1;
  const about: Piece[] = [
    [`steps ${formatCount(fromStep)} to ${formatCount(toStep)}`, 'dim'],
    [`${formatNanos(scale.low)} to ${formatNanos(scale.longest)}`, 'dim'],
    ['each as long as its slowest rank', 'dim'],
  ];
  const bars = stepBars(slowest, scale, columns, height, blocks);
  return [...bars.map((line): Line => [[line, 'green']]), ...flowed(about, columns, 1)];
}

/** A message for a person: the fact, and its cause. */
interface Message {
  readonly label: string;
  readonly style: Style;
  readonly text: string;
  readonly cause: string;
}

function alertMessages(alerts: readonly Alert[] | undefined): Message[] {
  const firing = (alerts ?? []).filter(({ state }) => state === 'firing');
  const resolved = (alerts ?? []).length - firing.length;
  const messages = firing.map(({ severity, summary, cause }): Message => {
    const style = severity === 'critical' ? 'red' : 'yellow';
    return { label: `alert ${severity}`, style, text: printable(summary), cause: cause === null ? '' : printable(cause.text) };
  });
  if (resolved > 0)
    messages.push({ label: `${formatCount(resolved)} alerts resolved:`, style: 'dim', text: 'ranktrace alerts', cause: '' });
  return messages;
}

function findingMessages(overview: Overview | undefined, alerts: readonly Alert[] | undefined): Message[] {
  const styles: Readonly<Record<ViewFinding['severity'], Style>> = { alert: 'red', warning: 'yellow', note: 'dim' };
  // If alerts are shown, findings about them are not repeated.
  const findings = (overview?.findings ?? []).filter(({ severity }) => alerts === undefined || severity !== 'alert');
  // The one that the page's headline states comes first.
  const { findings: deciding } = runStateOf(findings);
  const ordered = [...deciding, ...findings.filter((finding) => !deciding.includes(finding))];
  return ordered.map(({ severity, kind, text }) => ({
    ...{ label: severity, style: styles[severity] },
    ...{ text: printable(`${kind}: ${text}`), cause: '' },
  }));
}

/** A message in at most `linesMax` lines: on one if it fits, else the text with its cause below; the cause is cut last. */
function linesOfMessage({ label, style, text, cause }: Message, columns: number, linesMax: number): Line[] {
  const head = `${label}  `;
  const whole = cause === '' ? text : `${text} (${cause})`;
  const styled = (lines: readonly string[]): Line[] =>
    lines.map((line, at): Line => (at === 0 && line.startsWith(head) ? [[label, style], [line.slice(label.length)]] : [[line]]));
  if (head.length + whole.length <= columns) return styled([head + whole]);
  const texts = wrapped(head + text, columns, messageIndent);
  const causes =
    cause === '' ? [] : wrapped(cause, Math.max(1, columns - messageIndent), 0).map((line) => ' '.repeat(messageIndent) + line);
  const textRows = Math.max(1, linesMax - causes.length);
  return styled([
    ...firstLines(texts, textRows, columns),
    ...firstLines(causes, Math.max(0, linesMax - Math.min(textRows, texts.length)), columns),
  ]);
}

/** Number of the `room` rows for messages when the table wants `tableRows`: a third at least, and the first one whole as far as it fits. */
function messageRows(messages: readonly Message[], columns: number, room: number, tableRows: number): number {
  const [first] = messages;
  if (first === undefined) return 0;
  const whole = messages.reduce((sum, message) => sum + linesOfMessage(message, columns, room).length, 0);
  // A table has two lines at least; one line counts the messages beside the first.
  const firstRows = linesOfMessage(first, columns, room - 2).length;
  const least = Math.max(Math.min(firstRows + Math.min(1, messages.length - 1), Math.max(firstRows, room - 2)), Math.floor(room / 3));
  return Math.max(0, Math.min(whole, Math.max(room - tableRows, least)));
}

/** The messages that fit, and the number of the others. */
function messageLines(messages: readonly Message[], columns: number, rows: number): Line[] {
  const lines: Line[] = [];
  for (const [at, message] of messages.entries()) {
    // Keeps a line for the number of further messages, unless this is the last one.
    const left = rows - lines.length - (at === messages.length - 1 || at === 0 ? 0 : 1);
    const whole = linesOfMessage(message, columns, Number.POSITIVE_INFINITY);
    if (whole.length > left && at > 0) {
      const more = messages.length - at;
      if (rows > lines.length) lines.push([[cut(`and ${formatCount(more)} more: ranktrace alerts, and the page`, columns), 'dim']]);
      return lines;
    }
    lines.push(...(whole.length > left ? linesOfMessage(message, columns, left).slice(0, left) : whole));
  }
  return lines;
}
