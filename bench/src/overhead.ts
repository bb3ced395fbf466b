// The cost of profiling for a training step: the example's own step (real digits, tfjs wasm, batch 32), some twenty steps with recording and
// some twenty without in turn (overhead-child.ts). The cost is the difference between a turn and those before and after it, so that a
// machine that gets slower or faster meanwhile slows all three. Without recording, the step calls nothing of the SDK; the shipper runs in
// both.
//
// Each profile runs in a fresh process: V8's learning and the heap of one mode would leak into the next. The placement of a process's
// memory by V8 and malloc is random for all its life, and in one process of some seven it makes either kind of turn 0.1 ms longer:
// so a figure is the median over seven processes, with the standard error of that median, and modes take turns.

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ProfileOptions } from '@ranktrace/sdk';
import { type Figure, figure, median } from './figure.ts';
import type { MeasuredProfile, MeasuredTurn } from './overhead-child.ts';

const profilesPerMode = 7;
/** One takes some eight seconds. */
const profileMsMax = 120_000;

/** `alwaysOn` first: others add to the one before. */
const modes = {
  alwaysOn: {},
  everything: { recordShapes: true, profileMemory: true },
  allOptions: { recordShapes: true, profileMemory: true, withFlops: true, withModules: true },
  // Some 35 ops a step that the training code calls itself. Walking the stack of each would take a fifth of the step.
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
  const turnsOf = (mode: Mode): MeasuredTurn[] => measured[mode].flatMap(({ turns }) => turns);
  const withoutOf = (mode: Mode): number => median(turnsOf(mode).map(({ without }) => without));
  const step = (name: string, mode: Mode, most: number): Figure => {
    const baseline = { name: 'the same step without recording', value: withoutOf(mode) };
    const value = baseline.value + medianExtra(measured[mode]).extra;
    return figure({ name, value, unit: 'ms', baseline, target: { at: 'most', value: most, of: 'ratio' } });
  };
  const seldom = (name: string, mode: Mode): Figure => {
    const { extra, error } = meanExtra(measured[mode]);
    const [percent, errorPercent] = [extra, error].map((ms) => ((100 * ms) / withoutOf(mode)).toFixed(2));
    return figure({ name: `of the mean step, with what comes seldom, ${name} (± ${errorPercent})`, value: Number(percent), unit: '%' });
  };
  const account = (name: string, mode: Mode): Figure => {
    const us = 1000 * mean(turnsOf(mode).map(({ accounted }) => accounted));
    const baseline = { name: 'what it takes, as above', value: 1000 * medianExtra(measured[mode]).extra };
    return figure({ name: `the recorder's own account of that, ${name}`, value: us, unit: 'µs', baseline });
  };
  const each = (of: (name: string, mode: Mode) => Figure): Figure[] => [
    of('always-on profile', 'alwaysOn'),
    of('every op with shapes and memory', 'everything'),
    of('FLOPs and modules as well', 'allOptions'),
    of('the stack of each op as well', 'allOptionsAndStacks'),
  ];
  const errors = (Object.keys(modes) as Mode[]).map((mode) => medianExtra(measured[mode]).error / withoutOf(mode));
  const phases = median(measured.alwaysOn.map((profile) => profile.phases));
  return [
    ...each((name, mode) => step(`training step, ${name}`, mode, mode === 'alwaysOn' ? 1.005 : 1.02)),
    ...each(account),
    ...each(seldom),
    figure({
      name: 'of a step, what recording its spans costs in a loop of nothing else',
      value: (100 * phases) / withoutOf('alwaysOn'),
      unit: '%',
    }),
    figure({ name: 'noise: the largest standard error of these ratios', value: 100 * Math.max(...errors), unit: '%' }),
  ];
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

/** ms: the cost of recording for a step, and its standard error: the median over profiles, each of which gives the median over its turns. */
function medianExtra(profiles: readonly MeasuredProfile[]): Extra {
  return middleOf(profiles.map(({ turns }) => median(turns.map(({ extra }) => extra))));
}

/** The same for the mean step. */
function meanExtra(profiles: readonly MeasuredProfile[]): Extra {
  return middleOf(profiles.map(({ turns }) => mean(turns.map(({ extraOfMean }) => extraOfMean))));
}

interface Extra {
  readonly extra: number;
  readonly error: number;
}

function middleOf(values: readonly number[]): Extra {
  const extra = median(values);
  const deviation = 1.4826 * median(values.map((value) => Math.abs(value - extra)));
  // A median's is larger than a mean's by the root of π / 2.
  return { extra, error: (1.2533 * deviation) / Math.sqrt(values.length) };
}

async function measureProfile(options: ProfileOptions, directory: string): Promise<MeasuredProfile> {
  const all: ProfileOptions = { run: 'bench', rank: 0, worldSize: 1, directory, ...options };
  // Without the flags of this process: functions that they expose for other benchmarks are no part of a training job.
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
