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
  /** Some steps are of another kind, such as checkpoints, and take a large part of the time. */
  | 'long_steps'
  /** Loading the next batch is not hidden behind computing. */
  | 'data_loading'
  /** Transfers take a large part of the step. */
  | 'network'
  /** GPUs wait for their hosts to launch work. */
  | 'host_bound'
  /** GPUs communicate, and nothing else runs meanwhile, for a large part of the step. */
  | 'communication_bound'
  /** Data is copied to or from GPUs, and nothing else runs on them meanwhile, for a large part of the step. */
  | 'copy_bound'
  /** Stages of a pipeline wait for each other's microbatches for a large part of the step. */
  | 'pipeline_bubble'
  /** The recording does not suffice. */
  | 'inconclusive';
