import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Random } from '../simulate/random.ts';
import { ClockCoupling, type CoupledHosts } from './clock-coupling.ts';
import { LastResort } from './last-resort.ts';
import { axis } from './solve-constraints.ts';

const second = 1e9;

/** Hosts with limits of ± `open` ns by their pings. */
const hostsOf = (count: number, open = 200e3, reference = axis): CoupledHosts => ({
  count,
  reference,
  hub: 0,
  limits: () => ({ lower: -open, upper: open }),
  spread: () => open,
});

/** A collective each 100 ms of [0, seconds): every host enters within a ms and leaves at once; clocks are `shifts` ns ahead. */
function addCollectives(
  coupling: ClockCoupling,
  group: string,
  hosts: readonly number[],
  shifts: readonly number[],
  seconds: number,
): void {
  for (let time = 0; time < seconds * second; time += 0.1 * second) {
    const entries = hosts.map((host, place) => time - 1e6 + place * 100e3 + (shifts[host] as number));
    const exits = hosts.map((host) => time + 300e3 + (shifts[host] as number));
    coupling.collective(group, hosts, entries, exits);
  }
}

const correctionsAt = (coupling: ClockCoupling, count: number, time: number): number[] =>
  Array.from({ length: count }, (_, host) => Math.round(coupling.correction(host, time)));

describe('exits of collectives', () => {
  it('bring hosts together about their mean', () => {
    const coupling = new ClockCoupling(hostsOf(3));
    addCollectives(coupling, 'world', [0, 1, 2], [30e3, -10e3, 10e3], 60);
    coupling.end();
    expect(correctionsAt(coupling, 3, 33 * second)).toEqual([-20e3, 20e3, 0]);
  });

  it('leave the reference where it is', () => {
    const coupling = new ClockCoupling(hostsOf(3, 200e3, 1));
    addCollectives(coupling, 'world', [0, 1, 2], [30e3, 0, 10e3], 60);
    coupling.end();
    expect(correctionsAt(coupling, 3, 33 * second)).toEqual([-30e3, 0, -10e3]);
  });

  it('of groups that share hosts are fitted together', () => {
    const coupling = new ClockCoupling(hostsOf(4, 200e3, 0));
    const shifts = [0, 40e3, -20e3, 60e3];
    for (let time = 0; time < 60; time += 10) {
      for (const [group, hosts] of [
        ['a', [0, 1]],
        ['b', [1, 2]],
        ['c', [2, 3]],
      ] as const) {
        for (let at = time * second; at < (time + 10) * second; at += 0.1 * second) {
          const exits = hosts.map((host) => at + 300e3 + (shifts[host] as number));
          coupling.collective(
            group,
            hosts,
            exits.map((exit) => exit - 1e6),
            exits,
          );
        }
      }
    }
    coupling.end();
    for (const [host, shift] of shifts.entries()) expect(Math.abs(coupling.correction(host, 25 * second) + shift)).toBeLessThan(500);
  });

  it('never go beyond what pings prove', () => {
    const coupling = new ClockCoupling(hostsOf(2, 5e3));
    addCollectives(coupling, 'world', [0, 1], [30e3, -30e3], 30);
    coupling.end();
    expect(correctionsAt(coupling, 2, 11 * second)).toEqual([-5e3, 5e3]);
  });

  it.each([2, 3, 4, 5])('that scatter far more than the clocks of %i hosts are apart tell them apart all the same (seed 3)', (count) => {
    const random = new Random(3, count);
    const coupling = new ClockCoupling(hostsOf(count, 600e3));
    const shifts = Array.from({ length: count }, (_, host) => (host - (count - 1) / 2) * 60e3);
    for (let time = 0; time < 30 * second; time += 0.05 * second) {
      const exits = shifts.map((shift) => time + 900e3 + shift + random.exponential(200e3));
      const entries = shifts.map((shift) => time - 2e6 + shift);
      coupling.collective('world', [...shifts.keys()], entries, exits);
    }
    coupling.end();
    for (const [host, shift] of shifts.entries()) expect(Math.abs(coupling.correction(host, 11 * second) + shift)).toBeLessThan(40e3);
  });

  it('that scatter more than pings leave open say next to nothing', () => {
    const coupling = new ClockCoupling(hostsOf(2, 5e3));
    for (let index = 0; index < 300; index++) {
      const time = index * 0.1 * second;
      coupling.collective('world', [0, 1], [time - 2e6, time - 2e6], [time + ((index * 7) % 11) * 10e3, time + ((index * 5) % 11) * 10e3]);
    }
    coupling.end();
    for (const host of [0, 1]) expect(Math.abs(coupling.correction(host, 11 * second))).toBeLessThan(1e3);
  });
});

/** Messages between clocks with true shifts within the limits by pings. */
const clusters = fc.record({
  shifts: fc.array(fc.integer({ min: -150_000, max: 150_000 }), { minLength: 4, maxLength: 4 }),
  messages: fc.array(
    fc.record({
      from: fc.nat({ max: 3 }),
      to: fc.nat({ max: 3 }),
      time: fc.integer({ min: 0, max: 60_000_000_000 }),
      way: fc.integer({ min: 400, max: 200_000 }),
    }),
    { maxLength: 200 },
  ),
});

