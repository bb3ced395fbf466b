// A signal ends a rank as it would without us, also one whose loop never returns to the event loop, and no event before it is lost.

import { existsSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { afterAll, describe, expect, it } from 'vitest';
import { type RankProgram, startRanks } from './setup/rank-programs.ts';
import { runCommand, startCommand } from './setup/ranktrace-command.ts';
import { freePort } from './setup/server-process.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-signals-'));
/** A rank that a test could not end must not outlive it. */
const started: RankProgram[] = [];
afterAll(() => {
  for (const { child } of started) child.kill('SIGKILL');
  rmSync(directory, { recursive: true });
});

const program = 'test/programs/busy-steps.mjs';
const waiting = { timeout: 120_000, interval: 20 };

let cases = 0;

interface Rank extends RankProgram {
  /** Steps that it has finished. */
  steps(): number;
  /** Resolves when it has finished so many more. */
  goesOn(steps: number): Promise<void>;
  /** Whether any of its events were recorded. */
  isHeard(): boolean;
  /** Its part of the merged recording; `directory` by default its output. */
  report(): Promise<Report>;
}

interface Report {
  readonly ranks: readonly {
    readonly ended: boolean;
    readonly missing: number;
    readonly counts: Readonly<Record<string, number>>;
    readonly recorded?: Readonly<Record<string, number>>;
  }[];
  readonly findings: readonly { readonly kind: string }[];
}

async function start(
  loop: 'sync' | 'await',
  handler?: string,
  environment: Record<string, string> = {},
  { waits = true }: { readonly waits?: boolean } = {},
): Promise<Rank> {
  const name = `case-${cases++}`;
  const progress = join(directory, `${name}.progress`);
  const args = [program, loop, progress, ...(handler === undefined ? [] : [handler])];
  const [rank] = await startRanks(1, args, { RANKTRACE_DIRECTORY: directory, RANKTRACE_RUN: name, ...environment });
  if (rank === undefined) throw new Error('no rank was started');
  started.push(rank);
  const steps = (): number => statSync(progress, { throwIfNoEntry: false })?.size ?? 0;
  const goesOn = async (more: number): Promise<void> => {
    const before = steps();
    await expect.poll(steps, waiting).toBeGreaterThan(before + more);
  };
  const recorded = join(environment.RANKTRACE_SPOOL_DIRECTORY ?? directory, name);
  // Its shipper listens: before that, a signal ends it at once.
  const files = (): string[] => (existsSync(recorded) ? (readdirSync(recorded, { recursive: true }) as string[]) : []);
  const isHeard = (): boolean => files().some((file) => file.endsWith('.seg'));
  if (waits) await expect.poll(isHeard, waiting).toBe(true);
  const report = async (): Promise<Report> => {
    const { code, stdout, stderr } = await runCommand(['merge', recorded, '-o', join(directory, `${name}.pftrace`), '--json']);
    expect(code, stderr).toBe(0);
    return JSON.parse(stdout);
  };
  return { ...rank, steps, goesOn, report, isHeard };
}

/** The recording has its end, and all of its events before the signal. */
async function expectWhole(rank: Rank, steps: number, found: readonly object[] = []): Promise<void> {
  const { ranks, findings } = await rank.report();
  expect(ranks).toMatchObject([{ ended: true, missing: 0 }]);
  expect(ranks[0]?.counts.step).toBeGreaterThanOrEqual(steps);
  expect(ranks[0]?.counts).toEqual(ranks[0]?.recorded);
  expect(findings).toMatchObject(found);
  expect(findings).toHaveLength(found.length);
}

