// How many seeds a test sweeps. `npm test` sweeps all of them; `npm run check` sets RANKTRACE_TEST_SEEDS=1, so that each sweep takes one; and
// RANKTRACE_TEST_SEEDS=200 takes more of the sweeps that count their seeds.

const asked = process.env.RANKTRACE_TEST_SEEDS === undefined ? undefined : Number(process.env.RANKTRACE_TEST_SEEDS);

/** RANKTRACE_TEST_SEEDS, or `usual`: for seeds that are counted from a first one. */
export const seedCount = (usual: number): number => asked ?? usual;

/** At most RANKTRACE_TEST_SEEDS of these seeds, or of other values that a test sweeps. */
export const someSeeds = <Seed>(seeds: readonly Seed[]): readonly Seed[] => seeds.slice(0, asked ?? seeds.length);

/** Runs of a property: a tenth of `usual` for each of RANKTRACE_TEST_SEEDS. */
export const runCount = (usual: number): number => Math.ceil(usual * ((asked ?? 10) / 10));
