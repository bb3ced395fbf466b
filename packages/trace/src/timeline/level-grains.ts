// The grains at which a track keeps merged items: 63/64 of the powers of four. A tile with a power of two as its grain then takes a level finer
// by more than clocks drift, so that no merged event is longer than the tile's grain.

/** Level 3 has a grain of 63 ns, level 26 one of 51 days. */
export const finestLevel = 3;
export const coarsestLevel = 26;

/** Grain of a level, ns. */
export const grainOf = (level: number): number => 63 * 4 ** (level - 3);

/** Merging pays from this many mean distances of a block's events on. */
const spacings = 4;

/** The finest level worth keeping for events `spacing` ns apart. */
export function levelFor(spacing: number): number {
  let level = finestLevel;
  while (level < coarsestLevel && grainOf(level) < spacings * spacing) level++;
  return level;
}
