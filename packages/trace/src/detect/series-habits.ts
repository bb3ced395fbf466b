// A series' recurring behaviour, which is no news: stretches of slow blocks that end by themselves, slow-downs that go away, levels below the
// golden baseline that were never reported as an improvement.
//
//   ▁▁▁▁▅▅▁▁▁▁▁▁▅▅▅▁▁▁      three blocks in a row come and go: a change must hold for longer than that
//   ▁▁▁▁▅▅▅▅▅▅▁▁▁▁▅▅▅▅      reported once and over: the next one that is no larger is the same
//   ▄▄▄▄▂▂▃▃▁▁▂▂▄▄▄▄▅▅      wandering down to ▁ and back is no rise
//
// Functions over `habitsLength` numbers of a series, from `at` on; NaN means none.

/** Places of single habits. */
const [wanderAt, longestAt, highAt, dipAt, improvedAt, longestLeapAt] = [0, 1, 2, 3, 4, 5] as const;
export const habitsLength = 6;

/** Blocks in which a longest stretch fades to about a third. */
const stretchBlocks = 512;
/** Longest stretch remembered, blocks. */
const stretchBlocksMax = 32;
/** Longest reported stretch that is taken for a habit, blocks. */
const stretchNotedMax = 16;
/** A stretch continues above this share of the change that begins one. */
const stretchGoesOn = 0.5;
/** Blocks by which a change must outlast the longest stretch. */
const outlastBlocks = 2.5;
/** Faded length from which on a stretch counts. */
const stretchCounts = 0.7;
/** A new change must exceed one that went away by this factor. Above `wanderMin`, several must have gone away. */
const wanderFactor = 1.25;
const wanderMin = 0.03;
/** Blocks in which it fades to about a third: some 400 000 steps. */
const wanderBlocks = 50_000;

const or0 = (value: number | undefined): number => (value === undefined || Number.isNaN(value) ? 0 : value);

/** A block lies `above` the level before it; `changeMin` is the least change that counts. */
export function noteBlock(values: Float32Array, at: number, above: number, changeMin: number): void {
  const high = or0(values[at + highAt]);
  const faded = or0(values[at + longestAt]) * (1 - 1 / stretchBlocks);
  const isHigh = above > (high > 0 ? stretchGoesOn * changeMin : changeMin);
  values[at + highAt] = isHigh ? high + 1 : 0;
  values[at + wanderAt] = or0(values[at + wanderAt]) * (1 - 1 / wanderBlocks);
  values[at + longestAt] = isHigh ? faded : Math.max(faded, Math.min(high, stretchBlocksMax));
}

/** Notes a reported change of level: slow blocks are no stretch then. */
export function noteChange(values: Float32Array, at: number): void {
  values[at + highAt] = 0;
}

/** A half block ends a row of `leaps` half blocks far above the level before them; 0 for none. */
export function noteLeaps(values: Float32Array, at: number, leaps: number): void {
  const faded = or0(values[at + longestLeapAt]) * (1 - 1 / (2 * stretchBlocks));
  values[at + longestLeapAt] = Math.max(faded, Math.min(leaps, stretchBlocksMax));
}

/** Notes a reported stretch of so many slow blocks that ended by itself: evaluations come again. A longer one was a fault, and is reported when it comes again. */
export function noteStretch(values: Float32Array, at: number, blocks: number): void {
  if (blocks <= stretchNotedMax) values[at + longestAt] = Math.max(or0(values[at + longestAt]), blocks);
}

/** Whether stretches as long as `blocks` have come and gone. */
export const isHabit = (values: Float32Array, at: number, blocks: number): boolean => isUsual(or0(values[at + longestAt]), blocks);

/** The same of rows of half blocks that leap. */
export const isLeapHabit = (values: Float32Array, at: number, halves: number): boolean => isUsual(or0(values[at + longestLeapAt]), halves);

const isUsual = (longest: number, blocks: number): boolean => longest >= stretchCounts && blocks < longest + outlastBlocks;

/** Notes that a slow-down by `change` (a logarithm) went away. */
export function noteReturn(values: Float32Array, at: number, change: number): void {
  if (change <= 0) return;
  const known = or0(values[at + wanderAt]);
  values[at + wanderAt] = known + Math.min(1, wanderMin / change) * Math.max(0, wanderFactor * change - known);
}

/** The size of change (a logarithm) that has come and gone. */
export const wanderOf = (values: Float32Array, at: number): number => or0(values[at + wanderAt]);

/** Notes a reported lasting improvement: it is no dip. */
export function noteImprovement(values: Float32Array, at: number, level: number): void {
  values[at + improvedAt] = level;
}

/** Notes that the golden baseline follows from `golden` down to `level`. */
export function noteDip(values: Float32Array, at: number, golden: number, level: number): void {
  const improved = values[at + improvedAt] as number;
  const from = Number.isNaN(improved) ? golden : Math.min(golden, improved);
  values[at + dipAt] = or0(values[at + dipAt]) + Math.max(0, from - level);
}

/** How far (a logarithm) the golden baseline fell without an improvement. */
export const dipOf = (values: Float32Array, at: number): number => or0(values[at + dipAt]);
