// Logs as NCCL's Inspector writes them, of a job that we make up: a world with all-reduces and all-gathers, pairs of ranks with sends.

export interface InspectorLogOptions {
  readonly ranks?: number;
  /** All-reduces of the world; every third is followed by an all-gather, every fourth by a send of each pair. */
  readonly collectives?: number;
  readonly format?: 'v4.0' | 'v4.3';
  readonly isVerbose?: boolean;
  /** Lines of v4.3 after each line that begins a dump. */
  readonly recordsPerDump?: number;
  /** Whether Inspector lost the all-reduce `sequence` of `rank`, without counting it. */
  readonly isLost?: (rank: number, sequence: number) => boolean;
  /** Records that it counts as overwritten. */
  readonly dropped?: (rank: number) => number;
  /** The rank that enters each collective `lateMicros` after the others. */
  readonly lateRank?: number;
  readonly lateMicros?: number;
  /** Of another job: its processes, and all its times. */
  readonly firstPid?: number;
  readonly afterMicros?: number;
  /** The hash of the world; '' leaves it out: only pairs are left. */
  readonly world?: string;
}

/** µs since 1970 of the first collective. */
export const inspectorEpochMicros = 1_752_867_229_000_000;
const everyMicros = 10_000;
const runMicros = 400;

interface Operation {
  readonly kind: 'coll' | 'p2p';
  readonly op: string;
  readonly sequence: number;
  readonly peer?: number;
  readonly startMicros: number;
  readonly lengthMicros: number;
}

/** The text of each log, by the name of its file. Two ranks share a host. */
export function inspectorLogs(options: InspectorLogOptions = {}): ReadonlyMap<string, string> {
  const { ranks = 4, firstPid = 4000 } = options;
  return new Map(Array.from({ length: ranks }, (_, rank) => [`node-${rank >> 1}-pid${firstPid + rank}.log`, logOf(rank, options)]));
}

function logOf(rank: number, options: InspectorLogOptions): string {
  const { ranks = 4, collectives = 24, dropped = () => 0, isLost = () => false, world = '0x7f8c496ae9f661' } = options;
  const ofWorld: Operation[] = [];
  const ofPair: Operation[] = [];
  const isLate = rank === options.lateRank;
  let gathers = 0;
  let sends = 0;
  for (let sequence = 0; sequence < collectives; sequence++) {
    const from = inspectorEpochMicros + (options.afterMicros ?? 0) + sequence * everyMicros;
    const entry = from + (isLate ? (options.lateMicros ?? 0) : rank * 3);
    const end = from + (options.lateRank === undefined ? 0 : (options.lateMicros ?? 0)) + runMicros;
    if (!isLost(rank, sequence)) ofWorld.push({ kind: 'coll', op: 'AllReduce', sequence, startMicros: entry, lengthMicros: end - entry });
    if (sequence % 3 === 0)
      ofWorld.push({ kind: 'coll', op: 'AllGather', sequence: gathers++, startMicros: end + 100, lengthMicros: runMicros });
    if (sequence % 4 === 0) {
      const op = rank % 2 === 0 ? 'Send' : 'Recv';
      ofPair.push({ kind: 'p2p', op, sequence: sends++, peer: 1 - (rank % 2), startMicros: end + 1000, lengthMicros: 50 });
    }
  }
  const pair = `0xaa${rank >> 1}${options.firstPid ?? ''}`;
  return [
    ...(world === '' ? [] : dumpOf({ rank, id: world, name: 'unknown', own: rank, of: ranks }, ofWorld, dropped(rank), options)),
    ...dumpOf({ rank, id: pair, name: 'pipe', own: rank % 2, of: 2 }, ofPair, 0, options),
  ]
    .map((line) => `${JSON.stringify(line)}\n`)
    .join('');
}

interface Place {
  readonly rank: number;
  readonly id: string;
  readonly name: string;
  /** Rank in the communicator, and its size. */
  readonly own: number;
  readonly of: number;
}

function dumpOf(
  { rank, id, name, own, of }: Place,
  operations: readonly Operation[],
  dropped: number,
  options: InspectorLogOptions,
): object[] {
  const { format = 'v4.3', isVerbose = true, recordsPerDump = 10, firstPid = 4000 } = options;
  const header = { id, comm_name: name, rank: own, n_ranks: of, nnodes: 2 };
  const metadata = {
    inspector_output_format_version: format,
    git_rev: '',
    rec_mechanism: 'nccl_profiler_interface',
    dump_timestamp_us: inspectorEpochMicros + 5_000_000,
    hostname: `node-${rank >> 1}`,
    pid: firstPid + rank,
  };
  const bodies = operations.map((operation) => bodyOf(operation, isVerbose));
  if (format === 'v4.0') return bodies.map((body) => ({ header, metadata, ...body }));
  const lines: object[] = [];
  for (let from = 0; from < bodies.length; from += recordsPerDump) {
    const part = bodies.slice(from, from + recordsPerDump);
    const colls = part.filter((body) => 'coll_perf' in body).length;
    const stats = { coll_records: colls, coll_dropped_total: dropped, p2p_records: part.length - colls, p2p_dropped_total: 0 };
    lines.push({ header, metadata, dump_stats: stats }, ...part);
  }
  return lines;
}

function bodyOf({ kind, op, sequence, peer, startMicros, lengthMicros }: Operation, isVerbose: boolean): Record<string, object> {
  // The call returns before the kernel begins; one channel lags behind the other.
  const channels = [
    {
      channel_id: 0,
      kernel_start_ts: startMicros,
      kernel_stop_ts: startMicros + lengthMicros - 2,
      kernel_record_ts: startMicros + lengthMicros - 2,
    },
    {
      channel_id: 1,
      kernel_start_ts: startMicros + 2,
      kernel_stop_ts: startMicros + lengthMicros,
      kernel_record_ts: startMicros + lengthMicros,
    },
  ];
  const trace = { [`${kind}_start_ts`]: startMicros - 20, [`${kind}_stop_ts`]: startMicros - 15, kernel_events: channels };
  const body = {
    [kind]: op,
    ...(kind === 'coll' ? { coll_algo: 'RING', coll_proto: 'LL' } : { p2p_peer: peer }),
    [`${kind}_sn`]: sequence,
    [`${kind}_msg_size_bytes`]: 65_536,
    [`${kind}_exec_time_us`]: lengthMicros,
    [`${kind}_timing_source`]: 'kernel_gpu',
    [`${kind}_algobw_gbs`]: 1.5,
    [`${kind}_busbw_gbs`]: 2.25,
    ...(isVerbose ? { event_trace_ts: trace } : {}),
  };
  return { [`${kind}_perf`]: body };
}
