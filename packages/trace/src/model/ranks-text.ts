// Ranks in a sentence, no more of them than a line has room for.

/** `0, 1, 2 and 5 more`. */
export function rankNumbersText(ranks: readonly number[], shownMax: number): string {
  const more = ranks.length - shownMax;
  return `${ranks.slice(0, shownMax).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

/** `rank 3`, `ranks 0, 1, 2 and 5 more`. */
export const ranksText = (ranks: readonly number[], shownMax = 8): string =>
  `rank${ranks.length === 1 ? '' : 's'} ${rankNumbersText(ranks, shownMax)}`;
