import { expect, it } from 'vitest';
import { type ClockEvidence, fitClocks } from './fit-clocks.ts';

/** Evidence of `count` hosts without pings, each with events and a step that no other has; `reads`: how often shared events were read. */
function strangers(count: number): { readonly evidence: readonly ClockEvidence[]; readonly reads: () => number } {
  let reads = 0;
  const evidence = Array.from({ length: count }, (_, rank): ClockEvidence => {
    const own = new Map([[`${rank}`, { start: 10, end: 20 }]]);
    const times = new Map([[`${rank}`, 10]]);
    const shared = { collectives: own, clients: own, servers: new Map(), sends: times, receives: new Map(), steps: new Map([[rank, 5]]) };
    return {
      ...{ rank, host: `host-${rank}`, epoch: 1000n, samples: [], wallClock: { time: 0, unix: 1_766_000_000_000_000_000n }, until: 100 },
      get shared() {
        reads++;
        return shared;
      },
    };
  });
  return { evidence, reads: () => reads };
}

it('hosts that share nothing are not asked one by one: of ten times as many, ten times as much is looked at', () => {
  const looked = [300, 3000].map((count) => {
    const { evidence, reads } = strangers(count);
    fitClocks(evidence);
    return reads() / count;
  });
  expect(looked[1]).toBeLessThan(1.5 * (looked[0] as number));
});
