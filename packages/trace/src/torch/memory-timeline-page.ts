// The memory timeline as one HTML page: torch's stacked areas as SVG, so that the page needs no script, font or network.
//
//   bytes ┤      ▄▄▄▄      one area for each category, in torch's order and colours
//         ┤ ▄▄▄▄▄█████▄▄   sizes hold until the next change: steps, no slopes
//         └──────────────  time
//
// A page has at most `columnsMax` columns: each shows the moment of its highest memory, so no peak is lost.
// Invariant: all outside text is escaped.

import { type MemoryTimeline, memoryCategories } from './memory-timeline.ts';

export interface MemoryTimelinePageOptions {
  /** Title above the plot; peak memory stands below it. */
  readonly title?: string | undefined;
}

/** matplotlib's colour names; CSS has the same. */
const colors: Readonly<Record<(typeof memoryCategories)[number], string>> = {
  PARAMETER: 'darkgreen',
  OPTIMIZER_STATE: 'goldenrod',
  INPUT: 'black',
  TEMPORARY: 'mediumpurple',
  ACTIVATION: 'red',
  GRADIENT: 'mediumblue',
  AUTOGRAD_DETAIL: 'royalblue',
  UNKNOWN: 'grey',
};

const columnsMax = 2000;
const plot = { left: 90, top: 20, width: 1080, height: 520 } as const;
const page = { width: 1400, height: 600 } as const;

