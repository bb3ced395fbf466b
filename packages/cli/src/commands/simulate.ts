// `ranktrace simulate`: writes a run store from a seeded simulated cluster, with the truth about its clocks beside it.
//
//   <out>/.<run>.partial-<pid>/<run>/…   ──all of it is there──►   <out>/<run>/segments/*.seg, run.json, truth.json
//
// Invariant: under its name a run is whole. An aborted simulation leaves nothing, also when the second Ctrl-C ends the process at once.

import { closeSync, existsSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { deflateRawSync } from 'node:zlib';
import { RunStore } from '@ranktrace/aggregator';
import { encodeBatch, printable } from '@ranktrace/protocol';
import {
  type ClusterOptions,
  ClusterSimulation,
  type ClusterTruth,
  type HostClockStep,
  resolveCluster,
  type Straggler,
  type StragglingPhase,
  stragglingPhases,
  truthLines,
} from '@ranktrace/trace/simulate';
import { type Command, InvalidArgumentError } from 'commander';
import { CliError } from '../terminal/errors.ts';
import { formatBytes, formatCount, formatNanos } from '../terminal/format.ts';
import { abortOnInterrupt, type Interrupt } from '../terminal/interrupt.ts';
import { print, printData, say } from '../terminal/output.ts';
import { showProgress } from '../terminal/progress.ts';

export interface SimulateOptions {
  readonly ranks: number;
  readonly hosts?: number;
  readonly ranksPerHost?: number;
  readonly seconds?: number;
  readonly steps?: number;
  readonly stepMs: number;
  readonly seed: number;
  readonly driftPpm: number;
  readonly asymmetryUs: number;
  readonly exitBiasUs: number;
  readonly clockStep?: readonly HostClockStep[];
  readonly straggler?: readonly Straggler[];
  readonly lost: number;
  readonly pings: true | readonly number[];
  readonly rpcsPerSecond: number;
  readonly tensorParallel: number;
  readonly pipeline: number;
  readonly transferScale: number;
  readonly out: string;
  readonly run?: string;
  readonly json?: boolean;
}

/** Totals of the written store. */
interface Written {
  readonly events: number;
  readonly batches: number;
  readonly bytes: number;
}

const breatheEveryMs = 10;
const syncEveryMs = 1000;

/** Writes the store and prints its contents. */
export async function simulate(options: SimulateOptions): Promise<number> {
  const { clockStep, straggler, pings, out, run = `simulated-${options.seed}` } = options;
  const noPings = pings === true ? [] : pings;
  const cluster: ClusterOptions = { ...options, run, noPings, clockSteps: clockStep ?? [], stragglers: straggler ?? [] };
  resolveCluster(cluster, flagOf);
  const directory = join(out, run);
  const taken = `Cannot write "${directory}": it is there already; remove it, or choose another --run or --out`;
  if (existsSync(directory)) throw new CliError('bad_input', taken);
  using interrupt = abortOnInterrupt();
  using partial = partialDirectory(join(out, `.${run}.partial-${process.pid}`));
  const simulation = new ClusterSimulation(cluster);
  const written = await writeStore(simulation, partial.path, run, interrupt).catch((error: unknown) => {
    if (interrupt.signal.aborted) throw new CliError('failed', `Interrupted: "${directory}" was not written`);
    throw error;
  });
  writeTruth(join(partial.path, run, 'truth.json'), simulation.truth);
  renameSync(join(partial.path, run), directory);
  const { truth } = simulation;
  if (options.json === true) printData(asData(truth, written, directory));
  else print(asText(truth, written, directory));
  return 0;
}

/** `--clock-step` for `clockSteps`, … */
function flagOf(option: keyof ClusterOptions): string {
  const renamed: Partial<Record<keyof ClusterOptions, string>> = { clockSteps: 'clock-step', stragglers: 'straggler' };
  return `--${renamed[option] ?? option.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/** A directory that is removed when it is disposed, or when the process ends earlier. */
function partialDirectory(path: string): Disposable & { readonly path: string } {
  const remove = (): void => {
    if (existsSync(path)) rmSync(path, { recursive: true });
  };
  process.once('exit', remove);
  return {
    path,
    [Symbol.dispose]: () => {
      process.off('exit', remove);
      remove();
    },
  };
}

async function writeStore(simulation: ClusterSimulation, out: string, run: string, interrupt: Interrupt): Promise<Written> {
  await using store = new RunStore(out, run, { onNotice: say });
  const progress = showProgress('simulating');
  let [batches, bytes] = [0, 0];
  let breathed = performance.now();
  let synced = breathed;
  try {
    for (const batch of simulation.batches()) {
      if (batch !== undefined) {
        const encoded = encodeBatch(batch, deflateRawSync);
        store.append(encoded, batch.header);
        batches++;
        bytes += encoded.length;
      }
      const now = performance.now();
      if (now - breathed < breatheEveryMs) continue;
      progress.update(Math.round(simulation.progress * 1000), 1000);
      if (now - synced >= syncEveryMs) {
        // Bounds what the system still has to write at the end.
        await store.sync(new Date());
        synced = performance.now();
      } else await setImmediate();
      interrupt.signal.throwIfAborted();
      breathed = performance.now();
    }
  } finally {
    progress.stop();
  }
  return { events: simulation.events, batches, bytes };
}

function writeTruth(path: string, truth: ClusterTruth): void {
  const file = openSync(path, 'wx');
  try {
    for (const line of truthLines(truth)) writeFileSync(file, `${line}\n`);
  } finally {
    closeSync(file);
  }
}

/** Losses, summed over the ranks. */
function lossesOf({ losses }: ClusterTruth): { collectives: number; rpcs: number; batches: number } {
  const sum = { collectives: 0, rpcs: 0, batches: 0 };
  for (const { collectives, rpcs, batches } of losses) {
    sum.collectives += collectives;
    sum.rpcs += rpcs;
    sum.batches += batches;
  }
  return sum;
}

function asText(truth: ClusterTruth, { events, batches, bytes }: Written, directory: string): string {
  const { cluster, hosts, steps, until } = truth;
  const lost = lossesOf(truth);
  const lines = [
    `run ${cluster.run}: ${counted(cluster.ranks, 'rank')} on ${counted(hosts.length, 'host')}, ${counted(steps, 'step')} in ${formatNanos(until)}, seed ${cluster.seed}`,
    `events: ${formatCount(events)} in ${counted(batches, 'batch', 'batches')} (${formatBytes(bytes)})`,
  ];
  if (cluster.lost > 0) {
    const parts = [
      counted(lost.collectives, 'collective part'),
      counted(lost.rpcs, 'rpc half', 'rpc halves'),
      counted(lost.batches, 'batch', 'batches'),
    ];
    lines.push(`lost on purpose: ${parts.join(', ')}`);
  }
  lines.push(`store: ${directory} (ranktrace merge ${directory} -o ${cluster.run}.pftrace)`, `truth: ${join(directory, 'truth.json')}`);
  return lines.map(printable).join('\n');
}

function asData(truth: ClusterTruth, written: Written, directory: string): unknown {
  const { cluster, hosts, steps, until } = truth;
  const { run, ranks, seed } = cluster;
  const simulated = { run, ranks, hosts: hosts.length, steps, simulatedNs: Math.round(until), seed };
  return { ...simulated, ...written, lost: lossesOf(truth), store: directory, truth: join(directory, 'truth.json') };
}

const counted = (count: number, one: string, many = `${one}s`): string => `${formatCount(count)} ${count === 1 ? one : many}`;

/** Gives `command` its options; `runName` checks a run's name. */
export function describeSimulate(command: Command, runName: (text: string) => string): Command {
  return command
    .description('write the run store of a simulated cluster, and the truth about its clocks')
    .option('-n, --ranks <n>', 'ranks, 1 to 1024', number, 16)
    .option('--hosts <n>', 'hosts, to which the ranks are spread evenly', number)
    .option('--ranks-per-host <n>', 'instead: at most so many ranks a host (default: 8)', number)
    .option('--seconds <s>', 'simulated time, ended with the step that runs then (default: 30)', number)
    .option('--steps <n>', 'instead: training steps', number)
    .option('--step-ms <ms>', 'length of a step where no rank waits', number, 200)
    .option('--seed <n>', 'the same seed gives the same run, to the byte', number, 0)
    .option('--drift-ppm <ppm>', "deviation of the clocks' rates among hosts", number, 10)
    .option('--asymmetry-us <us>', 'way of pings longer there than back, or shorter, by up to this per host', number, 30)
    .option('--exit-bias-us <us>', 'hosts leave collectives late by 0 to twice this', number, 10)
    .option('--clock-step <host@seconds:micros>', 'a clock jumps ahead, or back below 0; repeatable', listOf(clockStep))
    .option(
      '--straggler <rank:phase:+ms[@step]>',
      `a rank takes longer in ${stragglingPhases.join(', ')}, at each step, at one, or @from-to; repeatable`,
      listOf(straggler),
    )
    .option('--lost <share>', 'collective parts and rpc halves not recorded, batches not arrived, 0 to 0.9', number, 0)
    .option('--no-pings <host>', 'a host that sends no clock pings; repeatable', listOf(number))
    .option('--rpcs-per-second <n>', 'remote calls between ranks, in the whole cluster', number, 60)
    .option('--tensor-parallel <n>', 'ranks that share the work of each layer', number, 1)
    .option('--pipeline <n>', 'stages that send each other activations and gradients', number, 1)
    .option('--transfer-scale <n>', 'collectives and sends take so many times as long once all are there', number, 1)
    .option('--out <dir>', 'directory of the run store', 'ranktrace-out')
    .option('--run <name>', 'name of the run (default: simulated-<seed>)', runName)
    .option('--json', 'print data instead of text')
    .addHelpText('after', '\nExample:\n  ranktrace simulate --ranks 64 --seconds 60 --clock-step 1@30:-300 --straggler 5:backward:+80');
}

/** A repeatable option: the earlier values, and this one. */
const listOf =
  <T>(parse: (text: string) => T) =>
  (text: string, before: readonly T[] | boolean | undefined): readonly T[] => [
    ...(Array.isArray(before) ? (before as readonly T[]) : []),
    parse(text),
  ];

function number(text: string): number {
  if (/^-?\d+(\.\d+)?$/.test(text)) return Number(text);
  throw new InvalidArgumentError('It must be a number.');
}

function clockStep(text: string): HostClockStep {
  const [, host, seconds, micros] = /^(\d+)@(\d+(?:\.\d+)?):([+-]?\d+(?:\.\d+)?)$/.exec(text) ?? [];
  if (host === undefined) throw new InvalidArgumentError('It must be HOST@SECONDS:MICROS, such as 1@30:-300.');
  return { host: Number(host), seconds: Number(seconds), micros: Number(micros) };
}

function straggler(text: string): Straggler {
  const [, rank, phase, ms, step, last] = /^(\d+):([a-z_]+):\+?(\d+(?:\.\d+)?)(?:@(\d+)(?:-(\d+))?)?$/.exec(text) ?? [];
  if (rank === undefined) throw new InvalidArgumentError('It must be RANK:PHASE:+MS, such as 5:backward:+80, or with @STEP or @FROM-TO.');
  const steps = { ...(step !== undefined && { step: Number(step) }), ...(last !== undefined && { lastStep: Number(last) }) };
  return { rank: Number(rank), phase: phase as StragglingPhase, ms: Number(ms), ...steps };
}
