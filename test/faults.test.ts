// Real failures while ranks run: of the broker, the aggregator, a rank. Nothing is lost or doubled, or the loss is counted.
//
// The judge is the merge: per rank no batch missing in the sequence, and as many events of each kind as the recorder itself counted.

import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { openBatchLog, RunStore, writeTrace } from '@ranktrace/aggregator';
import { decodeBatchHeader, type LiveMessage } from '@ranktrace/protocol';
import { afterAll, describe, expect, it } from 'vitest';
import { startNatsServer } from './setup/nats-server.ts';
import { countable, startRanks } from './setup/rank-programs.ts';
import { type StartedCommand, startCommand } from './setup/ranktrace-command.ts';
import { freePort } from './setup/server-process.ts';
import { runLine } from './setup/warm-command.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-faults-'));
afterAll(() => rmSync(directory, { recursive: true }));

const example = ['examples/mnist-data-parallel/dist/train.js', '--max-steps', '120'];
const stepProgram = 'test/programs/steps.mjs';

interface RankReport {
  readonly rank: number;
  readonly missing: number;
  readonly ended: boolean;
  readonly late: number;
  readonly counts: Record<string, number>;
  readonly recorded?: Record<string, number>;
}

async function reportOf(run: string, out = directory): Promise<{ ranks: RankReport[]; findings: unknown[]; trace: string }> {
  const trace = join(directory, `${run}.pftrace`);
  const result = await runLine(['merge', join(out, run), '-o', trace, '--json']);
  if (result.code !== 0) throw new Error(`merge ended with ${result.code}: ${result.stderr}`);
  return JSON.parse(result.stdout);
}

function expectWhole(ranks: readonly RankReport[], count: number): void {
  expect(ranks.map((rank) => rank.rank)).toEqual(Array.from({ length: count }, (_, rank) => rank));
  for (const rank of ranks) {
    expect(rank).toMatchObject({ missing: 0, ended: true, late: 0 });
    expect(rank.counts).toEqual(rank.recorded);
  }
}

async function stop(service: StartedCommand): Promise<void> {
  service.child.kill('SIGINT');
  await service.ended;
}

async function kill9(service: StartedCommand): Promise<void> {
  service.child.kill('SIGKILL');
  await service.ended;
}

/** Resolves when the service has the first steps of every rank: the run is in its middle, however long its start takes. */
async function trained(service: StartedCommand): Promise<void> {
  const address = /listening on (http:\S+?),/.exec(service.output())?.[1] ?? '';
  const furthestBehind = async (): Promise<number> => {
    const { runs } = (await (await fetch(`${address}/status`)).json()) as LiveMessage;
    const ranks = runs.flatMap((run) => run.ranks);
    return ranks.length < 4 ? -1 : Math.min(...ranks.map(({ step }) => step));
  };
  await expect.poll(furthestBehind, { timeout: 120_000, interval: 50 }).toBeGreaterThan(0);
}

describe('the example over NATS', () => {
  it('loses and doubles nothing when nats-server is killed and restarted mid-run', async () => {
    await using server = await startNatsServer();
    const service = startCommand(['serve', '--listen', '127.0.0.1:0', '--nats', server.url, '--out', directory]);
    await service.said('listening on');
    const spool = join(directory, 'spool-a');
    const ranks = await startRanks(4, example, {
      RANKTRACE_URL: server.url,
      RANKTRACE_RUN: 'broker',
      RANKTRACE_SPOOL_DIRECTORY: spool,
    });
    await trained(service);
    await server.kill9();
    await setTimeout(1500);
    await server.restart();
    for (const { code, output } of await Promise.all(ranks.map((rank) => rank.ended))) expect(code, output).toBe(0);
    await service.said('run broker:');
    await stop(service);
    const { ranks: reports, findings } = await reportOf('broker');
    expectWhole(reports, 4);
    expect(findings).toEqual([]);
  });

  it('loses and doubles nothing when the aggregator is killed and restarted mid-run', async () => {
    await using server = await startNatsServer();
    const serve = (): StartedCommand => startCommand(['serve', '--listen', '127.0.0.1:0', '--nats', server.url, '--out', directory]);
    const first = serve();
    await first.said('listening on');
    const spool = join(directory, 'spool-b');
    const ranks = await startRanks(4, example, {
      RANKTRACE_URL: server.url,
      RANKTRACE_RUN: 'service',
      RANKTRACE_SPOOL_DIRECTORY: spool,
    });
    await trained(first);
    await kill9(first);
    await setTimeout(1000);
    const second = serve();
    for (const { code, output } of await Promise.all(ranks.map((rank) => rank.ended))) expect(code, output).toBe(0);
    await second.said('run service:');
    await stop(second);
    const { ranks: reports, findings } = await reportOf('service');
    expectWhole(reports, 4);
    expect(findings).toEqual([]);
  });
});

