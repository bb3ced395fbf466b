// Rank × step: shows which rank was slower than the others, and when. It paints only the scrolled-in part, so that thousands of ranks cost no more
// than a screen of them; the picture of all cells (a pixel each) is made anew when the data changes, not on a scroll.

import { type Overview, type OverviewRank, otherPhase } from '@ranktrace/protocol';
import type { JSX } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { isBrowsers } from '../controls/browser-keys.ts';
import { type Column, DataTable } from '../controls/data-table.tsx';
import { formatCount, formatDuration, formatMany, formatPercent } from '../controls/format.ts';
import { PickLink } from '../controls/pick-link.tsx';
import { formatMorePart } from '../controls/signed.ts';
import { useTheme } from '../controls/theme.ts';
import { useWidth } from '../controls/use-width.ts';
import { cssColour, cssRgb } from './css-colours.ts';
import {
  deviationsOf,
  type HeatBaseline,
  type HeatMeasure,
  heatLimit,
  heatRamp,
  isLessWorse,
  measuredDeviations,
  paintCells,
  type SlowCell,
  slowestCells,
} from './heat-cells.ts';
import { rankCount, rankName, shortRankName } from './rank-lives.ts';
import { lastStepOf, stepsText } from './step-bins.ts';
import { plotMargins } from './step-chart.tsx';
import './heat-map.css';

export interface HeatMapProps {
  readonly overview: Overview;
  /** In display order. */
  readonly ranks: readonly OverviewRank[];
  /** Undefined where there is no timeline to go to. */
  readonly onPick: ((rank: OverviewRank, bin: number) => void) | undefined;
  /** Processes of ranks that stand out: their rows have a mark. */
  readonly marked: ReadonlySet<number>;
  /** The control that chooses the order. */
  readonly orderChoice: JSX.Element;
  /** Measures to choose from; default: all that the run has. */
  readonly measures?: readonly HeatMeasure[];
  readonly measure: HeatMeasure;
  readonly onMeasure: (measure: HeatMeasure) => void;
  /** Cells of the measure by `OverviewRank.process`, of the overview's bins; undefined while they are on their way, or of lengths of steps. */
  readonly measured: ReadonlyMap<number, readonly (number | null)[]> | undefined;
}

interface Cell {
  readonly row: number;
  readonly bin: number;
}

/** Height of the map: with the chart above, it fits a window of 720 px, and uses the extra height of a larger one. */
const viewPxMin = 232;
const viewPxMax = 640;
const otherPx = 490;
const rowSizes: readonly number[] = [1, 2, 3, 5, 8, 12, 18, 24];
const tableCells = 50;
const markedRowPx = 3;
const markedRowsMax = 32;

