// The rank that a process is, by its environment (proc(5), environ): what the launcher set, read by the SDK's own rules.
//
// The environment of another process is data: only the variables of launchers are taken from it, never an address or a credential.

import { closeSync, openSync, readSync } from 'node:fs';
import { type ResolvedOptions, reasonOf, resolveOptions } from '@ranktrace/sdk/shipping';
import type { Environment } from '../model/environment.ts';
import { agentLimits as limits } from '../model/limits.ts';

/** Variables of torchrun, Slurm and Open MPI that place a rank, and those that name its job and its devices. */
const placing: readonly string[] = [
  ...['RANK', 'WORLD_SIZE', 'LOCAL_RANK'],
  ...['SLURM_PROCID', 'SLURM_NTASKS', 'SLURM_LOCALID'],
  ...['OMPI_COMM_WORLD_RANK', 'OMPI_COMM_WORLD_SIZE', 'OMPI_COMM_WORLD_LOCAL_RANK'],
  ...['SLURM_JOB_ID', 'TORCHELASTIC_RUN_ID', 'PMIX_NAMESPACE', 'CUDA_VISIBLE_DEVICES', 'RANKTRACE_RUN'],
];

/** A rank's place, and how it is set up. */
export interface RankPlace {
  readonly options: ResolvedOptions;
  /** Slurm's number of the job; undefined where no scheduler gave one. */
  readonly job: string | undefined;
  /** Whether the process asks Kineto's daemon for work (`KINETO_USE_DAEMON`). */
  readonly asksDaemon: boolean;
  /** Folder of the socket that it asks through; undefined for the abstract name. */
  readonly socketFolder: string | undefined;
  /** Folder below which it may write traces. */
  readonly traceRoot: string;
  /** Where its Flight Recorder is asked for a dump, and writes it; undefined where it cannot be asked. */
  readonly dumps: { readonly pipe: string; readonly file: string } | undefined;
  /** Folder of the rings that its process records itself into; undefined: it has none. */
  readonly ringFolder: string | undefined;
  /** Whether it sends its steps and spans itself, as a rank of its own. */
  readonly sendsItself: boolean;
  /** Whether the scheduler alone placed it: `torchrun` under Slurm is such a task, and no rank, for it starts the ranks. */
  readonly mayLaunch: boolean;
}

/** The environment of a process; undefined where it is gone, or another user's. */
export function environmentOf(pid: number): Environment | undefined {
  try {
    const file = openSync(`/proc/${pid}/environ`, 'r');
    try {
      const bytes = Buffer.alloc(limits.environmentBytesMax);
      let length = 0;
      for (let read = -1; read !== 0 && length < bytes.length; length += read)
        read = readSync(file, bytes, length, bytes.length - length, null);
      return parseEnvironment(bytes.toString('utf8', 0, length));
    } finally {
      closeSync(file);
    }
  } catch {
    return undefined;
  }
}

/** `NAME=value` parts with a NUL between them; the first of a name counts, as in the C library. */
export function parseEnvironment(text: string): Environment {
  const environment: Record<string, string> = Object.create(null);
  for (const part of text.split('\0')) {
    const at = part.indexOf('=');
    if (at > 0) environment[part.slice(0, at)] ??= part.slice(at + 1);
  }
  return environment;
}

/**
 * The rank with this environment; undefined for a process of no job, and the reason for one whose variables make no sense. `own`: the agent's
 * RANKTRACE_ variables, which say where batches go. `run`: name for all of them, by default the job's. `command`: of the process, whose options may say, as
 * variables do, that it sends its steps itself.
 */
