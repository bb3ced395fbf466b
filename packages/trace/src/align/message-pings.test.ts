import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ClockCoupling } from './clock-coupling.ts';
import type { ClockEvidence, SharedEvents } from './clock-evidence.ts';
import { ClusterClocks } from './fit-clocks.ts';

const second = 1e9;

const nothing: SharedEvents = {
  collectives: new Map(),
  clients: new Map(),
  servers: new Map(),
  sends: new Map(),
  receives: new Map(),
  steps: new Map(),
};

const rankOf = (rank: number, shared: Partial<SharedEvents>, epoch = 0n): ClockEvidence => ({
  ...{ rank, host: `host ${rank}`, epoch, samples: [], wallClock: undefined, until: 10 * second },
  shared: { ...nothing, ...shared },
});

const methodsOf = (clocks: ClusterClocks): string[] => clocks.fitted().clocks.map(({ model }) => model.alignment.method);

describe('packets of two machines (Trace Compass’ scp trace)', () => {
  const csv = readFileSync(new URL('../../../../../shared/data/clock/scp_message_pairs.csv', import.meta.url), 'utf8');
  const machines = ['scp_src', 'scp_dest'];
  const packets = csv
    .trim()
    .split(/\r?\n/)
    .slice(1)
    .map((line, index) => {
      const [sender = '', sent, receiver = '', received] = line.split(',');
      return {
        key: `${index}`,
        from: machines.indexOf(sender),
        sent: Number(sent),
        to: machines.indexOf(receiver),
        received: Number(received),
      };
    });
  // The file's times lie some 10^13 ns after these epochs of the machines' clocks.
  const epochs = [1_361_203_559_332_331_489n, 1_361_203_569_335_098_971n];
  const ranks = epochs.map((epoch, rank) =>
    rankOf(
      rank,
      {
        sends: new Map(packets.filter(({ from }) => from === rank).map(({ key, sent }) => [key, sent])),
        receives: new Map(packets.filter(({ to }) => to === rank).map(({ key, received }) => [key, received])),
      },
      epoch,
    ),
  );

  it('come out in order, 46 of 46, with a drift that clocks can have', () => {
    expect(packets.length).toBe(46);
    const clocks = new ClusterClocks(ranks);
    expect(methodsOf(clocks)).toEqual(['exact', 'messages']);
    const coupling = new ClockCoupling(clocks.coupled);
    const alone = clocks.fitted().clocks;
    const sorted = packets
      .map(({ from, sent, to, received }) => ({
        from,
        to,
        sent: alone[from]?.clock.toTrace(sent) ?? 0,
        received: alone[to]?.clock.toTrace(received) ?? 0,
      }))
      .sort((a, b) => a.sent - b.sent);
    for (const { from, sent, to, received } of sorted) coupling.message(from, sent, to, received);
    coupling.end();
    expect([coupling.conflicts, coupling.refuted]).toEqual([[], 0]);
    const { clocks: fitted } = clocks.fitted(coupling);
    const inOrder = packets.filter(({ from, sent, to, received }) => {
      return (fitted[from]?.clock.toTrace(sent) ?? 0) <= (fitted[to]?.clock.toTrace(received) ?? 0);
    });
    expect(inOrder.length).toBe(46);
    const [first, last] = [packets[0]?.received ?? 0, packets.at(-1)?.received ?? 0];
    const map = fitted[1]?.clock;
    const drift = ((map?.toTrace(last) ?? 0) - (map?.toTrace(first) ?? 0)) / (last - first) - 1;
    expect(Math.abs(drift) * 1e6).toBeLessThan(100);
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
