// Step times over the steps of a run as lines, one point per bin: pick a point to go there, drag to zoom into steps.
//
// uPlot draws; the legend, the reading at the cursor, the keys and the table beside it are HTML. The left gutter and the right margin are those
// of the heat map below it, so that a step is at the same place in both.

import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { isBrowsers } from '../controls/browser-keys.ts';
import { type Column, DataTable } from '../controls/data-table.tsx';
import { axisTexts, formatDuration } from '../controls/format.ts';
import { PickLink } from '../controls/pick-link.tsx';
import { useTheme } from '../controls/theme.ts';
import { useWidth } from '../controls/use-width.ts';
import { chartRange } from './chart-range.ts';
import { cssColour } from './css-colours.ts';
import './step-chart.css';

/** Pixels left of the first step and right of the last, here and in the heat map. */
export const plotMargins = { left: 68, right: 12 } as const;

export interface ChartLine {
  readonly label: string;
  /** ns by point; null where there is none. */
  readonly values: readonly (number | null)[];
  /** A variable of theme.css. */
  readonly colour: string;
  readonly width?: number;
  readonly isDashed?: boolean;
}

/** A flag at the begin of a step. */
export interface ChartFlag {
  readonly step: number;
  /** Filled, else an outline. */
  readonly isOpen: boolean;
}

export interface StepChartProps {
  /** Title of the chart, for a screen reader. */
  readonly label: string;
  /** Position of each point: the middle of its steps, ascending. */
  readonly steps: readonly number[];
  /** First and last step that are shown. */
  readonly fromStep: number;
  readonly toStep: number;
  readonly lines: readonly ChartLine[];
  /** Fills between two of the lines. */
  readonly band?: readonly [upper: number, lower: number];
  /** Where alerts began. */
  readonly flags?: readonly ChartFlag[];
  readonly height: number;
  /** Text for a point's steps. */
  readonly nameOf: (point: number) => string;
  /** Further text about a point, after its values. */
  readonly about?: (point: number) => ComponentChildren;
  readonly onPick?: (point: number) => void;
  readonly onZoom?: (fromStep: number, toStep: number) => void;
  readonly onReset?: () => void;
}

/** Pixels that the pointer may move during a click. */
const clickPx = 4;
const noFlags: readonly ChartFlag[] = [];
const flagPx = 8;

export function StepChart(props: StepChartProps): JSX.Element {
  const { label, steps, fromStep, toStep, lines, band, flags = noFlags, height, nameOf, about } = props;
  const holder = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const latest = useRef(props);
  latest.current = props;
  const width = useWidth(holder);
  const theme = useTheme().value;
  const [at, setAt] = useState<number | undefined>(undefined);
  const [isByKey, setIsByKey] = useState(false);
  const [showsTable, setShowsTable] = useState(false);
  const keysId = useId();
  const shape = lines.map(({ label, colour, width = 1, isDashed = false }) => `${label} ${colour} ${width} ${isDashed}`).join('\n');
  const { low, beyond } = chartRange(lines.map(({ values }) => values));

  useEffect(() => {
    const { current } = holder;
    if (current === null || width === 0) return;
    const chart = new uPlot(chartOptions(current, latest, width, height, setAt), dataOf(latest.current), current);
    plot.current = chart;
    const stopClicks = followClicks(chart, latest);
    return () => {
      stopClicks();
      plot.current = undefined;
      chart.destroy();
    };
  }, [width, height, theme, shape, band?.join()]);

  useEffect(() => {
    const chart = plot.current;
    if (chart === undefined) return;
    chart.setData(dataOf(latest.current));
  }, [steps, lines, flags, fromStep, toStep]);

  const point = at !== undefined && at < steps.length ? at : undefined;
  const onKeyDown = (event: KeyboardEvent): void => {
    const chart = plot.current;
    if (chart === undefined || !moveByKey(event, chart, latest.current, point)) return;
    event.preventDefault();
    setIsByKey(true);
  };
  return (
    <div class="step-chart">
      <ul class="step-chart-legend">
        {lines.map((line) => (
          <li key={line.label}>
            <span
              class={line.isDashed === true ? 'step-chart-mark is-dashed' : 'step-chart-mark'}
              style={{ color: `var(${line.colour})` }}
            />
            {line.label}
            <b>{point === undefined ? '' : formatDuration(line.values[point] ?? Number.NaN)}</b>
          </li>
        ))}
        {low > 0 && <li class="muted">the axis begins at {formatDuration(low)}</li>}
        {flags.length > 0 && (
          <li class="step-chart-flag">
            <span aria-hidden="true">⚑</span> an alert began
          </li>
        )}
      </ul>
      <div
        class="step-chart-plot"
        role="application"
        aria-label={label}
        aria-describedby={keysId}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it has keys
        tabIndex={0}
        onKeyDown={onKeyDown}
        onPointerMove={() => setIsByKey(false)}
        onDblClick={() => props.onReset?.()}
      >
        {/* Preact leaves this element to uPlot. */}
        <div ref={holder} class="step-chart-holder" />
      </div>
      <p id={keysId} class="only-aloud">
        Left and right arrows read step by step{props.onPick && ', Enter opens it in the timeline'}
        {props.onZoom && ', plus zooms in, Escape shows all steps'}.
      </p>
      <p class="step-chart-foot">
        <span class="step-chart-reading" aria-live={isByKey ? 'polite' : 'off'}>
          {point === undefined ? beyond.length > 0 && `▲ ${beyondText(props, beyond)}` : nameOf(point)}
          {point !== undefined && about?.(point)}
          {isByKey && point !== undefined && (
            <span class="only-aloud">
              {lines.map(({ label, values }) => `, ${label} ${formatDuration(values[point] ?? Number.NaN)}`).join('')}
            </span>
          )}
        </span>
        <button type="button" class="is-link" aria-expanded={showsTable} onClick={() => setShowsTable(!showsTable)}>
          {showsTable ? 'Hide the table' : 'As a table'}
        </button>
      </p>
      {showsTable && <StepTable {...props} />}
    </div>
  );
}

