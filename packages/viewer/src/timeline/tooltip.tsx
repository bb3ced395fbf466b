// The item under the pointer, in a few lines beside it. Names are text nodes, whatever they hold.

import type { ViewGap } from '@ranktrace/protocol';
import type { JSX } from 'preact';
import { formatBound, formatCount, formatDuration, formatMany, formatPercent, formatTime, formatValue } from '../controls/format.ts';
import { alertMarksAt } from './alert-marks.ts';
import { markReachPx } from './clock-mark-painter.ts';
import { marksAt, shiftText, stretchAt } from './clock-marks.ts';
import { rulerHeight } from './frame-painter.ts';
import { valueAt } from './hit.ts';
import { bandTitle } from './row-text.ts';
import type { Hover, TimelineSession } from './session.ts';
import { lengthOf } from './viewport.ts';

const widthMax = 340;

export function Tooltip({ session, gutter }: { session: TimelineSession; gutter: number }): JSX.Element | null {
  const hover = session.hover.value;
  if (hover === undefined || session.marking.value !== undefined) return null;
  const lines = linesOf(session, hover);
  if (lines === undefined) return null;
  const { width, height } = session.size.value;
  const left = hover.x + 18 + widthMax > width ? Math.max(0, hover.x - 14 - widthMax) : hover.x + 18;
  const isLeft = hover.x + 18 + widthMax > width;
  const isAbove = hover.y > height - 140;
  return (
    <div
      class={isLeft ? 'tooltip tooltip-left' : 'tooltip'}
      role="presentation"
      style={{ left: `${gutter + left}px`, [isAbove ? 'bottom' : 'top']: `${isAbove ? height - hover.y + 14 : hover.y + 18}px` }}
    >
      <div class="tooltip-box">{lines}</div>
    </div>
  );
}

function linesOf(session: TimelineSession, hover: Hover): JSX.Element | undefined {
  const { row, item, time } = hover;
  const window = session.window.peek();
  const grain = lengthOf(window) / Math.max(1, session.size.peek().width);
  if (row === undefined) return hover.y < rulerHeight ? marksLines(session, time, markReachPx * grain) : undefined;
  const zero = session.zero.peek();
  const gap = row.process?.gaps.find((each) => time >= each.from - 3 * grain && time <= each.until + 3 * grain);
  const step = row.kind === 'rank' ? row.process?.alignment.clockSteps.find((each) => Math.abs(each - time) <= 4 * grain) : undefined;
  const shift = row.kind === 'rank' ? stretchAt(row.process?.alignment.shifted ?? [], time, 2 * grain) : undefined;
  if (gap !== undefined && item === undefined) {
    return (
      <>
        <strong>Lost here</strong>
        <div class="tooltip-line">{lossOf(gap)}</div>
        <div class="tooltip-line muted">within {formatDuration(gap.until - gap.from)}</div>
      </>
    );
  }
  if (item !== undefined) {
    const isMerged = item.count > 1;
    return (
      <>
        <strong>{session.nameOf(item.name)}</strong>
        {isMerged ? (
          <div class="tooltip-line">
            and {formatCount(item.count - 1)} more in {formatDuration(item.length)}
            {item.length > 0 && <span class="muted"> · busy {formatPercent(Math.min(1, item.busy / item.length))}</span>}
          </div>
        ) : (
          <div class="tooltip-line">
            {item.kind === 'instant' ? 'instant' : formatDuration(item.length)}
            {item.isOpen && <span class="muted"> so far, not ended</span>}
          </div>
        )}
        <div class="tooltip-line muted">
          {item.kind !== 'span' && item.kind !== 'instant' && `${item.kind} · `}
          at {formatTime(item.start - zero, Math.min(grain, 1000))}
        </div>
        {gap !== undefined && <div class="tooltip-line warning">lost here: {lossOf(gap)}</div>}
        {step !== undefined && <div class="tooltip-line warning">its clock was set at {formatTime(step - zero, 1e6)}</div>}
        {shift !== undefined && <div class="tooltip-line warning">{shiftText(shift.most)}</div>}
      </>
    );
  }
  if (row.kind === 'counter' && row.track !== undefined) {
    const value = valueAt(session.partsOf(row.track), time);
    if (value === undefined) return undefined;
    return (
      <>
        <strong>{formatValue(value.last, row.track.unit)}</strong>
        <div class="tooltip-line muted">
          {row.label}
          {value.count > 1 && ` · ${formatValue(value.low, row.track.unit)} to ${formatValue(value.high, row.track.unit)}`}
        </div>
      </>
    );
  }
  if (row.hasBand) {
    const band = session.overview.bandOf(row);
    if (band === undefined) return undefined;
    let bin = -1;
    while (bin + 1 < band.times.length && (band.times[bin + 1] as number) <= time) bin++;
    const high = band.high[bin];
    if (high === undefined || Number.isNaN(high) || time >= (band.ends[bin] as number)) return undefined;
    return (
      <>
        <strong>{bandTitle(row)}</strong>
        <div class="tooltip-line">
          {formatDuration(band.low[bin] as number)} · median {formatDuration(band.median[bin] as number)} · {formatDuration(high)}
        </div>
      </>
    );
  }
  if (shift !== undefined) return <strong>{shiftText(shift.most)}</strong>;
  const { process } = row;
  const until = session.extent.peek().until;
  if (process !== undefined && !process.ended && time > process.until && time <= until) {
    if (session.states.peek().get(process.index) !== 'running') {
      return (
        <>
          <strong>Nothing recorded here</strong>
          <div class="tooltip-line muted">
            rank {process.rank} has no recorded end: the last of it is {formatDuration(time - process.until)} earlier
          </div>
        </>
      );
    }
    return (
      <>
        <strong>Nothing reported yet</strong>
        <div class="tooltip-line muted">
          rank {process.rank} is {formatDuration(until - process.until)} behind the newest ({formatBound(process.alignment.bound)})
        </div>
      </>
    );
  }
  return undefined;
}

// The meaning of the ruler's marks.
function marksLines(session: TimelineSession, time: number, reach: number): JSX.Element | undefined {
  const alerts = alertMarksAt(session.alertMarks.peek(), time, reach);
  const lines = [...alerts.map(({ text }) => text), ...marksAt(session.clockMarks.peek(), time, reach)];
  if (lines.length === 0) return undefined;
  return (
    <>
      {lines.map((line) => (
        <div key={line} class="tooltip-line">
          {line}
        </div>
      ))}
    </>
  );
}

const lossOf = ({ batches, events }: ViewGap): string =>
  [
    batches > 0 ? `${formatMany(batches, 'batch is', 'batches are')} missing` : '',
    events > 0 ? `the rank dropped ${formatMany(events, 'event')}` : '',
  ]
    .filter((each) => each !== '')
    .join(', ');
