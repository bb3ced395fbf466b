/** The main cause of long steps. */
export type Verdict =
  /** No rank is to blame. */
  | 'balanced'
  /** Few ranks work longer than their peers. */
  | 'straggler'
  /** A stage of the pipeline works longer than the others. */
  | 'stage_imbalance'
  /** In each step some rank works longer, not always the same. */
  | 'rotating_imbalance'
  /** Threads wait for a CPU: more of them want to run than the hosts have cores. */
  | 'cpu_contention'
  /** All ranks work longer than they did. */
  | 'cluster_wide'
  /** Loading the next batch is not hidden behind computing. */
  | 'data_loading'
  /** Transfers take a large part of the step. */
  | 'network'
  /** The recording does not suffice. */
  | 'inconclusive';
