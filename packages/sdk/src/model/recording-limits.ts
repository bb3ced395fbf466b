// Every bound of recording, with its unit last. The next batch's `dropped` counts what is over a bound; see docs/data-loss.md.

export const recordingLimits = {
  /** Distinct names per thread; further ones share the stand-in name and are counted. */
  namesMax: 65_536,
  /** Arguments of one event; further ones are dropped and counted. */
  argumentsPerEventMax: 64,
  /** Ring cells that events leave free for step marks (a quarter of a small ring): summaries go on when detail is lost. */
  stepSpareCellsMax: 1024,
  /** Groups in which the recorder counts sequence numbers, and each rank sent to or received from in one; collectives of further ones are dropped. */
  groupsMax: 4096,
  /** Distinct phases of one step; the time of further ones is summed up as `(other phases)`. */
  phasesPerStepMax: 128,
  /** Phases whose role is stated, per thread; the role of a further one is dropped and counted. */
  phaseRolesMax: 256,
  /** Characters of the name of a phase whose role is stated. */
  phaseRoleNameCharsMax: 256,
  /** Spans of OpenTelemetry that are open at once, per thread; further ones are dropped and counted. */
  openTelemetrySpansMax: 1024,
  /** Distinct methods, span names and peers that OpenTelemetry's spans may have, per thread; further ones share a stand-in and are counted. */
  openTelemetryNamesMax: 8192,
  /** Spans begun inside one that may turn out to be async, remembered until that is known; further ones do not learn their parent. */
  childrenRememberedMax: 1024,
  /** A batch is shipped once one of its tables has this many rows. */
  rowsPerBatchMax: 16_384,
  /** A batch is shipped once its body may have this many bytes: one more event with all its arguments, or one step's phases, still fit. */
  batchBytesFull: 400 * 1024,
  /** A batch is shipped once its table of strings has this many entries. */
  stringsPerBatchFull: 32_768,
  /** Threads of one process that record at once; the events of further ones are dropped and counted. */
  threadsMax: 1024,

  /** Rows of the ring that device work passes through, 64 bytes each; it is read many times a second. */
  gpuRingRows: 262_144,
  /** Streams of devices, and threads that call CUDA and record nothing themselves; events on further ones are dropped and counted. */
  gpuTracksMax: 512,
  /** Calls of CUDA whose begin is remembered for the work that they launched, a power of two: CUDA holds some thousand launches back at most. So much work waits for its call. */
  gpuCallsMax: 65_536,
  /** Work whose call has not come counts by its own begin once a call has come that began so much later. */
  gpuCallWaitMs: 2000,
  /** A launch of which no work has come by so much later does nothing, as one into a graph that is captured. */
  gpuLaunchWaitMs: 5000,
  /** Calls of one thread may come so much later than those of another: two flushes of the library, and some more. */
  gpuCallsLateMs: 500,
  /** Contexts of CUDA whose device is remembered. */
  gpuContextsMax: 1024,
  /** Tracks of devices are numbered from here on, above all threads and their extra lines. */
  gpuLineBase: 4_194_304,

  /** Lines of a thread that it does not run itself (garbage collection) are numbered this far above the threads. */
  extraLineBase: 1_048_576,

  /** Recording's share of the step time is judged over at least this many steps. */
  budgetStepsMin: 16,
  /** Recording's share of the step time is judged over steps that took at least this long together. */
  budgetMsMin: 1000,
  /** First judgements that count for nothing: code that is not compiled yet costs up to three times what it will. */
  budgetJudgementsUncounted: 3,
  /** Where recording the ops of each step would pass the budget, they are recorded in one step of at most this many. */
  sampledEveryMax: 64,
  /** Requests for steps by number (`ranktrace capture`, alerts) that are open at once; further ones are answered with nothing. */
  captureSlots: 8,
  /** Longest wait of the training thread for results that it asks for; then it has none. */
  resultsWaitMsMax: 30_000,

  /** A thread that removes its handler of a signal waits this long at most until the shipper watches that signal. */
  signalWatchWaitMsMax: 100,

  /** Interval at which the shipper reads the rings. */
  drainIntervalMs: 20,
  /** An answer to a request for steps waits this long at most for a device to report work after them. */
  deviceWaitMs: 1000,
  /** The same while work that they launched is known to run still. The service waits for 5 s. */
  deviceBusyMsMax: 4000,
  /** Reads of the rings that may fail one after another; then recording ends. */
  drainsFailedMax: 500,
  /** A rank that sends nothing else, however long its `flushIntervalMs`, sends an empty batch this often, so that a quiet rank differs from a dead one. */
  heartbeatIntervalMs: 1000,
  /** Interval between two readings of the wall clock that batches carry. */
  wallClockIntervalMs: 10_000,
  /** How far the watermark stays behind the clock: a thread may be preempted between reading the clock and publishing. */
  watermarkMarginMs: 100,
} as const;
