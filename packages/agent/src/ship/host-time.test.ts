import { expect, it, onTestFinished, vi } from 'vitest';
import { WallClocks } from './host-time.ts';

it.each([-58_500, -1700, 0, 58_500])('goes by the wall clock as it is, once it was set by %d ms', (stepMs) => {
  let hostNs = 0n;
  let unixMs = 1_000_000;
  // Each look takes 100 ns.
  const now = (): bigint => {
    hostNs += 100n;
    return hostNs;
  };
  vi.spyOn(Date, 'now').mockImplementation(() => unixMs + Math.floor(Number(hostNs) / 1e6));
  onTestFinished(() => void vi.restoreAllMocks());
  const clocks = new WallClocks(now);
  const errors: number[] = [];
  for (let read = 0; read < 100; read++) {
    if (read === 40) unixMs += stepMs;
    clocks.read();
    hostNs += 1_000_000_000n;
    errors.push(Math.abs(clocks.unixMsOf(hostNs) - Date.now()));
    hostNs += 2_000_000_000n;
  }
  expect(Math.max(...errors)).toBeLessThan(1.1);
});
