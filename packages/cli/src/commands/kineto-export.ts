// A merged run as torch.profiler's files, one for each rank: for HTA, TensorBoard's plugin and everything else that reads them.
//
// Files of torch.profiler come out as such again: kernels on their streams, ids, arrows and process groups as they were. Times are those of the trace,
// so clocks of hosts are already corrected.

import { createHash } from 'node:crypto';
import type { ProcessTotals, TraceEvent, TraceHeader, TraceLane, TraceProcess, TraceSink } from '@ranktrace/trace';
import { kinetoWriter } from '@ranktrace/trace/torch';
import { say } from '../terminal/output.ts';
import type { ExportFiles } from './export-files.ts';

/** Members that the writer sets itself, or that are about the file that was read. */
const ownMembers: ReadonlySet<string> = new Set([
  ...['schemaVersion', 'trace_id', 'distributedInfo', 'host_name', 'ranktrace', 'baseTimeNanoseconds', 'traceName'],
  ...['source', 'displayTimeUnit'],
]);

export class KinetoExport implements TraceSink {
  readonly #files: ExportFiles;
  readonly #writers = new Map<TraceProcess, TraceSink>();

  constructor(files: ExportFiles) {
    this.#files = files;
  }

  begin(header: TraceHeader): void {
    const last = new Map(header.processes.map((process) => [process.rank, process]));
    const earlier = header.processes.filter((process) => last.get(process.rank) !== process);
    if (earlier.length > 0) say(`${earlier.length} earlier lives of ranks are left out: a file of torch.profiler is of one process`);
    for (const process of last.values()) this.#writers.set(process, this.#writerOf(header, process));
  }

  lane(lane: TraceLane): void {
    this.#writers.get(lane.process)?.lane(lane);
  }

  event(event: TraceEvent): void {
    this.#writers.get(event.lane.process)?.event(event);
  }

  end(totals: readonly ProcessTotals[]): void {
    for (const writer of this.#writers.values()) writer.end(totals);
  }

  #writerOf(header: TraceHeader, process: TraceProcess): TraceSink {
    const { rank, incarnation, metadata, host } = process;
    const { unixEpoch } = header;
    const given = metadata.get('baseTimeNanoseconds') ?? '';
    const base = /^\d{1,20}$/.test(given) ? BigInt(given) : undefined;
    const name = `rank${rank}.pt.trace.json`;
    const writer = kinetoWriter(this.#files.open(rank), {
      rank,
      steps: true,
      options: {},
      isTorch: metadata.has('schemaVersion') || metadata.has('baseTimeNanoseconds'),
      metadata: Object.fromEntries(
        [...metadata].filter(([key]) => !ownMembers.has(key)).map(([key, text]) => [key, memberValue(key, text)]),
      ),
      distributedInfo: distributedInfo(metadata),
      ...(base !== undefined && unixEpoch !== undefined && isNear(base, unixEpoch) && { baseTimeNanoseconds: base }),
      // One clock for all ranks is a fact of the run; clocks of several hosts are an estimate, whose error a reader must find itself.
      ...(isOneHost(header) && unixEpoch !== undefined && { clock: { host, epoch: unixEpoch, samples: [] } }),
      traceId: createHash('sha256').update(`${header.run} ${rank} ${incarnation}`).digest('hex').slice(0, 32).toUpperCase(),
      traceName: name,
    });
    writer.begin({ ...header, processes: [process] });
    return writer;
  }
}

/** Ranks of one host read one clock. */
const isOneHost = ({ processes }: TraceHeader): boolean =>
  processes.every(({ host, hostUnknown }) => host === processes[0]?.host && hostUnknown !== true);

/** The farthest that times of a file may be from its base: 2^53 ns. */
const isNear = (base: bigint, epoch: bigint): boolean => {
  const distance = epoch - base;
  return distance < 2n ** 53n && distance > -(2n ** 53n);
};

/** Members that torch writes as numbers. */
const numericMembers: ReadonlySet<string> = new Set([
  ...['record_shapes', 'profile_memory', 'with_stack', 'with_flops', 'with_modules', 'cupti_version'],
  ...['cuda_driver_version', 'cuda_runtime_version', 'hip_driver_version', 'hip_runtime_version'],
]);

/** Values of metadata are text: lists and objects become JSON again. What looks like a number may be a version (1.10) or a commit (7e12345). */
function memberValue(key: string, text: string): unknown {
  if (numericMembers.has(key)) return String(Number(text)) === text ? Number(text) : text;
  if (!/^[[{]/.test(text)) return text;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

function distributedInfo(metadata: ReadonlyMap<string, string>): Readonly<Record<string, unknown>> | undefined {
  const info = memberValue('distributedInfo', metadata.get('distributedInfo') ?? '');
  if (typeof info !== 'object' || info === null || Array.isArray(info)) return undefined;
  const { rank: _, world_size: __, ...others } = info as Record<string, unknown>;
  return others;
}