describe('ranktrace run over NATS', () => {
  it('waits for all ranks that one process starts, also where one of them ended long before and the broker was killed', async () => {
    await using server = await startNatsServer();
    const launcher = `
      import { spawn } from 'node:child_process';
      const start = (RANK, ...args) => new Promise((resolve) => {
        spawn(process.execPath, args, { stdio: 'inherit', env: { ...process.env, RANK, WORLD_SIZE: '2' } }).on('exit', resolve);
      });
      const late = start('1', 'test/programs/steps-until.mjs', process.argv[1], '5');
      await start('0', '${stepProgram}', '20', '5');
      console.log('rank 0 is over');
      await late;`;
    const enough = join(directory, 'enough');
    const train = [process.execPath, '--input-type=module', '-e', launcher, enough];
    const command = startCommand(['run', '--name', 'launched', '--out', directory, '--nats', server.url, '--', ...train], countable);
    await command.said('rank 0 is over');
    await setTimeout(1000);
    await server.kill9();
    await command.said('rank 1: away');
    await server.restart();
    await command.said('rank 1: back');
    writeFileSync(enough, '');
    const { code, stdout, stderr } = await command.ended;
    expect(code, stderr).toBe(0);
    expect(stdout).not.toContain('rank_lost');
    expectWhole((await reportOf('launched')).ranks, 2);
  });
});

describe('the embedded transport', () => {
  it('loses and doubles nothing when the aggregator is killed again and again', async () => {
    const port = await freePort();
    const serve = async (): Promise<StartedCommand> => {
      const service = startCommand(['serve', '--listen', `127.0.0.1:${port}`, '--out', directory]);
      await service.said('listening on');
      return service;
    };
    let service = await serve();
    const environment = {
      RANKTRACE_URL: `ws://127.0.0.1:${port}`,
      RANKTRACE_RUN: 'killed',
      RANKTRACE_SPOOL_DIRECTORY: join(directory, 'spool-c'),
    };
    const ranks = await startRanks(3, [stepProgram, '1200', '5'], environment);
    for (const wait of [900, 350, 620]) {
      await setTimeout(wait);
      await kill9(service);
      await setTimeout(200);
      service = await serve();
    }
    for (const { code, output } of await Promise.all(ranks.map((rank) => rank.ended))) expect(code, output).toBe(0);
    await service.said('run killed:');
    await stop(service);
    const { ranks: reports } = await reportOf('killed');
    expectWhole(reports, 3);
    for (const { counts } of reports)
      expect(counts).toMatchObject({ step: 1200, span: 3600, instant: 1200, counter: 1200, collective: 1200 });
  });

  it('delivers what was recorded before the aggregator came up', async () => {
    const port = await freePort();
    const environment = {
      RANKTRACE_URL: `ws://127.0.0.1:${port}`,
      RANKTRACE_RUN: 'early',
      RANKTRACE_SPOOL_DIRECTORY: join(directory, 'spool-d'),
    };
    const ranks = await startRanks(2, [stepProgram, '600', '5'], environment);
    await setTimeout(1500);
    const service = startCommand(['serve', '--listen', `127.0.0.1:${port}`, '--out', directory]);
    for (const { code, output } of await Promise.all(ranks.map((rank) => rank.ended))) expect(code, output).toBe(0);
    await service.said('run early:');
    await stop(service);
    const { ranks: reports } = await reportOf('early');
    expectWhole(reports, 2);
    for (const { counts } of reports) expect(counts.step).toBe(600);
  });
});

