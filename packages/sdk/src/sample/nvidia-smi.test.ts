// No GPU is needed: an executable script named nvidia-smi, run as a real child process, replays the output of real devices (fixtures/). The
// output is recorded; its ends, hangs and deaths are made up.

import { spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { basicFields, type DeviceSample } from './device-rows.ts';
import { readFixture } from './fixtures/read-fixture.ts';
import { startNvidiaSmi } from './nvidia-smi.ts';
import { type SampleLimits, sampleLimits } from './sample-limits.ts';

let folder: string;
let command: string;
let sampling: { stop(): void } | undefined;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'nvidia-smi-'));
  command = join(folder, 'nvidia-smi');
});
afterEach(() => {
  sampling?.stop();
  rmSync(folder, { recursive: true, force: true });
});

// The recording is of another query: put its columns in our order, values unchanged, "[N/A]" where it has none.
const h100 = readFixture('h100.csv');
const rows = h100.lines.slice(1).map((line) => {
  const cells = line.split(', ');
  return ['index', 'uuid', 'name', 'utilization.gpu', 'utilization.memory', 'memory.used', 'memory.total']
    .concat(['clocks.sm', 'clocks.mem', 'power.draw', 'temperature.gpu'])
    .map((field) => cells[h100.fields.indexOf(field)] ?? '[N/A]')
    .join(', ');
});
const all = rows.map((row) => `${row}, 5, 16`);

/** Writes the script; each part is shell, run for its sub-command. `$SELF.runs` counts starts of the query. */
function script(query: string, dmon = 'exit 1', nvlink = 'exit 1'): void {
  const pid = 'echo $$ >> "$0.pids"';
  const text = `#!/bin/sh\n${pid}\ncase "$1" in\ndmon) ${dmon};;\nnvlink) ${nvlink};;\n*) echo "$@" >> "$0.runs"\n${query};;\nesac\n`;
  writeFileSync(command, text);
  chmodSync(command, 0o755);
}
const print = (lines: readonly string[]) => `cat <<'END'\n${lines.join('\n')}\nEND\n`;
// The shell's own printf: like nvidia-smi, the process that writes is the one that a closed pipe ends.
const forever = (lines: readonly string[]) => `while :; do\nprintf '%s\\n' '${lines.join("' '")}'\nsleep 0.05\ndone`;
const file = (name: string) => (existsSync(`${command}.${name}`) ? readFileSync(`${command}.${name}`, 'utf8').trim().split('\n') : []);
const alive = () => file('pids').filter((pid) => isAlive(Number(pid)));

function isAlive(pid: number): boolean {
  try {
    // A zombie has ended, but its parent has not looked.
    return !/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    return false;
  }
}

/** Short waits before retries; full waits before giving up, for a busy machine may take its time. */
const short = { ...sampleLimits, restartDelaysMs: [20, 40], nvlinkIntervalMs: 50, pipesOpenMsMax: 10_000 };

function start(devices?: readonly string[] | 'last', limits: SampleLimits = short) {
  const samples: DeviceSample[] = [];
  const notices: string[] = [];
  sampling = startNvidiaSmi({
    devices,
    intervalMs: 100,
    command,
    limits,
    onSample: (sample) => samples.push(sample),
    onNotice: (line) => notices.push(line),
  });
  return { samples, notices };
}

async function until(condition: () => boolean, waitMs = 60_000): Promise<void> {
  const endMs = performance.now() + waitMs;
  while (!condition()) {
    if (performance.now() > endMs) throw new Error(`Waited ${waitMs} ms`);
    await sleep(10);
  }
}
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

test('reports the last of all devices alone, once it is known which that is', async () => {
  script(forever(all));
  const { samples } = start('last');
  await until(() => samples.length >= 4);
  const last = all.map((row) => Number(row.split(', ')[0])).reduce((a, b) => Math.max(a, b));
  expect([...new Set(samples.map(({ device }) => device))]).toEqual([`${last}`]);
  expect(file('runs')[0]).not.toContain(' -i ');
});