export function HeatMap(props: HeatMapProps): JSX.Element {
  const { overview, ranks, onPick, marked, orderChoice, measure, onMeasure, measured, measures = measuresOf(overview) } = props;
  const [baseline, setBaseline] = useState<HeatBaseline>('step');
  const [chosenSize, setRowSize] = useState<number | undefined>(undefined);
  const [cell, setCell] = useState<Cell | undefined>(undefined);
  const [isByKey, setIsByKey] = useState(false);
  const [scroll, setScroll] = useState(0);
  const [showsTable, setShowsTable] = useState(false);
  const scroller = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useWidth(scroller);
  const theme = useTheme().value;
  const lengths = useMemo(() => ranks.map((rank) => lengthsOf(rank, measure, measured)), [ranks, measure, measured]);
  const rows = useMemo(
    () =>
      measure === 'mean' || measure === 'longest'
        ? deviationsOf(overview, ranks, measure, baseline)
        : measuredDeviations(overview, lengths, measure, baseline),
    [overview, ranks, measure, baseline, lengths],
  );
  const limit = useMemo(() => heatLimit(rows), [rows]);
  const viewPx = Math.max(viewPxMin, Math.min(viewPxMax, innerHeight - otherPx));
  const fitting = rowSizes.findLast((size) => size * ranks.length <= viewPx) ?? 1;
  const rowPx = chosenSize ?? fitting;
  const height = Math.min(viewPx, rowPx * ranks.length);
  const picture = useMemo(() => {
    const { current } = scroller;
    if (current === null || rows.length === 0 || overview.bins.length === 0) return undefined;
    const ramp = heatRamp({
      fast: cssRgb(current, '--heat-fast'),
      equal: cssRgb(current, '--heat-0'),
      slow: [cssRgb(current, '--heat-1'), cssRgb(current, '--heat-2'), cssRgb(current, '--heat-3')],
      none: cssRgb(current, '--bg'),
    });
    return pictureOf(paintCells(rows, overview.bins.length, limit, ramp), overview.bins.length);
    // `width` is 0 until there is an element to read colours from.
  }, [rows, limit, theme, width > 0]);

  useLayoutEffect(() => {
    if (canvas.current === null || scroller.current === null || picture === undefined || width === 0) return;
    paint({ canvas: canvas.current, style: scroller.current, picture, overview, ranks, marked, width, height, rowPx, scroll, cell });
  }, [picture, overview, ranks, marked, width, height, rowPx, scroll, cell, theme]);
  // A table that got shorter may be scrolled beyond its end.
  useEffect(() => setScroll(scroller.current?.scrollTop ?? 0), [ranks.length, rowPx]);

  const cellAt = ({ clientX, clientY }: MouseEvent): Cell | undefined => {
    const box = canvas.current?.getBoundingClientRect();
    if (box === undefined) return undefined;
    const step = overview.fromStep - 0.5 + ((clientX - box.left - plotMargins.left) / plotWidth(width)) * stepsShown(overview);
    const row = Math.floor((clientY - box.top + scroll) / rowPx);
    const bin = Math.floor((step + 0.5 - (overview.bins[0] ?? 0)) / binSteps(overview));
    return row >= 0 && row < ranks.length && bin >= 0 && bin < overview.bins.length ? { row, bin } : undefined;
  };
  const move = (row: number, bin: number): void => {
    const to = { row: clamp(row, ranks.length), bin: clamp(bin, overview.bins.length) };
    setCell(to);
    setIsByKey(true);
    scrollIntoView(scroller.current, to.row * rowPx, rowPx);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (isBrowsers(event)) return;
    const { row, bin } = cell ?? { row: 0, bin: 0 };
    const far = event.shiftKey ? 10 : 1;
    if (event.key === 'Enter' && cell !== undefined) pick(cell);
    else if (event.key === 'ArrowUp') move(row - far, bin);
    else if (event.key === 'ArrowDown') move(row + far, bin);
    else if (event.key === 'ArrowLeft') move(row, bin - far);
    else if (event.key === 'ArrowRight') move(row, bin + far);
    else if (event.key === 'Home') move(row, 0);
    else if (event.key === 'End') move(row, overview.bins.length - 1);
    else return;
    event.preventDefault();
  };
  const pick = ({ row, bin }: Cell): void => {
    const rank = ranks[row];
    if (rank !== undefined) onPick?.(rank, bin);
  };
  const changeSize = (by: number): void => setRowSize(rowSizes[clamp(rowSizes.indexOf(rowPx) + by, rowSizes.length)]);
  return (
    <div class="heat-map">
      <p class="heat-controls">
        {orderChoice}
        <label>
          Cells
          <select value={measure} onChange={({ currentTarget }) => onMeasure(currentTarget.value as HeatMeasure)}>
            {measures.map((one) => (
              <option key={one} value={one}>
                {measureText(one)}
              </option>
            ))}
          </select>
        </label>
        <label>
          against
          <select value={baseline} onChange={({ currentTarget }) => setBaseline(currentTarget.value as HeatBaseline)}>
            <option value="step">median of the same steps</option>
            <option value="run">median of all steps</option>
          </select>
        </label>
        <span class="heat-sizes">
          Rows
          <button type="button" aria-label="Lower rows" disabled={rowPx === rowSizes[0]} onClick={() => changeSize(-1)}>
            −
          </button>
          <button type="button" aria-label="Higher rows" disabled={rowPx === rowSizes.at(-1)} onClick={() => changeSize(1)}>
            +
          </button>
        </span>
      </p>
      <div
        ref={scroller}
        class="heat-scroll"
        role="application"
        aria-label={`Heat map of ${formatMany(rankCount(ranks), 'rank')}: arrow keys go from cell to cell${onPick === undefined ? '' : ', Enter opens one in the timeline'}`}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it has keys
        tabIndex={0}
        style={{ height: `${height}px` }}
        onScroll={({ currentTarget }) => setScroll(currentTarget.scrollTop)}
        onKeyDown={onKeyDown}
        onPointerMove={(event) => {
          setIsByKey(false);
          setCell(cellAt(event));
        }}
        onPointerLeave={() => setCell(undefined)}
        onClick={(event) => {
          const clicked = cellAt(event);
          if (clicked !== undefined) pick(clicked);
        }}
      >
        <div style={{ height: `${rowPx * ranks.length}px` }}>
          <canvas ref={canvas} class="heat-canvas" />
        </div>
      </div>
      <div class="heat-foot">
        <HeatLegend limit={limit} measure={measure} />
        <span class="heat-reading" aria-live={isByKey ? 'polite' : 'off'}>
          {cell === undefined ? '' : cellText(overview, ranks, rows, lengths, cell, measure)}
        </span>
        <button type="button" class="is-link" aria-expanded={showsTable} onClick={() => setShowsTable(!showsTable)}>
          {showsTable ? 'Hide the table' : 'As a table'}
        </button>
      </div>
      {showsTable && <SlowCells {...{ overview, ranks, rows, lengths, measure }} onPick={onPick && pick} />}
    </div>
  );
}

