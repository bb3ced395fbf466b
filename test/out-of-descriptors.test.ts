// A moment without a free file descriptor: everything that opens a file fails then, and continues afterwards.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { repository, startCommand, startProgram } from './setup/ranktrace-command.ts';
import { readRun } from './setup/trace-events.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'ranktrace-descriptors-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const sdk = JSON.stringify(new URL('../packages/sdk/dist/index.js', import.meta.url).href);

/** Records 1000 spans before, during and after that moment. */
const program = `
  import { closeSync, existsSync, openSync, readdirSync } from 'node:fs';
  import { setTimeout } from 'node:timers/promises';
  import { profile, recordFunction } from ${sdk};
  const prof = profile({ sampleIntervalMs: 50 }).start();
  const record = async (from) => {
    for (let span = from; span < from + 1000; span++) {
      recordFunction('part', () => {});
      if (span % 100 === 99) { prof.step(); await setTimeout(60); }
    }
  };
  // Its client is loaded, and has a connection, once it acknowledges; the output has a file.
  const isOpen = () => readdirSync(process.env.WATCHED, { recursive: true }).some((name) => name.endsWith(process.env.RANKTRACE_URL ? 'acked' : '.seg'));
  while (!existsSync(process.env.WATCHED) || !isOpen()) await setTimeout(10);
  await record(0);
  // More than once: what another thread had open at that moment is free when it closes it.
  const held = [];
  const hold = () => { try { for (;;) held.push(openSync('/dev/null')); } catch {} };
  hold();
  await record(1000);
  // Looking for a file needs no descriptor.
  while (!existsSync(process.env.SAID)) { hold(); await setTimeout(10); }
  for (const descriptor of held) closeSync(descriptor);
  await record(2000);
  await prof.stop();`;

test.for(['file', 'ws'] as const)(
  'recording goes on after it, with all that was recorded, and says so in a line (%s)',
  async (transport) => {
    const out = join(directory, 'out');
    const service = transport === 'ws' ? startCommand(['serve', '--listen', '127.0.0.1:0', '--out', out]) : undefined;
    await service?.said('listening on');
    const url = `ws://${/listening on (?:http:\/\/)?([\d.:]+)/.exec(service?.output() ?? '')?.[1]}`;
    const env = {
      ...process.env,
      RANKTRACE_RUN: 'run',
      RANKTRACE_DIRECTORY: out,
      RANKTRACE_SPOOL_DIRECTORY: join(directory, 'spool'),
      SAID: join(directory, 'said'),
      WATCHED: service ? join(directory, 'spool') : out,
      RANKTRACE_OVERHEAD_BUDGET: '1',
      ...(service && { RANKTRACE_URL: url }),
    };
    const command = `ulimit -n 512; exec ${process.execPath} --input-type=module -e "$0"`;
    const rank = startProgram('bash', ['-c', command, program], { cwd: repository, env, ownGroup: false });
    await rank.said('sampling the host failed');
    writeFileSync(env.SAID, '');
    const { code, stderr } = await rank.ended;
    expect(code, stderr).toBe(0);
    service?.child.kill('SIGINT');
    await service?.ended;
    const { events, findings } = await readRun(service ? join(out, 'run') : out, 'run');
    expect(
      events.filter(({ name }) => name === 'part'),
      stderr,
    ).toHaveLength(3000);
    expect(findings).toEqual([]);
    expect(stderr).toMatch(/^ranktrace: sampling the host failed, and goes on: .*EMFILE/m);
    expect(stderr).not.toMatch(/^ {4}at /m);
  },
);
