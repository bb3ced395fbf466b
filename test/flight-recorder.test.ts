// Ranks whose schedule records nothing, and an aggregator that pulls the last steps: real processes, over both transports.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { type Aggregator, inflate, startAggregator } from '@ranktrace/aggregator';
import { decodeBatch } from '@ranktrace/protocol';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { startNatsServer } from './setup/nats-server.ts';
import { startRanks } from './setup/rank-programs.ts';
import { runLine } from './setup/warm-command.ts';

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
  readonly findings: readonly { readonly kind: string }[];
}

/** Steps that a flight recorder holds, and steps before the pull: enough that the forgotten ones are far away, however slow its thread is. */
/** Asked so late that the steps of the first batch, in which a starved shipper starts, are gone. */
const [heldSteps, askedAfter] = [100, 1200];

async function until(what: string, isSo: () => boolean): Promise<void> {
  for (const deadline = performance.now() + 150_000; !isSo(); await setTimeout(50)) {
    if (performance.now() > deadline) throw new Error(`${what} did not happen`);
  }
}

/** Steps of which the store has spans, by rank. */
function detailIn(aggregator: Aggregator): Map<number, number[]> {
  const found = new Map<number, number[]>();
  for (const source of aggregator.store('quiet').sources()) {
    const steps: number[] = [];
    for (let index = 0; index < source.count; index++) {
      const { strings, tables } = decodeBatch(source.read(index) as Uint8Array, inflate);
      const { columns, length } = tables.numberArguments;
      for (let row = 0; row < length; row++) {
        if (strings[columns.key[row] as number] === 'step') steps.push(columns.value[row] as number);
      }
    }
    found.set(
      source.rank,
      [...new Set(steps)].sort((x, y) => x - y),
    );
  }
  return found;
}

interface Pulled {
  readonly report: Report;
  /** The last step that each rank had reported before the pull. */
  readonly asked: readonly number[];
  /** Steps whose details came, by rank. */
  readonly detail: ReadonlyMap<number, readonly number[]>;
  readonly dump: string;
}

/** Lets two ranks run that record nothing, pulls, waits for the answers, ends them, and reads the store. */
async function pulled(aggregator: Aggregator, url: string, ask: () => Promise<void>, hasCome: () => boolean): Promise<Pulled> {
  const file = join(directory, 'enough');
  const ranks = await startRanks(2, ['test/programs/steps-until.mjs', file, '5'], {
    RANKTRACE_URL: url,
    RANKTRACE_RUN: 'quiet',
    RANKTRACE_SPOOL_DIRECTORY: join(directory, 'spool'),
    RANKTRACE_SCHEDULE: 'wait=100000000,warmup=1,active=1',
    RANKTRACE_FLIGHT_RECORDER_STEPS: `${heldSteps}`,
    RANKTRACE_OVERHEAD_BUDGET: '1',
  });
  const last = (): number[] => [0, 1].map((rank) => aggregator.steps('quiet', rank).at(-1)?.step ?? -1);
  await until(`step ${askedAfter}`, () => Math.min(...last()) >= askedAfter);
  const asked = last();
  await ask();
  await until('what was asked for', hasCome);
  // Batches that follow were sent after the request was handled.
  const then = Math.max(...last());
  await until('further steps', () => Math.min(...last()) > then);
  writeFileSync(file, '');
  for (const { ended } of ranks) expect(await ended).toMatchObject({ code: 0 });
  // A broker may still hold batches that the ranks have sent.
  const lives = () => aggregator.status().runs.find(({ run }) => run === 'quiet')?.ranks ?? [];
  await until('the last batches', () => lives().length === 2 && lives().every(({ ended, missing }) => ended && missing === 0));
  const stored = join(directory, 'out', 'quiet');
  const merged = await runLine(['merge', stored, '-o', join(directory, 'quiet.txt'), '--json']);
  expect(merged.stderr).toBe('');
  const dump = await runLine(['dump', stored]);
  return { report: JSON.parse(merged.stdout) as Report, asked, detail: detailIn(aggregator), dump: dump.stdout };
}

/** Ranks that do not wait for each other: on a busy machine one of them may be ahead when both end. */
function expectSound({ findings }: Report): void {
  expect(findings.filter(({ kind }) => kind !== 'rank_ended_early')).toEqual([]);
}

function check({ report, asked, detail, dump }: Pulled): void {
  expectSound(report);
  expect(report.ranks).toHaveLength(2);
  for (const { rank, counts, recorded, missing, late } of report.ranks) {
    expect({ rank, missing, late, step: counts.step }).toEqual({ rank, missing: 0, late: 0, step: recorded.step });
    expect(counts.counter).toBeGreaterThanOrEqual(counts.step as number);
    // The steps that the flight recorder held at the pull: consecutive, up to then, and without the first ones.
    const steps = detail.get(rank) ?? [];
    const [first = 0, to = 0] = [steps[0], steps.at(-1)];
    expect(steps).toEqual(steps.map((_, at) => first + at));
    expect(to).toBeGreaterThanOrEqual(asked[rank] as number);
    expect(steps.length).toBeGreaterThanOrEqual(heldSteps - 1);
    expect(first).toBeGreaterThan(0);
    // Three spans a step; fewer for the one that ran at the time.
    expect(counts.span).toBeGreaterThanOrEqual(3 * (steps.length - 1));
    expect(counts.span).toBeLessThanOrEqual(3 * (steps.length + 1));
    expect(dump).toMatch(new RegExp(`rank ${rank}`));
  }
}

const hasDetail = (aggregator: Aggregator) => (): boolean => [0, 1].every((rank) => (detailIn(aggregator).get(rank)?.length ?? 0) > 0);

test('what the flight recorders hold comes when it is asked for, over WebSocket', async () => {
  await using aggregator = await startAggregator({ out: join(directory, 'out') });
  const url = aggregator.address.replace('http', 'ws');
  check(await pulled(aggregator, url, () => aggregator.pullFlightRecorders('quiet'), hasDetail(aggregator)));
});

test('the same over NATS', async () => {
  await using server = await startNatsServer();
  await using aggregator = await startAggregator({ out: join(directory, 'out'), nats: { servers: [server.url] } });
  check(await pulled(aggregator, server.url, () => aggregator.pullFlightRecorders('quiet'), hasDetail(aggregator)));
});

test('a pull for another run, or for steps that are long gone, brings nothing', async () => {
  await using aggregator = await startAggregator({ out: join(directory, 'out') });
  const ask = async (): Promise<void> => {
    await aggregator.pullFlightRecorders('another');
    await aggregator.pullFlightRecorders('quiet', { fromStep: 1, toStep: 5 });
  };
  const { report } = await pulled(aggregator, aggregator.address.replace('http', 'ws'), ask, () => true);
  expectSound(report);
  for (const { counts, recorded } of report.ranks)
    expect(counts).toMatchObject({ step: recorded.step, span: 0, instant: 0, collective: 0 });
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
    const merged = await runLine(['merge', out, '-o', join(directory, `${code}.txt`), '--json']);
    return (JSON.parse(merged.stdout) as Report).ranks[0]?.counts.span ?? 0;
  };
  expect(await spans('3')).toBe(40);
  expect(await spans('0')).toBe(0);
});
