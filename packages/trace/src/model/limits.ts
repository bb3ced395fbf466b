// Every bound of what reading a foreign trace may cost, with its unit last.

export const limits = {
  /** One event of a JSON trace, or one value beside the events, kept until it has arrived whole; a larger one is refused (`too_large`). */
  jsonValueBytesMax: 64 * 1024 * 1024,
  /** Places of a JSON trace that are no JSON, after which reading goes on with the next event; at one more it ends, and the rest is counted as left out. */
  brokenPlacesMax: 1000,
  /** Arrays and objects inside each other; a value that goes deeper is left out and counted. */
  jsonDepthMax: 64,
  /** Arrays and objects inside each other in a value that is left out; a file that goes deeper is refused (`too_deep`). */
  jsonSkippedDepthMax: 1_000_000,
  /** All metadata beside the events together; further entries are counted and left out. */
  metadataBytesMax: 64 * 1024 * 1024,
  /** Memory that the files of one command may take, however small they are; above, reading fails. `--memory` of the command sets another bound. */
  readBytesMin: 512 * 1024 * 1024,
  /** Memory that larger files may take for each of their bytes on disk: zipped, a torch.profiler file takes 20 to 60 times its size. */
  readBytesPerFileByteMax: 100,
  /** Events of one file, about 100 bytes each in columns, and as much again for their reader (`readBytesMin`); more is refused (`too_large`). */
  eventsPerFileMax: 100_000_000,
  /** Rows of one file that memory holds, about 200 bytes each; the rows of a longer file go to a temporary one. */
  rowsInMemoryMax: 524_288,
  /** Share of these rows from which on they go to a temporary file where the command's files take half of the memory that they may. */
  spilledEarlyShare: 0.125,
  /** Arguments without a column, each distinct set of them once, where all are kept; further sets are counted and left out. */
  argumentBytesMax: 256 * 1024 * 1024,
  /** Events of one file that describe a collective, and its collectives; further ones stay spans like any other. */
  collectivesPerFileMax: 10_000_000,
  /** Collectives without a number by which the files of one rank are compared with others', about 150 bytes each: the last ones. */
  countedCollectivesMax: 131_072,
  /** Steps of one file; further ones stay spans like any other (of NDTimeline: they are counted and left out). */
  stepsPerFileMax: 1_000_000,
  /** Phases of a run whose role is stated, and twice as many that are remembered; the role of any other comes from its name. */
  phaseRolesMax: 1024,
  /** Characters of a phase's name that decide its role. */
  phaseRoleCharsMax: 256,
  /** Named phases of one step; time under further names is in no phase. */
  phasesPerStepMax: 1024,
  /** Distinct names, shapes and stacks of one file; a file with more is refused (`too_large`). Their indexes multiply exactly in a double. */
  stringsPerFileMax: 50_000_000,
  /** Collectives that wait for other ranks, about 500 bytes each beside their parts; above, those waiting longest are given up and counted. */
  collectivesPendingMax: 65_536,
  /** Ranks' parts of waiting collectives, about 150 bytes each; above, the collectives waiting longest are given up and counted. */
  collectivePartsPendingMax: 1_048_576,
  /** Names and members of the known groups, as they lie in memory; above, the one unused longest goes, with its waiting collectives. */
  collectiveGroupBytesMax: 64 * 1024 * 1024,
  /** Lines of the report about collectives, and about sends, each about 10 KiB, 150 KiB at worst; further groups share one. */
  collectiveLinesMax: 1024,
  /** Ranks of all of these lines together, about 100 bytes each; of further ones only the sums are kept. */
  collectiveRankLinesMax: 131_072,
  /** Single collectives that the report keeps: those that made ranks wait longest. */
  collectiveRecordsMax: 100,
  /** Arguments of one event (a recorder gives 64); further ones are counted and left out. */
  argumentsPerEventMax: 1024,
  /** Calls that launch a device's work, of each process: the last ones are remembered, about 50 bytes each, until it comes. */
  launchesMax: 65_536,
  /** The same of all processes together; but of each process `launchesMin`. */
  launchesOfAllMax: 2_097_152,
  /** Calls that are remembered of each of many processes: a host is ahead of a stream by about 1,000 launches at most. */
  launchesMin: 4096,
  /** Numbers of calls from one that is recorded to the next launch; in recordings of PyTorch, which records a sixth of its calls, 24 to 191 at most. */
  launchNumbersMax: 256,
  /** Rows of a merge, about 200 bytes each, that wait for earlier ones; above, the first half goes out, and events before it are late. */
  mergeRowsWaitingMax: 2_097_152,
  /** Rows of a merge per rank that wait for earlier ones, where that is more than `mergeRowsWaitingMax` in all. */
  mergeRowsWaitingPerRankMax: 16_384,
  /** Lines of one track; of spans that overlap more others there, only the number is known. */
  lanesPerTrackMax: 1024,
  /** Spans that are open at one time, about 150 bytes each beside their names; of further ones only the number is known. */
  openSpansMax: 131_072,
  /** Collectives that ranks are still inside at the end, in the report: those that wait longest. Further ones are counted. */
  openCollectivesMax: 100,
  /** Corrections of clocks, 4 bytes each: one per host and 10 s, so that a month of 128 hosts fits. Then the last ones hold for the rest. */
  clockCorrectionsMax: 33_554_432,
  /** Limits of how far apart clocks are, 8 bytes each: two per host and half second, so that 9 hours of 32 hosts fit. Then each stretch becomes twice as long. */
  apartLimitsMax: 4_194_304,
  /** Stretches of a run for each of which a page, or a `.pftrace`, gets how far a clock may be off. */
  boundStretchesMax: 64,
  /** Events of each kind by which a source without pings is aligned, about 100 bytes each; of more, a sample over the whole run is kept. */
  sharedEventsMax: 16_384,
  /** Halves of remote calls that wait for their other half, about 1 KiB each; above, those due first go out without it. */
  rpcHalvesPendingMax: 65_536,
  /** Servers of one remote call (fan-out and retries); further ones are counted and left out. */
  rpcServersPerCallMax: 1024,
  /** Failed remote calls remembered to recognize their retries; the oldest goes first. */
  rpcFailuresMax: 16_384,
  /** Lines of the report about remote calls, about 10 KiB each, 150 KiB at worst; further routes share one. */
  rpcRoutesMax: 1024,
  /**
   * Steps of one timeline of NDTimeline, times its workers: each is a batch, of which one without events takes 20 µs. More is refused (`too_large`).
   */
  ndtimelineBatchesMax: 1_048_576,
  /** One Zipkin file, held as a whole at several times its size; a larger one is refused (`too_large`). */
  zipkinBytesMax: 128 * 1024 * 1024,
  /** Values of one pickle, about 20 bytes each; more is refused (`too_large`). */
  pickleValuesMax: 4_194_304,
  /** Collectives in one dump of PyTorch's Flight Recorder, about 200 bytes each; more is refused (`too_large`). */
  dumpedCollectivesMax: 262_144,
  /** One line of a log of NCCL Inspector, bytes: one of a collective has some 200 for each channel of its kernel. A longer one is left out and counted. */
  inspectorLineBytesMax: 1024 * 1024,
  /** Communicators of one process in logs of NCCL Inspector, about 1 KiB each; records of further ones are left out and counted. */
  inspectorCommunicatorsMax: 4096,
  /** Spans of one Zipkin file; a file with more is refused (`too_large`). */
  zipkinSpansMax: 1_000_000,
  /** Services of one Zipkin file, each a process of the trace; spans of further ones are skipped and counted. */
  zipkinServicesMax: 4096,
  /** Tags of one Zipkin span; further ones are left out and counted. */
  zipkinTagsPerSpanMax: 64,
} as const;
