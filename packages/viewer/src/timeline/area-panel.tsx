// The contents of a marked area of the timeline: a table of names, counters, and the same as a flame graph.

import type { AreaRow, AreaTable, FlameSplit, RunModel } from '@ranktrace/protocol';
import type { JSX } from 'preact';
import { useId, useMemo, useState } from 'preact/hooks';
import { AnswerState } from '../client/answer-state.tsx';
import type { Area, RunClient } from '../client/run-client.ts';
import { useAnswer } from '../client/use-answer.ts';
import { jump, type ViewState } from '../client/view-state.ts';
import { type Column, DataTable } from '../controls/data-table.tsx';
import { DownloadLink } from '../controls/download-link.tsx';
import { formatCount, formatDuration, formatMany, formatPercent, formatTime, formatValue } from '../controls/format.ts';
import { wordFilter } from '../controls/sort-rows.ts';
import { Tabset } from '../controls/tabset.tsx';
import { processNames } from '../overview/rank-lives.ts';
import { FlameGraph } from './flame-graph.tsx';
import { isAreaPartial } from './marked-tracks.ts';
import { zeroOfRun } from './ruler.ts';
import './area-panel.css';

export interface AreaPanelProps {
  readonly client: RunClient;
  readonly area: Area;
  readonly state: ViewState;
}

type Tab = 'names' | 'counters' | 'flame';

export function AreaPanel({ client, area, state }: AreaPanelProps): JSX.Element {
  const [tab, setTab] = useState<Tab>('names');
  const model = client.model.value;
  // Another epoch has other track numbers, so the panel asks again, and once more when all of the area has come.
  const isPartial = model !== undefined && isAreaPartial(area, model);
  const key = model === undefined ? undefined : `${model.epoch} ${isPartial} ${area.from} ${area.until} ${area.tracks.join()}`;
  const table = useAnswer((options) => client.area(area, options), key);
  const [split, setSplit] = useState<FlameSplit>(undefined);
  const flame = useAnswer((options) => client.flame(area, split, options), tab === 'flame' ? `${key} ${split ?? ''}` : undefined);
  const counters = table.value?.counters.length ?? 0;
  const tabs = [
    { key: 'names', title: 'Names' },
    { key: 'flame', title: 'Flame graph' },
    { key: 'counters', title: counters === 0 ? 'Counters' : `Counters (${formatCount(counters)})` },
  ] as const;
  const grain = (area.until - area.from) / 1000;
  const zero = model === undefined ? 0 : zeroOfRun(model);
  const head = (
    <p class="area-head">
      {formatTime(area.from - zero, grain)} – {formatTime(area.until - zero, grain)},{' '}
      {area.tracks.length === 0 ? 'all tracks' : formatMany(area.tracks.length, 'track')}
      {table.value !== undefined && `, ${formatMany(table.value.events, 'event')}${isPartial ? ' so far' : ''}`}
      {' · '}
      <Downloads run={client.run} area={area} model={model} />
    </p>
  );
  return (
    <section class="area-panel" aria-label="Marked area">
      <Tabset label="Marked area" tabs={tabs} shown={tab} onShow={setTab} aside={head}>
        {tab === 'flame' ? (
          <>
            <p class="area-filter">
              <label>
                Split by{' '}
                <select value={split ?? ''} onChange={({ currentTarget }) => setSplit((currentTarget.value || undefined) as FlameSplit)}>
                  <option value="">nothing</option>
                  <option value="rank">rank</option>
                  <option value="device">host and device</option>
                  <option value="both">rank, host and device</option>
                </select>
              </label>
            </p>
            <AnswerState answer={flame} what="Building the flame graph" />
            {flame.value !== undefined && <FlameGraph root={flame.value} isPartial={isPartial} />}
          </>
        ) : (
          <>
            <AnswerState answer={table} what="Adding up" />
            {table.value !== undefined && tab === 'names' && (
              <Names table={table.value} model={model} isPartial={isPartial} state={state} />
            )}
            {table.value !== undefined && tab === 'counters' && <Counters table={table.value} model={model} />}
          </>
        )}
      </Tabset>
    </section>
  );
}

