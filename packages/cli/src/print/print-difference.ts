// Two runs compared, as text: verdict, step times, and per kind of work what is slower, faster, added or gone, most costly first.

import { type DifferenceKind, type NameDifference, printable, type RunDifference } from '@ranktrace/protocol';
import { ranksText } from '@ranktrace/trace';
import { signed } from '@ranktrace/trace/compare';
import type { DifferenceSort } from '../options/option-choices.ts';
import { formatCount, formatNanos, formatTable, nameInLine } from '../terminal/format.ts';

export interface DifferenceOptions {
  /** Lines of each kind; undefined: all. */
  readonly limit: number | undefined;
  readonly sort: DifferenceSort;
  readonly on?: 'host' | 'device' | undefined;
  /** Lines whose difference lies within the scatter, too. */
  readonly all: boolean;
}

const nameCharsMax = 64;
const ranksShown = 3;
const kinds: readonly (readonly [title: string, ...of: DifferenceKind[]])[] = [
  ['phases', 'phase'],
  ['ops and other spans of the host', 'op', 'call'],
  ['kernels and copies', 'kernel', 'copy'],
  ['collectives', 'collective'],
];

/** The lines of `difference` that the options ask for, in their order. */
export function chosenNames({ names }: RunDifference, { sort, on }: Pick<DifferenceOptions, 'sort' | 'on'>): readonly NameDifference[] {
  const size = (row: NameDifference): number => {
    if (sort === 'part') return row.part === null ? Number.POSITIVE_INFINITY : Math.abs(row.part);
    if (sort === 'total') return Math.abs((row.b?.total ?? 0) - (row.a?.total ?? 0));
    if (sort === 'count') return Math.abs((row.b?.count ?? 0) - (row.a?.count ?? 0));
    return Math.abs(row.more);
  };
  const chosen = names.filter((row) => on === undefined || row.on === on);
  if (sort === 'name') return chosen.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
  // Sorting keeps the order of cost among equals; two infinite parts are equal.
  return chosen.sort((a, b) => (size(a) === size(b) ? 0 : size(b) - size(a)));
}

/** The first `limit` of each kind of lines, in their order. */
export function firstOfEachKind(names: readonly NameDifference[], limit = Number.POSITIVE_INFINITY): readonly NameDifference[] {
  const counts = new Map<string, number>();
  return names.filter(({ kind }) => {
    const [title = ''] = kinds.find(([, ...of]) => of.includes(kind)) ?? [];
    const count = counts.get(title) ?? 0;
    counts.set(title, count + 1);
    return count < limit;
  });
}

/** The whole comparison as text, without a final line end. */
export function formatDifference(difference: RunDifference, options: DifferenceOptions): string {
  const { verdictText, longText, provableText, failOn, a, b } = difference;
  const worthNs = failOn * (a.stepTimes?.p50 ?? 0);
  const names = chosenNames(difference, options);
  const blocks = [
    [`A: ${aboutRun(a)}`, `B: ${aboutRun(b)}`].join('\n'),
    [verdictText, longText, provableText].filter((line) => line !== '').join('\n'),
    stepTable(difference),
    ...kinds.map(([title, ...of]) =>
      kindTable(
        title,
        names.filter(({ kind }) => of.includes(kind)),
        options,
        worthNs,
      ),
    ),
    notes(difference),
  ];
  return blocks.filter((block) => block !== '').join('\n\n');
}

function aboutRun({ run, ranks, steps, detailSteps }: RunDifference['a']): string {
  const detail = detailSteps === steps ? '' : `, ${formatCount(detailSteps)} of them with spans`;
  const of =
    steps === 0 ? 'no steps: times are of the whole recording' : `${formatCount(steps)} ${steps === 1 ? 'step' : 'steps'}${detail}`;
  return `${printable(run)}, ${formatCount(ranks)} ${ranks === 1 ? 'rank' : 'ranks'}, ${of}`;
}

const percentiles = [
  ['least', 'shortest'],
  ['p10', 'p10'],
  ['p50', 'median'],
  ['p90', 'p90'],
  ['p99', 'p99'],
  ['most', 'longest'],
] as const;

function stepTable({ a, b, binsFrom, binsUntil }: RunDifference): string {
  if (a.stepTimes === null || b.stepTimes === null) return '';
  const row = (name: string, times: NonNullable<typeof a.stepTimes>): string[] => [
    name,
    ...percentiles.map(([key]) => formatNanos(times[key])),
  ];
  const changes = percentiles.map(([key]) => changeText(a.stepTimes?.[key] ?? 0, b.stepTimes?.[key] ?? 0));
  const rows = [['step', ...percentiles.map(([, title]) => title)], row('A', a.stepTimes), row('B', b.stepTimes), ['B − A', ...changes]];
  const table = formatTable(rows, rows[0]?.map((_, column) => column > 0) as boolean[]);
  const axis = `${formatNanos(binsFrom)} to ${formatNanos(binsUntil)}${a.stepTimes.most > binsUntil || b.stepTimes.most > binsUntil ? ' and more' : ''}`;
  return `${table}\n\nA |${bars(a.bins)}|\nB |${bars(b.bins)}|  steps by length, ${axis}`;
}

