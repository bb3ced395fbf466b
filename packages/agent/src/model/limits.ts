// Every bound of the agent, with its unit last. Bounds of the wire are protocol's, those of the spool and the connection are the SDK's.

export const agentLimits = {
  /** One datagram of Kineto's interface; a longer one is malformed. A request names its process and its ancestors, 4 bytes each. */
  datagramBytesMax: 4096,
  /** Process ids in one request; a request with more is malformed. */
  requestPidsMax: 256,
  /** Datagrams read in one turn; then other work of the process has its turn. */
  datagramsPerTurn: 64,
  /** Pause after a full turn, so that a flood waits in its senders: at most 3200 datagrams a second are read. */
  turnPauseMs: 20,
  /** Longest wait for a datagram in one call to the system; closing the socket waits no longer. */
  receiveWaitMs: 1000,
  /** Times that a datagram too many for its receiver is tried again; Kineto waits 90 ms for an answer. */
  answerTriesMax: 3,
  /** Requests of one process that are answered within `processWindowMs`; further ones are counted and dropped. Kineto asks every 5 s. */
  processRequestsMax: 32,
  /** Time over which the requests of a process are counted. */
  processWindowMs: 10_000,
  /** Processes that are remembered to have asked; the one longest without a request goes first. */
  processesMax: 4096,
  /** At most one line about refused datagrams is logged within this time. */
  refusalNoticeMs: 10_000,

  /** Environment of a process that is read; the rest of a larger one is ignored. */
  environmentBytesMax: 256 * 1024,
  /** Interval between two looks at the processes of the host; a rank that asks for work is found at once. */
  scanIntervalMs: 10_000,
  /** Looks at a process before it counts as none of a job: a fork shows its parent's environment until it runs its own program. */
  processLooksMax: 3,
  /** Ranks of one host; further ones are named and left alone. */
  ranksMax: 128,
  /** A rank that has not asked this long after it was seen is reported with the likely reason. */
  silentRankMs: 30_000,
  /** Where all ranks of a run on this host end within this time, the run has ended; a rank that goes alone has stopped. */
  endTogetherMs: 5000,

  /**
   * A rank without news sends a batch this often, below the time after which the service calls a silent rank stopped; as often the agent looks whether
   * its process goes on, and reads counters and the wall clock.
   */
  heartbeatMs: 3000,
  /** Interval between two bursts of clock pings: a heartbeat needs no more than one, and each wakens the process several times. */
  pingIntervalMs: 3000,
  /** A body below this is sent as it is: unzipping and zipping take more than they spare. */
  deflateBytesMin: 1024,
  /** What a wall clock is assumed to be slewed by, to weigh an old exact reading against a new one that was interrupted. */
  wallClockDriftPpm: 20,
  /** Readings of the wall clock that are kept, to find the one nearest to a window. */
  wallClocksKept: 64,
  /** Clock samples that are kept to find the offset to the aggregator, two of each burst after the first; the oldest go first. */
  clockSamplesKept: 32,
  /** Interval between two samples of devices. */
  sampleIntervalMs: 2000,
  /** Time to send the last batches when the agent ends. */
  exitDeadlineMs: 3000,

  /** A request for a window must reach Kineto this long before the window begins: its warm-up, and two of its own ticks. */
  windowLeadMs: 2200,
  /** Kineto's warm-up before a window. */
  warmupS: 1,
  /** Windows of one rank that are remembered; the oldest go first. */
  windowsPerRankMax: 16,
  /** A file that is not complete this long after its window ended is given up. */
  fileWaitMsMax: 120_000,
  /** A window without any file this long after its end is given up. */
  fileStartMsMax: 20_000,
  /** Longest wait for the moment from which all ranks count collectives; without it they stay spans. */
  cutWaitMs: 15_000,
  /** Interval between two looks at a file that is awaited. */
  fileLookMs: 250,
  /** A file must keep its size for this long before it is read. */
  fileQuietMs: 500,
  /** Size of one file; a larger one is refused and stays where it is. */
  fileBytesMax: 512 * 1024 * 1024,
  /** Memory that reading one file may take; a file that needs more is refused. */
  readMemoryBytesMax: 2 * 1024 * 1024 * 1024,
  /** Memory that the files of all ranks of the host may take at one time, at most a quarter of the host's; a file that needs more is refused. */
  readMemoryAllBytesMax: 8 * 1024 * 1024 * 1024,
  /** Items of one batch made of a file; a batch that is too large all the same is split. */
  itemsPerBatch: 4096,

  /** Size of one dump of Flight Recorder; a larger one is refused. */
  dumpBytesMax: 64 * 1024 * 1024,
  /** Longest wait for a dump that was asked for: the watchdog looks at its pipe about once a second. */
  dumpWaitMs: 15_000,
  /** Interval between two looks at a dump that is awaited. */
  dumpLookMs: 200,
  /** Longest wait for an answer of NCCL's RAS, which waits 5 s for ranks that do not answer it. */
  rasWaitMs: 20_000,
  /** Bytes of an answer of NCCL's RAS: about 700 for each rank of each communicator; a longer one is refused. */
  rasBytesMax: 64 * 1024 * 1024,
  /** Interval between two requests for NCCL's counts while nobody suspects a hang; only the agent beside rank 0 asks. */
  rasIntervalMs: 30_000,

  /** Interval between two looks at a watched directory. */
  watchIntervalMs: 1000,
  /** Files of a watched directory and its folders that are looked at; further ones are counted in one line. */
  watchedFilesMax: 100_000,
  /** Depth of folders below a watched directory. */
  watchedDepthMax: 4,
  /** A file that cannot be read to its end is tried again when it changes, and given up after this time without a change. */
  unfinishedFileMs: 60_000,
  /** Entries of the journal of shipped files; a longer one is rewritten without the half seen last longest ago, so that all watched files stay in it. */
  journalEntriesMax: 200_000,
} as const;
