// The same steps of all ranks in one trace, while they train: real processes whose schedule records nothing, over both transports.

import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { type Aggregator, startAggregator } from '@ranktrace/aggregator';
import type { CaptureResult } from '@ranktrace/protocol';
import type { TraceEvent } from '@ranktrace/trace';
import { readPerfetto } from '@ranktrace/trace/perfetto';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { openTrace } from './oracle/trace-processor.ts';
import { startNatsServer } from './setup/nats-server.ts';
import { type RankProgram, startRanks } from './setup/rank-programs.ts';
import { runCommand } from './setup/ranktrace-command.ts';
import { runLine } from './setup/warm-command.ts';

let directory: string;
let ranks: RankProgram[] = [];

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'ranktrace-capture-'));
});
afterEach(async () => {
  for (const { child } of ranks) child.kill('SIGKILL');
  await Promise.all(ranks.map(({ ended }) => ended));
  ranks = [];
  rmSync(directory, { recursive: true, force: true });
});

const run = 'quiet';
const quiet = {
  RANKTRACE_RUN: run,
  RANKTRACE_SCHEDULE: 'wait=100000,warmup=1,active=1',
  // On a busy machine a rank may else record less.
  RANKTRACE_OVERHEAD_BUDGET: '1',
};

/** `count` ranks of `program`, once each of them has finished some steps. */
async function train(
  aggregator: Aggregator,
  count: number,
  program: readonly string[] = ['test/programs/steps.mjs', '100000', '5'],
  environment: Record<string, string> = {},
): Promise<void> {
  const url = aggregator.address.replace('http', 'ws');
  const spool = { RANKTRACE_SPOOL_DIRECTORY: join(directory, 'spool') };
  ranks = await startRanks(count, program, { RANKTRACE_URL: url, ...spool, ...quiet, ...environment });
  const step = (rank: number): number => aggregator.steps(run, rank).at(-1)?.step ?? 0;
  while (ranks.some((_, rank) => step(rank) < 40)) await wait(20);
}

/** The last finished step of a rank. */
const newest = (aggregator: Aggregator, rank: number): number => aggregator.steps(run, rank).at(-1)?.step ?? 0;

interface Captured {
  /** By rank: numbers of the steps in the trace, and of those that have the span `inner`, sorted. */
  readonly steps: Map<number, number[]>;
  readonly detailed: Map<number, number[]>;
  readonly names: Set<string>;
}

function read(path: string): Captured {
  const bytes = readFileSync(path);
  const captured: Captured = { steps: new Map(), detailed: new Map(), names: new Set() };
  const add = (to: Map<number, number[]>, rank: number, step: number): void => {
    const steps = [...new Set([...(to.get(rank) ?? []), step])].sort((a, b) => a - b);
    to.set(rank, steps);
  };
  const sink = {
    begin: () => {},
    lane: () => {},
    event: ({ kind, name, lane, step, arguments: given }: TraceEvent) => {
      const { rank } = lane.process;
      if (kind === 'step') add(captured.steps, rank, step);
      else captured.names.add(name);
      if (name === 'inner') add(captured.detailed, rank, Number(given?.get('step')));
    },
    end: () => {},
  };
  for (const _ of readPerfetto(() => [bytes]).events(sink));
  return captured;
}

const numbers = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, index) => from + index);

type StepsResult = CaptureResult & { readonly fromStep: number; readonly toStep: number };

/** A capture of steps, as ranks of the SDK record them. */
async function captureSteps(aggregator: Aggregator, ...[run, request]: Parameters<Aggregator['captureSteps']>): Promise<StepsResult> {
  const result = await aggregator.captureSteps(run, request);
  const { fromStep, toStep } = result;
  if (fromStep === undefined || toStep === undefined) throw new Error('A window of time was captured, no steps');
  return { ...result, fromStep, toStep };
}

/** The trace has these steps of these ranks at full detail, and no others. */
function expectWhole({ path, fromStep, toStep }: StepsResult, of: readonly number[]): void {
  const { steps, detailed, names } = read(path);
  const wanted = new Map(of.map((rank) => [rank, numbers(fromStep, toStep)]));
  expect(steps).toEqual(wanted);
  expect(detailed).toEqual(wanted);
  expect([...names]).toEqual(expect.arrayContaining(['outer', 'inner', 'wait', 'mark', 'all_reduce']));
}

