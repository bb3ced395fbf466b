// The timeline of one run: bar, strip of the whole run, row headers beside the canvas, and what is known of the selection below.
//
//   ┌ bar: grouping · fit · follow · search ─────────────┐
//   │ whole run (minimap.tsx)                            │
//   ├──────────┬─────────────────────────────────────────┤
//   │ headers  │ canvas (stage.ts)                       │  scrolls: the stage is sticky in a scroller as tall as all rows
//   ├──────────┴─────────────────────────────────────────┤
//   │ details of the selection, or the marked area       │
//   └────────────────────────────────────────────────────┘

import { useComputed, useSignal } from '@preact/signals';
import type { JSX } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import { AreaPanel } from '../area-panel.tsx';
import { DetailsPanel } from '../details-panel.tsx';
import { formatCount, formatDuration, formatTime, formatWallClock } from '../format.ts';
import type { RunClient } from '../run-client.ts';
import { SearchBox } from '../search-box.tsx';
import { useTheme } from '../theme.ts';
import type { Grouping, ViewState } from '../view-state.ts';
import { pinnedBottom, rulerHeight } from './frame-painter.ts';
import { actionOf, heldActions, type KeyAction } from './keys.ts';
import { Minimap } from './minimap.tsx';
import { RowHeaders } from './row-headers.tsx';
import { zeroOf } from './ruler.ts';
import { TimelineSession } from './session.ts';
import { Stage } from './stage.ts';
import { Tooltip } from './tooltip.tsx';
import { lengthOf } from './viewport.ts';

const panelHeightMin = 90;
const gutterMin = 140;
const gutterMax = 480;

