// Every bound of what is remembered and told of steps, with its unit last.

export const stepLimits = {
  /** Bins of steps of all processes of a run together, about 60 bytes each with three phases; with more steps, bins hold 2, 4, 8, … of them. */
  stepBinsMax: 2_097_152,
  /** Bins of one process, however few there are: so many steps are each known by themselves. */
  stepBinsPerProcessMax: 65_536,
  /** Bins that a process has at least, however many there are. */
  stepBinsPerProcessMin: 64,
  /** Named phases of one process's steps, and of an overview; further ones are part of the rest of the step. */
  stepPhasesMax: 16,
  /** Cells of an overview's heat map: of many ranks, fewer bins are told. */
  overviewCellsMax: 262_144,
} as const;
