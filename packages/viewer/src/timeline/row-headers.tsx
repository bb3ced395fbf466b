// The left column: one header per visible row, real HTML with buttons, so that it can be read aloud, focused and searched. Only the rows in view
// exist; the frame that draws them moves the whole column, so headers and lanes stay together.

import { type ReadonlySignal, useComputed, useSignal } from '@preact/signals';
import type { ViewProcess } from '@ranktrace/protocol';
import type { JSX } from 'preact';
import { formatBound, formatDuration, formatMany, formatRanks, formatValue } from '../controls/format.ts';
import type { ProcessState } from '../overview/rank-lives.ts';
import { noteOf } from './row-text.ts';
import { movedOrder, type Row, rowsBetween, trackLabel } from './rows.ts';
import type { TimelineSession } from './session.ts';

/** Rows of one list: the pinned ones or those that scroll. */
export function RowHeaders(props: {
  session: TimelineSession;
  list: 'pinned' | 'rows';
  /** CSS pixels of the visible part of the list. */
  visible: ReadonlySignal<readonly [number, number]>;
  /** Key of a row whose header is elsewhere. */
  without?: string | undefined;
}): JSX.Element {
  const { session, list } = props;
  const dragged = useSignal<Row | undefined>(undefined);
  const range = useComputed(() => rowsBetween(session.layout.value[list], ...props.visible.value).join(' '));
  const [first = 0, last = 0] = range.value.split(' ').map(Number);
  return (
    <>
      {session.layout.value[list]
        .slice(first, last)
        .filter(({ key }) => key !== props.without)
        .map((row) => (
          <RowHeader key={row.key} session={session} row={row} isPinned={list === 'pinned'} dragged={dragged} />
        ))}
    </>
  );
}

/** The header that stays at the top while its rank's rows are scrolled. */
export function StickyHeader({ session, row }: { session: TimelineSession; row: Row }): JSX.Element {
  const dragged = useSignal<Row | undefined>(undefined);
  return <RowHeader key={row.key} session={session} row={{ ...row, top: 0, siblings: [] }} isPinned={false} dragged={dragged} />;
}

function RowHeader({
  session,
  row,
  isPinned,
  dragged,
}: {
  session: TimelineSession;
  row: Row;
  isPinned: boolean;
  dragged: { value: Row | undefined };
}): JSX.Element {
  const { state } = session;
  const isOver = useSignal(false);
  const isMovable = row.siblings.length > 1;
  const isMarked = row.kind === 'rank' && state.highlighted.value.has(row.ranks[0] as number);
  const move = (by: number): void => {
    const target = row.siblings[row.siblings.indexOf(row.key) + by];
    if (target !== undefined) state.order.value = movedOrder(state.order.peek(), row.siblings, row.key, target);
  };
  const classes = ['row-header', `row-${row.kind}`];
  if (isMarked) classes.push('row-marked');
  if (row.kind === 'rank' && row.process?.alignment.method === 'unaligned') classes.push('row-unaligned');
  if (isOver.value) classes.push('row-over');
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: dragging is a second way; alt+up and alt+down on the button do the same
    <div
      class={classes.join(' ')}
      style={{ top: `${row.top}px`, height: `${row.height}px`, paddingLeft: `${6 + row.indent * 12}px` }}
      draggable={isMovable}
      onDragStart={() => {
        dragged.value = row;
      }}
      onDragOver={(event) => {
        if (dragged.value === undefined || dragged.value === row || !row.siblings.includes(dragged.value.key)) return;
        event.preventDefault();
        isOver.value = true;
      }}
      onDragLeave={() => {
        isOver.value = false;
      }}
      onDrop={(event) => {
        event.preventDefault();
        isOver.value = false;
        if (dragged.value !== undefined) state.order.value = movedOrder(state.order.peek(), row.siblings, dragged.value.key, row.key);
        dragged.value = undefined;
      }}
    >
      {row.isFoldable ? (
        <button
          type="button"
          class="row-fold"
          aria-expanded={!row.isFolded}
          aria-label={`${row.isFolded ? 'Unfold' : 'Fold'} ${row.label}`}
          title={isMovable ? 'Fold or unfold; Alt+↑ and Alt+↓ move it' : 'Fold or unfold'}
          onClick={() => session.toggle(row)}
          onKeyDown={(event) => {
            if (!event.altKey || (event.key !== 'ArrowUp' && event.key !== 'ArrowDown')) return;
            event.preventDefault();
            event.stopPropagation();
            move(event.key === 'ArrowUp' ? -1 : 1);
          }}
        >
          <span class={row.isFolded ? 'chevron' : 'chevron chevron-open'} aria-hidden="true" />
        </button>
      ) : (
        <span class="row-fold" aria-hidden="true" />
      )}
      {/* biome-ignore lint/a11y/noStaticElementInteractions lint/a11y/useKeyWithClickEvents: the button before it does the same, with keys */}
      <span
        class={row.isFoldable ? 'row-label row-label-folds' : 'row-label'}
        title={titleOf(row, session.states.value.get(row.process?.index ?? -1))}
        onClick={({ detail }) => row.isFoldable && detail < 2 && session.toggle(row)}
      >
        {row.label}
      </span>
      {row.kind === 'rank' && row.process !== undefined && <RankBadges process={row.process} row={row} />}
      {(row.kind === 'group' || row.kind === 'rest') && <span class="row-note">{noteOf(row)}</span>}
      {row.kind === 'counter' && row.track !== undefined && <span class="row-note">{formatValue(row.track.high, row.track.unit)}</span>}
      {(row.kind === 'rank' || row.kind === 'track' || row.kind === 'counter') && (
        <button
          type="button"
          class="row-pin"
          aria-pressed={state.pinned.value.includes(row.key)}
          aria-label={`${isPinned ? 'Unpin' : 'Pin'} ${row.label}`}
          title="Keep at the top (P)"
          onClick={() => session.togglePin(row.key)}
        >
          <svg viewBox="0 0 16 16" width="11" height="11" aria-hidden="true">
            <path
              d="M9.8 1.2 14.8 6.2 11.6 7.4 8.9 11.9 4.1 7.1 8.6 4.4ZM6 10 2 14"
              fill="none"
              stroke="currentColor"
              stroke-width="1.4"
              stroke-linejoin="round"
              stroke-linecap="round"
            />
          </svg>
        </button>
      )}
    </div>
  );
}

