import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { messageClocks, rankWithout as rankOf } from '../testing/message-clocks.ts';
import { twoMachines } from '../testing/two-machines.ts';
import { ClusterClocks } from './fit-clocks.ts';

const second = 1e9;

const methodsOf = (clocks: ClusterClocks): string[] => clocks.fitted().clocks.map(({ model }) => model.alignment.method);

describe.each([
  [1, -59],
  [2, 41],
  [3, 0],
])('packets of two machines (seed %i, %i ppm apart)', (seed, ppm) => {
  const { messages, epochs, otherAt } = twoMachines({ seed, ppm, seconds: 8 });
  const packets = messages.map(({ sender, sent, received }) => {
    const [from, to] = sender === 'reference' ? [0, 1] : [1, 0];
    const [mine, theirs] = from === 0 ? [epochs.reference, epochs.other] : [epochs.other, epochs.reference];
    return { from, sent: Number(sent - mine), to, received: Number(received - theirs) };
  });
  const clocks = messageClocks(packets, [epochs.reference, epochs.other]);

  it('come out in order, 46 of 46', () => {
    expect(packets.length).toBe(46);
    expect(clocks.methods).toEqual(['exact', 'messages']);
    expect([clocks.conflicts, clocks.refuted]).toEqual([[], 0]);
    expect(clocks.inOrder).toBe(46);
  });

  it('show the true drift, and the true offset within the bound', () => {
    const truth = Array.from({ length: 9 }, (_, index) => index * second);
    const errors = truth.map((time) => clocks.toTrace(1, otherAt(time)) - clocks.toTrace(0, time));
    expect(Math.max(...errors.map(Math.abs))).toBeLessThanOrEqual(clocks.bound ?? 0);
    // Only the least delay of 60 µs separates one direction from the other.
    expect(Math.max(...errors.map(Math.abs))).toBeLessThan(60e3);
    expect(Math.abs((errors.at(-1) as number) - (errors[0] as number)) / (8 * second)).toBeLessThan(12e-6);
  });
});

describe('hosts without pings', () => {
  /** Host 1 is 5 s ahead. */
  const ahead = 5 * second;
  const times = Array.from({ length: 40 }, (_, index) => second + index * 0.05 * second);
  const errorOf = (clocks: ClusterClocks): number =>
    Math.abs((clocks.fitted().clocks[1]?.clock.toTrace(2 * second + ahead) ?? 0) - 2 * second);

  it('are placed by sends in both directions', () => {
    const [to, back] = [times.filter((_, index) => index % 2 === 0), times.filter((_, index) => index % 2 === 1)];
    const clocks = new ClusterClocks([
      rankOf(0, {
        sends: new Map(to.map((time) => [`to ${time}`, time])),
        receives: new Map(back.map((time) => [`back ${time}`, time + 80e3])),
      }),
      rankOf(1, {
        receives: new Map(to.map((time) => [`to ${time}`, time + ahead + 80e3])),
        sends: new Map(back.map((time) => [`back ${time}`, time + ahead])),
      }),
    ]);
    expect(methodsOf(clocks)).toEqual(['exact', 'messages']);
    expect(errorOf(clocks)).toBeLessThan(2000);
    expect(errorOf(clocks)).toBeLessThanOrEqual(clocks.fitted().clocks[1]?.model.alignment.bound ?? 0);
  });

  it('are placed by remote calls, whichever side they were on', () => {
    const calls = (start: number, length: number, shift: number) =>
      new Map(times.map((time) => [`${time}`, { start: time + start + shift, end: time + start + length + shift }]));
    for (const clientFirst of [true, false]) {
      const [client, server] = [calls(0, 1e6, clientFirst ? 0 : ahead), calls(100e3, 800e3, clientFirst ? ahead : 0)];
      const pair = [
        rankOf(0, clientFirst ? { clients: client } : { servers: server }),
        rankOf(1, clientFirst ? { servers: server } : { clients: client }),
      ];
      const clocks = new ClusterClocks(pair);
      expect(methodsOf(clocks)).toEqual(['exact', 'messages']);
      expect(errorOf(clocks)).toBeLessThan(2000);
    }
  });

  it('are placed through another host where they share nothing with the reference', () => {
    const meet = (shift: number) => new Map(times.map((time) => [`a ${time}`, { start: time + shift - 1e6, end: time + shift }]));
    const other = (shift: number) => new Map(times.map((time) => [`b ${time}`, { start: time + shift - 1e6, end: time + shift }]));
    const clocks = new ClusterClocks([
      rankOf(0, { collectives: meet(0) }),
      rankOf(1, { collectives: other(ahead) }),
      rankOf(2, { collectives: new Map([...meet(7e9), ...other(7e9)]) }),
    ]);
    expect(methodsOf(clocks)).toEqual(['exact', 'messages', 'messages']);
    expect(errorOf(clocks)).toBeLessThan(2000);
    const [, far, near] = clocks.fitted().clocks.map(({ model }) => model.alignment.bound ?? 0);
    expect(far).toBeGreaterThan(near ?? 0);
  });

  it('are placed by their steps where that is all they share, without a bound', () => {
    const steps = (shift: number) => new Map(times.map((time, step) => [step, time + shift]));
    const clocks = new ClusterClocks([rankOf(0, { steps: steps(0) }), rankOf(1, { steps: steps(ahead) })]);
    expect(methodsOf(clocks)).toEqual(['exact', 'unaligned']);
    expect(errorOf(clocks)).toBe(0);
    expect(clocks.fitted().clocks[1]?.model.alignment.bound).toBeUndefined();
  });

  it('are placed somewhere, whatever they claim to share (seed 13)', () => {
    const time = fc.oneof(
      fc.double(),
      fc.integer({ min: 0, max: 1e10 }),
      fc.constantFrom(2 ** 53, -1, 1e308, Number.NaN, Number.POSITIVE_INFINITY),
    );
    const key = fc.constantFrom('a', 'b', 'c', 'd');
    const intervals = fc.array(fc.tuple(key, fc.record({ start: time, end: time }))).map((entries) => new Map(entries));
    const moments = fc.array(fc.tuple(key, time)).map((entries) => new Map(entries));
    const steps = fc.array(fc.tuple(fc.nat({ max: 3 }), time)).map((entries) => new Map(entries));
    const shared = fc.record({ collectives: intervals, clients: intervals, servers: intervals, sends: moments, receives: moments, steps });
    const hostUnknown = fc.boolean();
    fc.assert(
      fc.property(fc.array(fc.tuple(shared, hostUnknown, fc.bigInt({ min: 0n, max: 10n ** 20n })), { maxLength: 5 }), (given) => {
        const ranks = given.map(([what, isUnknown, epoch], rank) => ({
          ...rankOf(rank, what, epoch),
          ...(isUnknown ? { hostUnknown: true } : {}),
        }));
        const { clocks } = new ClusterClocks(ranks).fitted();
        for (const { clock, model } of clocks) {
          expect(Number.isInteger(clock.toTrace(0))).toBe(true);
          expect(model.alignment.bound ?? 0).toBeGreaterThanOrEqual(0);
        }
      }),
      { seed: 13, numRuns: 500 },
    );
  });
});