const blocks = ' ▁▂▃▄▅▆▇█';

/** A character for each bin; one with any steps is never blank. */
function bars(bins: readonly number[]): string {
  const most = Math.max(1, ...bins);
  return bins.map((count) => blocks[count === 0 ? 0 : Math.max(1, Math.round((count / most) * (blocks.length - 1)))]).join('');
}

const changeText = (a: number, b: number): string => (a === 0 ? '–' : signed(b / a - 1));

const head = ['A', 'B', 'B − A', 'part', '95 % interval', 'calls A → B', 'is'];

function kindTable(title: string, names: readonly NameDifference[], { limit, all }: DifferenceOptions, worthNs: number): string {
  if (names.length === 0) return '';
  // Some of many names differ by chance: one that is not certain is shown where it would matter.
  const isUncertain = ({ status }: NameDifference): boolean => status.startsWith('probably');
  const worth = all ? names : names.filter((name) => name.status !== 'noise' && (!isUncertain(name) || Math.abs(name.more) >= worthNs));
  const uncertain = all ? 0 : names.filter(isUncertain).length - worth.filter(isUncertain).length;
  const within = names.length - worth.length - uncertain;
  const shown = worth.slice(0, limit);
  const left = [
    ...(shown.length < worth.length ? [`${formatCount(worth.length - shown.length)} more: --limit`] : []),
    ...(uncertain > 0 ? [`${formatCount(uncertain)} small and not certain: --all`] : []),
    ...(within > 0 ? [`${formatCount(within)} within the noise: --all`] : []),
  ];
  if (shown.length === 0) return `${title}: no difference beyond the noise (${left.join('; ')})`;
  const rows = shown.flatMap((row) => [rowOf(row), ...ranksLine(row)]);
  const text = formatTable([[title, ...head], ...rows], [false, true, true, true, true, true, true, false]);
  return left.length === 0 ? text : `${text}\n(${left.join('; ')})`;
}

function rowOf({ name, group, a, b, more, low, high, part, status, basis }: NameDifference): string[] {
  const shown = nameInLine(group === '' ? name : `${name} of ${group}`, nameCharsMax);
  return [
    shown,
    a === null ? '–' : formatNanos(a.level),
    b === null ? '–' : formatNanos(b.level),
    moreText(more),
    part === null ? '' : signed(part),
    low === null || high === null || a === null || b === null ? '' : `${moreText(low)} to ${moreText(high)}`,
    `${countText(a?.count)} → ${countText(b?.count)}`,
    basis === 'mean' && a !== null && b !== null ? `${statusText[status]} (mean)` : statusText[status],
  ];
}

const statusText: Readonly<Record<NameDifference['status'], string>> = {
  slower: 'slower',
  probably_slower: 'slower, not certain',
  probably_faster: 'faster, not certain',
  faster: 'faster',
  added: 'added',
  gone: 'gone',
  noise: 'within the noise',
  unknown: 'noise not known',
  unrecorded: 'not recorded in the other',
};

/** The ranks that a change is on, where it is not on all of them alike. */
function ranksLine({ ranks, status, a, b }: NameDifference): string[][] {
  if (status !== 'slower' && status !== 'faster') return [];
  const more = (b?.self ?? 0) - (a?.self ?? 0);
  const own = ranks.filter((rank) => Math.abs(rank.b - rank.a) > 2 * Math.abs(more)).slice(0, ranksShown);
  if (own.length === 0) return [];
  return [[`  ${own.map((rank) => `rank ${rank.rank}: ${formatNanos(rank.a)} → ${formatNanos(rank.b)}`).join(', ')}`]];
}

const moreText = (ns: number): string => `${ns < 0 ? '−' : '+'}${formatNanos(Math.abs(ns))}`;

function countText(count: number | undefined): string {
  if (count === undefined) return '0';
  return count >= 100 ? formatCount(count) : String(Number(count.toFixed(count < 1 ? 3 : 1)));
}

const lateText = 'came far behind the other ranks, or were run again: they count in totals and on ranks, not in medians.';

function notes({ a, b, namesLeftOut }: RunDifference): string {
  const lines = ['Times are self times per step and rank (of phases: whole times), medians over steps, or means where it is said.'];
  for (const { side, other, ranks } of [
    { side: 'A', other: 'B', ranks: a.ownRanks },
    { side: 'B', other: 'A', ranks: b.ownRanks },
  ]) {
    if (ranks.length > 0)
      lines.push(`${other} lacks ${ranksText(ranks)} of ${side}: a difference may be one of the ranks, not of the runs.`);
  }
  for (const [side, { lateParts }] of [
    ['A', a],
    ['B', b],
  ] as const) {
    if (lateParts > 0) lines.push(`${formatCount(lateParts)} steps of single ranks of ${side} ${lateText}`);
  }
  const leftOut = [
    { side: 'A', count: a.leftOut },
    { side: 'B', count: b.leftOut },
  ].filter(({ count }) => count > 0);
  for (const { side, count } of leftOut) lines.push(`${formatCount(count)} spans of ${side} are left out: there are too many names.`);
  if (namesLeftOut > 0) lines.push(`${formatCount(namesLeftOut)} names with smaller differences are left out.`);
  return lines.join('\n');
}
