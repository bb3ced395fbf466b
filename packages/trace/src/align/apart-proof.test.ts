import { describe, expect, it } from 'vitest';
import { Random } from '../simulate/random.ts';
import { ApartEvidence, ApartProof, type AxisClock } from './apart-proof.ts';

const second = 1e9;
const drift = 50e-6;

/** A clock that shows the axis, less `offset`. */
const clockOf = (offset: number, more: Partial<AxisClock> = {}): AxisClock => ({
  drift,
  toHost: (time) => time - offset,
  boundAt: () => 0,
  wiggle: () => 0,
  mayStep: () => false,
  ...more,
});
const hub = clockOf(0, { drift: 0 });

/** Calls from the hub to host 1 and back, ten a second over [from, until) s: each way takes `way` ns; the axis shows host 1 `early` ns too early. */
function addCalls(evidence: ApartEvidence, from: number, until: number, way: number, early: (time: number) => number): void {
  for (let time = from * second; time < until * second; time += second / 10) {
    evidence.add(0, time, 1, time + way - early(time));
    evidence.add(1, time + way - early(time), 0, time + 2 * way);
  }
}

/** Limits, as the least and the most by which host 1 is shown too early. */
const earlyAt = (proof: ApartProof, time: number, offset: number): readonly [number, number] => {
  const { lower, upper } = proof.at(time * second);
  return [lower - offset, upper - offset];
};

describe('two clocks', () => {
  it('are known to half of a call both ways, and what they may drift since: 50 µs in a second', () => {
    const evidence = new ApartEvidence(2, 0);
    addCalls(evidence, 0, 10, 60_000, () => 7000);
    const [least, most] = earlyAt(new ApartProof(evidence, 1, clockOf(3e6), hub), 5.2, 3e6);
    // Cells of 0.5 s: the nearest whole one is 0.55 s away, and its messages half a second from its middle.
    expect([least, most]).toEqual([expect.closeTo(7000 - 60_000 - 50 * 1050, -2), expect.closeTo(7000 + 60_000 + 50 * 1050, -2)]);
  });

  it('are known the worse, the longer they did nothing together; and beyond all of it', () => {
    const evidence = new ApartEvidence(2, 0);
    addCalls(evidence, 0, 10, 60_000, () => 0);
    addCalls(evidence, 30, 40, 60_000, () => 0);
    const proof = new ApartProof(evidence, 1, clockOf(0), hub);
    const widths = [8, 12, 20, 41, 60].map((time) => {
      const [least, most] = earlyAt(proof, time, 0);
      expect(least).toBeLessThanOrEqual(0);
      return most - least;
    });
    expect(widths.map((width) => Math.round(width / 100_000))).toEqual([2, 20, 12, 3, 22]);
  });

  it('may step unnoticed: the limits of either side hold', () => {
    const evidence = new ApartEvidence(2, 0);
    const early = (time: number): number => (time < 5.03 * second ? 0 : 12_000);
    addCalls(evidence, 0, 10, 20_000, early);
    const proof = new ApartProof(evidence, 1, clockOf(0), hub);
    for (let time = 0; time < 10; time += 0.01) {
      const [least, most] = earlyAt(proof, time, 0);
      expect(least).toBeLessThanOrEqual(early(time * second));
      expect(most).toBeGreaterThanOrEqual(early(time * second));
    }
  });

  it('that may have stepped are not known from the other side of the step', () => {
    const evidence = new ApartEvidence(2, 0);
    addCalls(evidence, 0, 4, 20_000, () => 0);
    addCalls(evidence, 6, 10, 20_000, () => 3e6);
    const stepped = clockOf(0, { mayStep: (from, until) => from <= 5 * second && until >= 5 * second });
    const proof = new ApartProof(evidence, 1, stepped, hub);
    expect(earlyAt(proof, 5, 0)).toEqual([Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY]);
    expect(earlyAt(proof, 2, 0)[1]).toBeLessThan(100_000);
    expect(earlyAt(proof, 8, 0)[0]).toBeGreaterThan(2.9e6);
  });

  it('whose messages contradict each other are not known there', () => {
    const evidence = new ApartEvidence(2, 0);
    addCalls(evidence, 0, 10, 20_000, () => 0);
    // Arrived 5 ms before it was sent.
    evidence.add(0, 4.2 * second, 1, 4.195 * second);
    evidence.add(1, 4.2 * second, 0, 4.195 * second);
    const proof = new ApartProof(evidence, 1, clockOf(0), hub);
    for (const time of [3.8, 4.6]) expect(earlyAt(proof, time, 0)[1]).toBe(Number.POSITIVE_INFINITY);
    for (const time of [2, 7]) expect(earlyAt(proof, time, 0)[1]).toBeLessThan(120_000);
  });
});

it('evidence of weeks takes bounded memory, and still holds', () => {
  const hosts = 512;
  const evidence = new ApartEvidence(hosts, 0);
  const random = new Random(9);
  for (let minute = 0; minute < 60 * 24 * 21; minute++) {
    const time = minute * 60 * second;
    evidence.add(0, time, 1, time + random.uniform(20_000, 90_000));
    evidence.add(1, time, 0, time + random.uniform(20_000, 90_000));
  }
  expect(evidence.held.numbers.length).toBeLessThanOrEqual(4096);
  const [least, most] = earlyAt(new ApartProof(evidence, 1, clockOf(0), hub), 60 * 60 * 24 * 10, 0);
  expect(least).toBeLessThan(0);
  expect(most).toBeGreaterThan(0);
  expect(most).toBeLessThan(2 * second);
});

it('a proof that was made before cells became longer still holds', () => {
  const evidence = new ApartEvidence(1 << 20, 0);
  evidence.add(0, 0.2 * second, 1, 0.2 * second + 50_000);
  evidence.add(1, 0.2 * second, 0, 0.2 * second + 50_000);
  const before = new ApartProof(evidence, 1, clockOf(0), hub);
  // Host 1 has stepped by 3 ms since.
  for (const time of [0.7, 5.2, 9.7]) {
    evidence.add(0, time * second, 1, time * second + 50_000 - 3e6);
    evidence.add(1, time * second - 3e6, 0, time * second + 50_000);
  }
  expect(evidence.held.cellNs).toBeGreaterThan(0.5 * second);
  const [least, most] = earlyAt(before, 0.25, 0);
  expect(least).toBeLessThanOrEqual(0);
  expect(most).toBeGreaterThanOrEqual(0);
});

it('evidence between others than the hub, and over long times, does not count', () => {
  const evidence = new ApartEvidence(3, 0);
  evidence.add(1, 0, 2, 5000);
  evidence.add(0, 0, 0, 5000);
  evidence.add(0, 0, 1, second);
  expect(evidence.held.numbers.length).toBe(0);
});
