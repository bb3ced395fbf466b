// The disk of a rank's spool is full: everything that the aggregator accepts still arrives, and losses are counted, to the last batch.

import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, type TestContext, test } from 'vitest';
import { startNatsServer } from './setup/nats-server.ts';
import { startRanks } from './setup/rank-programs.ts';
import { repository, startCommand, startProgram } from './setup/ranktrace-command.ts';
import { mountSmallDisk, type SmallDisk } from './setup/small-disk.ts';
import { readRun } from './setup/trace-events.ts';

let out: string;
beforeEach(() => {
  out = mkdtempSync(join(tmpdir(), 'ranktrace-full-disk-'));
});
afterEach(() => rmSync(out, { recursive: true, force: true }));

function smallDisk({ task, skip }: TestContext, kibibytes: number): SmallDisk {
  const disk = mountSmallDisk(kibibytes);
  if ('directory' in disk) return disk;
  console.warn(`${task.name}: not tested here, for ${disk.reason}`);
  task.meta.impossibleHere = disk.reason;
  return skip(disk.reason);
}

async function record(spans: number, seconds: number, environment: Record<string, string>): Promise<string> {
  const args = ['test/programs/spans-in-time.mjs', `${spans}`, `${seconds}`];
  const [rank] = await startRanks(1, args, { RANKTRACE_RUN: 'run', ...environment });
  const ended = await rank?.ended;
  expect(ended?.code, ended?.output).toBe(0);
  return ended?.output ?? '';
}

const spansOf = (events: Awaited<ReturnType<typeof readRun>>['events']): number =>
  events.filter(({ name }) => name.startsWith('part ')).length;

test.for(['ws', 'nats'] as const)('a disk of 200 KiB loses nothing while the receiver keeps up (%s)', async (transport, context) => {
  using disk = smallDisk(context, 200);
  await using server = transport === 'nats' ? await startNatsServer() : undefined;
  const service = startCommand(['serve', '--listen', '127.0.0.1:0', '--out', out, ...(server ? ['--nats', server.url] : [])]);
  await service.said('listening on');
  const url = server?.url ?? `ws://${/listening on (?:http:\/\/)?([\d.:]+)/.exec(service.output())?.[1]}`;
  const output = await record(60_000, 12, { RANKTRACE_URL: url, RANKTRACE_SPOOL_DIRECTORY: disk.directory });
  await service.said('run run:');
  service.child.kill('SIGINT');
  await service.ended;
  const { events, findings } = await readRun(join(out, 'run'), 'run');
  expect(findings, output).toEqual([]);
  expect(spansOf(events)).toBe(60_000);
  expect(output).not.toContain('spoolBytesMax');
  expect(readdirSync(disk.directory)).toEqual([]);
});

test.for([
  ['the output', {}],
  // No service listens there.
  ['that of a rank whose receiver is away', { RANKTRACE_URL: 'ws://127.0.0.1:1', RANKTRACE_EXIT_DEADLINE_MS: '5000' }],
] as const)('what a full disk cost is counted in the trace, its last batches too: its spool is %s', async ([, environment], context) => {
  using disk = smallDisk(context, 100);
  const spool = { RANKTRACE_DIRECTORY: disk.directory, RANKTRACE_SPOOL_DIRECTORY: disk.directory };
  const output = await record(40_000, 4, { ...spool, ...environment });
  const { events, findings } = await readRun(disk.directory, 'run');
  expect(spansOf(events)).toBeGreaterThan(0);
  expect(spansOf(events)).toBeLessThan(40_000);
  const [, lost = ''] = /batches lost in all: (\d+)/.exec(output) ?? [];
  const finding = (what: string): string | undefined => findings.find((text) => text.includes(what));
  // A batch that found no room when the process ended shows only as missing.
  const reported = ['batches dropped', 'batches missing'].map((what) => Number(/: (\d+) batches/.exec(finding(what) ?? '')?.[1] ?? 0));
  expect(
    reported.reduce((sum, count) => sum + count),
    output,
  ).toBe(Number(lost));
  expect(finding('of kind span')).toBe(`rank 0: 40000 events of kind span were recorded, ${spansOf(events)} arrived`);
  expect(finding('without saying goodbye')).toBeUndefined();
  expect(output).toMatch(/the disk of the spool is full \(ENOSPC, "/);
  expect(output).not.toContain('spoolBytesMax');
});

test('a Python rank whose disk is full at its first write is recorded from where the disk has room again', async (context) => {
  using disk = smallDisk(context, 64);
  const program = `import os, sys, time
sys.path.insert(0, sys.argv[1])
import ranktrace
full = os.path.join(sys.argv[2], "full")
with open(full, "wb", 0) as file:
    try:
        while True:
            file.write(b"x" * 4096)
    except OSError:
        pass
with ranktrace.profile(run="run", directory=sys.argv[2] + "/out", flush_interval_ms=50, sample_interval_ms=0) as prof:
    time.sleep(0.5)
    prof.step()
    while prof._sender._rows.dropped_batches == 0:
        time.sleep(0.05)
    os.unlink(full)
    for _ in range(3):
        time.sleep(0.1)
        prof.step()
`;
  const line = ['-I', '-c', program, join(repository, 'clients/python'), disk.directory];
  const { code, stderr } = await startProgram(process.env.PYTHON_BIN ?? 'python3', line, {
    cwd: repository,
    env: process.env,
    ownGroup: false,
  }).ended;
  expect(code, stderr).toBe(0);
  const { events, findings } = await readRun(join(disk.directory, 'out/run'), 'run');
  const steps = events.filter(({ kind }) => kind === 'step').map(({ step }) => step);
  expect(steps.slice(-3)).toEqual([1, 2, 3]);
  expect(findings).toContainEqual(expect.stringMatching(/^rank 0: \d+ batch/));
});