describe('over WebSocket', () => {
  test('four ranks record the same steps; one that was stopped is named and not waited for', async () => {
    await using aggregator = await startAggregator({ out: join(directory, 'out') });
    await train(aggregator, 4);
    const all = await captureSteps(aggregator, run, { steps: 10 });
    expect(all).toMatchObject({ run, ranks: [0, 1, 2, 3], late: [], dead: [], notes: [], toStep: all.fromStep + 9 });
    expectWhole(all, [0, 1, 2, 3]);
    // Perfetto reads it without a complaint, flows between the ranks included.
    using trace = await openTrace(readFileSync(all.path));
    const count = async (sql: string): Promise<number> => Number((await trace.query(sql))[0]?.n);
    expect(await count('select count(*) n from slice where name like "ProfilerStep#%"')).toBe(40);
    expect(await count('select count(*) n from slice where name = "all_reduce"')).toBe(40);
    expect(await count('select count(*) n from flow')).toBeGreaterThan(0);
    expect(await count('select count(*) n from stats where severity in ("error", "data_loss") and value > 0')).toBe(0);

    // The same file for a reader far away, and a trace of the run while it goes on.
    const sent = await fetch(`${aggregator.address}/v1/captures/${run}/${basename(all.path)}`);
    expect(Buffer.from(await sent.arrayBuffer()).equals(readFileSync(all.path))).toBe(true);
    const live = (await (await fetch(`${aggregator.address}/v1/trace?run=${run}&ranks=1,3&format=json`)).json()) as {
      traceEvents: { ph: string; pid: number }[];
    };
    expect(new Set(live.traceEvents.filter(({ ph }) => ph === 'X').map(({ pid }) => pid)).size).toBe(2);

    ranks[2]?.child.kill('SIGSTOP');
    const before = performance.now();
    const without = await captureSteps(aggregator, run, { steps: 10 });
    expect(performance.now() - before).toBeLessThan(30_000);
    expect(without).toMatchObject({ ranks: [0, 1, 3], late: [], dead: [2] });
    expect(without.notes).toEqual([expect.stringMatching(/^rank 2 says nothing for \d+ s, since step \d+$/)]);
    expectWhole(without, [0, 1, 3]);
    expect(without.fromStep).toBeGreaterThan(all.toStep);

    ranks[2]?.child.kill('SIGCONT');
    ranks[1]?.child.kill('SIGKILL');
    await ranks[1]?.ended;
    const again = await captureSteps(aggregator, run, {
      fromStep: Math.max(newest(aggregator, 0), newest(aggregator, 3)) + 300,
      steps: 3,
    });
    expect(again).toMatchObject({ dead: [1] });
    expect(again.ranks).toEqual(expect.arrayContaining([0, 3]));
    const { detailed } = read(again.path);
    for (const rank of [0, 3]) expect(detailed.get(rank)).toEqual(numbers(again.fromStep, again.toStep));
    expect(readdirSync(join(directory, 'out', run, 'captures'))).toHaveLength(3);
  });

  test('what is over comes from the flight recorders, and nothing else is recorded', async () => {
    await using aggregator = await startAggregator({ out: join(directory, 'out') });
    await train(aggregator, 2, ['test/programs/steps.mjs', '600', '30'], { RANKTRACE_FLIGHT_RECORDER_STEPS: '300' });
    const onset = Math.min(newest(aggregator, 0), newest(aggregator, 1)) - 5;
    const captured = await captureSteps(aggregator, run, { steps: 4, pull: { fromStep: onset, toStep: onset + 3 } });
    expect(captured).toMatchObject({ ranks: [0, 1], late: [], dead: [] });
    const wanted = [...numbers(onset, onset + 3), ...numbers(captured.fromStep, captured.toStep)];
    const { steps, detailed } = read(captured.path);
    for (const rank of [0, 1]) expect([steps.get(rank), detailed.get(rank)]).toEqual([wanted, wanted]);

    // Requested when they were over.
    const late = await captureSteps(aggregator, run, { fromStep: captured.fromStep - 8, steps: 4 });
    expect(late).toMatchObject({ ranks: [0, 1], late: [] });
    expectWhole(late, [0, 1]);

    for (const { ended } of ranks) expect(await ended).toMatchObject({ code: 0 });
    const merged = await runLine(['merge', join(directory, 'out', run), '-o', join(directory, 'quiet.txt'), '--json']);
    const report = JSON.parse(merged.stdout) as { ranks: { late: number; missing: number; counts: Record<string, number> }[] };
    for (const { late, missing, counts } of report.ranks) {
      expect([late, missing, counts.step]).toEqual([0, 0, 600]);
      // Three spans in each of the twelve steps, and in those that share a batch with the pulled ones: a busy rank's batches hold more.
      expect(counts.span).toBeGreaterThanOrEqual(3 * 12);
      expect(counts.span).toBeLessThan(3 * 300);
    }
  });

  test('a rank that is ahead says that it is late, and the others are recorded', async () => {
    const program = `
      import { profile, recordFunction } from '@ranktrace/sdk';
      const prof = profile().start();
      for (let step = 0; ; step++) {
        recordFunction('inner', { step }, () => {});
        await new Promise((resolve) => setTimeout(resolve, process.env.RANK === '1' ? 2 : 20));
        prof.step();
      }`;
    await using aggregator = await startAggregator({ out: join(directory, 'out') });
    await train(aggregator, 2, ['--input-type=module', '-e', program], { RANKTRACE_FLIGHT_RECORDER_STEPS: '10' });
    while (newest(aggregator, 1) < newest(aggregator, 0) + 500) await wait(50);
    const captured = await captureSteps(aggregator, run, {
      fromStep: newest(aggregator, 0) + 200,
      steps: 5,
      pull: { fromStep: 1, toStep: 2 },
    });
    const notes = [
      'rank 1 is late: it has none of the steps at full detail',
      'rank 0: of steps 1 to 2 its flight recorder had none',
      'rank 1: of steps 1 to 2 its flight recorder had none',
    ];
    expect(captured).toMatchObject({ ranks: [0], late: [1], dead: [], notes });
    const { steps, detailed } = read(captured.path);
    const wanted = numbers(captured.fromStep, captured.toStep);
    expect(steps).toEqual(new Map([0, 1].map((rank) => [rank, [1, 2, ...wanted]])));
    expect(detailed).toEqual(new Map([[0, wanted]]));
  });

  test('ranks that are stuck are not waited for; what they are inside of is there', async () => {
    const program = `
      import { profile, recordFunction } from '@ranktrace/sdk';
      const prof = profile().start();
      setInterval(() => {}, 1000);
      for (let step = 0; ; step++) {
        recordFunction('inner', { step }, () => {});
        if (step === 60) await prof.collective({ op: 'all_reduce' }, () => new Promise(() => {}));
        await new Promise((resolve) => setTimeout(resolve, 5));
        prof.step();
      }`;
    await using aggregator = await startAggregator({ out: join(directory, 'out') });
    await train(aggregator, 2, ['--input-type=module', '-e', program]);
    while (newest(aggregator, 0) < 59 || newest(aggregator, 1) < 59) await wait(50);
    const captured = await captureSteps(aggregator, run, { fromStep: 55, steps: 20 });
    const notes = ['rank 0 is stuck after step 59', 'rank 1 is stuck after step 59'];
    expect(captured).toMatchObject({ ranks: [], late: [0, 1], dead: [], notes });
    const { steps, detailed, names } = read(captured.path);
    for (const rank of [0, 1]) expect([steps.get(rank), detailed.get(rank)]).toEqual([numbers(55, 59), numbers(55, 60)]);
    expect(names).toContain('all_reduce');

    // By default a capture records future steps, and there are none; the last ones are available at once.
    const args = ['--steps', '4', '--last', '--url', aggregator.address, '--json'];
    const last = await runCommand(['capture', ...args]);
    expect(last.code).toBe(0);
    const lastSteps = JSON.parse(last.stdout) as CaptureResult;
    expect(lastSteps).toMatchObject({ ranks: [0, 1], late: [], dead: [], fromStep: 56, toStep: 59 });
    expect(lastSteps.path).toMatch(/steps-56-59\.pftrace$/);
    const found = read(lastSteps.path);
    for (const rank of [0, 1]) expect([found.steps.get(rank), found.detailed.get(rank)]).toEqual([numbers(56, 59), numbers(56, 60)]);
    expect(found.names).toContain('all_reduce');
  });

  test("the schedule's own steps, and results in the process, are as without it", async () => {
    const program = `
      import { profile, recordFunction, schedule } from '@ranktrace/sdk';
      const active = [];
      const onTraceReady = (prof) => active.push([...prof.events()].filter(({ name }) => name === 'inner').length);
      const prof = profile({ schedule: schedule({ wait: 10, warmup: 2, active: 8, repeat: 60 }), onTraceReady }).start();
      for (let step = 0; step < 1200; step++) {
        recordFunction('inner', { step }, () => {});
        await new Promise((resolve) => setTimeout(resolve, 10));
        prof.step();
      }
      await prof.stop();
      console.log(active.join(' '));`;
    await using aggregator = await startAggregator({ out: join(directory, 'out') });
    await train(aggregator, 1, ['--input-type=module', '-e', program]);
    // From before one of the schedule's own windows until after the next, and so late that the request comes before them.
    const fromStep = 20 * Math.ceil((newest(aggregator, 0) + 200) / 20) + 15;
    const toStep = fromStep + 29;
    const captured = await captureSteps(aggregator, run, { fromStep, steps: 30 });
    expect(captured).toMatchObject({ ranks: [0], late: [], dead: [] });
    expect(read(captured.path).detailed).toEqual(new Map([[0, numbers(fromStep, toStep)]]));
    expect(await ranks[0]?.ended).toMatchObject({ code: 0, output: expect.stringContaining(Array(60).fill('8').join(' ')) });
    const dump = await runLine(['dump', join(directory, 'out', run)]);
    const recorded = [...dump.stdout.matchAll(/ inner .*?step=(\d+)/g)].map(([, step]) => Number(step));
    const isWanted = (step: number): boolean => (step >= fromStep && step <= toStep) || step % 20 >= 12;
    expect([...new Set(recorded)].sort((a, b) => a - b)).toEqual(numbers(0, 1199).filter(isWanted));
  });

  test('where there is nothing to record, it says so at once', async () => {
    await using aggregator = await startAggregator({ out: join(directory, 'out') });
    await expect(aggregator.captureSteps('other', { steps: 1 })).rejects.toMatchObject({ code: 'store_missing' });
    const enough = join(directory, 'enough');
    await train(aggregator, 1, ['test/programs/steps-until.mjs', enough, '5']);
    writeFileSync(enough, '');
    await Promise.all(ranks.map(({ ended }) => ended));
    await expect(aggregator.captureSteps(run, { steps: 1 })).rejects.toMatchObject({ code: 'nothing_captured' });
  });
});

