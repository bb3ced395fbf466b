// Every bound of recording, with its unit last. What is over a bound is counted in the next batch's `dropped`; docs/data-loss.md.

export const recordingLimits = {
  /** Distinct names per thread; further ones share the stand-in name. */
  namesMax: 65_536,
  /** Arguments of one event; further ones are dropped. */
  argumentsPerEventMax: 64,
  /** Cells that events leave free for step marks (a quarter of a small ring): summaries go on when detail is lost. */
  stepSpareCellsMax: 1024,
  /** Groups whose sequence numbers the recorder counts, and each rank sent to or received from in one; collectives of further ones are dropped. */
  groupsMax: 4096,
  /** Distinct phases of one step; further ones are summed up as one. */
  phasesPerStepMax: 128,
  /** Spans of OpenTelemetry that are open at once, per thread; further ones are dropped. */
  openTelemetrySpansMax: 1024,
  /** Distinct methods, span names and peers that OpenTelemetry's spans may have, per thread; further ones share a stand-in. */
  openTelemetryNamesMax: 8192,
  /** Spans begun inside one that may turn out to be async, remembered until that is known; further ones do not learn their parent. */
  childrenRememberedMax: 1024,
  /** A batch is shipped once a table has this many rows… */
  rowsPerBatchMax: 16_384,
  /** …or its body may have this many bytes: one more event with all its arguments, or one step's phases, still fit a batch. */
  batchBytesFull: 400 * 1024,
  stringsPerBatchFull: 32_768,
  /** Threads of one process that record at once; the events of further ones are dropped. */
  threadsMax: 1024,

  /** Lines of a thread that it does not run itself (garbage collection) are numbered this far above the threads. */
  extraLineBase: 1_048_576,

  /** The share that recording takes of the steps is judged over at least this many steps and this much time. */
  budgetStepsMin: 16,
  budgetMsMin: 1000,
  /** Judgements in the beginning that count for nothing: code that is not compiled yet costs up to three times what it will. */
  budgetJudgementsUncounted: 3,
  /** Where recording the ops of each step would pass the budget, they are recorded in one step of so many, at least. */
  sampledEveryMax: 64,
  /** Requests for steps by number (`ranktrace capture`, alerts) that are open at once; further ones are answered with nothing. */
  captureSlots: 8,
  /** How long the training thread may wait for results that it asks for. */
  resultsWaitMsMax: 30_000,

  /** How long a thread that takes its handler of a signal away waits until the shipper watches that signal. */
  signalWatchWaitMsMax: 100,

  drainIntervalMs: 20,
  /** Looks at the rings that may fail one after another before recording ends. */
  drainsFailedMax: 500,
  /** An empty batch is sent this often, so that a quiet rank is told from a dead one. */
  heartbeatIntervalMs: 1000,
  wallClockIntervalMs: 10_000,
  /** How far the watermark stays behind the clock: a thread may be preempted between reading the clock and publishing. */
  watermarkMarginMs: 100,
} as const;
