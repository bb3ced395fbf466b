// What profiling adds to a training step: the example's own step (real digits, tfjs wasm, batch 32), some ten steps with recording and some
// ten without in turn (overhead-child.ts): what recording adds is how much longer a turn is than those before and after it, so that a machine
// that gets slower or faster meanwhile slows all three. Without recording, the step calls nothing of the SDK; the shipper works on in both.
//
// Each profile runs in a fresh process: what V8 learnt and what lies on the heap from one mode would leak into the next. A figure is the median
// over all turns of seven profiles, with the standard error of that median, and modes take turns.

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
    const { without, extra } = pooled(measured[mode]);
    const baseline = { name: 'the same step without recording', value: without };
    return figure({ name, value: without + extra, unit: 'ms', baseline, target: { at: 'most', value: most, of: 'ratio' } });
  };
  const account = (name: string, mode: Mode): Figure => {
    const us = 1000 * mean(measured[mode].flatMap((profile) => profile.accounted));
    const baseline = { name: 'what it takes, as above', value: 1000 * pooled(measured[mode]).extra };
    return figure({ name: `the recorder's own account of that, ${name}`, value: us, unit: 'µs', baseline });
  };
  const errors = Object.values(measured).map((profiles) => pooled(profiles).error);
  const { without } = pooled(measured.alwaysOn);
  const phases = median(measured.alwaysOn.map((profile) => profile.phases));
  return [
    step('training step, always-on profile', 'alwaysOn', 1.005),
    step('training step, every op with shapes and memory', 'everything', 1.02),
    step('training step, FLOPs and modules as well', 'allOptions', 1.02),
    step('training step, the stack of each op as well', 'allOptionsAndStacks', 1.02),
    account('always-on profile', 'alwaysOn'),
    account('every op with shapes and memory', 'everything'),
    account('FLOPs and modules as well', 'allOptions'),
    account('the stack of each op as well', 'allOptionsAndStacks'),
    figure({ name: 'of a step, what recording its spans costs in a loop of nothing else', value: (100 * phases) / without, unit: '%' }),
    figure({ name: 'noise: the largest standard error of these, of a step', value: (100 * Math.max(...errors)) / without, unit: '%' }),
  ];
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

/** Over the turns of all profiles, ms: medians, and the standard error of what recording adds. */
function pooled(profiles: readonly MeasuredProfile[]): { readonly without: number; readonly extra: number; readonly error: number } {
  const extras = profiles.flatMap(({ extra }) => extra);
  const extra = median(extras);
  const deviation = 1.4826 * median(extras.map((one) => Math.abs(one - extra)));
  // A median's is larger than a mean's by the root of π / 2.
  return { without: median(profiles.flatMap(({ without }) => without)), extra, error: (1.2533 * deviation) / Math.sqrt(extras.length) };
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
