import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { LastResort } from './last-resort.ts';

const second = 1e9;
const conflict = { time: 10 * second, hosts: [0, 1], slack: 50e3, isAtStep: false };

describe('LastResort', () => {
  it('moves an effect just after its cause, and lets what follows catch up', () => {
    const resort = new LastResort(2, [conflict]);
    resort.message(0, 5 * second, 1, 5 * second - 40e3);
    resort.end();
    const received = 5 * second - 40e3;
    expect(resort.shift(1, received - 6)).toBe(0);
    expect(resort.shift(1, received)).toBeCloseTo(40_200);
    expect(resort.shift(1, received + 2e6)).toBeCloseTo(20_200);
    expect(resort.shift(1, received + 5e6)).toBe(0);
    expect(resort.shift(0, 5 * second)).toBe(0);
    expect(resort.shifted(1)).toEqual([
      { from: received - 5, until: expect.closeTo(received + 4_020_000, 0), most: expect.closeTo(40_200, 0) },
    ]);
  });

  it('leaves alone what is far from any conflict', () => {
    const resort = new LastResort(2, [conflict]);
    resort.message(0, 50 * second, 1, 50 * second - 40e3);
    resort.end();
    expect(resort.shifted(1)).toEqual([]);
  });

  it('shifts no further than the conflicts explain, where each shift asks for another', () => {
    const resort = new LastResort(2, [conflict]);
    for (let at = 5 * second; at < 5.01 * second; at += 10e3) {
      resort.message(0, at, 1, at - 40e3);
      resort.message(1, at - 35e3, 0, at);
    }
    resort.end();
    const most = Math.max(...[0, 1].flatMap((clock) => resort.shifted(clock).map((stretch) => stretch.most)));
    expect(most).toBeGreaterThan(40e3);
    expect(most).toBeLessThanOrEqual(2 * (2 * conflict.slack + 200) + 1);
  });

  it('leaves no message reversed, however they depend on each other (seed 3)', () => {
    const time = fc.integer({ min: 4_000_000, max: 6_000_000 });
    const message = fc.tuple(fc.nat({ max: 3 }), time, fc.nat({ max: 3 }), fc.integer({ min: -50_000, max: 400_000 }));
    fc.assert(
      fc.property(fc.array(message, { maxLength: 60 }), (messages) => {
        const resort = new LastResort(4, [conflict]);
        // This ends: each message is received later than the one before was sent, so no cycle of effects takes no time.
        const seen = messages.map(([from, sent, to, way], index) => {
          const at = sent * 1000 + index * 1e6;
          return { from, sent: at, to, received: at + way };
        });
        for (const { from, sent, to, received } of seen) resort.message(from, sent, to, received);
        resort.end();
        for (const { from, sent, to, received } of seen) {
          if (from === to) continue;
          expect(received + resort.shift(to, received)).toBeGreaterThanOrEqual(sent + resort.shift(from, sent));
        }
      }),
      { seed: 3, numRuns: 200 },
    );
  });
});
