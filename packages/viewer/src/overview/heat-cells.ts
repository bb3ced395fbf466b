// The heat map's colours: every rank's steps against the median rank's of the same steps.
//
//   −limit ─────────────── 0 ──────────────── +limit      limit: 10, 20, 50, 100 … %, such that hardly a cell lies beyond
//   fast (blue)        as the others      slow (yellow, orange, red)        no cell: a colour of its own
//
// Blue against yellow to red, each side darker (in the dark theme: brighter) the further out, is distinguishable with all common kinds of colour
// blindness. The picture has one pixel per cell; the canvas stretches it.
//
// Invariant: `paintCells` writes bins × ranks pixels whatever the cells hold.

import type { Overview, OverviewRank } from '@ranktrace/protocol';

/** Red, green, blue: 0 to 255. */
export type Rgb = readonly [number, number, number];

/** Colours from fast over equal to slow, and of no cell. */
export interface HeatColours {
  readonly fast: Rgb;
  readonly equal: Rgb;
  /** From a little slower to far slower. */
  readonly slow: readonly [Rgb, Rgb, Rgb];
  readonly none: Rgb;
}

/** The measure of a cell: the mean of its steps or the longest, own work, waiting, busy devices, or the phase of that name (`phase forward`). */
export type HeatMeasure = 'mean' | 'longest' | 'own' | 'waiting' | 'busy' | `phase ${string}`;
/** Against the median rank in the same steps, or against the median of all steps. */
export type HeatBaseline = 'step' | 'run';

/** Candidates for the end of the scale, from the least deviation beyond the usual one. */
const limits = [0.1, 0.2, 0.5, 1, 2, 5, 10] as const;
const half = 128;

/** A rank that waits less than the others, or whose devices are busy less, is the one to look at: it is red. */
export const isLessWorse = (measure: HeatMeasure): boolean => measure === 'waiting' || measure === 'busy';

/**
 * Deviation of each cell from the median rank's, as a part of the median step: 0.1 is 10 % of a step more (of `isLessWorse` measures: less); NaN
 * where there is none. As a part of the cell itself, a short wait twice as long as another would look worse than anything.
 */
export function measuredDeviations(
  { median, percentiles }: Pick<Overview, 'median' | 'percentiles'>,
  cells: readonly (readonly (number | null)[] | undefined)[],
  measure: HeatMeasure,
  baseline: HeatBaseline,
): readonly Float32Array[] {
  const bins = median.length;
  const sign = isLessWorse(measure) ? -1 : 1;
  const bases = Float64Array.from({ length: bins }, (_, bin) => medianOf(cells.map((row) => row?.[bin] ?? Number.NaN)));
  const ofAll = medianOf([...bases]);
  const ofRun = usualStep({ median, percentiles });
  return cells.map((row) =>
    Float32Array.from({ length: bins }, (_, bin) => {
      const [value, base] = [row?.[bin] ?? Number.NaN, baseline === 'run' ? ofAll : (bases[bin] as number)];
      const step = baseline === 'run' ? ofRun : (median[bin] ?? 0);
      return step > 0 ? (sign * (value - base)) / step : Number.NaN;
    }),
  );
}

/** The step that cells are compared with; where single steps are not known, the median of the bins. */
const usualStep = ({ median, percentiles }: Pick<Overview, 'median' | 'percentiles'>): number =>
  percentiles?.p50 ?? medianOf(median.map((of) => of ?? Number.NaN));

function medianOf(values: number[]): number {
  const known = values.filter((value) => !Number.isNaN(value)).sort((a, b) => a - b);
  const middle = (known.length - 1) / 2;
  return ((known[Math.floor(middle)] ?? Number.NaN) + (known[Math.ceil(middle)] ?? Number.NaN)) / 2;
}

/** Deviation of the length of each cell's steps by rank and bin: 0.1 is 10 % slower; NaN where there is none. */
export function deviationsOf(
  overview: Pick<Overview, 'median' | 'percentiles'>,
  ranks: readonly OverviewRank[],
  measure: 'mean' | 'longest',
  baseline: HeatBaseline,
): readonly Float32Array[] {
  const bins = overview.median.length;
  const ofRun = usualStep(overview);
  const bases = Float64Array.from(overview.median, (median) => (baseline === 'run' ? ofRun : (median ?? Number.NaN)));
  return ranks.map((rank) => {
    const cells = measure === 'mean' ? rank.cells : rank.peaks;
    const row = new Float32Array(bins);
    for (let bin = 0; bin < bins; bin++) {
      const base = bases[bin] as number;
      row[bin] = base > 0 ? (cells[bin] ?? Number.NaN) / base - 1 : Number.NaN;
    }
    return row;
  });
}

