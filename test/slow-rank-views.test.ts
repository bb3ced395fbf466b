// The page, `top`, the metrics, alerts and the report look at one job, and name the same slow rank and phase: a recorded job, a simulated one, and a live
// one whose phases have names that do not show what ranks do in them.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startAggregator, ViewClient } from '@ranktrace/aggregator';
import { type Alert, lowerMedian, type Overview, type PhaseRole } from '@ranktrace/protocol';
import { mergeRun, ReadBudget } from '@ranktrace/trace';
import { simulatedCluster } from '@ranktrace/trace/simulate';
import { MemoryBlocks, overviewOf, Timeline, timelineSink } from '@ranktrace/trace/timeline';
import { afterAll, describe, expect, it } from 'vitest';
import { workOf } from '../packages/cli/src/commands/top-ranks.ts';
import { inputsOf } from '../packages/cli/src/inputs/input-kinds.ts';
import { openTorchJob } from '../packages/cli/src/inputs/torch-job.ts';
import { headlineOf } from '../packages/viewer/src/overview/slow-ranks.ts';
import { startRanks } from './setup/rank-programs.ts';
import { repository, startCommand } from './setup/ranktrace-command.ts';
import { encoded, reportOf } from './setup/replayed-jobs.ts';
import { runLine } from './setup/warm-command.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-views-'));
afterAll(() => rmSync(directory, { recursive: true }));

/** The overview of a run at `address`, when it is analysed. */
async function overviewAt(address: string, run: string): Promise<Overview> {
  using client = await ViewClient.connect(address, { token: undefined });
  await client.ask({ type: 'open', run });
  let overview: Overview | undefined;
  await expect
    .poll(
      async () => {
        overview = await client.ask<Overview>({ type: 'overview', run, bins: 100 });
        return overview.allRead && overview.analysed && overview.ranks.length > 0;
      },
      { timeout: 2 * 60_000, interval: 100 },
    )
    .toBe(true);
  return overview as Overview;
}

/** `ranktrace_rank_excess_seconds` by rank. */
async function excessAt(address: string, run: string): Promise<ReadonlyMap<number, number>> {
  const text = await (await fetch(`${address}/metrics`)).text();
  const lines = text.matchAll(new RegExp(`^ranktrace_rank_excess_seconds\\{run="${run}",rank="(\\d+)"\\} (\\S+)$`, 'gm'));
  return new Map([...lines].map(([, rank, value]) => [Number(rank), Number(value)]));
}

/** Page and `top` name this rank and phase, and the metrics give that rank the largest excess; without a fault, no view names one. */
async function expectSame(
  address: string,
  run: string,
  fault: { readonly rank: number; readonly phase: string } | undefined,
): Promise<void> {
  const overview = await overviewAt(address, run);
  const headline = headlineOf(overview);
  const slow = workOf(overview).filter(({ isSlow }) => isSlow);
  if (fault === undefined) {
    expect([headline.ranks, slow]).toEqual([[], []]);
    return;
  }
  expect([headline.ranks.map(({ rank }) => rank.rank), headline.phase]).toEqual([[fault.rank], fault.phase]);
  expect(slow.map(({ rank, phase }) => [rank.rank, phase])).toEqual([[fault.rank, fault.phase]]);
  const excess = await excessAt(address, run);
  const [most] = [...excess].sort(([, a], [, b]) => b - a);
  expect(most?.[0]).toBe(fault.rank);
}

/** Ranks and phase of each alert about slower steps. */
const causesOf = (alerts: readonly Alert[]) =>
  alerts.filter(({ rule }) => rule === 'step_time').map(({ cause }) => [cause?.ranks, cause?.phase]);

describe('four ranks of PyTorch', () => {
  it.each(['balanced', 'rank1_forward', 'rank2_data_load'])('%s', async (job) => {
    const recorded = join(repository, 'test/data/kineto/ddp-4rank', job);
    await using aggregator = await startAggregator({ out: directory });
    for (const source of (await openTorchJob(inputsOf([recorded]), false, new ReadBudget())).sources(job)) {
      for (let index = 0; index < source.count; index++) {
        const batch = source.batch(index);
        if (batch === undefined) throw new Error(`batch ${index} of rank ${source.rank} cannot be read`);
        // Four processes of one host, as test/data/README.md says; their files do not name it.
        aggregator.ingest(encoded({ ...batch, header: { ...batch.header, host: 'vm', hostName: 'vm' } }));
      }
    }
    const truth = JSON.parse(readFileSync(join(recorded, 'truth.json'), 'utf8')) as { fault: { rank: number; phase: string }[] };
    const [fault] = truth.fault;
    const [finding] = (await reportOf(join(directory, job))).findings;
    expect(finding?.kind === 'straggler' ? [finding.ranks, finding.phase] : []).toEqual(
      fault === undefined ? [] : [[fault.rank], fault.phase],
    );
    await expectSame(aggregator.address, job, fault);
  });
});