test('reads one long-running child row by row, for the devices wanted', async () => {
  script(forever(all));
  const { samples, notices } = start(['2', 'GPU-8c958eaa-b244-64cb-6283-d37792aac963']);
  await until(() => samples.length >= 8);
  expect(samples[0]).toEqual({
    device: '2',
    uuid: 'GPU-107f0d10-2c02-7c73-7b9f-680acd29b484',
    name: 'NVIDIA H100 80GB HBM3',
    values: {
      'gpu utilization': 100,
      'memory utilization': 1,
      'memory used': 29089 * 1024 * 1024,
      'memory total': 81559 * 1024 * 1024,
      power: 154.88,
      temperature: 35,
      'pcie generation': 5,
      'pcie width': 16,
    },
  });
  expect(file('runs')).toEqual([
    `--query-gpu=${basicFields.join(',')},pcie.link.gen.current,pcie.link.width.current --format=csv,noheader,nounits -lms 100 ` +
      '-i 2,GPU-8c958eaa-b244-64cb-6283-d37792aac963',
  ]);
  expect(notices).toEqual([]);
  sampling?.stop();
  const reported = samples.length;
  await until(() => alive().length === 0);
  await sleep(100);
  expect(samples.length).toBe(reported);
});

test('adds PCIe throughput of dmon and rates of the links, with the identity that the query reported', async () => {
  const titan = readFixture('dmon-titan-x.txt').lines;
  const [v100Start, v100End] = ['nvlink-v100-start.txt', 'nvlink-v100-end.txt'].map((name) => readFixture(name).lines);
  script(
    forever(all),
    forever(titan),
    `if [ -e "$0.linked" ]; then\n${print(v100End ?? [])}else\ntouch "$0.linked"\n${print(v100Start ?? [])}fi`,
  );
  const { samples, notices } = start();
  const withValue = (name: string) => samples.filter((sample) => name in sample.values);
  await until(() => withValue('pcie rx').length >= 4 && withValue('nvlink tx').length >= 1);
  // The query did not report devices 0 and 1 of the recorded dmon.
  expect(new Set(withValue('pcie rx').map(({ device }) => device))).toEqual(new Set(['2', '3']));
  expect(withValue('pcie rx')[0]).toEqual({
    device: '2',
    uuid: 'GPU-107f0d10-2c02-7c73-7b9f-680acd29b484',
    name: 'NVIDIA H100 80GB HBM3',
    values: { 'pcie rx': 33e6, 'pcie tx': 10e6 },
  });
  expect(withValue('nvlink tx')[0]).toMatchObject({ device: '3', uuid: 'GPU-8c958eaa-b244-64cb-6283-d37792aac963' });
  expect(withValue('nvlink tx')[0]?.values['nvlink tx']).toBeGreaterThan(0);
  expect(notices).toEqual([]);
});

test('goes without dmon and links where they do not work, and does not speak of it', async () => {
  script(forever(all), print(readFixture('dmon-unsupported.txt').lines), 'exit 0');
  const { samples, notices } = start();
  await until(() => samples.length >= 40 && file('pids').length >= 3);
  expect(file('pids')).toHaveLength(3);
  expect(samples.every(({ values }) => 'power' in values)).toBe(true);
  expect(notices).toEqual([]);
});

test('asks for the basic fields where the driver does not know the others', async () => {
  const complaint = readFixture('field-error.txt').output;
  script(`case "$1" in *pcie*) cat <<'END'\n${complaint}END\nexit 2;; *) ${forever(rows)};; esac`);
  const { samples, notices } = start();
  await until(() => samples.length >= 4);
  expect(file('runs').map((run) => run.split(' ')[0])).toEqual([
    `--query-gpu=${basicFields.join(',')},pcie.link.gen.current,pcie.link.width.current`,
    `--query-gpu=${basicFields.join(',')}`,
  ]);
  expect(notices).toEqual([]);
});

test('gives one notice when nvidia-smi is absent', async () => {
  const { samples, notices } = start();
  await until(() => notices.length > 0);
  await sleep(200);
  expect(notices).toEqual(['no GPU counters from nvidia-smi: it cannot be started (ENOENT)']);
  expect(samples).toEqual([]);
});

test('gives one notice when it may not be run', async () => {
  writeFileSync(command, 'no program');
  const { notices } = start();
  await until(() => notices.length > 0);
  expect(notices).toEqual(['no GPU counters from nvidia-smi: it cannot be started (EACCES)']);
});

test('gives one notice, with its own words, when the driver fails it however often it is started', async () => {
  script(`${print(readFixture('driver-error.txt').lines)}exit 9`);
  const { notices } = start();
  await until(() => notices.length > 0);
  expect(file('runs')).toHaveLength(3);
  expect(notices).toEqual([
    "no GPU counters from nvidia-smi: it ended (exit code 9: NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. " +
      'Make sure that the latest NVIDIA driver is installed and running.)',
  ]);
});

test('starts one that dies again, and reads on', async () => {
  script(`if [ -e "$0.died" ]; then ${forever(all)}; else touch "$0.died"; ${print(all)}kill -9 $$; fi`);
  const { samples, notices } = start();
  await until(() => samples.length >= 12);
  expect(file('runs')).toHaveLength(2);
  expect(notices).toEqual([]);
});

