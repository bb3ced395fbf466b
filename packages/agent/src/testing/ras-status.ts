// The status of a job as NCCL 2.28.7's RAS writes it in JSON (src/ras/client_support.cc), for tests.

export interface CommunicatorStatus {
  readonly hash: string;
  /** By rank of the communicator: its process on this host, and its counts of collectives. */
  readonly ranks: readonly ({ readonly pid: number } & Readonly<Record<string, number>>)[];
}

export function rasStatus(communicators: readonly CommunicatorStatus[]): string {
  const status = {
    nccl_version: '2.28.7',
    cuda_runtime_version: 13000,
    cuda_driver_version: 13000,
    timestamp: '2026-01-05 12:00:00',
    communicators_count: communicators.length,
    communicators: communicators.map(({ hash, ranks }) => ({
      hash,
      secondary_hash: '0x2a:0x3b',
      size: ranks.length,
      ranks_count: ranks.length,
      missing_ranks_count: 0,
      ranks: ranks.map(({ pid, ...counts }, rank) => ({
        ...{ rank, host: '127.0.0.1', pid, cuda_dev: rank, nvml_dev: rank },
        status: { init_state: 0, async_error: 0, finalize_called: false, destroy_flag: false, abort_flag: false },
        collective_counts: { Broadcast: 0, Reduce: 0, AllGather: 0, ReduceScatter: 0, AllReduce: 0, ...counts },
      })),
      missing_ranks: [],
    })),
    ras: { collection_time_sec: 0.012, timeouts_count: 0 },
  };
  return `${JSON.stringify(status, undefined, 2)}\n`;
}
