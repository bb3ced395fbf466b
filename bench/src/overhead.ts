// What profiling adds to a training step: the example's own step (real digits, tfjs wasm, batch 32), ten steps with recording and ten without in
// turn (overhead-child.ts), so that a machine that gets slower or faster meanwhile slows both; a ratio is that of their medians. The shipper
// works on in both. What two halves of the steps without recording differ by is the noise.
//
// Each profile runs in a fresh process: what V8 learnt and what lies on the heap from one mode would leak into the next. Each figure is that of
// the median of seven profiles, by ratio, and modes take turns: in one of some twenty the recorded steps, and they alone, take a few percent
// more, as where the system puts the shipper's thread beside the training's.

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ProfileOptions } from '@ranktrace/sdk';
import { type Figure, figure, median } from './figure.ts';
import type { MeasuredProfile } from './overhead-child.ts';

const profilesPerMode = 7;
/** One takes some eight seconds. */
const profileMsMax = 120_000;

/** `alwaysOn` first: others add to the one before. */
const modes = {
  alwaysOn: {},
  everything: { recordShapes: true, profileMemory: true },
  allOptions: { recordShapes: true, profileMemory: true, withFlops: true, withModules: true },
  // Some 35 ops a step that the training code calls itself. To walk the stack of each would take a fifth of the step.
  allOptionsAndStacks: { recordShapes: true, profileMemory: true, withFlops: true, withModules: true, withStack: true },
} as const satisfies Record<string, ProfileOptions>;

type Mode = keyof typeof modes;

export async function overhead(): Promise<Figure[]> {
  const directory = mkdtempSync(join(tmpdir(), 'ranktrace-bench-'));
  const measured = Object.fromEntries(Object.keys(modes).map((mode) => [mode, [] as MeasuredProfile[]])) as Record<Mode, MeasuredProfile[]>;
  try {
    for (let round = 0; round < profilesPerMode; round++) {
      for (const mode of Object.keys(modes) as Mode[]) measured[mode].push(await measureProfile(modes[mode], directory));
    }
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
  const step = (name: string, mode: Mode, most: number): Figure => {
    const { recorded, without } = medianProfile(measured[mode]);
    const baseline = { name: 'the same step without recording', value: without };
    return figure({ name, value: recorded, unit: 'ms', baseline, target: { at: 'most', value: most, of: 'ratio' } });
  };
  const { noise, without } = medianProfile(measured.alwaysOn);
  const phases = median(measured.alwaysOn.map((profile) => profile.phases));
  return [
    step('training step, always-on profile', 'alwaysOn', 1.005),
    step('training step, every op with shapes and memory', 'everything', 1.02),
    step('training step, FLOPs and modules as well', 'allOptions', 1.02),
    step('training step, the stack of each op as well', 'allOptionsAndStacks', 1.02),
    figure({ name: 'of a step, what recording its spans costs in a loop of nothing else', value: (100 * phases) / without, unit: '%' }),
    figure({ name: 'noise: halves of the steps without recording differ by', value: 100 * noise, unit: '%' }),
  ];
}

/** The one whose ratio is the median. */
function medianProfile(profiles: readonly MeasuredProfile[]): MeasuredProfile {
  const ratio = ({ recorded, without }: MeasuredProfile): number => recorded / without;
  return [...profiles].sort((a, b) => ratio(a) - ratio(b))[profiles.length >> 1] as MeasuredProfile;
}

async function measureProfile(options: ProfileOptions, directory: string): Promise<MeasuredProfile> {
  const all: ProfileOptions = { run: 'bench', rank: 0, worldSize: 1, directory, ...options };
  // Without the flags of this process: what it exposes for other benchmarks is no part of a training job.
  const settings = { execArgv: [], timeout: profileMsMax };
  const child = fork(fileURLToPath(new URL('./overhead-child.js', import.meta.url)), [JSON.stringify(all)], settings);
  let measured: MeasuredProfile | undefined;
  child.on('message', (message) => {
    measured = message as MeasuredProfile;
  });
  const [code, signal] = (await once(child, 'exit')) as [number | null, string | null];
  if (measured === undefined)
    throw new Error(`Cannot measure the overhead: the child with ${JSON.stringify(options)} ended with ${code ?? signal}`);
  return measured;
}
