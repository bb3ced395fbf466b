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
  truthLines,
} from '@ranktrace/trace/simulate';
import { CliError } from '../terminal/errors.ts';
import { formatBytes, formatCount, formatNanos } from '../terminal/format.ts';
import { abortOnInterrupt, type Interrupt, Interrupted } from '../terminal/interrupt.ts';
import { print, printData, say } from '../terminal/output.ts';
import { showProgress } from '../terminal/progress.ts';
import { shellWord } from '../terminal/shell-word.ts';

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
    if (interrupt.signal.aborted) throw new Interrupted(interrupt.exitCode, `Interrupted: "${directory}" was not written`);
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
  lines.push(
    `store: ${directory} (ranktrace merge ${shellWord(directory)} -o ${shellWord(`${cluster.run}.pftrace`)})`,
    `truth: ${join(directory, 'truth.json')}`,
  );
  return lines.map(printable).join('\n');
}

function asData(truth: ClusterTruth, written: Written, directory: string): unknown {
  const { cluster, hosts, steps, until } = truth;
  const { run, ranks, seed } = cluster;
  const simulated = { run, ranks, hosts: hosts.length, steps, simulatedNs: Math.round(until), seed };
  return { ...simulated, ...written, lost: lossesOf(truth), store: directory, truth: join(directory, 'truth.json') };
}

const counted = (count: number, one: string, many = `${one}s`): string => `${formatCount(count)} ${count === 1 ? one : many}`;
