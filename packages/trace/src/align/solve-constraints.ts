// Difference constraints between clocks: corrections c with c[to] − c[from] ≥ least for every constraint, near to a given start.
//
//   1. cyclic projection: each sweep moves both sides of a violated constraint by half of what is missing: nearly the smallest change
//   2. if that does not converge: the mean of the lowest and the highest solution (Bellman–Ford), itself a solution, as the set is convex
//   3. if there is none: some cycle of constraints cannot hold; all get the same slack, as much as makes them hold
//
// Node `axis` is the reference itself and stays at 0.

export const axis = -1;

/** Constraints on the corrections of `count` clocks, ns. `isProof`: from pings, so it never gets slack. */
export interface Constraints {
  readonly from: readonly number[];
  readonly to: readonly number[];
  readonly least: readonly number[];
  readonly isProof: readonly boolean[];
}

export interface Solution {
  readonly corrections: Float64Array;
  /** ns by which constraints may be violated; 0: all hold. */
  readonly slack: number;
  /** Clocks of a cycle that cannot hold; empty when all constraints hold. */
  readonly cycle: readonly number[];
}

const sweepsMax = 300;
/** ns by which projection may leave a constraint violated; its margin is larger. */
const tolerance = 50;
const bisections = 40;
/** Limit on either side for a clock that no constraint ties to the axis, ns: there a double still resolves eighths of a ns. */
const unbound = 1e15;

export function solveConstraints(start: Float64Array, constraints: Constraints): Solution {
  const projected = project(start, constraints, 0);
  if (projected !== undefined) return { corrections: projected, slack: 0, cycle: [] };
  const between = middleSolution(start.length, constraints, 0);
  if ('corrections' in between) return { corrections: between.corrections, slack: 0, cycle: [] };
  let [low, high] = [0, 1];
  while ('cycle' in middleSolution(start.length, constraints, high) && high < 1e18) high *= 4;
  for (let round = 0; round < bisections && high - low > tolerance; round++) {
    const middle = (low + high) / 2;
    if ('cycle' in middleSolution(start.length, constraints, middle)) low = middle;
    else high = middle;
  }
  const loosened = middleSolution(start.length, constraints, high);
  const corrections = project(start, constraints, high) ?? ('corrections' in loosened ? loosened.corrections : start.slice());
  return { corrections, slack: high, cycle: between.cycle };
}

const needed = ({ least, isProof }: Constraints, index: number, slack: number): number =>
  (least[index] as number) - (isProof[index] ? 0 : slack);

function project(start: Float64Array, constraints: Constraints, slack: number): Float64Array | undefined {
  const { from, to } = constraints;
  const corrections = start.slice();
  for (let sweep = 0; sweep < sweepsMax; sweep++) {
    let worst = 0;
    for (let index = 0; index < from.length; index++) {
      const [a, b] = [from[index] as number, to[index] as number];
      const missed = needed(constraints, index, slack) - (at(corrections, b) - at(corrections, a));
      if (missed <= 0) continue;
      worst = Math.max(worst, missed);
      if (a === axis) (corrections[b] as number) += missed;
      else if (b === axis) (corrections[a] as number) -= missed;
      else {
        (corrections[b] as number) += missed / 2;
        (corrections[a] as number) -= missed / 2;
      }
    }
    if (worst <= tolerance) return corrections;
  }
  return undefined;
}

const at = (corrections: Float64Array, node: number): number => (node === axis ? 0 : (corrections[node] as number));

/** The mean of the highest and the lowest solution, or a cycle that forbids one. A clock bound on one side alone takes that side. */
function middleSolution(count: number, constraints: Constraints, slack: number): { corrections: Float64Array } | { cycle: number[] } {
  const lowest = extreme(count, constraints, slack, 1);
  if ('cycle' in lowest) return lowest;
  const highest = extreme(count, constraints, slack, -1);
  if ('cycle' in highest) return highest;
  const corrections = lowest.values.map((low, node) => {
    const high = -(highest.values[node] as number);
    const [isLow, isHigh] = [low > -unbound / 2, high < unbound / 2];
    return isLow === isHigh ? (low + high) / 2 : isLow ? low : high;
  });
  return { corrections };
}

/** Longest paths from the axis (`sign` 1: the lowest solution; −1: the highest one, negated, along the reversed constraints). */
function extreme(count: number, constraints: Constraints, slack: number, sign: 1 | -1): { values: Float64Array } | { cycle: number[] } {
  const values = new Float64Array(count).fill(-unbound);
  const before = new Int32Array(count).fill(axis);
  const [from, to] = sign === 1 ? [constraints.from, constraints.to] : [constraints.to, constraints.from];
  let changed = axis;
  for (let round = 0; round <= count; round++) {
    changed = axis;
    for (let index = 0; index < from.length; index++) {
      const [a, b] = [from[index] as number, to[index] as number];
      const reached = (a === axis ? 0 : (values[a] as number)) + needed(constraints, index, slack);
      if (b === axis) {
        // The axis is at 0: a path that returns to it above that is a cycle that cannot hold.
        if (reached > tolerance / 2) return { cycle: wayTo(a, before) };
      } else if (reached > (values[b] as number) + 1e-6) {
        values[b] = reached;
        before[b] = a;
        changed = b;
      }
    }
    if (changed === axis) return { values };
  }
  return { cycle: cycleThrough(changed, before) };
}

function wayTo(node: number, before: Int32Array): number[] {
  const way: number[] = [];
  for (let current = node; current !== axis && way.length <= before.length; current = before[current] as number) way.push(current);
  return way.reverse();
}

function cycleThrough(node: number, before: Int32Array): number[] {
  let inside = node;
  for (let step = 0; step < before.length && inside !== axis; step++) inside = before[inside] as number;
  const cycle: number[] = [];
  for (let current = inside; current !== axis && !cycle.includes(current); current = before[current] as number) cycle.push(current);
  return cycle.reverse();
}