/** The page as text. Times count from the first change, sizes are in units of 1024. */
export function memoryTimelinePage(timeline: MemoryTimeline, options: MemoryTimelinePageOptions = {}): string {
  const title = options.title ?? 'Memory timeline';
  const columns = columnsOf(timeline);
  const most = columns.reduce((most, column) => (column.total > most.total ? column : most), { micros: 0, total: 0 });
  const where = timeline.device === 'cpu' ? 'host memory' : 'device memory';
  const summary = columns.length === 0 ? 'No allocation was recorded.' : `Max memory allocated: ${sizeText(most.total)} of ${where}`;
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>${escapeText(title)}</title>
<style>
body { font-family: sans-serif; margin: 16px; color: #222; background: #fff; }
h1 { font-size: 20px; margin: 0 0 4px; }
p { margin: 0 0 8px; }
svg { max-width: 100%; height: auto; }
text { font-size: 13px; fill: #222; }
</style>
</head>
<body>
<h1>${escapeText(title)}</h1>
<p>${escapeText(summary)}</p>
${columns.length === 0 ? '' : drawing(columns, most)}</body>
</html>
`;
}

/** Sizes by category from `micros` (since the first change) to the next column. */
interface PlotColumn {
  readonly micros: number;
  readonly sizes: readonly number[];
  readonly total: number;
}

function columnsOf({ times, sizes }: MemoryTimeline): PlotColumn[] {
  const first = times[0];
  if (first === undefined) return [];
  const width = ((times.at(-1) as number) - first) / columnsMax;
  const columns: PlotColumn[] = [];
  let shown = -1;
  for (const [step, time] of times.entries()) {
    const micros = time - first;
    const column = { micros, sizes: sizes.map((bytes) => bytes[step] as number), total: 0 };
    column.total = column.sizes.reduce((sum, bytes) => sum + bytes, 0);
    const slot = times.length <= columnsMax ? step : Math.floor(micros / width);
    if (slot !== shown) columns.push(column);
    else if (column.total > (columns.at(-1) as PlotColumn).total) columns[columns.length - 1] = column;
    shown = slot;
  }
  return columns;
}

function drawing(columns: readonly PlotColumn[], most: Pick<PlotColumn, 'micros' | 'total'>): string {
  const end = Math.max((columns.at(-1) as PlotColumn).micros, 1);
  const { step, unit, scale } = axisOf(most.total);
  const top = Math.max(step, Math.ceil(most.total / step) * step);
  const x = (micros: number): string => (plot.left + (micros / end) * plot.width).toFixed(1);
  const y = (bytes: number): string => (plot.top + plot.height - (bytes / top) * plot.height).toFixed(1);

  const lines: string[] = [`<svg viewBox="0 0 ${page.width} ${page.height}" width="${page.width}" height="${page.height}" role="img">`];
  for (let bytes = 0; bytes <= top * 1.000001; bytes += step) {
    lines.push(
      `<line x1="${plot.left}" y1="${y(bytes)}" x2="${plot.left + plot.width}" y2="${y(bytes)}" stroke="#ddd"/>`,
      `<text x="${plot.left - 8}" y="${y(bytes)}" text-anchor="end" dominant-baseline="middle">${shortNumber(bytes / scale)}</text>`,
    );
  }
  const tick = roundStep(end / 10);
  for (let micros = 0; micros <= end * 1.000001; micros += tick) {
    const below = plot.top + plot.height;
    lines.push(
      `<line x1="${x(micros)}" y1="${below}" x2="${x(micros)}" y2="${below + 5}" stroke="#222"/>`,
      `<text x="${x(micros)}" y="${below + 20}" text-anchor="middle">${shortNumber(micros / 1000)}</text>`,
    );
  }
  // Each area lies on top of those before it.
  const below = columns.map(() => 0);
  for (const [index, category] of memoryCategories.entries()) {
    if (!columns.some(({ sizes }) => sizes[index] !== 0)) continue;
    const upper = columns.map(({ sizes }, at) => (below[at] as number) + (sizes[index] as number));
    const outline = [...edge(columns, upper, end, x, y), ...edge(columns, below, end, x, y).reverse()];
    lines.push(`<polygon fill="${colors[category]}" fill-opacity="0.7" points="${outline.join(' ')}"><title>${category}</title></polygon>`);
    for (const [at, bytes] of upper.entries()) below[at] = bytes;
  }
  lines.push(
    `<circle cx="${x(most.micros)}" cy="${y(most.total)}" r="4" fill="none" stroke="#222" stroke-width="1.5"/>`,
    `<text x="${x(most.micros)}" y="${plot.top - 6}" text-anchor="middle">max ${sizeText(most.total)} at ${shortNumber(most.micros / 1000)} ms</text>`,
    `<text x="${plot.left + plot.width / 2}" y="${plot.top + plot.height + 44}" text-anchor="middle">Time (ms)</text>`,
    `<text transform="translate(20 ${plot.top + plot.height / 2}) rotate(-90)" text-anchor="middle">Memory (${unit})</text>`,
  );
  for (const [index, category] of memoryCategories.entries()) {
    const [left, row] = [plot.left + plot.width + 20, plot.top + 20 * index];
    lines.push(
      `<rect x="${left}" y="${row}" width="14" height="14" fill="${colors[category]}" fill-opacity="0.7"/>`,
      `<text x="${left + 20}" y="${row + 12}">${category}</text>`,
    );
  }
  return `${lines.join('\n')}\n</svg>\n`;
}

/** Corners of a stepped line. */
function edge(
  columns: readonly PlotColumn[],
  heights: readonly number[],
  end: number,
  x: (micros: number) => string,
  y: (bytes: number) => string,
): string[] {
  return columns.flatMap(({ micros }, at) => {
    const until = columns[at + 1]?.micros ?? end;
    return [`${x(micros)},${y(heights[at] as number)}`, `${x(until)},${y(heights[at] as number)}`];
  });
}

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const;

const unitOf = (bytes: number): number => Math.min(units.length - 1, Math.max(0, Math.floor(Math.log2(Math.max(bytes, 1)) / 10)));

/** Up to five scale lines, in the unit of the largest value. */
function axisOf(most: number): { readonly step: number; readonly unit: string; readonly scale: number } {
  const scale = 1024 ** unitOf(most);
  const step = roundStep(Math.max(most, 1) / scale / 5) * scale;
  return { step, unit: units[unitOf(most)] as string, scale };
}

/** The smallest number ≥ `least` that is 1, 2 or 5 times a power of ten. */
function roundStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  return ([1, 2, 5].find((factor) => factor * power >= least) ?? 10) * power;
}

const sizeText = (bytes: number): string => `${(bytes / 1024 ** unitOf(bytes)).toFixed(2)} ${units[unitOf(bytes)]}`;

/** A few digits without trailing zeros: `0.25`, `1200`. */
const shortNumber = (value: number): string => String(Number(value.toPrecision(4)));

const escapes: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

const escapeText = (text: string): string => text.replaceAll(/[&<>"']/g, (character) => escapes[character] as string);
