// Every bound of the aggregator, with its unit last. What a batch may be is in protocol's limits.

export const aggregatorLimits = {
  /** A segment is rolled when the next frame would pass this. */
  segmentBytesMax: 64 * 1024 * 1024,
  /** One quarantine file; what comes after is counted and forgotten. */
  quarantineBytesMax: 16 * 1024 * 1024,
  /** What a torn frame of a killed writer can leave behind; a longer unreadable tail is damage and is never cut. */
  tornBytesMax: 8 + 960 * 1024,
  /** Files that one reader holds open. */
  openFilesMax: 64,
  /** What one source reads at once, where its batches lie close together. */
  readAheadBytesMax: 256 * 1024,
  /** What all sources of one reader hold read ahead. */
  readAheadTotalBytesMax: 64 * 1024 * 1024,
  /** Folders below an input that are searched for segments: `<out>/<run>/segments/*.seg` and `<spool>/<run>/rank-…/*.seg`. */
  searchDepthMax: 3,
  segmentsPerLogMax: 1_000_000,
  /** How often a reader looks again for segments that are pruned while it opens them. */
  openAttemptsMax: 10,
  /** Runs that are open for writing, and their share of the file descriptors that this process may have; the one longest without a batch is closed first. */
  runsOpenMax: 2048,
  runsOpenMin: 16,
  runsOpenShare: 0.25,
  /** A run that gets no batches shows so often that somebody has it. */
  lockTouchMs: 5000,
  /** Incarnations (one life of one rank) per run. */
  sourcesPerRunMax: 262_144,
  /** Step summaries kept in memory per rank. */
  stepsPerRankMax: 4096,
  /** A rank that says nothing for so long, heartbeats included, is shown as stopped; one whose connection broke, as lost. */
  rankStoppedMs: 5000,
  rankLostMs: 2000,
  /** Different phase names kept per rank; the rest is in the store only. */
  phaseNamesPerRankMax: 64,
  /** A lock whose owner cannot be asked (other host, other container) is stale when untouched for so long. */
  lockStaleMs: 15_000,
  /** Between two fdatasync calls. */
  syncIntervalMs: 1000,
  /** Opening a run brings the live state up to the store at once for so long, and then in slices between which batches are taken. */
  replayAtOnceMs: 250,
  replaySliceMs: 10,
  /** The same notice is not told again within this time. */
  noticeIntervalMs: 10_000,
  /** Different ones of a kind (only names and numbers differ) that are told within it; further ones are counted. */
  noticesOfKindMax: 8,
  /** Kinds remembered for that. */
  noticesMax: 64,
  /** Between two calls of a `subscribe` listener. */
  progressIntervalMs: 200,
  connectionsMax: 4096,
  /** Connections beside those of ranks: probes and people. */
  requestsMax: 256,
  /** For a request to arrive whole; a slower one loses its connection. */
  requestMsMax: 10_000,
  /** A certificate with those of its issuers, or a key. */
  certificateBytesMax: 1024 * 1024,
  /** Between two looks whether the certificate was renewed. */
  certificateLookMs: 5000,
  /** Above protocol's batchBytesMax, so that a batch that is too large is refused by name, not by a broken connection. */
  webSocketPayloadBytesMax: 1024 * 1024,
  /** Answers a connection has not read yet: above, its batches are not read either. */
  sendBufferBytesMax: 256 * 1024,
  /** Between two WebSocket pings; a connection that missed one is closed. */
  pingIntervalMs: 15_000,
  /** For peers to close in good order at the end. */
  closeGraceMs: 1000,
  /** The built page, read whole at the start. */
  pageFilesMax: 256,
  pageBytesMax: 64 * 1024 * 1024,
  /** Pages that are connected at once. */
  viewPagesMax: 256,
  /** Runs that one page may have open. */
  viewRunsPerPageMax: 16,
  /** Requests of one page that have no answer yet; what comes beyond is refused. */
  viewRequestsPerPageMax: 32,
  /** What all pages together take of the thread at once; then ranks, and everybody else, have their turn. */
  viewSliceMs: 8,
  /** Between two tellings of how far a request is. */
  viewProgressIntervalMs: 200,
  /** One frame of tiles, and one part of a longer message; a single larger tile is one message of several parts. */
  viewFrameBytesMax: 512 * 1024,
  /** What a page has not read yet: above, it is answered nothing; at twice that, it is not read from either. */
  viewSendBufferBytesMax: 4 * 1024 * 1024,
  /** Between two tellings of what a run has gained, or of which runs there are. */
  viewGrowthIntervalMs: 250,
  /** A page that reads nothing for so long, not even a ping, is closed. */
  viewSilenceMsMax: 60_000,
  /** What a service may answer a terminal at once (`ViewClient`); a run with a million names is told in one message. */
  viewClientBytesMax: 256 * 1024 * 1024,
  /** Between two looks at what retention no longer keeps. */
  pruneIntervalMs: 60_000,
  /** A segment that got nothing for so long is ended, so that it can be pruned. */
  segmentIdleMs: 3_600_000,
  /** Pruning gives way to batches after so long. */
  pruneSliceMs: 10,
  /** Rows of one table of a summary: pruning joins batches until they have so many. */
  prunedRowsMax: 8192,
  /** A summary keeps one clock sample for each stretch of this length: the one with the shortest way. */
  prunedClockMs: 10_000,
  /** Trace files that a run's `pruned.json` names, the last ones. */
  prunedTracesMax: 64,
  natsConnectTimeoutMs: 3000,
  /** Between two tries after a NATS error. */
  natsRetryMs: 250,
  natsRetryMsMax: 5000,
  /** Messages asked for at once: at 1 MiB each this is also the memory they may take. */
  natsFetchMessagesMax: 128,
  natsFetchExpiresMs: 2000,
  natsAckPendingMax: 512,
  natsAckWaitMs: 30_000,
  /** A service that ends reads what the stream holds for so long; the rest waits there for the next start. */
  natsDrainMsMax: 5_000,
  /** Between two looks at whether it has read all. */
  natsDrainLookMs: 50,
  /** What a server acknowledged so long ago is on its disk; what is younger may be gone when it is killed, and is read again then. */
  natsFlushMs: 5_000,
  /** Between two looks at the stream: what went unread, and what everybody has read and may be purged. */
  natsLookMs: 5_000,
  /** Readers of the stream; with more of them nothing is purged. */
  natsReadersMax: 4096,
  /** The server forgets our consumer when nobody used it for so long; a new one starts at the beginning and deduplication does the rest. */
  natsConsumerIdleMs: 7 * 24 * 3600 * 1000,
  /** Answers to requests for steps (`captureSteps`) remembered per rank. */
  answersPerRankMax: 8,
  /** Captures of the service at once; further ones are refused. */
  capturesAtOnceMax: 4,
  /** Traces of captures that a run keeps; the oldest goes first. */
  capturesPerRunMax: 1000,
  /** How far ahead of the furthest rank a capture begins, so that its request is there before. */
  captureLeadMs: 500,
  /** The same in steps, at most. */
  captureLeadStepsMax: 10_000,
  /** While a capture waits, between two looks at the ranks. */
  captureLookMs: 50,
  /** Between two requests to the ranks of a capture, which they answer with how far they are. */
  captureAskMs: 1000,
  /** A rank that says nothing for so long, though it is asked, is dead. */
  captureSilenceMsMax: 5000,
  /** When no rank that a capture waits for has finished a step for so long, they are late… */
  captureStallMsMin: 15_000,
  /** …where steps are long, for so many of them… */
  captureStallSteps: 10,
  /** …but no longer than this, also where no step is known. */
  captureStallMsMax: 600_000,
  /** A capture that has not ended after so long does so with what there is. */
  captureWaitMsMax: 6 * 3600 * 1000,
  /** What is read of a rank from before its steps and after, for its clock. */
  captureClockMs: 30_000,
  /** Batches of a rank that are searched for its steps, newest first. */
  captureBatchesMax: 1_000_000,
  /** What `POST /v1/capture` is asked with. */
  captureRequestBytesMax: 4096,
  /** `flushRanks` waits until no batch came for `flushQuietMs`, but no longer than `flushWaitMsMax`. */
  flushQuietMs: 250,
  flushWaitMsMax: 3000,
  /** How often a run that pages look at is asked for new batches. */
  viewFollowMs: 250,
  /** Clocks of a live run are fitted, and the run is analysed, no more often than this; and no more often than takes `1 / viewWorkShare` of the time. */
  viewAlignMs: 2_000,
  viewAnalyseMs: 10_000,
  /** Batches of a live run that are analysed, the last ones; and at least so many of each rank. */
  viewAnalyseBatchesMax: 32_768,
  viewAnalyseBatchesPerRank: 256,
  /** The analysis begins so long after what it is of was read; while pages ask for something (the last time within `viewBusyMs`), it rests this long between its slices. */
  viewAnalyseDelayMs: 1_000,
  viewBusyMs: 250,
  viewGiveWayMs: 16,
  viewWorkShare: 10,
  /** A run of which nothing came for so long is shown as over, though ranks did not say goodbye. */
  viewSilentMs: 60_000,
  /** A timeline stays this long when the last page has left. */
  viewIdleMs: 30_000,
  /** Timelines held at a time. */
  viewRunsMax: 16,
  /** What a page is told of a process: metadata (entries, characters of a value), times of its bound, clock steps and shifted stretches. */
  viewMetadataMax: 64,
  viewMetadataCharsMax: 512,
  viewBoundsMax: 64,
  viewMarksMax: 1024,
  /** Runs, ranks of a run and phases of a run that have series of their own in `/metrics`; the rest shares `other`. */
  metricsRunsMax: 64,
  metricsRanksMax: 256,
  metricsPhasesMax: 32,
  /** GPUs of a rank in `/metrics`; further ones are left out. */
  metricsGpusMax: 16,
  /** Names of phases of a run that are remembered, with or without a series. */
  metricsPhaseNamesMax: 1024,
  /** Characters of a label. */
  metricsLabelCharsMax: 128,
  /** Runs, and ranks of a run, of which metrics are kept at all. */
  metricsRunsKeptMax: 256,
  metricsRanksKeptMax: 4096,
  /** Steps of a rank that "the last steps" are in metrics. */
  metricsStepsMax: 128,
  /** A run that is over is no longer in `/metrics` when no batch came for so long; one whose ranks did not say goodbye, when it is silent for a day. */
  metricsIdleMs: 600_000,
  metricsSilentMs: 24 * 3600 * 1000,
  /** Between two looks for what time alone tells; after a longer pause of the service itself, ranks are heard first. */
  alertTickMs: 1000,
  alertTickLateMs: 5000,
  /** The log of a run's alerts, and alerts of it that are told as they stand. */
  alertLogBytesMax: 4 * 1024 * 1024,
  alertsPerRunMax: 256,
  /** Alerts among the findings of a run's page. */
  alertFindingsMax: 16,
  /** What alerts rest on is saved when one changes, and so often. */
  alertStateSaveMs: 30_000,
  /** Steps before and after an onset that are read for its cause, and how long that may take; then it is told without. */
  alertBlameSteps: 64,
  alertCauseMsMax: 20_000,
  /** A link to the timeline shows so much at least. */
  alertPlaceMsMin: 1000,
  /** Lives of a rank whose losses are summed up, and facts of it that decide how long steps take. */
  alertLivesPerRankMax: 64,
  alertContextFactsMax: 64,
} as const;