/** The chart's data as numbers. */
function StepTable({ label, steps, lines, nameOf, onPick }: StepChartProps): JSX.Element {
  const columns: readonly Column<number>[] = [
    {
      key: 'steps',
      title: 'Steps',
      sort: (point) => point,
      value: nameOf,
      show: (point) => <PickLink onPick={onPick && (() => onPick(point))}>{nameOf(point)}</PickLink>,
    },
    ...lines.map(
      (line): Column<number> => ({
        key: line.label,
        title: line.label,
        isNumber: true,
        unit: 'ns',
        sort: (point) => line.values[point] ?? undefined,
        show: (point) => formatDuration(line.values[point] ?? Number.NaN),
      }),
    ),
  ];
  return (
    <DataTable
      caption={label}
      columns={columns}
      rows={steps.map((_, point) => point)}
      keyOf={String}
      order={{ by: 'steps', direction: 'up' }}
      pageRows={12}
      empty="No steps."
    />
  );
}

const dataOf = ({ steps, lines }: StepChartProps): uPlot.AlignedData => [[...steps], ...lines.map(({ values }) => [...values])];

function beyondText({ lines, nameOf }: StepChartProps, beyond: readonly number[]): string {
  const mostAt = (point: number): number => Math.max(...lines.map(({ values }) => values[point] ?? 0));
  const longest = beyond.reduce((most, point) => (mostAt(point) > mostAt(most) ? point : most));
  const where = `${nameOf(longest)}: ${formatDuration(mostAt(longest))}`;
  return beyond.length === 1 ? `Beyond the chart: ${where}` : `Beyond the chart: ${where}, and ${beyond.length - 1} more`;
}

function chartOptions(
  holder: HTMLElement,
  latest: { readonly current: StepChartProps },
  width: number,
  height: number,
  onCursor: (point: number | undefined) => void,
): uPlot.Options {
  const colour = (variable: string): string => cssColour(holder, variable);
  const [text, line] = [colour('--muted'), colour('--line')];
  const font = `11px ${getComputedStyle(holder).fontFamily}`;
  const axis = { stroke: text, font, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1, size: 4 } };
  const { lines, band } = latest.current;
  const filled = band === undefined ? undefined : withAlpha(colour(lines[band[0]]?.colour ?? '--accent'), 0.14);
  return {
    width,
    height,
    padding: [6, plotMargins.right, 0, 0],
    legend: { show: false },
    scales: {
      x: { time: false, range: () => [latest.current.fromStep - 0.5, latest.current.toStep + 0.5] },
      y: {
        range: () => {
          const { low, high } = chartRange(latest.current.lines.map(({ values }) => values));
          return [low, high];
        },
      },
    },
    axes: [
      { ...axis, size: 26, gap: 3, space: 70, incrs: stepIncrements },
      {
        ...axis,
        size: plotMargins.left,
        gap: 4,
        space: 28,
        values: (_, values) => axisTexts(values),
      },
    ],
    series: [
      {},
      ...lines.map(({ label, colour: variable, width: lineWidth = 1.5, isDashed = false }) => ({
        label,
        stroke: colour(variable),
        width: lineWidth,
        ...(isDashed ? { dash: [5, 4] } : {}),
        points: { show: (chart: uPlot) => chart.data[0].length <= 30, size: 5, fill: colour('--raised') },
      })),
    ],
    ...(band !== undefined && filled !== undefined ? { bands: [{ series: [band[0] + 1, band[1] + 1], fill: filled }] } : {}),
    cursor: {
      y: false,
      drag: { x: true, y: false, setScale: false },
      points: { size: 7, fill: (_, series) => colour(latest.current.lines[series - 1]?.colour ?? '--text') },
    },
    hooks: {
      draw: [(chart) => drawFlags(chart, latest.current.flags ?? noFlags, colour('--alert'))],
      setCursor: [(chart) => onCursor(chart.cursor.idx ?? undefined)],
      setSelect: [
        (chart) => {
          const { left, width: selected } = chart.select;
          if (selected > clickPx) {
            const [from, to] = [chart.posToVal(left, 'x'), chart.posToVal(left + selected, 'x')];
            zoomTo(latest.current, from, to);
          }
          if (selected > 0) chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        },
      ],
    },
  };
}