describe('a rank without a handler of its own', () => {
  it.each([
    ['sync', 'SIGINT'],
    ['sync', 'SIGTERM'],
    ['sync', 'SIGHUP'],
    ['await', 'SIGINT'],
    ['await', 'SIGTERM'],
  ] as const)('in a loop that is %s dies of %s, and says its last', async (loop, signal) => {
    const rank = await start(loop);
    await rank.goesOn(300);
    const steps = rank.steps();
    rank.child.kill(signal);
    expect((await rank.ended).signal).toBe(signal);
    await expectWhole(rank, steps);
  });

  it.each([0, 60, 120, 180, 240, 400])('dies of it while its shipper loads, after %i ms: what it sends has an end', async (afterMs) => {
    const rank = await start('sync', undefined, {}, { waits: false });
    await rank.goesOn(1);
    await setTimeout(afterMs);
    rank.child.kill('SIGINT');
    expect((await rank.ended).signal).toBe('SIGINT');
    if (rank.isHeard()) await expectWhole(rank, 0);
  });

  it('dies of it while nobody answers at its url: all of it stays in the spool, and is reported', async () => {
    const spool = join(directory, 'spool-away');
    const rank = await start('sync', undefined, {
      RANKTRACE_URL: `ws://127.0.0.1:${await freePort()}`,
      RANKTRACE_SPOOL_DIRECTORY: spool,
      // Longer than this test may take: it does not wait for a receiver that is away.
      RANKTRACE_EXIT_DEADLINE_MS: '600000',
    });
    await rank.goesOn(300);
    const steps = rank.steps();
    rank.child.kill('SIGINT');
    const { signal, output } = await rank.ended;
    expect(signal).toBe('SIGINT');
    expect(output).toContain(`the rest stays in "${spool}`);
    await expectWhole(rank, steps);
  });
});

describe('a rank with a handler of its own', () => {
  it('ends as the handler says', async () => {
    const rank = await start('await', 'exit');
    await rank.goesOn(100);
    const steps = rank.steps();
    rank.child.kill('SIGTERM');
    expect(await rank.ended).toMatchObject({ code: 3, signal: null });
    await expectWhole(rank, steps, [{ kind: 'rank_failed', text: 'rank 0 failed: exit code 3' }]);
  });

  it.each(['sync', 'await'] as const)('goes on where the handler lets it (%s), whatever comes how often', async (loop) => {
    const rank = await start(loop, 'ignore');
    await rank.goesOn(100);
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGINT'] as const) {
      rank.child.kill(signal);
      await rank.goesOn(100);
    }
    rank.child.kill('SIGHUP');
    expect((await rank.ended).signal).toBe('SIGHUP');
    await expectWhole(rank, 400);
  });

  it('that takes the first one alone dies of the next', async () => {
    const rank = await start('await', 'once');
    await rank.goesOn(100);
    rank.child.kill('SIGINT');
    await rank.goesOn(300);
    const steps = rank.steps();
    rank.child.kill('SIGINT');
    const { signal, output } = await rank.ended;
    expect({ signal, asked: output.split('asked').length - 1 }).toEqual({ signal: 'SIGINT', asked: 1 });
    await expectWhole(rank, steps);
  });

  it('that takes itself off and raises the signal again dies of it, and says its last', async () => {
    for (let left = 2; ; left--) {
      const rank = await start('await', 'raise');
      await rank.goesOn(100);
      const steps = rank.steps();
      rank.child.kill('SIGTERM');
      expect((await rank.ended).signal).toBe('SIGTERM');
      // The program raises it before a starved shipper may hear that it is not handled any more (signalWatchWaitMsMax).
      if (left > 0 && (await rank.report()).ranks[0]?.ended !== true) continue;
      await expectWhole(rank, steps);
      break;
    }
  });
});

it('Ctrl-C of `ranktrace run` ends ranks in loops that are synchronous, and loses none of them', async () => {
  const out = join(directory, 'launched');
  const progress = join(directory, 'launched.RANK.progress');
  const command = ['--', process.execPath, program, 'sync', progress];
  const run = startCommand(['run', '--ranks', '2', '--name', 'launched', '--out', out, '--json', ...command], {
    RANKTRACE_OVERHEAD_BUDGET: '1',
  });
  const steps = (rank: number): number => statSync(progress.replace('RANK', `${rank}`), { throwIfNoEntry: false })?.size ?? 0;
  await expect.poll(() => Math.min(steps(0), steps(1)), waiting).toBeGreaterThan(1000);
  run.child.kill('SIGINT');
  const { code, stdout, stderr } = await run.ended;
  expect(code, stderr).toBe(130);
  const { ranks, findings } = JSON.parse(stdout) as Report;
  // They do not wait for each other: on a busy machine one of them may be far behind.
  expect(findings.filter(({ kind }) => kind !== 'rank_ended_early')).toEqual([]);
  expect(ranks).toMatchObject([
    { ended: true, missing: 0 },
    { ended: true, missing: 0 },
  ]);
});
