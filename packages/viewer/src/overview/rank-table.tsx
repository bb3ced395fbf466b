// All ranks in a table: length of steps, phases, clock bound, and losses.

import { cutMiddle, lowerMedian, type Overview, type OverviewRank, type RunModel, type ViewProcess } from '@ranktrace/protocol';
import type { JSX } from 'preact';
import { useId, useMemo, useState } from 'preact/hooks';
import { type Column, DataTable } from '../controls/data-table.tsx';
import { formatBound, formatCount, formatDuration, formatMany } from '../controls/format.ts';
import { PickLink } from '../controls/pick-link.tsx';
import { formatMorePart } from '../controls/signed.ts';
import { rankFilter, wordFilter } from '../controls/sort-rows.ts';
import { type ProcessState, processStates, rankName } from './rank-lives.ts';
import './rank-table.css';

export interface RankTableProps {
  readonly overview: Overview;
  readonly model: Pick<RunModel, 'live' | 'processes'>;
  /** Undefined where there is no timeline to go to. */
  readonly onPick: ((rank: number, process: number) => void) | undefined;
}

interface RankRow {
  readonly of: OverviewRank;
  readonly process: ViewProcess | undefined;
  readonly state: ProcessState | undefined;
  /** Mean step against the median rank's: 0.1 is 10 % more. */
  readonly more: number;
}

/** Phases that have columns of their own on the page; a file has all. */
const phaseColumns = 5;
const phaseCharsMax = 32;

export function RankTable({ overview, model, onPick }: RankTableProps): JSX.Element {
  const [filter, setFilter] = useState('');
  const filterId = useId();
  const rows = useMemo(() => rowsOf(overview, model), [overview, model]);
  const shown = useMemo(() => filtered(rows, filter), [rows, filter]);
  return (
    <div class="rank-table">
      <p class="rank-table-filter">
        <label for={filterId}>Filter</label>
        <input
          id={filterId}
          type="search"
          placeholder="ranks (0-7, 12) or host"
          value={filter}
          onInput={({ currentTarget }) => setFilter(currentTarget.value)}
        />
        <span class="muted" aria-live="polite">
          {formatCount(shown.length)} of {formatCount(rows.length)}
        </span>
      </p>
      <DataTable
        caption="Ranks"
        columns={columnsOf(overview, onPick)}
        rows={shown}
        keyOf={({ of }) => `${of.rank}/${of.process}`}
        order={{ by: 'mean', direction: 'down' }}
        pageRows={25}
        empty="No rank matches the filter."
        foot={phasesText(overview.phases)}
      />
    </div>
  );
}

/** The phases that have no column. */
function phasesText(phases: readonly string[]): string {
  const others = phases.slice(phaseColumns);
  if (others.length === 0) return '';
  const names = others.map((name) => cutMiddle(name, phaseCharsMax)).join(', ');
  return `Copy and CSV also have ${formatMany(others.length, 'further phase')}: ${names}`;
}

function rowsOf({ ranks }: Overview, model: RankTableProps['model']): readonly RankRow[] {
  const byIndex = new Map(model.processes.map((process) => [process.index, process]));
  const states = processStates(model);
  const median = lowerMedian(ranks.filter(({ steps }) => steps > 0).map(({ mean }) => mean)) ?? Number.NaN;
  return ranks.map((of) => ({
    of,
    process: byIndex.get(of.process),
    state: states.get(of.process),
    more: of.steps > 0 ? of.mean / median - 1 : Number.NaN,
  }));
}

function filtered(rows: readonly RankRow[], filter: string): readonly RankRow[] {
  const isRank = rankFilter(filter);
  if (isRank !== undefined) return rows.filter(({ of }) => isRank(of.rank));
  const holds = wordFilter(filter);
  return rows.filter(({ of, process }) => holds(`rank ${of.rank} ${process?.hostName ?? ''} ${process?.host ?? ''}`));
}

