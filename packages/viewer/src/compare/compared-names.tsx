// Both runs by name, as `ranktrace diff` compares them: over the same steps, per step and rank, with the noise of the steps.

import type { NameDifference, RunDifference } from '@ranktrace/protocol';
import type { JSX } from 'preact';
import { useId, useMemo, useState } from 'preact/hooks';
import { type Column, DataTable } from '../controls/data-table.tsx';
import { formatCount, formatDuration, formatMany, formatNumber } from '../controls/format.ts';
import { formatMorePart, formatMoreTime } from '../controls/signed.ts';
import { wordFilter } from '../controls/sort-rows.ts';

type Place = 'all' | 'host' | 'device' | 'phase' | 'collective';

const places: readonly (readonly [Place, string])[] = [
  ['all', 'all'],
  ['phase', 'phases'],
  ['host', 'host'],
  ['device', 'devices'],
  ['collective', 'collectives'],
];

export function ComparedNames({ difference }: { readonly difference: RunDifference }): JSX.Element {
  const { names, namesLeftOut, a, b } = difference;
  const [place, setPlace] = useState<Place>('all');
  const [showsNoise, setShowsNoise] = useState(false);
  const [filter, setFilter] = useState('');
  const filterId = useId();
  const shown = useMemo(() => {
    const holds = wordFilter(filter);
    return names.filter(
      (row) => isAt(row, place) && (showsNoise || row.status !== 'noise') && holds(`${row.name} ${row.group} ${row.kind} ${row.status}`),
    );
  }, [names, place, showsNoise, filter]);
  const withoutSteps = (
    [
      ['A', a],
      ['B', b],
    ] as const
  ).filter(([, { detailSteps }]) => detailSteps === 0);
  const leftOut = a.leftOut + b.leftOut;
  const lateParts = a.lateParts + b.lateParts;
  return (
    <div class="compare-names">
      <p class="compare-controls">
        <label>
          Show{' '}
          <select value={place} onChange={({ currentTarget }) => setPlace(currentTarget.value as Place)}>
            {places.map(([value, title]) => (
              <option key={value} value={value}>
                {title}
              </option>
            ))}
          </select>
        </label>
        <label>
          <input type="checkbox" checked={showsNoise} onChange={({ currentTarget }) => setShowsNoise(currentTarget.checked)} /> differences
          within the noise, too
        </label>
        <label for={filterId}>Filter</label>
        <input id={filterId} type="search" value={filter} onInput={({ currentTarget }) => setFilter(currentTarget.value)} />
        <span class="muted" aria-live="polite">
          {formatCount(shown.length)} of {formatMany(names.length, 'name')}
        </span>
        {withoutSteps.map(([side]) => (
          <span class="compare-left-out">▲ {side} was not recorded in steps: its times are of the whole recording</span>
        ))}
        {lateParts > 0 && (
          <span class="compare-left-out">
            ▲ {formatMany(lateParts, 'step of a rank', 'steps of ranks')} not in medians: far behind other ranks, or run again
          </span>
        )}
        {leftOut > 0 && (
          <span class="compare-left-out">▲ {formatMany(leftOut, 'span is', 'spans are')} not in it: there are too many names</span>
        )}
        {namesLeftOut > 0 && (
          <span class="compare-left-out">▲ {formatMany(namesLeftOut, 'name', 'names')} with smaller differences left out</span>
        )}
      </p>
      <DataTable
        caption="Time by name in A and B"
        columns={columns}
        rows={shown}
        keyOf={({ kind, on, name, group }) => `${kind} ${on} ${name} ${group}`}
        order={{ by: 'change', direction: 'down' }}
        pageRows={25}
        empty={names.length === 0 ? 'Neither run has spans in these steps.' : 'No name differs by more than the noise, or none matches.'}
      />
    </div>
  );
}

function isAt({ kind, on }: NameDifference, place: Place): boolean {
  if (place === 'all') return true;
  if (place === 'phase' || place === 'collective') return kind === place;
  return kind !== 'phase' && on === place;
}

const signs = { slower: '▲', added: '+', faster: '▼', gone: '−' } as const;

/** Words for a status. A name that a run lacks is neither better nor worse by itself. */
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

function statusClass(status: NameDifference['status']): string {
  if (status === 'slower' || status === 'faster') return `is-${status}`;
  return status === 'added' || status === 'gone' ? 'is-other' : 'is-same';
}

