// The legend: the colours of the names in view, most drawn first, and the signs of the lanes.

import { useComputed, useSignal } from '@preact/signals';
import { itemKinds, lineName, openBit } from '@ranktrace/protocol';
import type { JSX } from 'preact';
import { useTheme } from '../controls/theme.ts';
import { pinnedBottom } from './frame-painter.ts';
import { communicationColour, cssOf, palettes } from './palette.ts';
import { rowsBetween } from './rows.ts';
import type { TimelineSession } from './session.ts';

const namesMax = 14;
const nameCharsMax = 46;
/** Items counted at most: the legend must not delay a frame. */
const itemsMax = 60_000;
const instantKind = itemKinds.indexOf('instant');

export function LegendButton({ session }: { session: TimelineSession }): JSX.Element {
  const isOpen = useSignal(false);
  return (
    <span class="legend-place">
      <button
        type="button"
        aria-expanded={isOpen.value}
        title="Names and signs by colour"
        onClick={() => {
          isOpen.value = !isOpen.value;
        }}
      >
        Legend
      </button>
      {isOpen.value && <Legend session={session} />}
    </span>
  );
}

function Legend({ session }: { session: TimelineSession }): JSX.Element {
  const theme = useTheme();
  const palette = palettes[theme.value];
  const names = useComputed(() => {
    void session.window.value;
    void session.tilesCame.value;
    void session.scrollTop.value;
    void session.layout.value;
    return namesInView(session);
  });
  return (
    <section class="legend" aria-label="Legend">
      <h2>Names in view</h2>
      {names.value.length === 0 && <p class="muted">No spans in view.</p>}
      <ul>
        {names.value.map((name) => (
          <li key={name}>
            <button
              type="button"
              class="legend-name"
              title={`${session.nameOf(name)}\nClick: shows where it is`}
              onClick={() => {
                session.state.search.value = session.nameOf(name);
              }}
            >
              <Swatch colour={cssOf(palette.spans[session.colours.span(name)] as number)} />
              {lineName(session.nameOf(name), nameCharsMax)}
            </button>
          </li>
        ))}
      </ul>
      <h2>Signs</h2>
      <ul>
        <li>
          <Swatch colour={cssOf(palette.spans[communicationColour] as number)} /> communication
        </li>
        <li>
          <Swatch colour={cssOf(palette.steps[0] as number)} second={cssOf(palette.steps[1] as number)} /> steps, even and odd
        </li>
        <li>
          <Swatch colour={cssOf(palette.gap)} second={cssOf(palette.gapLine)} /> lost: batches or events are missing
        </li>
        <li>
          <Swatch colour={cssOf(palette.clockStep)} /> a clock was set, or contradicts others
        </li>
        <li>
          <Swatch colour={palette.path} /> on the critical path
        </li>
        <li>
          <Swatch colour={palette.alert} /> an alert began
        </li>
      </ul>
      <p class="muted">A paler colour: several short spans in one, and time between them. Striped: not ended.</p>
    </section>
  );
}

const Swatch = ({ colour, second = colour }: { colour: string; second?: string }): JSX.Element => (
  <span class="legend-swatch" aria-hidden="true" style={{ background: `linear-gradient(90deg, ${colour} 50%, ${second} 50%)` }} />
);

/** Names of the drawn items, those with the most visible time first. */
function namesInView(session: TimelineSession): readonly number[] {
  const window = session.window.peek();
  const layout = session.layout.peek();
  const { height } = session.size.peek();
  const top = session.scrollTop.peek();
  const [first, last] = rowsBetween(layout.rows, top, top + height - pinnedBottom(layout, height));
  const times = new Map<number, number>();
  let left = itemsMax;
  for (const row of layout.rows.slice(first, last)) {
    const tracks = row.kind === 'track' && row.track !== undefined ? [row.track] : row.lanes;
    for (const track of tracks) {
      for (const { entry, from, until } of session.partsOf(track)) {
        const tile = entry.tile;
        if (tile === undefined || tile.type !== 'spans') continue;
        const [begin, end] = [Math.max(from, window.from), Math.min(until, window.until)];
        for (let item = 0; item < tile.start.length && left > 0; item++, left--) {
          if (((tile.kind[item] as number) & ~openBit) === instantKind) continue;
          const start = tile.start[item] as number;
          const shown = Math.min(end, start + (tile.length[item] as number)) - Math.max(begin, start);
          if (shown <= 0) continue;
          const name = tile.name[item] as number;
          times.set(name, (times.get(name) ?? 0) + Math.min(shown, tile.busy[item] as number));
        }
      }
    }
  }
  return [...times]
    .sort(([, a], [, b]) => b - a)
    .slice(0, namesMax)
    .map(([name]) => name);
}