export function placeOf(
  environment: Environment,
  own: Environment,
  run: string | undefined,
  command: () => readonly string[] = () => [],
): RankPlace | { readonly wrong: string } | undefined {
  // A batch script is task 0, too; only a step's tasks are ranks.
  const isTask = Boolean(environment.OMPI_COMM_WORLD_RANK || (environment.SLURM_PROCID && environment.SLURM_STEP_ID));
  if (!environment.RANK && !isTask) return undefined;
  const merged: Record<string, string | undefined> = {};
  for (const [name, value] of Object.entries(own)) if (name.startsWith('RANKTRACE_')) merged[name] = value;
  delete merged.RANKTRACE_RANK;
  delete merged.RANKTRACE_WORLD_SIZE;
  for (const name of placing) if (environment[name] !== undefined) merged[name] = environment[name];
  const said = clientOptions(command());
  if (said.run) merged.RANKTRACE_RUN = said.run;
  try {
    const sendsItself = (said.url ?? environment.RANKTRACE_URL ?? environment.RANKTRACE_NATS_SERVERS ?? '') !== '';
    // A rank that sends its steps itself has the run's name that it sends under.
    const options = resolveOptions(run === undefined || sendsItself ? {} : { run }, merged);
    const named = options.isRunNamed || sendsItself ? options : resolveOptions({ run: jobName(environment) }, merged);
    return {
      options: { ...named, notices: [] },
      job: environment.SLURM_JOB_ID || undefined,
      asksDaemon: isOn(environment.KINETO_USE_DAEMON),
      socketFolder: environment.KINETO_IPC_SOCKET_DIR || undefined,
      // Since 2026 Kineto writes nowhere else.
      traceRoot: environment.KINETO_ONDEMAND_TRACE_DIR || environment.TMPDIR || '/tmp',
      dumps: dumpsOf(environment, named.rank),
      ringFolder: environment.RANKTRACE_GPU_DIR?.startsWith('/') === true ? environment.RANKTRACE_GPU_DIR : undefined,
      mayLaunch: !environment.RANK,
      sendsItself,
    };
  } catch (error) {
    return { wrong: reasonOf(error) };
  }
}

/** The options of the Python client in a command: `python -m ranktrace --run NAME --url=URL train.py`. */
function clientOptions(command: readonly string[]): Partial<Record<'run' | 'url', string>> {
  const options: Record<string, string> = Object.create(null);
  const begin = command.findIndex((word, at) => word === 'ranktrace' && command[at - 1] === '-m');
  for (let at = begin + 1; begin > 0 && command[at]?.startsWith('--') === true; at++) {
    const [, name = '', value] = /^--([^=]*)(?:=(.*))?$/s.exec(command[at] ?? '') ?? [];
    options[name] = value ?? command[++at] ?? '';
  }
  return options;
}

/** torchrun without a rendezvous id names no job, but all ranks have the same master: `torch-10-0-0-7-29500`. */
function jobName({ MASTER_ADDR, MASTER_PORT }: Environment): string {
  const master = `${MASTER_ADDR ?? ''}-${MASTER_PORT ?? ''}`.replaceAll(/[^A-Za-z0-9_-]+/g, '-').slice(0, 58);
  return `torch-${master.replace(/^-+|-+$/g, '') || 'job'}`;
}

/** As torch names both: a stem with the rank behind it (ProcessGroupNCCL.hpp, DumpPipe; FlightRecorder.cpp, DebugInfoWriter). */
function dumpsOf(environment: Environment, rank: number): RankPlace['dumps'] {
  const { TORCH_NCCL_DEBUG_INFO_PIPE_FILE: pipe, XDG_CACHE_HOME, HOME } = environment;
  if (!pipe) return undefined;
  const cache = XDG_CACHE_HOME || `${HOME || '/tmp'}/.cache`;
  const stem = environment.TORCH_FR_DUMP_TEMP_FILE || environment.TORCH_NCCL_DEBUG_INFO_TEMP_FILE || `${cache}/torch/comm_lib_trace_rank_`;
  return { pipe: `${pipe}${rank}.pipe`, file: `${stem}${rank}` };
}

const isOn = (value: string | undefined): boolean => value !== undefined && !['', '0', 'false', 'no'].includes(value.toLowerCase());