const Status = ({ row: { status } }: { readonly row: NameDifference }): JSX.Element => (
  <span class={`difference ${statusClass(status)}`}>
    <span class="difference-sign" aria-hidden="true">
      {status in signs ? signs[status as keyof typeof signs] : ''}
    </span>
    {statusText[status]}
  </span>
);

function Change({ row }: { readonly row: NameDifference }): JSX.Element {
  const { more, part, low, high, status, a, b } = row;
  const interval =
    low === null || high === null || a === null || b === null ? '' : `95 %: ${formatMoreTime(low)} to ${formatMoreTime(high)}`;
  return (
    <span class={`difference ${statusClass(status)}`} title={interval}>
      {formatMoreTime(more)}
      <span class="difference-part">{part === null ? '' : formatMorePart(part)}</span>
    </span>
  );
}

/** The ranks that differ more than the mean of all. */
function ranksText({ ranks, a, b }: NameDifference): string {
  const more = Math.abs((b?.self ?? 0) - (a?.self ?? 0));
  const own = ranks.filter((rank) => Math.abs(rank.b - rank.a) > 2 * more).slice(0, 3);
  return own.map((rank) => `${rank.rank}: ${formatMoreTime(rank.b - rank.a)}`).join(', ');
}

const time = (key: 'a' | 'b', title: string): Column<NameDifference> => ({
  key,
  title,
  hint: 'Self time per step and rank, of a phase its whole time: median over steps',
  isNumber: true,
  unit: 'ns',
  sort: (row) => row[key]?.level,
  show: (row) => (row[key] === null ? '–' : formatDuration(row[key].level)),
});

/** One side of a column that shows both. */
const inFile = (title: string, unit: string, value: (row: NameDifference) => number | undefined): Column<NameDifference> => ({
  key: title,
  title,
  unit,
  isOnlyInFile: true,
  value,
  show: () => '',
});

const nameOf = ({ name, group }: Pick<NameDifference, 'name' | 'group'>): string => (group === '' ? name : `${name} of ${group}`);

const kindOf = ({ kind, on }: NameDifference): string => (on === 'device' && kind === 'collective' ? 'collective, device' : kind);

const columns: readonly Column<NameDifference>[] = [
  {
    key: 'name',
    title: 'Name',
    sort: ({ name }) => name,
    value: nameOf,
    show: ({ name, group }) => (
      <span class="compare-name" title={group === '' ? name : `${name} of group ${group}`}>
        {nameOf({ name, group })}
      </span>
    ),
  },
  {
    key: 'kind',
    title: 'Kind',
    sort: ({ kind, on }) => `${kind} ${on}`,
    value: kindOf,
    show: kindOf,
  },
  time('a', 'A'),
  time('b', 'B'),
  {
    key: 'change',
    title: 'B − A',
    hint: 'Sorted by how much it changed, either way; hover for the 95 % interval',
    isNumber: true,
    unit: 'ns',
    sort: ({ more }) => Math.abs(more),
    value: ({ more }) => more,
    show: (row) => <Change row={row} />,
  },
  { key: 'status', title: 'Is', sort: ({ status }) => statusText[status], show: (row) => <Status row={row} /> },
  {
    key: 'total',
    title: 'Whole, A → B',
    hint: 'Time in it with all that is inside: mean per step and rank',
    isNumber: true,
    isOnlyOnPage: true,
    sort: ({ a, b }) => Math.abs((b?.total ?? 0) - (a?.total ?? 0)),
    show: ({ a, b }) => `${a === null ? '–' : formatDuration(a.total)} → ${b === null ? '–' : formatDuration(b.total)}`,
  },
  inFile('Whole A', 'ns', ({ a }) => a?.total),
  inFile('Whole B', 'ns', ({ b }) => b?.total),
  {
    key: 'count',
    title: 'Count A → B',
    hint: 'Per step and rank',
    isNumber: true,
    isOnlyOnPage: true,
    sort: ({ a, b }) => Math.abs((b?.count ?? 0) - (a?.count ?? 0)),
    show: ({ a, b }) => `${formatNumber(a?.count ?? 0)} → ${formatNumber(b?.count ?? 0)}`,
  },
  inFile('Count A', '1', ({ a }) => a?.count ?? 0),
  inFile('Count B', '1', ({ b }) => b?.count ?? 0),
  {
    key: 'ranks',
    title: 'Ranks',
    hint: 'Ranks that differ most, where they differ more than the mean of all',
    value: ranksText,
    show: ranksText,
  },
];
