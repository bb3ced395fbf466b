// Counts that a recorder or reader reports as metadata: JSON text of a map from kind, or any name, to count. Untrusted input.

const namesMax = 256;

/** The counts of all names in the text, at most the first `namesMax`; empty where the text is malformed. */
export function readNamedCounts(text: string | undefined): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  if (text === undefined) return counts;
  try {
    const given: unknown = JSON.parse(text);
    if (typeof given !== 'object' || given === null) return counts;
    for (const [name, count] of Object.entries(given).slice(0, namesMax)) if (isCount(count)) counts.set(name, count);
    return counts;
  } catch {
    return counts;
  }
}

const isCount = (count: unknown): count is number => Number.isSafeInteger(count) && (count as number) >= 0;

/** The counts of `kinds`, and of `others` 0 where they are not stated; undefined when the text, which is untrusted, lacks or garbles one. */
export function readCounts<K extends string, O extends string = never>(
  text: string | undefined,
  kinds: readonly K[],
  others: readonly O[] = [],
): Record<K | O, number> | undefined {
  if (text === undefined) return undefined;
  const counts = {} as Record<K | O, number>;
  try {
    const given = JSON.parse(text) as Record<string, unknown> | null;
    for (const kind of [...kinds, ...others]) {
      const count = given?.[kind] ?? (kinds.includes(kind as K) ? undefined : 0);
      if (!isCount(count)) return undefined;
      counts[kind] = count;
    }
    return counts;
  } catch {
    return undefined;
  }
}