/** The end of the scale: the smallest candidate with at most one cell in 200 beyond it. */
export function heatLimit(rows: readonly Float32Array[]): number {
  const beyond = new Array<number>(limits.length).fill(0);
  let cells = 0;
  for (const row of rows) {
    for (const value of row) {
      if (Number.isNaN(value)) continue;
      cells++;
      const far = Math.abs(value);
      for (let at = 0; at < limits.length && far > (limits[at] as number); at++) (beyond[at] as number)++;
    }
  }
  const at = (beyond as number[]).findIndex((count) => count <= cells / 200);
  return limits[at === -1 ? limits.length - 1 : at] as number;
}

/** 257 packed colours (ImageData's format, little-endian) from −limit to +limit; the last stands for a missing cell. */
export function heatRamp({ fast, equal, slow, none }: HeatColours): Uint32Array {
  const ramp = new Uint32Array(2 * half + 1);
  const stops = [equal, ...slow];
  for (let at = 0; at < half; at++) {
    ramp[at] = packed(between(fast, equal, at / half));
    const along = (at / (half - 1)) * (stops.length - 1);
    const stop = Math.min(Math.floor(along), stops.length - 2);
    ramp[half + at] = packed(between(stops[stop] as Rgb, stops[stop + 1] as Rgb, along - stop));
  }
  ramp[2 * half] = packed(none);
  return ramp;
}

/** The index of a deviation in a ramp. */
export const rampIndex = (deviation: number, limit: number): number =>
  Number.isNaN(deviation) ? 2 * half : Math.max(0, Math.min(2 * half - 1, half + Math.round((deviation / limit) * half)));

/** One pixel per cell, a row per rank. */
export function paintCells(rows: readonly Float32Array[], bins: number, limit: number, ramp: Uint32Array): Uint32Array {
  const pixels = new Uint32Array(bins * rows.length);
  rows.forEach((row, y) => {
    for (let x = 0; x < bins; x++) pixels[y * bins + x] = ramp[rampIndex(row[x] ?? Number.NaN, limit)] as number;
  });
  return pixels;
}

/** One of the slowest cells. */
export interface SlowCell {
  readonly row: number;
  readonly bin: number;
  readonly deviation: number;
}

/** The `most` cells that are slowest against the others, slowest first. */
export function slowestCells(rows: readonly Float32Array[], most: number): readonly SlowCell[] {
  const cells: SlowCell[] = [];
  let least = 0;
  rows.forEach((values, row) => {
    values.forEach((deviation, bin) => {
      if (!(deviation > least)) return;
      cells.push({ row, bin, deviation });
      // Trimmed now and then, so that a million cells are no million objects.
      if (cells.length > 4 * most) least = cutToSlowest(cells, most);
    });
  });
  cutToSlowest(cells, most);
  return cells;
}

function cutToSlowest(cells: SlowCell[], most: number): number {
  cells.sort((a, b) => b.deviation - a.deviation || a.row - b.row || a.bin - b.bin);
  cells.length = Math.min(cells.length, most);
  return cells.length < most ? 0 : (cells.at(-1)?.deviation ?? 0);
}

/** Parses `rgb(1, 2, 3)`, `rgb(1 2 3 / 50%)`, `#123`, `#112233`, a browser's computed colour; grey for any other text. */
export function parseColour(text: string): Rgb {
  const hex = /^#([0-9a-f]{3}|[0-9a-f]{6})$/i.exec(text.trim())?.[1];
  if (hex !== undefined) {
    const digits = hex.length === 3 ? [...hex].map((digit) => digit + digit) : [hex.slice(0, 2), hex.slice(2, 4), hex.slice(4, 6)];
    return digits.map((pair) => Number.parseInt(pair, 16)) as unknown as Rgb;
  }
  const numbers = /^rgba?\(\s*([\d.]+)[,\s]+([\d.]+)[,\s]+([\d.]+)/.exec(text.trim());
  return numbers === null ? [128, 128, 128] : [Number(numbers[1]), Number(numbers[2]), Number(numbers[3])];
}

const between = (a: Rgb, b: Rgb, part: number): Rgb => [0, 1, 2].map((at) => mix(a[at] as number, b[at] as number, part)) as unknown as Rgb;
const mix = (a: number, b: number, part: number): number => Math.round(a + (b - a) * part);
const packed = ([red, green, blue]: Rgb): number => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
