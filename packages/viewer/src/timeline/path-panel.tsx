// The critical path as a list: what bounds the step, and each segment with what it is worth. One leads to the next.

import { lineName, type ViewPath, type ViewPathSegment } from '@ranktrace/protocol';
import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import { type Column, DataTable } from '../controls/data-table.tsx';
import { formatDuration, formatMany, formatPercent, formatTime } from '../controls/format.ts';
import { boundText } from '../controls/path-bounds.ts';
import { goToSegment, stepAlongPath } from './navigate.ts';
import type { TimelineSession } from './session.ts';

const nameCharsMax = 60;

export function PathPanel({ session }: { session: TimelineSession }): JSX.Element {
  const path = session.path.value;
  return (
    <>
      <div class="panel-head">
        <h2>
          Critical path{' '}
          {path !== undefined && path !== null && (
            <span class="muted">
              of step {path.step}, {formatDuration(path.total)}
            </span>
          )}
        </h2>
        {path !== undefined && path !== null && <Bounds path={path} />}
        <span class="spring" />
        {path !== undefined && path !== null && (
          <>
            <button type="button" title="Show the whole path" onClick={() => showPath(session, path)}>
              Zoom to it
            </button>
            <span class="button-group">
              <button type="button" title="The segment before (,)" onClick={() => stepAlongPath(session, -1)}>
                ← previous
              </button>
              <button type="button" title="The segment after (.)" onClick={() => stepAlongPath(session, 1)}>
                next →
              </button>
            </span>
          </>
        )}
        <button
          type="button"
          class="panel-close"
          aria-label="Close"
          title="Close (Esc)"
          onClick={() => {
            session.state.path.value = false;
          }}
        >
          ×
        </button>
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keys */}
      <section class="panel-body path-panel" tabIndex={0} aria-label="Segments of the critical path">
        {path === undefined && <p class="muted">Looking for it …</p>}
        {path === null && <p class="muted">No critical path yet: it needs work of GPUs and a step that all ranks recorded.</p>}
        {path !== undefined && path !== null && <Segments session={session} path={path} />}
      </section>
    </>
  );
}

function showPath(session: TimelineSession, { segments }: ViewPath): void {
  const [first, last] = [segments[0], segments.at(-1)];
  if (first === undefined || last === undefined) return;
  const margin = (last.end - first.start) * 0.03;
  session.show({ from: first.start - margin, until: last.end + margin });
}

const Bounds = ({ path: { byBound, total } }: { path: ViewPath }): JSX.Element => (
  <span class="path-bounds muted">
    {(Object.keys(byBound) as ViewPathSegment['bound'][])
      .filter((bound) => byBound[bound] > 0.0005 * total)
      .sort((a, b) => byBound[b] - byBound[a])
      .map((bound) => `${boundText(bound)} ${formatPercent(byBound[bound] / total)}`)
      .join(' · ')}
  </span>
);

interface Line extends ViewPathSegment {
  readonly at: number;
}

function Segments({ session, path }: { session: TimelineSession; path: ViewPath }): JSX.Element {
  const lines = useMemo(() => path.segments.map((segment, at): Line => ({ ...segment, at })), [path]);
  const zero = session.zero.value;
  const partOf = ({ start, end }: Line): number => (path.total > 0 ? (end - start) / path.total : 0);
  const columns: readonly Column<Line>[] = [
    {
      key: 'at',
      title: '#',
      hint: 'Place on the path',
      isNumber: true,
      sort: ({ at }) => at,
      value: ({ at }) => at + 1,
      show: ({ at }) => at + 1,
    },
    { key: 'rank', title: 'Rank', isNumber: true, sort: ({ rank }) => rank, show: ({ rank }) => rank },
    {
      key: 'name',
      title: 'Segment',
      sort: ({ name }) => name,
      show: (line) => (
        <button type="button" class="is-link" title={`${line.name}\nClick: shows it`} onClick={() => goToSegment(session, line.at)}>
          {lineName(line.name, nameCharsMax)}
        </button>
      ),
    },
    { key: 'bound', title: 'Bound by', sort: ({ bound }) => boundText(bound), show: ({ bound }) => boundText(bound) },
    {
      key: 'start',
      title: 'Start',
      isNumber: true,
      unit: 'ns',
      sort: ({ start }) => start,
      value: ({ start }) => start - zero,
      show: ({ start }) => formatTime(start - zero, 1000),
    },
    {
      key: 'length',
      title: 'Length',
      hint: 'Time of the step that it takes',
      isNumber: true,
      unit: 'ns',
      sort: ({ start, end }) => end - start,
      show: ({ start, end }) => formatDuration(end - start),
    },
    {
      key: 'part',
      title: 'Of the path',
      isNumber: true,
      unit: '1',
      sort: ({ start, end }) => end - start,
      value: partOf,
      show: (line) => formatPercent(partOf(line)),
    },
  ];
  return (
    <>
      <DataTable
        caption="Segments of the critical path"
        columns={columns}
        rows={lines}
        keyOf={({ at }) => String(at)}
        order={{ by: 'length', direction: 'down' }}
        pageRows={50}
        classOf={({ at }) => (session.pathAt.value === at ? 'is-chosen' : '')}
        empty="The path has no segments."
      />
      {path.leftOut > 0 && (
        <p class="muted">
          {formatMany(path.leftOut, 'shorter segment')} of {formatDuration(path.leftOutTime)} in all left out.
        </p>
      )}
    </>
  );
}