test('over NATS, the ranks that the run has are asked', async () => {
  await using server = await startNatsServer();
  await using aggregator = await startAggregator({ out: join(directory, 'out'), nats: { servers: [server.url] } });
  await train(aggregator, 2, undefined, { RANKTRACE_URL: server.url });
  const captured = await captureSteps(aggregator, run, { steps: 10 });
  expect(captured).toMatchObject({ ranks: [0, 1], late: [], dead: [] });
  expectWhole(captured, [0, 1]);
});

describe('ranktrace capture', () => {
  test('says what is in the trace, as text and as data', async () => {
    await using aggregator = await startAggregator({ out: join(directory, 'out'), token: 'secret' });
    await train(aggregator, 2, undefined, { RANKTRACE_TOKEN: 'secret' });
    const command = ['capture', '--steps', '5', '--url', aggregator.address];
    const refused = await runCommand(command);
    expect([refused.code, refused.stdout]).toEqual([2, '']);
    expect(refused.stderr).toContain('RANKTRACE_TOKEN');
    const text = await runCommand(command, { RANKTRACE_TOKEN: 'secret' });
    expect(text.code).toBe(0);
    expect(text.stdout).toMatch(/^run quiet: steps \d+ to \d+ of ranks 0-1\ntrace: .*steps-\d+-\d+\.pftrace\n$/);
    ranks[1]?.child.kill('SIGKILL');
    const at = newest(aggregator, 0) + 1000;
    const data = await runCommand([...command, '--at-step', `${at}`, '--run', run, '--json'], { RANKTRACE_TOKEN: 'secret' });
    const result = JSON.parse(data.stdout) as StepsResult;
    expect([data.code, result.fromStep, result.toStep, result.ranks, result.dead]).toEqual([1, at, at + 4, [0], [1]]);
    expectWhole(result, [0]);
  });

  test.for([
    [['--steps', '5', '--url', 'http://127.0.0.1:1'], 'No service answers at http://127.0.0.1:1'],
    [['--steps', '5', '--url', 'localhost'], '--url must be where a service listens'],
    [['--steps', '0'], 'It must be a whole number from 1'],
    [[], 'capture needs either --steps or --seconds'],
  ] as const)('%j is refused', async ([args, why]) => {
    const { code, stdout, stderr } = await runCommand(['capture', ...args]);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toContain(why);
  });

  test('a service without such a run, or without any, says so', async () => {
    await using aggregator = await startAggregator({ out: join(directory, 'out') });
    const none = await runCommand(['capture', '--steps', '5', '--url', aggregator.address]);
    expect([none.code, none.stderr]).toEqual([1, expect.stringContaining('no run goes on')]);
    const other = await runCommand(['capture', '--steps', '5', '--run', 'other', '--url', aggregator.address]);
    expect([other.code, other.stderr]).toEqual([2, expect.stringContaining('Cannot open run "other"')]);
  });
});
