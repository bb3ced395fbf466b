// A call tree as an icicle: the root on top, a span's ancestors above it, width is time. A click (or Enter) zooms to a node, a click on an ancestor
// zooms out again; matches of a search stay bright.
//
// Nodes are elements, not pixels: their number is bounded (flame-layout.ts), they have the theme's colours, and a screen reader finds a tree.

import type { FlameNode } from '@ranktrace/protocol';
import type { JSX } from 'preact';
import { useEffect, useId, useMemo, useRef, useState } from 'preact/hooks';
import { isBrowsers } from '../controls/browser-keys.ts';
import { formatCount, formatDuration, formatPercent } from '../controls/format.ts';
import { useTheme } from '../controls/theme.ts';
import { useWidth } from '../controls/use-width.ts';
import { type FlameFrame, type FlameTree, flameFrames, flameMatches, flameTree, nextFrame, nodeText } from './flame-layout.ts';
import { colourOf, palettes } from './palette.ts';
import './flame-graph.css';

export interface FlameGraphProps {
  readonly root: FlameNode;
  /** The run is still being read. */
  readonly isPartial: boolean;
}

const rowPx = 19;
/** Narrower than this, a node has no text. */
const textPx = 22;

const directions = { ArrowUp: 'up', ArrowDown: 'down', ArrowLeft: 'left', ArrowRight: 'right' } as const;