function columnsOf({ phases, ranks }: Overview, onPick: RankTableProps['onPick']): readonly Column<RankRow>[] {
  const time = (key: string, title: string, hint: string, nsOf: (row: RankRow) => number): Column<RankRow> => ({
    key,
    title,
    hint,
    isNumber: true,
    unit: 'ns',
    sort: (row) => (row.of.steps > 0 && !Number.isNaN(nsOf(row)) ? nsOf(row) : undefined),
    show: (row) => formatDuration(row.of.steps > 0 ? nsOf(row) : Number.NaN),
  });
  return [
    {
      key: 'rank',
      title: 'Rank',
      sort: ({ of }) => of.rank,
      value: ({ of }) => rankName(of),
      show: ({ of, state }) => (
        <PickLink onPick={onPick && (() => onPick(of.rank, of.process))}>
          {rankName(of)}
          {state === 'running' && <span class="only-aloud"> (running)</span>}
        </PickLink>
      ),
    },
    {
      key: 'host',
      title: 'Host',
      sort: ({ process }) => hostName(process),
      show: ({ process }) => <HostName name={hostName(process) ?? '–'} />,
    },
    { key: 'steps', title: 'Steps', isNumber: true, sort: ({ of }) => of.steps, show: ({ of }) => formatCount(of.steps) },
    time('mean', 'Mean', 'Mean length of a step', ({ of }) => of.mean),
    {
      key: 'more',
      title: 'vs median',
      hint: 'Mean step against that of the median rank',
      isNumber: true,
      unit: '1 = 100 %',
      sort: ({ more }) => more,
      show: ({ more }) => formatMorePart(more),
    },
    time('p50', 'p50', 'Half of the steps are shorter', ({ of }) => of.p50 ?? Number.NaN),
    time('p95', 'p95', '95 of 100 steps are shorter', ({ of }) => of.p95 ?? Number.NaN),
    time('longest', 'Longest', 'The longest step', ({ of }) => of.longest),
    ...(ranks.some(({ hostMean }) => hostMean !== undefined)
      ? [
          time(
            'hostMean',
            "Host's mean",
            "Mean length of the host's step, which runs ahead of its GPUs",
            ({ of }) => of.hostMean ?? Number.NaN,
          ),
        ]
      : []),
    {
      key: 'bound',
      title: 'Clock',
      hint: 'How far its times can be off those of other hosts',
      unit: 'ns',
      isNumber: true,
      sort: ({ process }) => process?.alignment.bound ?? Number.POSITIVE_INFINITY,
      show: ({ process }) => (process === undefined ? '–' : formatBound(process.alignment.bound)),
    },
    {
      key: 'lost',
      title: 'Lost',
      hint: 'Batches that are missing, and events that the rank dropped',
      isNumber: true,
      isOnlyOnPage: true,
      sort: ({ process }) => (process?.missing ?? 0) + (process?.droppedEvents ?? 0),
      show: ({ process }) => lostText(process),
    },
    lostInFile('Missing batches', (process) => process.missing),
    lostInFile('Dropped events', (process) => process.droppedEvents),
    {
      key: 'state',
      title: 'State',
      hint: 'No end is recorded of a rank that was killed, or whose last batch is missing',
      sort: ({ state }) => state,
      show: ({ state }) => state ?? '–',
    },
    ...phases.map((name, at) => ({
      ...time(`phase ${name}`, cutMiddle(name, phaseCharsMax), `Mean ${name} per step`, ({ of }) => of.phases[at] ?? 0),
      isOnlyInFile: at >= phaseColumns,
    })),
  ];
}

/** A part of what a rank lost: batches and events are no sum. */
const lostInFile = (title: string, of: (process: ViewProcess) => number): Column<RankRow> => ({
  key: title,
  title,
  isOnlyInFile: true,
  value: ({ process }) => process && of(process),
  show: () => '',
});

const HostName = ({ name }: { readonly name: string }): JSX.Element => (
  <span class="rank-table-host" title={name}>
    {name}
  </span>
);

const hostName = (process: ViewProcess | undefined): string | undefined => process?.hostName || process?.host || undefined;

function lostText(process: ViewProcess | undefined): string {
  if (process === undefined || (process.missing === 0 && process.droppedEvents === 0)) return '0';
  const batches = process.missing > 0 ? [formatMany(process.missing, 'batch', 'batches')] : [];
  const events = process.droppedEvents > 0 ? [formatMany(process.droppedEvents, 'event')] : [];
  return [...batches, ...events].join(', ');
}