const measureTexts: Readonly<Record<string, string>> = {
  mean: 'mean step',
  longest: 'longest step',
  own: 'own work',
  waiting: 'waiting for others',
  busy: 'GPU busy',
};
/** For a person: `own work`, `phase forward`. */
export const measureText = (measure: HeatMeasure): string => measureTexts[measure] ?? measure;

/** Measures of a run, the most telling one first: ranks that wait for each other have steps of equal length. */
export const measuresOf = ({ measures, phases }: Pick<Overview, 'measures' | 'phases'>): readonly HeatMeasure[] => [
  ...measures,
  'mean',
  'longest',
  ...phases.filter((name) => name !== otherPhase).map((name): HeatMeasure => `phase ${name}`),
];

/** Legend of the colours. */
const legendTexts: Readonly<Record<string, readonly [string, string]>> = {
  mean: ['faster', 'slower'],
  longest: ['faster', 'slower'],
  waiting: ['waits more', 'waits less'],
  busy: ['busy more', 'busy less'],
};

function HeatLegend({ limit, measure }: { readonly limit: number; readonly measure: HeatMeasure }): JSX.Element {
  const [low, high] = legendTexts[measure] ?? ['takes less', 'takes more'];
  const of = measure === 'mean' || measure === 'longest' ? '' : ' of a step';
  const [minus, plus] = isLessWorse(measure) ? ['+', '−'] : ['−', '+'];
  return (
    <span class="heat-legend">
      <span>{low}</span>
      <span>
        {minus}
        {formatPercent(limit)}
      </span>
      <span class="heat-legend-scale" aria-hidden="true" />
      <span>
        {plus}
        {formatPercent(limit)}
        {of}
      </span>
      <span>{high}</span>
    </span>
  );
}

interface SlowCellsProps extends Pick<HeatMapProps, 'overview' | 'ranks'> {
  readonly rows: readonly Float32Array[];
  readonly lengths: Lengths;
  readonly measure: HeatMeasure;
  readonly onPick: ((cell: Cell) => void) | undefined;
}

