// Random numbers that a seed repeats, in the distributions that simulations ask for. `Math.random` cannot be seeded.

export interface Random {
  uniform(from: number, to: number): number;
  /** A whole number in 0…limit − 1. */
  below(limit: number): number;
  exponential(mean: number): number;
  /** Around 0. */
  normal(deviation: number): number;
}

/** xoshiro128** (Blackman and Vigna), its state filled by splitmix32 from the seed; two draws make 53 bits. */
export function seededRandom(seed: number): Random {
  let [a, b, c, d] = [1, 2, 3, 4].map((step) => splitmix32(seed + step * 0x9e3779b9)) as [number, number, number, number];
  const bits = (): number => {
    const product = Math.imul(b, 5);
    const result = Math.imul((product << 7) | (product >>> 25), 9);
    const shifted = b << 9;
    c ^= a;
    d ^= b;
    b ^= c;
    a ^= d;
    c ^= shifted;
    d = (d << 11) | (d >>> 21);
    return result >>> 0;
  };
  /** In [0, 1). */
  const unit = (): number => ((bits() >>> 5) * 2 ** 26 + (bits() >>> 6)) / 2 ** 53;
  return {
    uniform: (from, to) => from + (to - from) * unit(),
    below: (limit) => Math.floor(unit() * limit),
    exponential: (mean) => -mean * Math.log1p(-unit()),
    // Box–Muller; its sine twin is thrown away, which keeps the generator without a memory.
    normal: (deviation) => deviation * Math.sqrt(-2 * Math.log1p(-unit())) * Math.cos(2 * Math.PI * unit()),
  };
}

function splitmix32(state: number): number {
  let bits = state | 0;
  bits = Math.imul(bits ^ (bits >>> 16), 0x21f0aaad);
  bits = Math.imul(bits ^ (bits >>> 15), 0x735a2d97);
  return bits ^ (bits >>> 15);
}