function RankBadges({ process, row }: { process: ViewProcess; row: Row }): JSX.Element {
  const { alignment } = process;
  const lost = process.missing + process.droppedEvents;
  return (
    <span class="row-badges">
      {row.tag !== undefined && <span class={`badge badge-${row.tag}`}>{row.tag}</span>}
      {lost > 0 && (
        <span class="badge badge-alert" title={lossOf(process)}>
          lost
        </span>
      )}
      {alignment.shifted.length > 0 && (
        <span class="badge badge-warning" title={shiftsOf(process)}>
          shifted
        </span>
      )}
      {alignment.method === 'unaligned' ? (
        <span class="badge badge-unaligned" title="Its clock could not be aligned with the others: its times are its own">
          unaligned
        </span>
      ) : alignment.method !== 'exact' && alignment.method !== 'shared' ? (
        <span class="row-note" title={alignmentOf(process)}>
          {formatBound(alignment.bound)}
        </span>
      ) : undefined}
    </span>
  );
}

const methods: Readonly<Record<ViewProcess['alignment']['method'], string>> = {
  exact: 'one clock with the others',
  shared: 'one clock with the others of its host',
  sampled: 'clock aligned by samples',
  messages: 'clock aligned by messages',
  unaligned: 'clock not aligned',
};

const alignmentOf = ({ alignment }: ViewProcess): string =>
  `${methods[alignment.method]}${alignment.bound === null ? '' : `, ${formatBound(alignment.bound)} at worst`}`;

function shiftsOf({ alignment: { shifted } }: ViewProcess): string {
  const most = Math.max(...shifted.map((stretch) => stretch.most));
  return `Clocks contradict each other: in ${formatMany(shifted.length, 'stretch', 'stretches')} of its time, events are shifted behind their causes, by up to ${formatDuration(most)}`;
}

const lossOf = ({ missing, droppedEvents }: ViewProcess): string =>
  [
    missing > 0 ? `${formatMany(missing, 'batch', 'batches')} missing` : '',
    droppedEvents > 0 ? `${formatMany(droppedEvents, 'event')} dropped by the rank` : '',
  ]
    .filter((each) => each !== '')
    .join(', ');

function titleOf(row: Row, state: ProcessState | undefined): string {
  if (row.process === undefined) return `${row.label}: ${row.ranks.length === 1 ? 'rank' : 'ranks'} ${formatRanks(row.ranks)}`;
  const { process } = row;
  if (row.kind === 'counters') return `${row.label} of rank ${process.rank}`;
  if (row.kind !== 'rank') {
    const { track } = row;
    return track === undefined
      ? row.label
      : `${trackLabel(track)}${track.tid > 0 ? ` · ${track.kind} ${track.tid}` : ''} of rank ${process.rank} · ${formatMany(track.events, 'event')}`;
  }
  return `Rank ${process.rank} on ${process.hostName || process.host}, process ${process.pid}\n${alignmentOf(process)}${process.alignment.shifted.length > 0 ? `\n${shiftsOf(process)}` : ''}\n${state ?? ''}${process.missing + process.droppedEvents > 0 ? `\n${lossOf(process)}` : ''}`;
}
