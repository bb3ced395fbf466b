// At which grains a track keeps merged items: 63/64 of the powers of four, so that a tile whose grain is a power of two takes a level that is
// finer by more than clocks drift, and nothing that is longer than the tile's grain was merged.

/** Level 3 has a grain of 63 ns, level 26 one of 51 days. */
export const finestLevel = 3;
export const coarsestLevel = 26;

/** ns. */
export const grainOf = (level: number): number => 63 * 4 ** (level - 3);

/** Times the mean distance of a block's events, from which on merging them pays. */
const spacings = 4;

/** The finest level worth keeping for events `spacing` ns apart. */
export function levelFor(spacing: number): number {
  let level = finestLevel;
  while (level < coarsestLevel && grainOf(level) < spacings * spacing) level++;
  return level;
}
