// Values that fit what is known of them best: weighted least squares, by conjugate gradients. Deterministic, and it ends whatever it is given.
//
// Each node has a value near 0, and each tie says how far apart two values are. A spread says how far either may be off: it counts by its square.

/** value[to] − value[from] is `difference`, ± `spread` (> 0). */
export interface Tie {
  readonly from: number;
  readonly to: number;
  readonly difference: number;
  readonly spread: number;
}

const roundsMax = 500;
/** The fit is done when its squared rest is this share of that at its begin. */
const restMax = 1e-20;

/** One value per node. `spreads`: how far from 0 a node may be: 0 for one that stays there, infinite for one that may be anywhere. */
export function fitValues(spreads: Float64Array, ties: readonly Tie[]): Float64Array {
  const nodes = spreads.length;
  const [from, to] = [Uint32Array.from(ties, (tie) => tie.from), Uint32Array.from(ties, (tie) => tie.to)];
  const weights = Float64Array.from(ties, ({ spread }) => 1 / spread ** 2);
  const own = spreads.map((spread) => 1 / spread ** 2);
  const all = own.slice();
  const rest = new Float64Array(nodes);
  for (const [index, tie] of ties.entries()) {
    const weight = weights[index] as number;
    (all[tie.from] as number) += weight;
    (all[tie.to] as number) += weight;
    (rest[tie.from] as number) -= weight * tie.difference;
    (rest[tie.to] as number) += weight * tie.difference;
  }
  // Nodes that stay at 0 have no part in it, and neither have those that nothing is known of.
  const share = all.map((weight) => (weight > 0 && weight < Number.POSITIVE_INFINITY ? 1 / weight : 0));
  const values = new Float64Array(nodes);
  const way = rest.map((value, node) => value * (share[node] as number));
  const pull = new Float64Array(nodes);
  let size = dot(rest, way);
  const enough = size * restMax;
  for (let round = 0; round < roundsMax && size > enough; round++) {
    for (let node = 0; node < nodes; node++) pull[node] = share[node] === 0 ? 0 : (way[node] as number) * (own[node] as number);
    for (let index = 0; index < weights.length; index++) {
      const [a, b] = [from[index] as number, to[index] as number];
      const force = (weights[index] as number) * ((way[b] as number) - (way[a] as number));
      (pull[b] as number) += force;
      (pull[a] as number) -= force;
    }
    const length = size / dot(way, pull);
    if (!Number.isFinite(length)) break;
    for (let node = 0; node < nodes; node++) {
      (values[node] as number) += length * (way[node] as number);
      (rest[node] as number) -= length * (pull[node] as number);
    }
    const before = size;
    size = 0;
    for (let node = 0; node < nodes; node++) size += (rest[node] as number) ** 2 * (share[node] as number);
    for (let node = 0; node < nodes; node++) {
      way[node] = (rest[node] as number) * (share[node] as number) + (size / before) * (way[node] as number);
    }
  }
  return values;
}

function dot(a: Float64Array, b: Float64Array): number {
  let sum = 0;
  for (let index = 0; index < a.length; index++) sum += (a[index] as number) * (b[index] as number);
  return sum;
}
