// Every bound of what a comparison of two runs may keep, with its unit last.

export const compareLimits = {
  /** Names (with kind, device and group) of one run, 4 to 7 KiB each; spans with further ones are counted together and left out of the comparison. */
  compareNamesMax: 16_384,
  /** Sums of single ranks, 16 bytes each, over all names of one run; names beyond have no ranks of their own. */
  compareRankSumsMax: 1_048_576,
  /** Steps that wait for their last rank; then the oldest is closed with the ranks that it has, and a later part counts in sums alone. */
  compareStepsPendingMax: 32,
  /** The same where hosts run ahead of their devices: steps whose device work is still to come. */
  compareLaunchedStepsPendingMax: 512,
  /** Ranks of one name that differ most, in a result. */
  compareRanksShownMax: 8,
  /** Names of a result, those with the largest difference; the rest is counted. */
  compareRowsMax: 4096,
} as const;
