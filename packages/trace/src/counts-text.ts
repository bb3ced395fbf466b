// Counts that a recorder sends about itself as metadata: JSON text of a map from kind to count.

/** The counts of `kinds`; undefined when the text, which comes from outside, does not hold each of them. */
export function readCounts<K extends string>(text: string | undefined, kinds: readonly K[]): Record<K, number> | undefined {
  if (text === undefined) return undefined;
  const counts = {} as Record<K, number>;
  try {
    const given = JSON.parse(text) as Record<string, unknown> | null;
    for (const kind of kinds) {
      const count = given?.[kind];
      if (typeof count !== 'number' || !Number.isSafeInteger(count) || count < 0) return undefined;
      counts[kind] = count;
    }
    return counts;
  } catch {
    return undefined;
  }
}