/** The slowest cells: the picture's content for people that cannot see it, or that want the numbers. */
function SlowCells({ overview, ranks, rows, lengths, measure, onPick }: SlowCellsProps): JSX.Element {
  const cells = useMemo(() => slowestCells(rows, tableCells), [rows]);
  const columns: readonly Column<SlowCell>[] = [
    {
      key: 'rank',
      title: 'Rank',
      sort: ({ row }) => ranks[row]?.rank,
      value: ({ row }) => rankName(ranks[row] as OverviewRank),
      show: (cell) => <PickLink onPick={onPick && (() => onPick(cell))}>{rankName(ranks[cell.row] as OverviewRank)}</PickLink>,
    },
    {
      key: 'step',
      title: 'Steps',
      sort: ({ bin }) => bin,
      value: ({ bin }) => binName(overview, bin),
      show: ({ bin }) => binName(overview, bin),
    },
    {
      key: 'length',
      title: measureText(measure),
      isNumber: true,
      unit: 'ns',
      sort: ({ row, bin }) => lengths[row]?.[bin] ?? undefined,
      show: ({ row, bin }) => formatDuration(lengths[row]?.[bin] ?? Number.NaN),
    },
    {
      key: 'more',
      title: isLessWorse(measure) ? 'Less by' : 'More by',
      hint: measure === 'mean' || measure === 'longest' ? 'Than the median rank' : 'Than the median rank, as part of a step',
      isNumber: true,
      unit: '1',
      sort: ({ deviation }) => deviation,
      show: ({ deviation }) => formatMorePart(deviation),
    },
  ];
  return (
    <DataTable
      caption={`The ${formatCount(tableCells)} cells of the heat map that stand out, by ${measureText(measure)}`}
      columns={columns}
      rows={cells}
      keyOf={({ row, bin }) => `${row}/${bin}`}
      order={{ by: 'more', direction: 'down' }}
      pageRows={10}
      empty="No rank stands out."
    />
  );
}

interface Painting {
  readonly canvas: HTMLCanvasElement;
  /** The element with the colours and the font. */
  readonly style: HTMLElement;
  readonly picture: HTMLCanvasElement;
  readonly overview: Overview;
  readonly ranks: readonly OverviewRank[];
  readonly marked: ReadonlySet<number>;
  readonly width: number;
  readonly height: number;
  readonly rowPx: number;
  readonly scroll: number;
  readonly cell: Cell | undefined;
}

function paint({ canvas, style, picture, overview, ranks, marked, width, height, rowPx, scroll, cell }: Painting): void {
  const ratio = devicePixelRatio;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext('2d');
  if (context === null) return;
  context.scale(ratio, ratio);
  const { left } = plotMargins;
  const perStep = plotWidth(width) / stepsShown(overview);
  const binPx = binSteps(overview) * perStep;
  const leftOf = (bin: number): number => left + ((overview.bins[bin] ?? 0) - overview.fromStep) * perStep;
  const [first, last] = [Math.floor(scroll / rowPx), Math.min(ranks.length, Math.ceil((scroll + height) / rowPx))];
  const topOf = (row: number): number => row * rowPx - scroll;

  context.save();
  context.beginPath();
  context.rect(left, 0, plotWidth(width), height);
  context.clip();
  context.imageSmoothingEnabled = false;
  context.drawImage(picture, 0, first, picture.width, last - first, leftOf(0), topOf(first), picture.width * binPx, (last - first) * rowPx);
  // A marked row of one pixel among a thousand would be overlooked: its cells take three.
  for (let row = first; rowPx < markedRowPx && marked.size <= markedRowsMax && row < last; row++) {
    if (!marked.has(ranks[row]?.process ?? -1)) continue;
    context.drawImage(picture, 0, row, picture.width, 1, leftOf(0), topOf(row), picture.width * binPx, markedRowPx);
  }
  if (rowPx >= 8) {
    context.fillStyle = cssColour(style, '--raised');
    for (let row = first; row < last; row++) context.fillRect(left, topOf(row + 1) - 1, plotWidth(width), 1);
  }
  context.restore();

  context.font = `11px ${getComputedStyle(style).fontFamily}`;
  context.fillStyle = cssColour(style, '--muted');
  context.textAlign = 'right';
  context.textBaseline = 'middle';
  const every = Math.ceil(14 / rowPx);
  // Marked rows are named before all others, which have the room that is left.
  const named: number[] = [];
  const name = (row: number): void => {
    const rank = ranks[row] as OverviewRank;
    // The first and the last label are moved in.
    const y = Math.max(6, Math.min(height - 6, topOf(row) + rowPx / 2));
    if (named.some((other) => Math.abs(other - y) < 12)) return;
    named.push(y);
    const isMarked = marked.has(rank.process);
    context.fillStyle = cssColour(style, isMarked ? '--alert' : '--muted');
    context.fillText(`${isMarked ? '▸ ' : ''}rank ${shortRankName(rank)}`, left - 6, y);
  };
  for (let row = first; row < last; row++) if (marked.has(ranks[row]?.process ?? -1)) name(row);
  for (let row = Math.ceil(first / every) * every; row < last; row += every) name(row);
  for (let row = first; row < last; row++) {
    if (!marked.has(ranks[row]?.process ?? -1)) continue;
    // A row may be a pixel high: a mark beside it is visible in any case.
    context.fillStyle = cssColour(style, '--alert');
    context.fillRect(left - 4, Math.round(topOf(row) + rowPx / 2) - 1, 4, 3);
  }
  if (cell === undefined) return;
  context.strokeStyle = cssColour(style, '--text');
  context.lineWidth = 1;
  context.strokeRect(leftOf(cell.bin) - 0.5, topOf(cell.row) - 0.5, Math.max(binPx, 3) + 1, Math.max(rowPx, 3) + 1);
}

