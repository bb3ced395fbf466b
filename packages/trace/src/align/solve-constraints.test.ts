import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { axis, type Constraints, solveConstraints } from './solve-constraints.ts';

type Edge = readonly [from: number, to: number, least: number, isProof?: boolean];

const constraintsOf = (edges: readonly Edge[]): Constraints => ({
  from: edges.map(([from]) => from),
  to: edges.map(([, to]) => to),
  least: edges.map(([, , least]) => least),
  isProof: edges.map(([, , , isProof]) => isProof === true),
});

const missed = (corrections: Float64Array, edges: readonly Edge[]): number => {
  const at = (node: number): number => (node === axis ? 0 : (corrections[node] as number));
  return Math.max(0, ...edges.map(([from, to, least]) => least - (at(to) - at(from))));
};

describe('solveConstraints', () => {
  it('moves both sides by half of what is missing', () => {
    const { corrections, slack, cycle } = solveConstraints(Float64Array.of(0, 0), constraintsOf([[0, 1, 1000]]));
    expect([...corrections]).toEqual([-500, 500]);
    expect([slack, cycle]).toEqual([0, []]);
  });

  it('moves the other side alone where one is the axis', () => {
    expect([...solveConstraints(Float64Array.of(10), constraintsOf([[axis, 0, 1000]])).corrections]).toEqual([1000]);
    expect([...solveConstraints(Float64Array.of(10), constraintsOf([[0, axis, 1000]])).corrections]).toEqual([-1000]);
  });

  it('leaves alone what holds', () => {
    expect([...solveConstraints(Float64Array.of(3, 7), constraintsOf([[0, 1, 4]])).corrections]).toEqual([3, 7]);
  });

  it('names a cycle that cannot hold, and gives it as much slack as it needs', () => {
    const edges: Edge[] = [
      [0, 1, 1000],
      [1, 2, 1000],
      [2, 0, 1000],
      [3, 0, 50],
    ];
    const { corrections, slack, cycle } = solveConstraints(new Float64Array(4), constraintsOf(edges));
    expect([...cycle].sort()).toEqual([0, 1, 2]);
    expect(slack).toBeGreaterThan(950);
    expect(slack).toBeLessThanOrEqual(1100);
    expect(missed(corrections, edges)).toBeLessThanOrEqual(slack + 50);
  });

  it('gives no slack to proof', () => {
    const edges: Edge[] = [
      [axis, 0, -100, true],
      [0, axis, -100, true],
      [axis, 0, 5000],
    ];
    const { corrections, slack } = solveConstraints(new Float64Array(1), constraintsOf(edges));
    expect(slack).toBeGreaterThan(4850);
    expect(Math.abs(corrections[0] as number)).toBeLessThanOrEqual(150);
  });

  it('satisfies whatever can be, and finds a cycle where nothing can (seed 5)', () => {
    const count = 6;
    const node = fc.integer({ min: axis, max: count - 1 });
    const truth = fc.array(fc.integer({ min: -100_000, max: 100_000 }), { minLength: count, maxLength: count });
    const edge = fc.tuple(node, node, fc.integer({ min: 0, max: 50_000 }), fc.boolean());
    fc.assert(
      fc.property(truth, fc.array(edge, { maxLength: 40 }), (clocks, given) => {
        const at = (of: number): number => (of === axis ? 0 : (clocks[of] as number));
        const edges = given
          .filter(([from, to]) => from !== to)
          .map(([from, to, room, proof]): Edge => [from, to, at(to) - at(from) - room, proof]);
        const { corrections, slack, cycle } = solveConstraints(new Float64Array(count), constraintsOf(edges));
        expect([slack, cycle]).toEqual([0, []]);
        expect(missed(corrections, edges)).toBeLessThanOrEqual(50);
      }),
      { seed: 5, numRuns: 500 },
    );
  });
});