/** Links to the part of the run that the area shows, as a trace: the ranks of its tracks, and all that overlaps its time. */
function Downloads({ run, area, model }: { readonly run: string; readonly area: Area; readonly model: RunModel | undefined }): JSX.Element {
  const ranks = useMemo(() => ranksOf(area.tracks, model), [area, model?.tracks, model?.processes]);
  const isAll = area.tracks.length === 0 || ranks.length > ranksInAddressMax;
  const about = new URLSearchParams({
    run,
    from: String(Math.floor(area.from)),
    until: String(Math.max(Math.ceil(area.until), Math.floor(area.from) + 1)),
  });
  if (!isAll) about.set('ranks', ranks.join());
  const link = (format: string, title: string): JSX.Element => (
    <DownloadLink href={`/v1/trace?${about}&format=${format}`} what={`.${format}`} title={title}>
      .{format}
    </DownloadLink>
  );
  return (
    <span class="area-downloads">
      Download {link('pftrace', 'For Perfetto, and for ranktrace')} {link('json', 'For chrome://tracing and others')}
    </span>
  );
}

/** Ranks that an address has room for; of more, a download has all of the run. */
const ranksInAddressMax = 512;

function Names({
  table,
  model,
  isPartial,
  state,
}: {
  table: AreaTable;
  model: RunModel | undefined;
  isPartial: boolean;
  state: ViewState;
}): JSX.Element {
  const [filter, setFilter] = useState('');
  const filterId = useId();
  const shown = useMemo(() => {
    const holds = wordFilter(filter);
    return table.rows.filter(({ name, kind }) => holds(`${name} ${kind}`));
  }, [table, filter]);
  const selfTotal = useMemo(() => table.rows.reduce((sum, { self }) => sum + self, 0), [table]);
  return (
    <div>
      <p class="area-filter">
        <label for={filterId}>Filter</label>
        <input
          id={filterId}
          type="search"
          value={filter}
          onInput={({ currentTarget }) => setFilter(currentTarget.value)}
          onKeyDown={(event) => event.stopPropagation()}
        />
        <span class="muted" aria-live="polite">
          {formatCount(shown.length)} of {formatMany(table.rows.length, 'name')}
        </span>
        {table.leftOut > 0 && (
          <span class="area-left-out">▲ {formatMany(table.leftOut, 'event is', 'events are')} not in it: there are too many</span>
        )}
      </p>
      <DataTable
        caption="Names in the marked area"
        columns={columnsOf(table.rows, selfTotal, model, state)}
        rows={shown}
        keyOf={({ kind, name }) => `${kind} ${name}`}
        order={{ by: 'total', direction: 'down' }}
        pageRows={100}
        empty={
          table.rows.length === 0
            ? isPartial
              ? 'Nothing lies in this area so far.'
              : 'Nothing lies in this area.'
            : 'No name matches the filter.'
        }
      />
    </div>
  );
}

