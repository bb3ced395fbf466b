// Every bound of step-time detection, with its unit last.

export const detectLimits = {
  /** Step times of one block, also after it was doubled for a noisy series. */
  detectBlockStepsMax: 64,
  /** Blocks that a series remembers: reference and widest recent window together. */
  detectBlocksMax: 256,
  /** The last blocks whose first step numbers are known exactly; an onset further back is told from the mean steps of a block. */
  detectOnsetBlocksMax: 16,
  /** Characters of one line of a recorded series. */
  seriesLineCharsMax: 65_536,
  /** Columns of a recorded series. */
  seriesColumnsMax: 1024,
  /** Findings that `ranktrace detect` prints of one series; further ones are counted. */
  seriesFindingsMax: 10_000,
} as const;
