// Step times as bars of characters: several lines for the cluster, one for a rank.
//
//   ▁     ▁       █          level      a line counts eighths
//   ████████ ██████          3 lines:   1 … 24
//   ████████ ██████

const blockGlyphs = '▁▂▃▄▅▆▇█';
const letterGlyphs = '_.-=+*%#';

/** Lengths of the lowest and the highest bar, ns. */
export interface StepScale {
  readonly low: number;
  readonly high: number;
}

/** The scale of these steps; undefined without steps. A checkpoint of ten steps' length must not flatten all others. */
export function scaleOf(lengths: readonly (number | null)[]): (StepScale & { readonly longest: number }) | undefined {
  const sorted = lengths.filter((length) => length !== null).sort((a, b) => a - b);
  const [low, middle, longest] = [sorted[0], sorted[sorted.length >> 1], sorted.at(-1)];
  if (low === undefined || middle === undefined || longest === undefined) return undefined;
  return { low, high: Math.min(longest, 2 * middle), longest };
}

/** The last `columns` of the steps as bars of `height` lines, from the top. `blocks`: with block characters, else with letters. */
export function stepBars(
  lengths: readonly (number | null)[],
  scale: StepScale,
  columns: number,
  height: number,
  blocks: boolean,
): string[] {
  const glyphs = blocks ? blockGlyphs : letterGlyphs;
  const eighths = lengths.slice(-columns).map((length) => (length === null ? 0 : eighthsOf(length, scale, height * glyphs.length)));
  return Array.from({ length: height }, (_, line) => {
    const below = (height - 1 - line) * glyphs.length;
    return eighths.map((all) => (all <= below ? ' ' : (glyphs[Math.min(all - below, glyphs.length) - 1] as string))).join('');
  });
}

function eighthsOf(length: number, { low, high }: StepScale, most: number): number {
  const level = high > low ? Math.max(0, (Math.min(length, high) - low) / (high - low)) : 0;
  return 1 + Math.min(most - 1, Math.floor(level * most));
}
