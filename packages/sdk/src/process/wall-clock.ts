// The wall clock beside the monotonic one. Date.now() has whole milliseconds, so we read the pair where it ticks over:
//
//   monotonic  before ──── after          width = after − before, some 100 ns
//   Date.now()   …122 │ …123              at the tick it is 123.000000
//
// Spins for up to a millisecond; once per 10 s, in the worker.

export interface WallClockReading {
  /** Monotonic clock, ns. */
  readonly time: bigint;
  /** How long the paired reading took, ns. */
  readonly widthNs: number;
  readonly unixMs: number;
}

const spinNsMax = 3_000_000n;

export function readWallClock(monotonicNs: () => bigint, unixMs: () => number): WallClockReading {
  const first = unixMs();
  const start = monotonicNs();
  let before = start;
  for (;;) {
    const now = unixMs();
    const after = monotonicNs();
    const gaveUp = after - start > spinNsMax; // A clock that was stepped back or stands still.
    if (now !== first || gaveUp) {
      const width = gaveUp && now === first ? after - start : after - before;
      return { time: after - width / 2n, widthNs: Number(width), unixMs: now };
    }
    before = after;
  }
}