function columnsOf(rows: readonly AreaRow[], selfTotal: number, model: RunModel | undefined, state: ViewState): readonly Column<AreaRow>[] {
  // Steps contain what lies beside them, and have no time of their own.
  const hasSelf = ({ kind }: AreaRow): boolean => kind !== 'step' || rows.length === 1;
  const partOf = ({ self }: AreaRow): number => (selfTotal > 0 ? self / selfTotal : 0);
  const time = (key: 'total' | 'self' | 'shortest' | 'longest', title: string, hint: string): Column<AreaRow> => ({
    key,
    title,
    hint,
    isNumber: true,
    unit: 'ns',
    sort: (row) => row[key],
    show: (row) => formatDuration(row[key]),
  });
  return [
    {
      key: 'name',
      title: 'Name',
      sort: ({ name }) => name,
      show: ({ name }) => (
        <button
          type="button"
          class="is-link area-name"
          title={`${name}\nClick: shows where it is in the timeline`}
          onClick={() => {
            state.search.value = name;
          }}
        >
          {name}
        </button>
      ),
    },
    { key: 'kind', title: 'Kind', sort: ({ kind }) => kind, show: ({ kind }) => kind },
    { key: 'count', title: 'Count', isNumber: true, sort: ({ count }) => count, show: ({ count }) => formatCount(count) },
    time('total', 'Total', 'Time in them that lies within the area'),
    {
      ...time('self', 'Self', 'Time in them that no span inside of them covers; steps have none, as they contain the others'),
      sort: (row) => (hasSelf(row) ? row.self : undefined),
      show: (row) => formatDuration(hasSelf(row) ? row.self : Number.NaN),
    },
    {
      key: 'part',
      title: 'Self %',
      hint: 'Self of all self',
      isNumber: true,
      unit: '1',
      sort: (row) => (hasSelf(row) ? row.self : undefined),
      value: (row) => (hasSelf(row) ? partOf(row) : undefined),
      show: (row) =>
        hasSelf(row) ? (
          <>
            <span class="area-part" style={{ width: `${Math.min(1, partOf(row)) * 48}px` }} aria-hidden="true" />
            {formatPercent(partOf(row))}
          </>
        ) : (
          '–'
        ),
    },
    {
      key: 'mean',
      title: 'Mean',
      isNumber: true,
      unit: 'ns',
      sort: ({ total, count }) => total / count,
      show: ({ total, count }) => formatDuration(total / count),
    },
    time('shortest', 'Shortest', 'The shortest one'),
    {
      ...time('longest', 'Longest', 'The longest one: click to go there'),
      show: ({ longest, place }) => (
        <button type="button" class="is-link" title="Go to the longest" onClick={() => goTo(place, model, state)}>
          {formatDuration(longest)}
        </button>
      ),
    },
    { key: 'ranks', title: 'Ranks', isNumber: true, sort: ({ ranks }) => ranks, show: ({ ranks }) => formatCount(ranks) },
  ];
}

function goTo({ track, event, start, length }: AreaRow['place'], model: RunModel | undefined, state: ViewState): void {
  const rank = rankOf(track, model);
  jump(state, { ranks: rank === undefined ? [] : [rank], from: start, until: start + length, event: { track, event } });
}

/** Ranks of thousands of tracks, each looked up once. */
function ranksOf(tracks: readonly number[], model: RunModel | undefined): readonly number[] {
  const ofProcess = new Map(model?.processes.map(({ index, rank }) => [index, rank]));
  const ofTrack = new Map(model?.tracks.map(({ track, process }) => [track, ofProcess.get(process)]));
  return [...new Set(tracks.map((track) => ofTrack.get(track)))].filter((rank) => rank !== undefined);
}

function rankOf(track: number, model: RunModel | undefined): number | undefined {
  const process = model?.tracks.find((one) => one.track === track)?.process;
  return model?.processes.find(({ index }) => index === process)?.rank;
}

function Counters({ table, model }: { table: AreaTable; model: RunModel | undefined }): JSX.Element {
  const tracks = useMemo(() => new Map(model?.tracks.map((track) => [track.track, track])), [model]);
  const names = useMemo(() => processNames(model?.processes ?? []), [model]);
  const nameOf = (track: number): string => names.get(tracks.get(track)?.process ?? -1) ?? '–';
  const value = (key: 'low' | 'mean' | 'high', title: string): Column<AreaTable['counters'][number]> => ({
    key,
    title,
    isNumber: true,
    sort: (counter) => counter[key],
    show: (counter) => formatValue(counter[key], tracks.get(counter.track)?.unit ?? ''),
  });
  return (
    <DataTable
      caption="Counters in the marked area"
      columns={[
        {
          key: 'name',
          title: 'Counter',
          sort: ({ track }) => tracks.get(track)?.name,
          show: ({ track }) => tracks.get(track)?.name ?? '–',
        },
        { key: 'rank', title: 'Rank', sort: ({ track }) => nameOf(track), show: ({ track }) => nameOf(track) },
        value('low', 'Least'),
        value('mean', 'Mean'),
        value('high', 'Greatest'),
        { key: 'unit', title: 'Unit', isOnlyInFile: true, value: ({ track }) => tracks.get(track)?.unit, show: () => '' },
      ]}
      rows={table.counters}
      keyOf={({ track }) => String(track)}
      order={{ by: 'name', direction: 'up' }}
      empty="No counter has a value in this area."
    />
  );
}
