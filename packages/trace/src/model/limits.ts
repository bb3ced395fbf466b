// Every bound of what reading a foreign trace may cost, with its unit last.

export const limits = {
  /** One event, or one value beside the events: what is kept while the rest of it has not arrived. */
  jsonValueBytesMax: 64 * 1024 * 1024,
  /** Arrays and objects inside each other. */
  jsonDepthMax: 64,
  /** All metadata beside the events together; what comes after is counted and left out. */
  metadataBytesMax: 64 * 1024 * 1024,
  /** The memory that the files of one command may take, however small they are; `--memory` of the command says otherwise. */
  readBytesMin: 512 * 1024 * 1024,
  /** The same of larger files, for each of their bytes on disk: zipped, a torch.profiler file takes 20 to 60 times its size. */
  readBytesPerFileByteMax: 100,
  /** Events of one file: its columns are about 100 bytes an event, and what reads them takes as much again (`readBytesMin`). */
  eventsPerFileMax: 100_000_000,
  /** Arguments without a column, each distinct set of them once, where all are kept; what comes after is counted and left out. */
  argumentBytesMax: 256 * 1024 * 1024,
  /** Events of one file that say something of a collective, and its collectives; what comes after stays a span like any other. */
  collectivesPerFileMax: 10_000_000,
  /** Collectives without a number by which the files of one rank are compared with others', about 150 bytes each: the last ones. */
  countedCollectivesMax: 131_072,
  /** Steps of one file; what comes after stays a span like any other. */
  stepsPerFileMax: 1_000_000,
  /** Named phases of one step; what has another name is in no phase. */
  phasesPerStepMax: 1024,
  /** Distinct names, shapes and stacks of one file: their indexes multiply exactly in a double. */
  stringsPerFileMax: 50_000_000,
  /** Collectives whose other ranks have not come, about 500 bytes each beside their parts. */
  collectivesPendingMax: 65_536,
  /** Ranks' parts of them, about 150 bytes each. */
  collectivePartsPendingMax: 1_048_576,
  /** Names and members of the groups that are known, as they lie in memory. */
  collectiveGroupBytesMax: 64 * 1024 * 1024,
  /** Lines of the report about collectives, and about sends, each about 10 KiB, 150 KiB at worst; what comes after shares one. */
  collectiveLinesMax: 1024,
  /** Ranks of all of these lines together, about 100 bytes each; of further ones only the sums are kept. */
  collectiveRankLinesMax: 131_072,
  /** Single collectives that the report keeps: those that made ranks wait longest. */
  collectiveRecordsMax: 100,
  /** Arguments of one event; a recorder gives 64. */
  argumentsPerEventMax: 1024,
  /** Rows of a merge, about 200 bytes each, that wait for earlier ones; of more, the first half goes out. */
  mergeRowsWaitingMax: 2_097_152,
  /** The same, times the ranks, where that is more. */
  mergeRowsWaitingPerRankMax: 16_384,
  /** Lines of one track: of spans that overlap more than so many others there, only the number is known. */
  lanesPerTrackMax: 1024,
  /** Spans that are open at one time, about 150 bytes each beside their names; of further ones only the number is known. */
  openSpansMax: 131_072,
  /** Collectives that somebody is inside of at the end, and that the report tells of: those that wait longest. */
  openCollectivesMax: 100,
  /** Corrections of clocks: knots of 10 s times hosts, 4 bytes each. A month of 128 hosts fits. */
  clockCorrectionsMax: 33_554_432,
  /** Events of each kind by which a source without pings is aligned, about 100 bytes each. */
  sharedEventsMax: 16_384,
  /** Halves of remote calls that wait for their other half, about 1 KiB each. */
  rpcHalvesPendingMax: 65_536,
  /** Servers of one remote call: fan-out and retries. */
  rpcServersPerCallMax: 1024,
  /** Failed remote calls remembered for the sake of their retries. */
  rpcFailuresMax: 16_384,
  /** Lines of the report about remote calls, about 10 KiB each, 150 KiB at worst; what comes after shares one. */
  rpcRoutesMax: 1024,
  /** Steps of one timeline of NDTimeline, times its workers: each is a batch, of which one without events takes 20 µs. */
  ndtimelineBatchesMax: 1_048_576,
  /** Bytes of one Zipkin file: it is held as a whole, several times its size. */
  zipkinBytesMax: 128 * 1024 * 1024,
  /** Spans of one Zipkin file. */
  zipkinSpansMax: 1_000_000,
  /** Services of one Zipkin file, each a process of the trace; spans of others are skipped and counted. */
  zipkinServicesMax: 4096,
  /** Tags of one Zipkin span; others are left out and counted. */
  zipkinTagsPerSpanMax: 64,
} as const;