test('gives up one that dies each time, and says that there were counters', async () => {
  script(`${print(all)}kill -9 $$`);
  const { samples, notices } = start();
  await until(() => notices.length > 0);
  expect(notices).toEqual(['no more GPU counters from nvidia-smi: it ended (SIGKILL)']);
  expect(samples.length).toBe(12);
  await until(() => alive().length === 0);
});

test('ends one that hangs in silence', async () => {
  script('exec sleep 600');
  const { notices } = start(undefined, { ...short, restartDelaysMs: [20], silenceMsMax: 1000, silentIntervalsMax: 1 });
  await until(() => notices.length > 0);
  expect(notices).toEqual(['no GPU counters from nvidia-smi: it ended (no answer)']);
  // A starved shell may be ended before it writes its line.
  expect(file('runs').length).toBeLessThanOrEqual(2);
  await until(() => alive().length === 0);
});

test('skips what is no row: a header, a cut row, CRLF, a line of 10 MB, terminal codes', async () => {
  const [first = '', second = '', third = ''] = all;
  const noise = [h100.lines[0] ?? '', first.slice(0, 40), `${first}\r`, '\u001b[31m', second];
  script(`${print(noise)}head -c 10000000 /dev/zero | tr '\\0' x\necho\n${print([third])}printf '%s' '2, GPU-1, cut'\nexec sleep 600`);
  const { samples, notices } = start();
  await until(() => samples.length >= 3);
  expect(samples.map(({ device, values }) => [device, values.power])).toEqual([
    ['2', 154.88],
    ['3', 158.86],
    ['3', 162],
  ]);
  expect(notices).toEqual([]);
});

test('reads no more of a flood than its bounds', async () => {
  script(`yes '${all[0]}'`);
  const begunMs = performance.now();
  const { samples } = start(undefined, { ...short, linesPerIntervalMax: 10, outputCharsPerSecondMax: 100_000 });
  await until(() => samples.length > 0);
  await sleep(1200);
  // A pause may end in the middle of an interval, so one more may have begun.
  const intervals = Math.ceil((performance.now() - begunMs) / 100) + 1;
  expect(samples.length).toBeLessThanOrEqual(10 * intervals);
});

test('starts nothing for a rank without a device, and says why for one with MIG devices alone', async () => {
  script(forever(all));
  const none = start([]);
  const mig = start(['MIG-89c850dc']);
  await until(() => mig.notices.length > 0);
  expect(none.notices).toEqual([]);
  expect(mig.notices).toEqual(['no GPU counters from nvidia-smi: MIG devices have none of their own']);
  expect(file('runs')).toEqual([]);
});

test('keeps no process alive, and its children end with it: by itself, exit, SIGKILL, and the end of a worker', async () => {
  script(forever(all), forever(readFixture('dmon-titan-x.txt').lines));
  // Child processes and workers run the built files.
  const module = new URL('../../dist/sample/nvidia-smi.js', import.meta.url).href;
  const program = (then: string) => `
    import { startNvidiaSmi } from ${JSON.stringify(module)};
    let samples = 0;
    startNvidiaSmi({ devices: undefined, intervalMs: 100, command: ${JSON.stringify(command)}, onNotice: console.error, onSample: () => {
      if (++samples === 8) { ${then} }
    } });
    ${then === '' ? '' : 'setInterval(() => {}, 1000);'}`;
  const run = (then: string, inWorker: boolean) => {
    const entry = join(folder, `program-${performance.now()}.mjs`);
    writeFileSync(entry, program(then));
    // Without the conditions of this process, which resolve packages to their sources.
    return inWorker ? new Worker(entry, { execArgv: [] }) : spawn(process.execPath, [entry], { stdio: 'inherit' });
  };
  const ended = (party: { once(event: 'exit', listener: () => void): unknown }) =>
    new Promise<void>((resolve) => party.once('exit', () => resolve()));

  // Nothing else to do: it ends by itself, before the first row.
  await ended(run('', false));
  await until(() => alive().length === 0);
  await ended(run('process.exit(0)', false));
  await until(() => alive().length === 0);
  await ended(run("process.kill(process.pid, 'SIGKILL')", false));
  await until(() => alive().length === 0);
  await ended(run('process.exit(0)', true));
  await until(() => alive().length === 0);
  const worker = run('void 0', true) as Worker;
  await until(() => alive().length > 0);
  await worker.terminate();
  await until(() => alive().length === 0);
});
