import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { twoMachines } from '../../packages/trace/src/testing/two-machines.ts';
import { type ClockMessage, type ExactLine, hullLine, type Point, type Rational, separatingLines } from './clock-hull.ts';

describe('hullLine', () => {
  const isEqual = (a: Rational, b: Rational): boolean => a.numerator * b.denominator === b.numerator * a.denominator;

  it.each([
    [1, -59],
    [2, 0],
    [3, 240],
  ])('gives the true clock to the last digit, and puts all 46 messages in order (seed %i, %i ppm)', (seed, ppm) => {
    const { messages, epochs } = twoMachines({ seed, ppm });
    expect(messages).toHaveLength(46);
    const { slope, offset } = hullLine(messages) as ExactLine;
    const million = 1_000_000n;
    expect(isEqual(slope, { numerator: million, denominator: million + BigInt(ppm) })).toBe(true);
    // reference − other · slope, at the epochs.
    const denominator = million + BigInt(ppm);
    expect(isEqual(offset, { numerator: epochs.reference * denominator - epochs.other * million, denominator })).toBe(true);
    const scale = slope.denominator * offset.denominator;
    const onReference = (other: bigint): bigint => other * slope.numerator * offset.denominator + offset.numerator * slope.denominator;
    const inOrder = messages.filter(({ sender, sent, received }) =>
      sender === 'other' ? onReference(sent) <= received * scale : sent * scale <= onReference(received),
    );
    expect(inOrder).toHaveLength(46);
  });

  it('answers nothing when messages go one way, do not overlap or contradict each other', () => {
    const out = (sent: bigint, received: bigint): ClockMessage => ({ sender: 'reference', sent, received });
    const back = (sent: bigint, received: bigint): ClockMessage => ({ sender: 'other', sent, received });
    expect(hullLine([])).toBeUndefined();
    expect(hullLine([out(0n, 5n), out(10n, 15n)])).toBeUndefined();
    expect(hullLine([out(0n, 5n), out(1n, 6n), back(10n, 12n)])).toBeUndefined();
    // Clocks 100 apart, then 0 apart.
    expect(hullLine([out(0n, 105n), back(106n, 10n), out(20n, 25n), back(26n, 30n), out(40n, 145n), back(146n, 50n)])).toBeUndefined();
  });
});

describe('separatingLines', () => {
  const coordinate = fc.bigInt(-30n, 30n);
  const cloud = fc.array(fc.record({ x: coordinate, y: coordinate }), { minLength: 1, maxLength: 12 });
  const seed = 20260419;

  /** Distance in y that lines of the slope leave between the clouds: over all points, not only those of a hull. */
  const margin = (upper: readonly Point[], lower: readonly Point[], { numerator, denominator }: Rational): number => {
    const height = ({ x, y }: Point): number => Number(y * denominator - numerator * x) / Number(denominator);
    return Math.min(...upper.map(height)) - Math.max(...lower.map(height));
  };
  const slopesBetween = (points: readonly Point[]): Rational[] =>
    points.flatMap((a) => points.filter((b) => b.x > a.x).map((b) => ({ numerator: b.y - a.y, denominator: b.x - a.x })));
  const value = ({ numerator, denominator }: Rational): number => Number(numerator) / Number(denominator);

  it('finds the widest line that trying every slope finds', () => {
    fc.assert(
      fc.property(cloud, cloud, (upper, lower) => {
        const lines = separatingLines(upper, lower);
        fc.pre(lines !== undefined);
        const { slope, offset } = lines.widest;
        const best = Math.max(...slopesBetween([...upper, ...lower]).map((each) => margin(upper, lower, each)));
        expect(margin(upper, lower, slope)).toBeCloseTo(best, 9);
        // In the middle: as far below the upper cloud as above the lower one.
        const above = Math.min(...upper.map(({ x, y }) => Number(y) - value(slope) * Number(x) - value(offset)));
        expect(above).toBeCloseTo(best / 2, 9);
      }),
      { seed, numRuns: 500 },
    );
  });

  it('finds the extreme lines that trying every pair of points finds', () => {
    const apart = cloud.map((points) => points.map(({ x, y }) => ({ x, y: y + 25n })));
    let separable = 0;
    fc.assert(
      fc.property(apart, cloud, (upper, lower) => {
        const lines = separatingLines(upper, lower);
        fc.pre(lines !== undefined);
        const feasible = upper
          .flatMap((a) => lower.filter((b) => b.x !== a.x).map((b) => slopesBetween([a, b])[0] as Rational))
          .filter((slope) => margin(upper, lower, slope) >= -1e-9)
          .map(value);
        if (lines.extremes === undefined) {
          expect(feasible).toEqual([]);
          return;
        }
        separable++;
        expect(value(lines.extremes.flattest.slope)).toBe(Math.min(...feasible));
        expect(value(lines.extremes.steepest.slope)).toBe(Math.max(...feasible));
      }),
      { seed, numRuns: 500 },
    );
    expect(separable).toBeGreaterThan(50);
  });
});
