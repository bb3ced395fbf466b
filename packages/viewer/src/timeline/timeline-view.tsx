// The timeline of one run: bar, strip of the whole run, row headers beside the canvas, and the selection's facts below.
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
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { formatDuration } from '../controls/format.ts';
import { Tabset } from '../controls/tabset.tsx';
import { useTheme } from '../controls/theme.ts';
import { AreaPanel } from './area-panel.tsx';
import { DetailsPanel } from './details-panel.tsx';
import { pinnedBottom, rulerHeight } from './frame-painter.ts';
import { actionOf, heldActions, type KeyAction } from './keys.ts';
import { Minimap } from './minimap.tsx';
import { fitSelection, markSelection, pinSelection, selectBeside, selectSameName, stepAlongPath } from './navigate.ts';
import { PathPanel } from './path-panel.tsx';
import { RowHeaders, StickyHeader } from './row-headers.tsx';
import { stickyRow } from './rows.ts';
import { Separator } from './separator.tsx';
import type { Panel, TimelineSession } from './session.ts';
import { Stage } from './stage.ts';
import { TimelineBar } from './timeline-bar.tsx';
import { Corner, EmptyNote, LiveRegion } from './timeline-notes.tsx';
import { Tooltip } from './tooltip.tsx';

const panelHeightMin = 90;
const panelHeightMax = 230;
/** Height of everything around lanes and panel; windows up to `compactHeight` (style.css) have less of it. */
const aroundPx = { wide: 160, compact: 128 } as const;
const compactHeight = 700;

/** The panel's height until a person chooses one: the lanes keep half of the window. */
const usualPanelHeight = (window: number): number =>
  Math.min(panelHeightMax, Math.max(panelHeightMin, Math.floor(window / 2 - (window <= compactHeight ? aroundPx.compact : aroundPx.wide))));
const gutterMin = 140;
const gutterMax = 480;

export function TimelineView({ session }: { session: TimelineSession }): JSX.Element {
  const { client, state } = session;
  const theme = useTheme();
  const section = useRef<HTMLElement>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const moved = useRef<HTMLDivElement>(null);
  const stage = useRef<Stage>();
  const gutter = useSignal(innerWidth < 900 ? 180 : 232);
  const chosenHeight = useSignal<number | undefined>(undefined);
  const windowHeight = useSignal(innerHeight);
  const panelHeight = useComputed(() => chosenHeight.value ?? usualPanelHeight(windowHeight.value));

  const split = useComputed(() => pinnedBottom(session.layout.value, session.size.value.height));
  const spacer = useComputed(() => Math.max(0, split.value + session.layout.value.height + 24 - session.size.value.height));
  const sticky = useComputed(() => stickyRow(session.layout.value.rows, session.scrollTop.value));
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
      windowHeight.value = innerHeight;
      const before = session.size.peek();
      if (before.width !== width || before.height !== height) session.size.value = { width: Math.max(0, width), height };
    };
    const observer = new ResizeObserver(measure);
    observer.observe(box);
    measure();
    // Restores the last scroll position.
    box.scrollTop = session.scrollTop.peek();
    session.isShown.value = true;
    const stopGutter = gutter.subscribe(measure);
    stage.current = new Stage(session, drawing, theme, () => {
      if (moved.current !== null) moved.current.style.transform = `translateY(${-session.scrollTop.peek()}px)`;
    });
    const stopScroll = session.scrollGoal.subscribe((goal) => {
      if (goal === undefined) return;
      // The spacer has the height of the rows only after the next render.
      requestAnimationFrame(() => {
        box.scrollTop = goal;
      });
      session.scrollGoal.value = undefined;
    });
    return () => {
      session.isShown.value = false;
      session.hover.value = undefined;
      session.marking.value = undefined;
      observer.disconnect();
      stopGutter();
      stopScroll();
      stage.current?.dispose();
    };
  }, [session, theme, gutter]);

  useEffect(() => {
    const act = (action: KeyAction): void => {
      const run: Partial<Record<KeyAction, () => void>> = {
        next: () => void selectBeside(session, 'next'),
        previous: () => void selectBeside(session, 'previous'),
        up: () => void selectBeside(session, 'up'),
        down: () => void selectBeside(session, 'down'),
        fit: () => fitSelection(session),
        whole: () => session.showWhole(),
        area: () => markSelection(session),
        clear: () => session.clear(),
        nextSame: () => void selectSameName(session, 'next'),
        previousSame: () => void selectSameName(session, 'previous'),
        pin: () => pinSelection(session),
        path: () => {
          state.path.value = !state.path.peek();
        },
        nextOnPath: () => stepAlongPath(session, 1),
        previousOnPath: () => stepAlongPath(session, -1),
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
      // With two timelines beside each other, the first has the keys while nothing has the focus.
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

  const panel = session.panel.value;
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
          {sticky.value !== undefined && (
            <div class="headers headers-sticky" style={{ top: `${split.value}px`, height: `${sticky.value.height}px` }}>
              <StickyHeader session={session} row={sticky.value} />
            </div>
          )}
          <div class="headers" style={{ top: `${split.value}px` }}>
            <div class="headers-moved" ref={moved}>
              <RowHeaders session={session} list="rows" visible={visible} without={sticky.value?.key} />
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
      {panel !== undefined && (
        <>
          <Separator
            class="panel-grip"
            orientation="horizontal"
            label="Height of the details"
            onMove={(_, by) => {
              const most = (section.current?.clientHeight ?? 600) * 0.7;
              chosenHeight.value = Math.min(most, Math.max(panelHeightMin, panelHeight.peek() - by));
            }}
          />
          <div class="panel" style={{ height: `${panelHeight.value}px` }}>
            <Panels session={session} shown={panel} />
          </div>
        </>
      )}
    </section>
  );
}

const panelTitles: Readonly<Record<Panel, string>> = { details: 'Details', area: 'Marked area', path: 'Critical path' };

/** The selected event's details, the marked area's contents, or the critical path; one at a time. */
function Panels({ session, shown }: { session: TimelineSession; shown: Panel }): JSX.Element {
  const content =
    shown === 'area' ? (
      <MarkedArea session={session} />
    ) : shown === 'path' ? (
      <PathPanel session={session} />
    ) : (
      <DetailsPanel session={session} />
    );
  const open = session.openPanels.value;
  if (open.length < 2) return content;
  return (
    <Tabset
      label="Selected event, marked area, critical path"
      tabs={open.map((key) => ({ key, title: panelTitles[key] }))}
      shown={shown}
      onShow={(panel) => session.showPanel(panel)}
    >
      {content}
    </Tabset>
  );
}

function MarkedArea({ session }: { session: TimelineSession }): JSX.Element | null {
  const { client, state } = session;
  const area = session.area.value;
  if (area === undefined) return null;
  return (
    <>
      <div class="panel-head">
        <h2>
          Marked area <span class="muted">{formatDuration(area.until - area.from)}</span>
        </h2>
        <span class="spring" />
        <button type="button" onClick={() => fitSelection(session)}>
          Zoom to it
        </button>
        <button
          type="button"
          class="panel-close"
          aria-label="Close"
          title="Close (Esc)"
          onClick={() => {
            state.area.value = undefined;
          }}
        >
          ×
        </button>
      </div>
      <div class="panel-body">
        <AreaPanel client={client} area={area} state={state} />
      </div>
    </>
  );
}
