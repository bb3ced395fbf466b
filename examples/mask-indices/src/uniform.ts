// Random numbers that are the same in every run, so that every stage searches the same mask.

/** `count` numbers, uniform in [min, max): a linear congruential generator modulo 2^32, with the factors of Numerical Recipes. */
export function uniform(count: number, { seed, min, max }: { seed: number; min: number; max: number }): Float32Array {
  const values = new Float32Array(count);
  const scale = (max - min) / 2 ** 32;
  let state = seed >>> 0;
  for (let at = 0; at < count; at++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    values[at] = min + state * scale;
  }
  return values;
}