/** Resolves when a rank has written that some hundred steps are over: on a busy machine, processes need seconds to start. */
const progressed = (path: string): Promise<void> =>
  expect
    .poll(() => (existsSync(path) ? readFileSync(path, 'utf8').split('\n').length : 0), { timeout: 120_000, interval: 50 })
    .toBeGreaterThan(500);

/** Resolves when a batch of a rank lies below this folder: its shipper works, and watches signals. */
const shipped = (folder: string): Promise<void> =>
  expect
    .poll(() => existsSync(folder) && readdirSync(folder, { recursive: true }).some((name) => `${name}`.endsWith('.seg')), {
      timeout: 120_000,
      interval: 50,
    })
    .toBe(true);

/** Resolves when a service has stored what was on its way: its status stays as it is for a second. */
async function settled(port: number): Promise<void> {
  const status = async (): Promise<string> => {
    const { runs } = (await (await fetch(`http://127.0.0.1:${port}/status`)).json()) as {
      runs: { ranks: { batches: number }[] }[];
    };
    return JSON.stringify(runs.map(({ ranks }) => ranks.map(({ batches }) => batches)));
  };
  for (let [before, now] = ['', await status()]; now !== before; ) {
    await setTimeout(1000);
    [before, now] = [now, await status()];
  }
}