function drawFlags(chart: uPlot, flags: readonly ChartFlag[], colour: string): void {
  const { ctx: context, bbox } = chart;
  const size = flagPx * uPlot.pxRatio;
  context.save();
  context.fillStyle = context.strokeStyle = colour;
  context.lineWidth = uPlot.pxRatio;
  for (const { step, isOpen } of flags) {
    const x = Math.round(chart.valToPos(step - 0.5, 'x', true));
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    context.fillRect(x, bbox.top, uPlot.pxRatio, bbox.height);
    context.beginPath();
    context.moveTo(x, bbox.top);
    context.lineTo(x + size, bbox.top + size / 2);
    context.lineTo(x, bbox.top + size);
    if (isOpen) context.fill();
    else context.stroke();
  }
  context.restore();
}

/** Whole steps only: 1, 2, 5, 10 … between marks. */
const stepIncrements = Array.from({ length: 12 }, (_, power) => [1, 2, 5].map((factor) => factor * 10 ** power)).flat();

function zoomTo({ fromStep, toStep, onZoom }: StepChartProps, from: number, to: number): void {
  const [first, last] = [Math.max(fromStep, Math.ceil(from)), Math.min(toStep, Math.floor(to))];
  if (first <= last && (first > fromStep || last < toStep)) onZoom?.(first, last);
}

function followClicks(chart: uPlot, latest: { readonly current: StepChartProps }): () => void {
  let pressedAt = Number.NaN;
  const press = ({ clientX }: MouseEvent): void => {
    pressedAt = clientX;
  };
  const release = ({ clientX, button }: MouseEvent): void => {
    const point = chart.cursor.idx;
    if (button === 0 && Math.abs(clientX - pressedAt) <= clickPx && point !== null && point !== undefined) latest.current.onPick?.(point);
  };
  chart.over.addEventListener('mousedown', press);
  chart.over.addEventListener('mouseup', release);
  return () => {
    chart.over.removeEventListener('mousedown', press);
    chart.over.removeEventListener('mouseup', release);
  };
}

/** Whether the key was one of the chart's. */
function moveByKey(event: KeyboardEvent, chart: uPlot, props: StepChartProps, point: number | undefined): boolean {
  const { key, shiftKey } = event;
  if (isBrowsers(event)) return false;
  const last = props.steps.length - 1;
  const go = (to: number): boolean => {
    const next = Math.max(0, Math.min(last, to));
    chart.setCursor({ left: chart.valToPos(props.steps[next] ?? 0, 'x'), top: 0 });
    return true;
  };
  switch (key) {
    case 'ArrowLeft':
      return go((point ?? last + 1) - (shiftKey ? 10 : 1));
    case 'ArrowRight':
      return go((point ?? -1) + (shiftKey ? 10 : 1));
    case 'Home':
      return go(0);
    case 'End':
      return go(last);
    case 'Enter':
      if (point !== undefined) props.onPick?.(point);
      return true;
    case 'Escape':
      props.onReset?.();
      return true;
    case '+':
    case '=': {
      const middle = props.steps[point ?? last >> 1] ?? 0;
      const quarter = (props.toStep - props.fromStep) / 4;
      zoomTo(props, middle - quarter, middle + quarter);
      return true;
    }
    default:
      return false;
  }
}

const withAlpha = (rgb: string, alpha: number): string => rgb.replace(/^rgb\((.*)\)$/, `rgba($1, ${alpha})`);
