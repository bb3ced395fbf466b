// Counts of loss: the only code that combines two of them. A sender's counts only grow over its life, and each batch carries all of them.

import type { Dropped } from './batch.ts';

const counters = ['events', 'arguments', 'names', 'batches'] as const satisfies readonly (keyof Dropped)[];

/** Counts without any loss. */
export const noneDropped: Dropped = { events: 0, arguments: 0, names: 0, batches: 0 };

/** Joins the counts of two batches of one life, in any order. */
export const mostDropped = (a: Dropped, b: Dropped): Dropped => joined(a, b, Math.max);

/** Adds the counts of two lives; the sum stays a count of the schema, whatever lives say of themselves. */
export const sumDropped = (a: Dropped, b: Dropped): Dropped => joined(a, b, countSum);

/** Losses of one life since it had lost `before`. */
export const lessDropped = (now: Dropped, before: Dropped): Dropped => joined(now, before, (a, b) => Math.max(0, a - b));

/** The sum of two counts, at most the largest count that messages hold. */
export const countSum = (one: number, other: number): number => Math.min(Number.MAX_SAFE_INTEGER, one + other);

function joined(a: Dropped, b: Dropped, join: (a: number, b: number) => number): Dropped {
  const both = { ...a };
  for (const counter of counters) both[counter] = join(a[counter], b[counter]);
  return both;
}