describe('messages', () => {
  it('are never reversed once clocks are corrected, when some clocks exist that send none back in time (seed 7)', () => {
    fc.assert(
      fc.property(clusters, ({ shifts, messages }) => {
        const coupling = new ClockCoupling(hostsOf(4));
        const seen = messages
          .map(({ from, to, time, way }) => ({
            from,
            to,
            sent: time + (shifts[from] as number),
            received: time + way + (shifts[to] as number),
          }))
          .sort((a, b) => Math.min(a.sent, a.received) - Math.min(b.sent, b.received));
        for (const { from, sent, to, received } of seen) coupling.message(from, sent, to, received);
        coupling.end();
        expect([coupling.conflicts, coupling.refuted, coupling.late]).toEqual([[], 0, 0]);
        for (const { from, sent, to, received } of seen) {
          if (from === to) continue;
          expect(sent + coupling.correction(from, sent)).toBeLessThanOrEqual(received + coupling.correction(to, received));
        }
      }),
      { seed: 7, numRuns: 200 },
    );
  });

  it('that went both ways place clocks in the middle of what they leave open', () => {
    const coupling = new ClockCoupling(hostsOf(2, 600e3));
    // Host 1 is 200 µs behind; a call takes 50 µs there and back, and now and then a ms more.
    for (let call = 0; call < 600; call++) {
      const time = call * 0.05 * second;
      const [there, back] = [50e3 + (call % 7) * 1e6, 50e3 + (call % 5) * 1e6];
      coupling.message(0, time, 1, time + there - 200e3);
      coupling.message(1, time + there + 30e3 - 200e3, 0, time + there + 30e3 + back);
    }
    coupling.end();
    const apart = coupling.correction(1, 11 * second) - coupling.correction(0, 11 * second);
    expect(Math.abs(apart - 200e3)).toBeLessThan(2e3);
  });

  it('that pings refute are counted and not believed', () => {
    const coupling = new ClockCoupling(hostsOf(2, 100e3));
    coupling.message(0, 5 * second, 1, 5 * second - 300e3);
    coupling.end();
    expect([coupling.refuted, correctionsAt(coupling, 2, 5 * second)]).toEqual([1, [0, 0]]);
  });

  it('that contradict each other are reported with their hosts, and with how far some stay reversed', () => {
    const coupling = new ClockCoupling(hostsOf(3));
    coupling.message(0, 5 * second, 1, 5 * second - 40e3);
    coupling.message(1, 5 * second, 2, 5 * second - 40e3);
    coupling.message(2, 5 * second, 0, 5 * second - 40e3);
    coupling.end();
    expect(coupling.conflicts.length).toBeGreaterThan(0);
    for (const { hosts, slack } of coupling.conflicts) {
      expect([...hosts].sort()).toEqual([0, 1, 2]);
      expect(Math.abs(slack - 40_200)).toBeLessThan(200);
    }
  });
});

describe('a coupling', () => {
  it('does not change what it has solved, whatever comes later (seed 9)', () => {
    fc.assert(
      fc.property(clusters, fc.integer({ min: 0, max: 60 }), ({ shifts }, until) => {
        const feed = (seconds: number): ClockCoupling => {
          const coupling = new ClockCoupling(hostsOf(4));
          addCollectives(coupling, 'world', [0, 1, 2, 3], shifts, seconds);
          return coupling;
        };
        const [part, whole] = [feed(until), feed(60)];
        const solved = part.knots;
        whole.end();
        for (const time of solved) expect(correctionsAt(part, 4, time)).toEqual(correctionsAt(whole, 4, time));
      }),
      { seed: 9, numRuns: 20 },
    );
  });

  it('ends, with finite corrections, whatever times it is given (seed 11)', () => {
    const time = fc.oneof(fc.double(), fc.integer({ min: -1e12, max: 1e12 }), fc.constantFrom(2 ** 53, -(2 ** 53), 1e308, Number.NaN));
    const host = fc.nat({ max: 2 });
    const message = fc.tuple(host, time, host, time);
    const collective = fc.tuple(
      fc.string({ maxLength: 2 }),
      fc.array(time, { minLength: 3, maxLength: 3 }),
      fc.array(time, { minLength: 3, maxLength: 3 }),
    );
    fc.assert(
      fc.property(fc.array(message), fc.array(collective), fc.double(), (messages, collectives, open) => {
        const coupling = new ClockCoupling(hostsOf(3, Math.abs(open)));
        for (const [from, sent, to, received] of messages) coupling.message(from, sent, to, received);
        for (const [group, entries, exits] of collectives) coupling.collective(group, [0, 1, 2], entries, exits);
        coupling.end();
        const resort = new LastResort(3, coupling.conflicts);
        for (const [from, sent, to, received] of messages) resort.message(from, sent, to, received);
        resort.end();
        for (const at of [-1e12, 0, 1e12]) {
          for (const of of [0, 1, 2]) {
            expect(Number.isFinite(coupling.correction(of, at))).toBe(true);
            expect(resort.shift(of, at)).toBeGreaterThanOrEqual(0);
          }
        }
      }),
      { seed: 11, numRuns: 300 },
    );
  });
});
