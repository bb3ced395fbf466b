// Ranks whose schedule records nothing, and an aggregator that wants to see what just happened: real processes, over both ways in.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startAggregator } from '@ranktrace/aggregator';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { startNatsServer } from './setup/nats-server.ts';
import { startRanks } from './setup/rank-programs.ts';
import { runCommand } from './setup/ranktrace-command.ts';

let directory: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'ranktrace-flight-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

interface Report {
  readonly ranks: readonly {
    readonly rank: number;
    readonly missing: number;
    readonly late: number;
    readonly counts: Record<string, number>;
    readonly recorded: Record<string, number>;
  }[];
  readonly findings: readonly unknown[];
}

const steps = 400;

/** Lets two ranks run, pulls the steps around the 200th, and reads what the store has in the end. */
async function pulled(url: string, pull: () => Promise<void>, stepOf: (rank: number) => number): Promise<{ report: Report; dump: string }> {
  const ranks = await startRanks(2, ['test/programs/steps.mjs', `${steps}`, '5'], {
    RANKTRACE_URL: url,
    RANKTRACE_RUN: 'quiet',
    RANKTRACE_SPOOL_DIRECTORY: join(directory, 'spool'),
    RANKTRACE_SCHEDULE: 'wait=100000,warmup=1,active=1',
    RANKTRACE_FLIGHT_RECORDER_STEPS: '100',
    RANKTRACE_OVERHEAD_BUDGET: '1',
  });
  while (Math.min(stepOf(0), stepOf(1)) < 200) await new Promise((resolve) => setTimeout(resolve, 50));
  await pull();
  for (const { ended } of ranks) expect(await ended).toMatchObject({ code: 0 });
  const output = join(directory, 'quiet.txt');
  const merged = await runCommand(['merge', join(directory, 'out', 'quiet'), '-o', output, '--json']);
  expect(merged.stderr).toBe('');
  const dump = await runCommand(['dump', join(directory, 'out', 'quiet')]);
  return { report: JSON.parse(merged.stdout) as Report, dump: dump.stdout };
}

function check({ report, dump }: { report: Report; dump: string }): void {
  expect(report.findings).toEqual([]);
  expect(report.ranks).toHaveLength(2);
  for (const { rank, counts, missing, late } of report.ranks) {
    expect({ missing, late, step: counts.step, counter: (counts.counter ?? 0) >= steps }).toEqual({
      missing: 0,
      late: 0,
      step: steps,
      counter: true,
    });
    // Three spans a step, of as many steps as the flight recorder holds and no more.
    const held = (counts.span ?? 0) / 3;
    expect(held).toBeGreaterThanOrEqual(60);
    expect(held).toBeLessThan(200);
    expect(dump).toMatch(new RegExp(`rank ${rank}`));
  }
}

test('what the flight recorders hold comes when it is asked for, over WebSocket', async () => {
  await using aggregator = await startAggregator({ out: join(directory, 'out') });
  const stepOf = (rank: number): number => aggregator.steps('quiet', rank).at(-1)?.step ?? 0;
  const url = aggregator.address.replace('http', 'ws');
  check(await pulled(url, () => aggregator.pullFlightRecorders('quiet'), stepOf));
});

test('the same over NATS', async () => {
  await using server = await startNatsServer();
  await using aggregator = await startAggregator({ out: join(directory, 'out'), nats: { servers: [server.url] } });
  const stepOf = (rank: number): number => aggregator.steps('quiet', rank).at(-1)?.step ?? 0;
  check(await pulled(server.url, () => aggregator.pullFlightRecorders('quiet'), stepOf));
});

test('a pull for another run, or for steps that are long gone, brings nothing', async () => {
  await using aggregator = await startAggregator({ out: join(directory, 'out') });
  const stepOf = (rank: number): number => aggregator.steps('quiet', rank).at(-1)?.step ?? 0;
  const url = aggregator.address.replace('http', 'ws');
  const pull = async (): Promise<void> => {
    await aggregator.pullFlightRecorders('another');
    await aggregator.pullFlightRecorders('quiet', { fromStep: 1, toStep: 5 });
  };
  const { report } = await pulled(url, pull, stepOf);
  expect(report.findings).toEqual([]);
  for (const { counts } of report.ranks) expect(counts).toMatchObject({ step: steps, span: 0, instant: 0, collective: 0 });
});

test('a rank that fails sends what its flight recorder holds, and one that ends well does not', async () => {
  const program = `
    import { profile, recordFunction } from '@ranktrace/sdk';
    profile().start();
    for (let step = 0; step < 40; step++) { recordFunction('work', () => {}); await new Promise((resolve) => setTimeout(resolve, 10)); }
    process.exitCode = Number(process.env.CODE);`;
  const spans = async (code: string): Promise<number> => {
    const out = join(directory, code);
    const environment = {
      RANKTRACE_DIRECTORY: out,
      RANKTRACE_RUN: 'quiet',
      RANKTRACE_SCHEDULE: 'wait=100000,warmup=1,active=1',
      CODE: code,
    };
    const [rank] = await startRanks(1, ['--input-type=module', '-e', program], environment);
    expect(await rank?.ended).toMatchObject({ code: Number(code) });
    const merged = await runCommand(['merge', out, '-o', join(directory, `${code}.txt`), '--json']);
    return (JSON.parse(merged.stdout) as Report).ranks[0]?.counts.span ?? 0;
  };
  expect(await spans('3')).toBe(40);
  expect(await spans('0')).toBe(0);
});