describe('a simulated job', () => {
  const phases = ['data', 'forward', 'backward', 'optimizer'] as const;

  it.each([1, 2, 3, 4])('with a rank that is slow from some step on (seed %d)', async (seed) => {
    const [run, phase] = [`simulated-${seed}`, phases[seed % phases.length] as (typeof phases)[number]];
    const fault = { rank: (5 * seed) % 8, phase };
    const straggler = { ...fault, ms: 20, step: 250, lastStep: 699 };
    const { sources } = simulatedCluster({
      run,
      ranks: 8,
      hosts: 2,
      steps: 700,
      stepMs: 100,
      stragglers: [straggler],
      seed,
      rpcsPerSecond: 0,
    });
    await using aggregator = await startAggregator({ out: directory });
    // As they would come: the ranks side by side.
    const most = Math.max(...sources.map(({ count }) => count));
    for (let index = 0; index < most; index++) {
      for (const source of sources) {
        const batch = source.batch(index);
        if (batch !== undefined) aggregator.ingest(encoded(batch));
      }
    }
    await expect.poll(() => causesOf(aggregator.alerts.alerts(run))).toEqual([[[fault.rank], phase]]);
    const [finding] = (await reportOf(join(directory, run))).findings;
    expect([finding?.kind, finding?.ranks, finding?.phase]).toEqual(['straggler', [fault.rank], phase]);
    await expectSame(aggregator.address, run, fault);
  });
});

it('before anything is analysed, the page names the planted rank or nobody, never a sound one (seeds 1 to 200)', {
  timeout: 10 * 60_000,
}, () => {
  const parallel = [
    { ranks: 4 },
    { ranks: 8, tensorParallel: 2 },
    { ranks: 16, tensorParallel: 4 },
    { ranks: 16, tensorParallel: 2, pipeline: 4 },
    { ranks: 2 },
  ];
  const phases = ['forward', 'backward', 'optimizer'] as const;
  let found = 0;
  for (let seed = 1; seed <= 200; seed++) {
    const about = parallel[seed % parallel.length] as (typeof parallel)[number];
    const rank = seed % about.ranks;
    const fault = { rank, phase: phases[seed % phases.length] as (typeof phases)[number], ms: 30 };
    const isPlanted = seed % 2 === 0;
    const stragglers = isPlanted ? [fault] : [];
    const { sources } = simulatedCluster({ ...about, hosts: 2, steps: 8 + (seed % 9), rpcsPerSecond: 0, seed, stragglers });
    const timeline = new Timeline({ blocks: new MemoryBlocks() });
    for (const _ of mergeRun(sources, timelineSink(timeline)));
    const overview = overviewOf(timeline.processes, { bins: 64 });
    const named = headlineOf(overview).ranks.map(({ rank }) => rank.rank);
    expect(isPlanted ? [[], [rank]] : [[]], `seed ${seed}: ${JSON.stringify({ ...about, stragglers })}`).toContainEqual(named);
    found += named.length;
  }
  // Where ranks wait inside of phases, it mostly waits for the analysis.
  expect(found).toBeGreaterThan(40);
});

it('a live job whose phases have names that do not show what ranks do in them: their stated roles do', async () => {
  const [run, fault] = ['roles', { rank: 1, phase: 'recommender_forward' }];
  const service = startCommand(['serve', '--listen', '127.0.0.1:0', '--out', directory]);
  await service.said('listening on http');
  const address = /listening on (http:\S+?),/.exec(service.output())?.[1] ?? '';
  const ranks = await startRanks(3, ['test/programs/role-rank.mjs', '550', `${fault.rank}`, '300', '120'], {
    RANKTRACE_URL: address.replace('http', 'ws'),
    RANKTRACE_RUN: run,
    RANKTRACE_SPOOL_DIRECTORY: join(directory, 'spool'),
    // Without the wait for a CPU, a busy machine looks like slow ranks.
    RANKTRACE_SAMPLE_INTERVAL_MS: '250',
  });
  for (const { ended } of ranks) expect((await ended).code).toBe(0);
  const overview = await overviewAt(address, run);
  const roles = new Map<string, PhaseRole | undefined>(overview.phases.map((name, at) => [name, overview.phaseRoles[at]]));
  expect(Object.fromEntries(roles)).toEqual({
    ...{ rollouts: 'data', recommender_forward: 'work', exchange_weights: 'collective', rearrange: 'data', other: 'work' },
  });
  await expectSame(address, run, fault);
  const excess = await excessAt(address, run);
  expect(lowerMedian([...excess.values()])).toBeLessThan(0.005);
  expect(excess.get(fault.rank)).toBeGreaterThan(0.03);
  const alerts = JSON.parse((await runLine(['alerts', '--url', address, '--json'])).stdout) as { alerts?: Alert[] } | Alert[];
  // On a busy machine steps change for other reasons, too, but none explains this much.
  expect(causesOf(Array.isArray(alerts) ? alerts : (alerts.alerts ?? []))).toContainEqual([[fault.rank], fault.phase]);
  service.child.kill('SIGINT');
  await service.ended;
  const [finding] = (await reportOf(join(directory, run))).findings;
  expect([finding?.kind, finding?.ranks, finding?.phase]).toEqual(['straggler', [fault.rank], fault.phase]);
});