export function TimelineView({ client, state }: { client: RunClient; state: ViewState }): JSX.Element {
  const session = useMemo(() => new TimelineSession(client, state), [client, state]);
  useEffect(() => () => session.dispose(), [session]);
  const theme = useTheme();
  const section = useRef<HTMLElement>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const moved = useRef<HTMLDivElement>(null);
  const stage = useRef<Stage>();
  const gutter = useSignal(innerWidth < 900 ? 180 : 232);
  const panelHeight = useSignal(230);

  const split = useComputed(() => pinnedBottom(session.layout.value, session.size.value.height));
  const spacer = useComputed(() => Math.max(0, split.value + session.layout.value.height + 24 - session.size.value.height));
  const visible = useComputed<readonly [number, number]>(() => {
    const top = session.scrollTop.value;
    return [top, top + Math.max(0, session.size.value.height - split.value)];
  });
  const visiblePinned = useComputed<readonly [number, number]>(() => [0, split.value - rulerHeight]);

  useLayoutEffect(() => {
    const [box, drawing] = [scroller.current, canvas.current];
    if (box === null || drawing === null) return;
    const measure = (): void => {
      const [width, height] = [box.clientWidth - gutter.peek(), box.clientHeight];
      const before = session.size.peek();
      if (before.width !== width || before.height !== height) session.size.value = { width: Math.max(0, width), height };
    };
    const observer = new ResizeObserver(measure);
    observer.observe(box);
    measure();
    const stopGutter = gutter.subscribe(measure);
    stage.current = new Stage(session, drawing, theme, () => {
      if (moved.current !== null) moved.current.style.transform = `translateY(${-session.scrollTop.peek()}px)`;
    });
    const stopScroll = session.scrollGoal.subscribe((goal) => {
      if (goal === undefined) return;
      // The spacer is as tall as the rows once the page was rendered again.
      requestAnimationFrame(() => {
        box.scrollTop = goal;
      });
      session.scrollGoal.value = undefined;
    });
    return () => {
      observer.disconnect();
      stopGutter();
      stopScroll();
      stage.current?.dispose();
    };
  }, [session, theme, gutter]);

  useEffect(() => {
    const act = (action: KeyAction): void => {
      const run: Partial<Record<KeyAction, () => void>> = {
        next: () => session.step('next'),
        previous: () => session.step('previous'),
        up: () => session.step('up'),
        down: () => session.step('down'),
        fit: () => session.fitSelection(),
        whole: () => session.showWhole(),
        area: () => session.areaOfSelection(),
        clear: () => session.clear(),
        nextSame: () => void session.sameName('next'),
        previousSame: () => void session.sameName('previous'),
        pin: () => {
          const place = session.place.peek();
          if (place !== undefined) session.togglePin(`t${place.track}`);
        },
        follow: () => session.setFollow(!state.follow.peek()),
        search: () => section.current?.querySelector<HTMLInputElement>('.search input')?.focus(),
      };
      run[action]?.();
    };
    const isOurs = (event: KeyboardEvent): boolean => {
      const target = event.target as HTMLElement;
      if (target.closest('dialog, input, select, textarea, [contenteditable]') !== null) return false;
      if ((event.key === 'Enter' || event.key === ' ') && target.closest('button, a, [role="separator"]') !== null) return false;
      if (event.key.startsWith('Arrow') && target.closest('.panel, [role="separator"], table') !== null) return false;
      // Of two timelines beside each other, the first has the keys while nothing has the focus.
      const isFirst = document.querySelector('.timeline') === section.current;
      return (target === document.body && isFirst) || section.current?.contains(target) === true;
    };
    const down = (event: KeyboardEvent): void => {
      const action = actionOf(event);
      if (action === undefined || action === 'help' || !isOurs(event)) return;
      event.preventDefault();
      if (heldActions.has(action)) stage.current?.hold(action);
      else act(action);
    };
    const up = (event: KeyboardEvent): void => {
      const action = actionOf({ key: event.key, ctrlKey: false, altKey: false, metaKey: false });
      if (action !== undefined) stage.current?.release(action);
    };
    const blur = (): void => stage.current?.releaseAll();
    addEventListener('keydown', down);
    addEventListener('keyup', up);
    addEventListener('blur', blur);
    return () => {
      removeEventListener('keydown', down);
      removeEventListener('keyup', up);
      removeEventListener('blur', blur);
    };
  }, [session, state]);

  const area = state.area.value;
  const isPanelOpen = area !== undefined || state.selected.value !== undefined;
  return (
    <section class="timeline" ref={section} aria-label={`Timeline of ${client.run}`} style={{ '--gutter': `${gutter.value}px` }}>
      <TimelineBar session={session} />
      <div class="minimap-line">
        <span class="minimap-label">Step time</span>
        <Minimap session={session} />
      </div>
      <div
        class="timeline-scroller"
        ref={scroller}
        onScroll={(event) => {
          session.scrollTop.value = event.currentTarget.scrollTop;
          session.hover.value = undefined;
        }}
      >
        <div class="timeline-stage">
          <Corner session={session} />
          {split.value > rulerHeight && (
            <div class="headers headers-pinned" style={{ height: `${split.value - rulerHeight}px` }}>
              <RowHeaders session={session} list="pinned" visible={visiblePinned} />
            </div>
          )}
          <div class="headers" style={{ top: `${split.value}px` }}>
            <div class="headers-moved" ref={moved}>
              <RowHeaders session={session} list="rows" visible={visible} />
            </div>
          </div>
          {/* biome-ignore lint/a11y/noInteractiveElementToNoninteractiveRole: it takes the keys that help-dialog.tsx lists */}
          <canvas
            ref={canvas}
            class="timeline-canvas"
            tabIndex={0}
            role="application"
            aria-label="Lanes of all ranks. Arrow keys select spans, W and S zoom, A and D move; question mark for all keys."
          />
          <Separator
            class="gutter-grip"
            orientation="vertical"
            label="Width of the lanes' names"
            onMove={(by) => {
              gutter.value = Math.min(gutterMax, Math.max(gutterMin, gutter.peek() + by));
            }}
          />
          <Tooltip session={session} gutter={gutter.value} />
          <EmptyNote session={session} />
          {session.notice.value !== undefined && (
            <div class="notice" role="status">
              {session.notice.value}
            </div>
          )}
        </div>
        <div style={{ height: `${spacer.value}px` }} />
      </div>
      <LiveRegion session={session} />
      {isPanelOpen && (
        <>
          <Separator
            class="panel-grip"
            orientation="horizontal"
            label="Height of the details"
            onMove={(_, by) => {
              const most = (section.current?.clientHeight ?? 600) * 0.7;
              panelHeight.value = Math.min(most, Math.max(panelHeightMin, panelHeight.peek() - by));
            }}
          />
          <div class="panel" style={{ height: `${panelHeight.value}px` }}>
            {area !== undefined ? (
              <>
                <div class="panel-head">
                  <h2>
                    Marked area <span class="muted">{formatDuration(area.until - area.from)}</span>
                  </h2>
                  <span class="spring" />
                  <button type="button" onClick={() => session.fitSelection()}>
                    Zoom to it
                  </button>
                  <button type="button" class="panel-close" aria-label="Close" title="Close (Esc)" onClick={() => session.clear()}>
                    ×
                  </button>
                </div>
                <div class="panel-body">
                  <AreaPanel client={client} area={area} state={state} />
                </div>
              </>
            ) : (
              <DetailsPanel session={session} />
            )}
          </div>
        </>
      )}
    </section>
  );
}