export function FlameGraph({ root, isPartial }: FlameGraphProps): JSX.Element {
  const id = useId();
  const holder = useRef<HTMLDivElement>(null);
  const width = useWidth(holder);
  const [zoom, setZoom] = useState(0);
  const [focus, setFocus] = useState(0);
  const [hovered, setHovered] = useState<{ readonly node: number; readonly x: number; readonly y: number } | undefined>(undefined);
  const [search, setSearch] = useState('');
  const tree = useMemo(() => flameTree(root), [root]);
  const frames = useMemo(() => (width === 0 ? [] : flameFrames(tree, zoom, 1 / width)), [tree, zoom, width]);
  const matches = useMemo(() => flameMatches(tree, search), [tree, search]);
  useEffect(() => {
    setZoom(0);
    setFocus(0);
  }, [tree]);
  if (tree.nodes.length < 2) return <p class="flame-empty">No spans lie in this area{isPartial && ' so far'}.</p>;

  const zoomTo = (node: number): void => {
    setZoom(node);
    setFocus(node);
    setHovered(undefined);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (isBrowsers(event)) return;
    const direction = directions[event.key as keyof typeof directions];
    if (direction !== undefined) setFocus(nextFrame(tree, frames, focus, direction));
    else if (event.key === 'Enter' || event.key === ' ') zoomTo(focus);
    else if (event.key === 'Backspace') zoomTo(Math.max(0, tree.parent[zoom] ?? 0));
    else if (event.key === 'Escape' && zoom !== 0) zoomTo(0);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const nodeOf = (event: Event): number | undefined => {
    const text = (event.target as Element).closest<HTMLElement>('[data-node]')?.dataset.node;
    return text === undefined ? undefined : Number(text);
  };
  const depths = frames.reduce((most, { depth }) => Math.max(most, depth + 1), 1);
  return (
    <div class="flame">
      <p class="flame-bar">
        <label>
          Search{' '}
          <input
            type="search"
            value={search}
            onInput={({ currentTarget }) => setSearch(currentTarget.value)}
            onKeyDown={(event) => event.stopPropagation()}
          />
        </label>
        <span class="flame-found" aria-live="polite">
          {search.trim() !== '' && `${formatCount(matches.nodes.size)} found, ${formatPercent(matches.part)} of the time lies in them`}
        </span>
        {zoom !== 0 && (
          <button type="button" onClick={() => zoomTo(0)}>
            Show all
          </button>
        )}
      </p>
      <div
        ref={holder}
        class="flame-tree"
        role="tree"
        aria-label="Flame graph: arrow keys move, Enter zooms, Backspace and Escape zoom out"
        aria-activedescendant={`${id}-${focus}`}
        tabIndex={0}
        style={{ height: `${depths * rowPx}px` }}
        onKeyDown={onKeyDown}
        onClick={(event) => {
          const node = nodeOf(event);
          if (node !== undefined) zoomTo(node);
        }}
        onPointerMove={(event) => {
          const node = nodeOf(event);
          setHovered(node === undefined ? undefined : { node, x: event.clientX, y: event.clientY });
        }}
        onPointerLeave={() => setHovered(undefined)}
      >
        {frames.map((frame) => (
          <Frame
            key={frame.node}
            id={`${id}-${frame.node}`}
            tree={tree}
            frame={frame}
            width={width}
            zoom={zoom}
            isFocused={frame.node === focus}
            isDimmed={search.trim() !== '' && !matches.nodes.has(frame.node)}
          />
        ))}
      </div>
      {hovered !== undefined && <Tooltip tree={tree} {...hovered} />}
      <p class="only-aloud" aria-live="polite">
        {nodeText(tree, focus)}
      </p>
    </div>
  );
}

interface FrameProps {
  readonly id: string;
  readonly tree: FlameTree;
  readonly frame: FlameFrame;
  /** Width of the whole graph, px. */
  readonly width: number;
  readonly zoom: number;
  readonly isFocused: boolean;
  readonly isDimmed: boolean;
}

function Frame({ id, tree, frame: { node, depth, left, width: part }, width, zoom, isFocused, isDimmed }: FrameProps): JSX.Element {
  const theme = useTheme().value;
  const { name } = tree.nodes[node] as FlameNode;
  const isAbove = depth < (tree.depth[zoom] ?? 0);
  const shownName = node === 0 ? 'all' : name;
  return (
    // biome-ignore lint/a11y/useFocusableInteractive: the tree has the focus and says which of its nodes is meant
    <span
      id={id}
      class={`flame-node${isFocused ? ' is-focused' : ''}${isDimmed ? ' is-dimmed' : ''}${isAbove ? ' is-above' : ''}`}
      role="treeitem"
      aria-level={depth + 1}
      aria-selected={isFocused}
      aria-label={nodeText(tree, node)}
      data-node={node}
      style={{
        left: `${left * 100}%`,
        top: `${depth * rowPx}px`,
        width: `${part * 100}%`,
        background: node === 0 ? 'var(--hover)' : pixelCss(palettes[theme].spans[colourOf(name)] ?? 0),
      }}
    >
      {part * width >= textPx ? shownName : ''}
    </span>
  );
}

/** Beside the pointer, on the side where there is room. */
function Tooltip({ tree, node, x, y }: { tree: FlameTree; node: number; x: number; y: number }): JSX.Element {
  const { name, total, self, count } = tree.nodes[node] as FlameNode;
  const parent = tree.nodes[tree.parent[node] ?? -1];
  const horizontal = x > innerWidth / 2 ? { right: `${innerWidth - x + 12}px` } : { left: `${x + 12}px` };
  const vertical = y > innerHeight / 2 ? { bottom: `${innerHeight - y + 12}px` } : { top: `${y + 12}px` };
  return (
    <div class="flame-tooltip" role="tooltip" style={{ ...horizontal, ...vertical }}>
      <b>{node === 0 ? 'all' : name}</b>
      <dl>
        <dt>total</dt>
        <dd>{formatDuration(total)}</dd>
        <dt>self</dt>
        <dd>{formatDuration(self)}</dd>
        {count > 0 && (
          <>
            <dt>count</dt>
            <dd>{formatCount(count)}</dd>
          </>
        )}
        <dt>of all</dt>
        <dd>{formatPercent(tree.width[node] ?? 0)}</dd>
        {parent !== undefined && tree.parent[node] !== 0 && (
          <>
            <dt>of the one above</dt>
            <dd>{formatPercent(total / parent.total)}</dd>
          </>
        )}
      </dl>
    </div>
  );
}

const pixelCss = (pixel: number): string => `rgb(${pixel & 0xff} ${(pixel >>> 8) & 0xff} ${(pixel >>> 16) & 0xff})`;
