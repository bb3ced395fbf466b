// Relates a thread's performance.now() to the monotonic clock that all threads and ranks of a host share.
//
//   monotonic ns = zero + now() · 1e6        zero: the thread's time origin, different in every thread
//
//   hrtime a ─── now() p ─── hrtime b   ⇒   a − p ≤ zero ≤ b − p
//
// Both read CLOCK_MONOTONIC, so `zero` is constant; the intersection over many readings is some tens of ns wide.

const readings = 100;

/** Monotonic clock, ns, at which this thread's `now` was 0. `now` in ms. */
export function calibrateZero(now: () => number, monotonicNs: () => bigint): bigint {
  let low: bigint | undefined;
  let high: bigint | undefined;
  for (let reading = 0; reading < readings; reading++) {
    const before = monotonicNs();
    const passed = BigInt(Math.round(now() * 1e6));
    const after = monotonicNs();
    if (low === undefined || before - passed > low) low = before - passed;
    if (high === undefined || after - passed < high) high = after - passed;
  }
  return ((low ?? 0n) + (high ?? 0n)) / 2n;
}

/** This thread's `now()`, ms, at RankTime 0, which is `epochNs` on the monotonic clock. */
export function originOf(zeroNs: bigint, epochNs: bigint): number {
  return Number(epochNs - zeroNs) / 1e6;
}
