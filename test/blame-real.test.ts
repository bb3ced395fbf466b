// Four real processes with a fault or without one, on a quiet machine or one with more busy threads than cores: the named rank, and the cost.
// `RANKTRACE_TEST_SEEDS=50` runs more of them.

import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { Random } from '../packages/trace/src/simulate/random.ts';
import { runCommand } from './setup/ranktrace-command.ts';
import { report } from './setup/reports.ts';
import { seedCount } from './setup/seeds.ts';

const seeds = seedCount(2);
const ranks = 4;
const phases = ['data', 'forward', 'backward', 'optimizer'];
const directory = mkdtempSync(join(tmpdir(), 'ranktrace-blame-'));
const busy: ChildProcess[] = [];
afterAll(() => {
  setBusy(false);
  rmSync(directory, { recursive: true });
});

async function runJob(name: string, steps: number, fault: { rank: number; phase: string; ms: number; every: number }) {
  const program = ['test/programs/faulty-rank.mjs', steps, fault.rank, fault.phase, fault.ms, fault.every].map(String);
  const options = ['run', '--ranks', String(ranks), '--out', join(directory, name), '--', process.execPath, ...program];
  const { code, stderr } = await runCommand(options, { RANKTRACE_SAMPLE_INTERVAL_MS: '500' });
  if (code !== 0) throw new Error(stderr);
  return report(join(directory, name));
}

type Report = Awaited<ReturnType<typeof report>>;

const stragglersOf = ({ findings }: Report) =>
  findings.filter(({ kind }: { kind: string }) => kind === 'straggler') as { ranks: number[]; phase: string }[];

/** The slowdown in `phase`, ms per step of the report, from which a rank would be found. */
const visibleIn = (phase: string, { blame }: Report): number =>
  blame.visible.find((of: { phase: string }) => of.phase === phase).lengthNs / 1e6;

/** Each case runs twice: on the machine as it is, and beside more threads than it has cores. */
function setBusy(isBusy: boolean): void {
  while (isBusy && busy.length < 3 * availableParallelism()) busy.push(spawn(process.execPath, ['-e', 'for(;;);'], { stdio: 'ignore' }));
  while (!isBusy && busy.length > 0) busy.pop()?.kill('SIGKILL');
}

it.each(Array.from({ length: seeds }, (_, seed) => seed))(
  'names nobody, or who is slow, in which phase and by how much (seed %i)',
  async (seed) => {
    setBusy(seed % 2 === 1);
    const random = new Random(seed, 'real job');
    const steps = 40 + random.whole(20);
    const phase = phases[random.whole(phases.length)] as string;
    const fault = { rank: random.whole(ranks), phase, ms: Math.round(random.uniform(20, 50)), every: seed % 5 === 4 ? 3 : 1 };
    const even = await runJob(`even-${seed}`, steps, { ...fault, ms: 0 });
    expect(stragglersOf(even)).toEqual([]);
    expect(['balanced', 'cpu_contention']).toContain(even.verdict);

    const faulty = await runJob(`faulty-${seed}`, steps, fault);
    const found = stragglersOf(faulty);
    expect(found.every(({ ranks, phase: where }) => ranks.join() === String(fault.rank) && where === phase)).toBe(true);
    // On a machine so busy that its noise hides the fault, the report states that; where the noise is just below it, the figure has that noise.
    const visible = visibleIn(phase, faulty);
    if (fault.every > 1 || fault.ms < visible) return;
    expect(found).toHaveLength(1);
    const { excessNs } = faulty.blame.excess.find(({ rank }: { rank: number }) => rank === fault.rank);
    expect(Math.abs(excessNs / 1e6 - fault.ms)).toBeLessThan(Math.max(fault.ms / 4, visible));
  },
);