describe('a rank that dies', () => {
  // 5 ms steps; flush interval 200 ms, and time for the shipper of a busy machine to get a turn.
  const stepMs = 5;
  const stepsLostMax = (200 + 1000) / stepMs;

  it('by kill -9 loses at most the last flush interval, and its end is reported', async () => {
    const port = await freePort();
    const service = startCommand(['serve', '--listen', `127.0.0.1:${port}`, '--out', directory]);
    await service.said('listening on');
    const progress = join(directory, 'progress');
    const environment = {
      RANKTRACE_URL: `ws://127.0.0.1:${port}`,
      RANKTRACE_RUN: 'dead',
      RANKTRACE_SPOOL_DIRECTORY: join(directory, 'spool-e'),
    };
    const [rank] = await startRanks(1, [stepProgram, '100000', String(stepMs), progress], environment);
    await progressed(progress);
    const told = async (): Promise<number> => {
      const { runs } = (await (await fetch(`http://127.0.0.1:${port}/status`)).json()) as LiveMessage;
      return readFileSync(progress, 'utf8').split('\n').length - (runs[0]?.ranks[0]?.step ?? 0);
    };
    await expect.poll(told, { timeout: 120_000, interval: 50 }).toBeLessThan(stepsLostMax / 2);
    rank?.child.kill('SIGKILL');
    expect((await rank?.ended)?.signal).toBe('SIGKILL');
    await settled(port);
    await stop(service);
    const done = readFileSync(progress, 'utf8').trim().split('\n').length;
    const { ranks, findings } = await reportOf('dead');
    expect(done).toBeGreaterThan(100);
    expect(ranks[0]?.ended).toBe(false);
    expect(ranks[0]?.counts.step).toBeGreaterThanOrEqual(done - stepsLostMax);
    expect(findings).toMatchObject([{ kind: 'rank_lost', ranks: [0] }]);
  });

  it('by kill -9 with the aggregator away leaves the rest in its spool, where merge finds it', async () => {
    const progress = join(directory, 'progress-alone');
    const spool = join(directory, 'spool-f');
    const environment = { RANKTRACE_URL: `ws://127.0.0.1:${await freePort()}`, RANKTRACE_RUN: 'alone', RANKTRACE_SPOOL_DIRECTORY: spool };
    const [rank] = await startRanks(1, [stepProgram, '100000', String(stepMs), progress], environment);
    await progressed(progress);
    await shipped(spool);
    // The first batch has all steps of the time in which its shipper started.
    await setTimeout(1000);
    rank?.child.kill('SIGKILL');
    await rank?.ended;
    const done = readFileSync(progress, 'utf8').trim().split('\n').length;
    const { ranks } = await reportOf('alone', spool);
    expect(ranks[0]?.counts.step).toBeGreaterThanOrEqual(done - stepsLostMax);
    expect(ranks[0]?.missing).toBe(0);
  });

  it.each(['SIGTERM', 'SIGINT'] as const)('by %s flushes first and still dies of it', async (signal) => {
    const out = join(directory, `signal-${signal}`);
    const progress = join(directory, `progress-${signal}`);
    const environment = { RANKTRACE_DIRECTORY: out, RANKTRACE_RUN: 'signal' };
    const [rank] = await startRanks(1, [stepProgram, '100000', String(stepMs), progress], environment);
    await progressed(progress);
    await shipped(out);
    rank?.child.kill(signal);
    expect((await rank?.ended)?.signal).toBe(signal);
    const { ranks } = await reportOf('signal', out);
    expectWhole(ranks, 1);
  });

  it('by an uncaught exception flushes first', async () => {
    const out = join(directory, 'exception');
    const program = `
      import { profile, recordFunction } from '@ranktrace/sdk';
      const prof = profile().start();
      for (let step = 0; step < 50; step++) { recordFunction('work', () => {}); prof.step(); }
      recordFunction('fatal', () => { throw new Error('out of memory, say'); });`;
    const [rank] = await startRanks(1, ['--input-type=module', '-e', program], {
      RANKTRACE_DIRECTORY: out,
      RANKTRACE_RUN: 'exception',
    });
    const ended = await rank?.ended;
    expect(ended?.code).toBe(1);
    expect(ended?.output).toContain('out of memory, say');
    const { ranks } = await reportOf('exception', out);
    expectWhole(ranks, 1);
    expect(ranks[0]?.counts).toMatchObject({ step: 50, span: 51 });
  });
});

describe('the trace', () => {
  it('has the same bytes whatever order batches arrived in, however often, and however often the store was reopened', async () => {
    const out = join(directory, 'ordered');
    const ranks = await startRanks(2, [stepProgram, '200', '2'], { RANKTRACE_DIRECTORY: out, RANKTRACE_RUN: 'ordered' });
    await Promise.all(ranks.map((rank) => rank.ended));
    using log = openBatchLog(join(out, 'ordered'));
    const batches = log
      .run('ordered')
      .sources()
      .flatMap((source) => Array.from({ length: source.count }, (_, index) => source.read(index) as Uint8Array));
    const digest = async (name: string, order: readonly Uint8Array[]): Promise<string> => {
      const storeDirectory = join(directory, name);
      for (const [index, bytes] of order.entries()) {
        await using store = new RunStore(storeDirectory, 'ordered');
        const header = decodeBatchHeader(bytes);
        store.append(bytes, header);
        if (index % 2 === 0) expect(store.append(bytes, header)).toBe('duplicate');
      }
      await using store = new RunStore(storeDirectory, 'ordered');
      const path = join(directory, `${name}.pftrace`);
      await writeTrace(store.sources(), path);
      return createHash('sha256').update(readFileSync(path)).digest('hex');
    };
    const straight = await digest('straight', batches);
    expect(await digest('backwards', [...batches].reverse())).toBe(straight);
    expect(await digest('interleaved', [...batches.filter((_, i) => i % 2 === 0), ...batches.filter((_, i) => i % 2 === 1)])).toBe(
      straight,
    );
  });
});
