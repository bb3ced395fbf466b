// `ranktrace doctor`: checks for everything that a run needs. One line per check; exit code 1 when a required one fails. With a recorded run: how
// well are its clocks aligned? Exit code 1 when one is not, or when they contradict each other.

import { access, constants, stat, statfs } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { checkNats, hostId, type NatsConnectOptions } from '@ranktrace/aggregator';
import { clockReport } from '@ranktrace/trace';
import { type InputOptions, openRun } from '../inputs/open-inputs.ts';
import { mergeAndReport } from '../print/merge-and-report.ts';
import { clocksData, formatClocks } from '../print/print-clocks.ts';
import { checkTfjs } from '../ranks/check-tfjs.ts';
import { type HostGpu, hostGpus } from '../ranks/host-gpus.ts';
import { CliError } from '../terminal/errors.ts';
import { formatBytes, formatNanos, formatTable } from '../terminal/format.ts';
import { abortOnInterrupt } from '../terminal/interrupt.ts';
import { print, printData } from '../terminal/output.ts';

interface Check {
  readonly name: string;
  readonly state: 'ok' | 'note' | 'failed';
  readonly text: string;
}

export interface DoctorOptions extends InputOptions {
  readonly nats?: NatsConnectOptions | undefined;
  readonly out?: string | undefined;
  readonly json?: boolean;
}

/** Checks the clocks of the run in `inputs`; without inputs, this machine. */
export async function doctor(inputs: readonly string[], options: DoctorOptions): Promise<number> {
  if (inputs.length === 0) return checkMachine(options);
  const ofMachine = options.out !== undefined ? '--out' : options.nats !== undefined ? '--nats' : undefined;
  if (ofMachine === undefined) return checkClocks(inputs, options);
  throw new CliError('bad_usage', `${ofMachine} is about this machine: with a recorded run its clocks alone are checked`);
}

async function checkMachine({ run, allowMixed, memory, ...options }: DoctorOptions): Promise<number> {
  const ofRun = run !== undefined ? '--run' : allowMixed === true ? '--allow-mixed' : memory !== undefined ? '--memory' : undefined;
  if (ofRun !== undefined) throw new CliError('bad_usage', `${ofRun} is about a recorded run: name one`);
  const gpus = await hostGpus().catch(() => undefined);
  const tfjs = await checkTfjs(process.cwd(), gpus?.length ?? 0);
  const checks: Check[] = [
    checkNode(),
    await checkClock(),
    await checkOutput(options.out ?? 'ranktrace-out'),
    checkGpu(gpus),
    { name: 'tfjs', ...tfjs },
  ];
  if (options.nats !== undefined) checks.push(await checkServer(options.nats));
  else checks.push({ name: 'nats', state: 'note', text: 'not checked: give --nats URL (a run on one host needs none)' });
  if (options.json === true) printData(checks);
  else print(formatTable([['check', 'state', ''], ...checks.map((c) => [c.name, c.state, c.text])], [false, false, false]));
  return checks.some((check) => check.state === 'failed') ? 1 : 0;
}

async function checkClocks(inputs: readonly string[], options: DoctorOptions): Promise<number> {
  using opened = await openRun(inputs, options);
  using interrupt = abortOnInterrupt();
  const { header, totals, summary } = await mergeAndReport(opened, undefined, [], interrupt.signal);
  const clocks = clockReport(totals);
  const { clockConflicts = [] } = header;
  if (options.json === true) printData(clocksData(clocks, clockConflicts));
  else print(formatClocks(clocks, clockConflicts, summary.firstStart));
  return clockConflicts.some(({ isAtStep }) => !isAtStep) || clocks.some(({ method }) => method === 'unaligned') ? 1 : 0;
}

function checkNode(): Check {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const enough = major > 20 || (major === 20 && minor >= 19);
  return { name: 'node', state: enough ? 'ok' : 'failed', text: `${process.version}${enough ? '' : ', 20.19 or later is needed'}` };
}

/** The smallest difference between two readings of the monotonic clock: the resolution of every measurement. */
async function checkClock(): Promise<Check> {
  let least = Number.POSITIVE_INFINITY;
  for (let reading = 0; reading < 10_000; reading++) {
    const before = process.hrtime.bigint();
    const step = Number(process.hrtime.bigint() - before);
    if (step > 0) least = Math.min(least, step);
  }
  return { name: 'clock', state: 'ok', text: `monotonic clock of host ${hostId()}, two readings ${formatNanos(least)} apart` };
}

async function checkOutput(out: string): Promise<Check> {
  try {
    const there = await nearestExisting(resolve(out));
    if (!(await stat(there)).isDirectory()) throw new Error(`"${there}" is not a directory`);
    await access(there, constants.W_OK | constants.X_OK);
    const { bavail, bsize } = await statfs(there);
    return { name: 'output', state: 'ok', text: `"${out}" can be written, ${formatBytes(bavail * bsize)} free` };
  } catch (error) {
    return { name: 'output', state: 'failed', text: `"${out}" cannot be written: ${(error as Error).message}` };
  }
}

/** `path` or the closest directory above it that exists: a check leaves no directory behind. */
async function nearestExisting(path: string): Promise<string> {
  try {
    await access(path);
    return path;
  } catch (error) {
    if (dirname(path) === path) throw error;
    return nearestExisting(dirname(path));
  }
}

function checkGpu(gpus: readonly HostGpu[] | undefined): Check {
  if (gpus === undefined) return { name: 'gpu', state: 'note', text: 'nvidia-smi is not there: no GPU counters' };
  if (gpus.length === 0) return { name: 'gpu', state: 'note', text: 'nvidia-smi lists no GPU' };
  const several = gpus.length > 1 ? '; several ranks here want one each: ranktrace run --gpus' : '';
  return { name: 'gpu', state: 'ok', text: `nvidia-smi reports ${gpus.length}: ${gpus[0]?.name}${several}` };
}

async function checkServer(nats: NatsConnectOptions): Promise<Check> {
  const url = nats.servers.join(', ');
  try {
    const { version, roundTripNs, jetStream } = await checkNats(nats);
    const server = `${url}: nats-server ${version}`;
    if (!jetStream) return { name: 'nats', state: 'failed', text: `${server} without JetStream: start it with -js or deploy/nats.conf` };
    return { name: 'nats', state: 'ok', text: `${server} with JetStream, round trip ${formatNanos(roundTripNs)}` };
  } catch (error) {
    return { name: 'nats', state: 'failed', text: (error as Error).message };
  }
}
