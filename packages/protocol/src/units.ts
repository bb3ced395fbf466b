// Time domains and units. Only this file casts between them.
//
// Absolute epoch nanoseconds never sit in a double (2^53 ns are 104 days: 1766000000123456789 would round to …800), so every time is
// relative to an epoch stored once, as a bigint. Comparing two domains with `<` compiles; compare through `isBefore`.

declare const domain: unique symbol;

/** A length of time in nanoseconds. */
export type Nanos = number & { readonly [domain]: 'nanos' };

/** Nanoseconds on one host's monotonic clock, relative to the rank's clock epoch (`BatchHeader.epoch`). */
export type RankTime = number & { readonly [domain]: 'rank' };

/** Nanoseconds on the run's one time axis, relative to the trace's epoch. Only `trace/align` converts a `RankTime` to it. */
export type TraceTime = number & { readonly [domain]: 'trace' };

export const nanos = (value: number): Nanos => value as Nanos;
export const rankTime = (value: number): RankTime => value as RankTime;
export const traceTime = (value: number): TraceTime => value as TraceTime;

/** Whether `a` is earlier than `b`; both of one time domain. */
export function isBefore<T extends RankTime | TraceTime>(a: T, b: T): boolean {
  return a < b;
}

export const nanosPerMs = 1e6;
export const nanosPerSecond = 1e9;
