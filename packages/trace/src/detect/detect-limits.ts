// Every bound of step-time detection, with its unit last.

export const detectLimits = {
  /** Step times of one block, also after it was doubled for a noisy series; a detector with larger blocks is refused (`bad_option`). */
  detectBlockStepsMax: 64,
  /** Blocks that a series remembers, reference and widest recent window together; more is refused (`bad_option`). */
  detectBlocksMax: 256,
  /** Last blocks that have exact numbers of their first steps; an onset further back is estimated from the mean steps of a block. */
  detectOnsetBlocksMax: 16,
  /** Moments of a run from which on its long steps are compared with those before, more of late than of old. */
  detectTalliesMax: 128,
  /** Characters of one line of a recorded series; a longer one is refused (`too_large`). */
  seriesLineCharsMax: 65_536,
  /** Columns of a recorded series; a file with more is refused. */
  seriesColumnsMax: 1024,
  /** Findings that `ranktrace detect` prints of one series; further ones are counted. */
  seriesFindingsMax: 10_000,
} as const;