function TimelineBar({ session }: { session: TimelineSession }): JSX.Element {
  const { state, client } = session;
  const model = client.model.value;
  const axes = [...new Set((model?.groups ?? []).map(({ axis }) => axis))].filter((axis) => axis !== 'world').sort();
  const options: readonly (readonly [Grouping, string])[] = [
    ['rank', 'Rank'],
    ['host', 'Host'],
    ...axes.map((axis) => [axis, axis] as const),
  ];
  return (
    <div class="timeline-bar">
      <label class="field">
        <span>Group by</span>
        <select
          value={state.grouping.value}
          onChange={(event) => {
            state.grouping.value = event.currentTarget.value;
          }}
        >
          {options.map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      </label>
      <span class="button-group">
        <button type="button" aria-label="Zoom out" title="Zoom out (S)" onClick={() => session.zoomAt(1.6, session.size.peek().width / 2)}>
          −
        </button>
        <button
          type="button"
          aria-label="Zoom in"
          title="Zoom in (W)"
          onClick={() => session.zoomAt(1 / 1.6, session.size.peek().width / 2)}
        >
          +
        </button>
        <button type="button" title="Show the whole run (0)" onClick={() => session.showWhole()}>
          All
        </button>
      </span>
      {model?.live === true && (
        <button
          type="button"
          class="follow"
          aria-pressed={state.follow.value}
          title="Move on with the newest data (L)"
          onClick={() => session.setFollow(!state.follow.peek())}
        >
          <span class="live-dot" aria-hidden="true" />
          {state.follow.value ? 'Following' : 'Follow'}
        </button>
      )}
      <Reading session={session} />
      <span class="spring" />
      <SearchBox session={session} />
    </div>
  );
}

function Reading({ session }: { session: TimelineSession }): JSX.Element | null {
  const model = session.client.model.value;
  if (model === undefined || model.read >= model.total) {
    return session.isLoading.value ? <span class="reading muted">loading …</span> : null;
  }
  return (
    <span class="reading">
      <progress max={model.total} value={model.read} aria-label="Reading the run" />
      <span class="muted">
        read {formatCount(model.read)} of {formatCount(model.total)} batches
      </span>
    </span>
  );
}

// The corner above the headers says when the window begins, by the clock on the wall, and how long it is.
function Corner({ session }: { session: TimelineSession }): JSX.Element {
  const window = session.window.value;
  const model = session.client.model.value;
  const clock = model === undefined ? undefined : formatWallClock(model.unixEpoch, window.from);
  const zero = zeroOf(session.extent.value);
  const grain = lengthOf(window) / 100;
  return (
    <div class="corner" title={`The window begins at ${clock ?? formatTime(window.from - zero, grain)}`}>
      <span>{clock ?? formatTime(window.from - zero, grain)}</span>
      <span>{formatDuration(lengthOf(window))}</span>
    </div>
  );
}

function EmptyNote({ session }: { session: TimelineSession }): JSX.Element | null {
  const model = session.client.model.value;
  const problem = session.client.problem.value;
  if (problem !== undefined && model === undefined) {
    return (
      <div class="empty" role="alert">
        <strong>This run cannot be shown</strong>
        <span>{problem}</span>
      </div>
    );
  }
  if (model === undefined) {
    return (
      <div class="empty" role="status">
        <span class="muted">Opening {session.client.run} …</span>
      </div>
    );
  }
  if (model.processes.length === 0) {
    return (
      <div class="empty" role="status">
        <strong>{model.read < model.total ? 'Reading …' : 'Nothing recorded yet'}</strong>
        <span>
          {model.read < model.total ? 'The first ranks appear in a moment.' : 'Ranks appear here as soon as they send something.'}
        </span>
      </div>
    );
  }
  if (model.tracks.length === 0) {
    return (
      <div class="empty" role="status">
        <strong>No events yet</strong>
        <span>
          {model.processes.length} of {model.worldSize} ranks are there, none has recorded anything.
        </span>
      </div>
    );
  }
  return null;
}

// Says the selected span to who cannot see it.
function LiveRegion({ session }: { session: TimelineSession }): JSX.Element {
  const details = session.details.value;
  const process = details === undefined ? undefined : session.processes.value.get(session.tracks.value.get(details.track)?.process ?? -1);
  return (
    <div class="only-aloud" aria-live="polite">
      {details !== undefined &&
        `${details.name}, ${details.kind}, ${formatDuration(details.length)}${details.open ? ' so far' : ''}${process === undefined ? '' : `, rank ${process.rank}`}`}
    </div>
  );
}

/** A line between two parts that can be dragged, or moved with the arrow keys. */
function Separator(props: {
  class: string;
  orientation: 'horizontal' | 'vertical';
  label: string;
  onMove: (x: number, y: number) => void;
}): JSX.Element {
  const last = useRef<readonly [number, number] | undefined>(undefined);
  const stepPx = 24;
  return (
    // biome-ignore lint/a11y/useSemanticElements: a rule that can be moved is no <hr>
    <div
      class={props.class}
      role="separator"
      aria-orientation={props.orientation}
      aria-label={props.label}
      aria-valuenow={0}
      tabIndex={0}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        last.current = [event.clientX, event.clientY];
      }}
      onPointerMove={(event) => {
        if (last.current === undefined) return;
        props.onMove(event.clientX - last.current[0], event.clientY - last.current[1]);
        last.current = [event.clientX, event.clientY];
      }}
      onPointerUp={() => {
        last.current = undefined;
      }}
      onKeyDown={(event) => {
        const by: Readonly<Record<string, readonly [number, number]>> = {
          ArrowLeft: [-stepPx, 0],
          ArrowRight: [stepPx, 0],
          ArrowUp: [0, -stepPx],
          ArrowDown: [0, stepPx],
        };
        const move = by[event.key];
        if (move === undefined) return;
        event.preventDefault();
        event.stopPropagation();
        props.onMove(...move);
      }}
    />
  );
}