/** A canvas of one pixel per cell; undefined where the browser provides none. */
function pictureOf(pixels: Uint32Array, bins: number): HTMLCanvasElement | undefined {
  const canvas = document.createElement('canvas');
  canvas.width = bins;
  canvas.height = pixels.length / bins;
  const context = canvas.getContext('2d');
  if (context === null) return undefined;
  context.putImageData(new ImageData(new Uint8ClampedArray(pixels.buffer as ArrayBuffer), bins), 0, 0);
  return canvas;
}

const plotWidth = (width: number): number => Math.max(1, width - plotMargins.left - plotMargins.right);
const stepsShown = ({ fromStep, toStep }: Overview): number => toStep - fromStep + 1;
const binSteps = ({ bins, toStep }: Overview): number => Math.max(1, (bins[1] ?? toStep + 1) - (bins[0] ?? 0));
const clamp = (value: number, length: number): number => Math.max(0, Math.min(length - 1, value));

const binName = (overview: Overview, bin: number): string => stepsText(overview.bins[bin] ?? 0, lastStepOf(overview, bin));

/** By row: ns per bin. */
type Lengths = readonly (readonly (number | null)[] | undefined)[];

const lengthsOf = (rank: OverviewRank, measure: HeatMeasure, measured: HeatMapProps['measured']): Lengths[number] =>
  measure === 'mean' ? rank.cells : measure === 'longest' ? rank.peaks : measured?.get(rank.process);

function cellText(
  overview: Overview,
  ranks: readonly OverviewRank[],
  rows: readonly Float32Array[],
  lengths: Lengths,
  { row, bin }: Cell,
  measure: HeatMeasure,
): string {
  const deviation = rows[row]?.[bin] ?? Number.NaN;
  const rank = ranks[row];
  const where = `Rank ${rank === undefined ? '' : rankName(rank)}, ${binName(overview, bin)}`;
  if (Number.isNaN(deviation)) return `${where}: not known`;
  const isLength = measure === 'mean' || measure === 'longest';
  const more = formatMorePart(isLessWorse(measure) ? -deviation : deviation);
  return `${where}: ${isLength ? '' : `${measureText(measure)} `}${formatDuration(lengths[row]?.[bin] ?? Number.NaN)}, ${more}${isLength ? '' : ' of a step'}`;
}

function scrollIntoView(scroller: HTMLElement | null, top: number, height: number): void {
  if (scroller === null) return;
  if (top < scroller.scrollTop) scroller.scrollTop = top;
  else if (top + height > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = top + height - scroller.clientHeight;
}
