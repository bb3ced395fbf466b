// Every bound of the aggregator, with its unit last. The bounds of a batch are in protocol's limits.

export const aggregatorLimits = {
  /** One segment file of a run store; the frame that would pass this size starts the next segment. */
  segmentBytesMax: 64 * 1024 * 1024,
  /** One quarantine file of undecodable batches; later ones are counted and not kept. */
  quarantineBytesMax: 16 * 1024 * 1024,
  /** Longest torn frame that a killed writer can leave behind; a longer unreadable tail is damage and is never cut. */
  tornBytesMax: 8 + 960 * 1024,
  /** Segment files that one reader holds open; to open another, it closes the one opened first. */
  openFilesMax: 64,
  /** Bytes that one source reads at once where its batches lie close together. */
  readAheadBytesMax: 256 * 1024,
  /** Bytes that all sources of one reader read ahead together; each has an equal share. */
  readAheadTotalBytesMax: 64 * 1024 * 1024,
  /** Levels of folders below an input that are searched for segments: `<out>/<run>/segments/*.seg` and `<spool>/<run>/rank-…/*.seg`. */
  searchDepthMax: 3,
  /** Segment files below one input; an input with more is refused (`bad_option`). */
  segmentsPerLogMax: 1_000_000,
  /** Attempts to open a store while pruning replaces its segments; then opening fails. */
  openAttemptsMax: 10,
  /** Runs open for writing at once; the one longest without a batch is closed to open another. */
  runsOpenMax: 2048,
  /** Runs that may be open for writing however few file descriptors the process has. */
  runsOpenMin: 16,
  /** Runs open for writing per file descriptor of the process; the other descriptors are for everything else. */
  runsOpenShare: 0.25,
  /** A run without new batches renews its lock this often, which shows that its owner lives. */
  lockTouchMs: 5000,
  /** Incarnations (one life of one rank) of one run; batches of further ones are refused. */
  sourcesPerRunMax: 262_144,
  /** Step summaries in memory per rank; newer ones replace the oldest, which stay in the store. */
  stepsPerRankMax: 4096,
  /** A rank that sends nothing for this long, heartbeats included, is shown as `stopped`. */
  rankStoppedMs: 5000,
  /** A rank with a broken connection is shown as `lost` after this long without a batch: until then it may be about to reconnect. */
  rankLostMs: 2000,
  /** Distinct phase names in memory per rank; further ones are in the store alone. */
  phaseNamesPerRankMax: 64,
  /** A lock with an owner that cannot be checked (other host, other container) is stale when untouched for this long. */
  lockStaleMs: 15_000,
  /** Interval between two fdatasync calls; a power failure may lose what came since the last one. */
  syncIntervalMs: 1000,
  /** Opening a run replays its store into the live state for this long in one go, and goes on in slices. */
  replayAtOnceMs: 250,
  /** One later slice of replaying an opened run's store; the service takes new batches between two slices. */
  replaySliceMs: 10,
  /** The same notice is logged at most once within this time; its repeats are dropped. */
  noticeIntervalMs: 10_000,
  /** Notices of one kind (only names and numbers differ) within `noticeIntervalMs`; further ones are counted, and the next one reports how many. */
  noticesOfKindMax: 8,
  /** Kinds of notices remembered to find repeats; one more, and all of them are forgotten. */
  noticesMax: 64,
  /** Shortest interval between two calls of a `subscribe` listener. */
  progressIntervalMs: 200,
  /** WebSocket connections of ranks; further ones are refused with status 503. */
  connectionsMax: 4096,
  /** Connections beside those of ranks and pages: probes and people. The server drops further ones. */
  requestsMax: 256,
  /** Time for a request or a handshake to arrive whole; a slower one loses its connection. */
  requestMsMax: 10_000,
  /** One file with a certificate and its issuers, or with a key; a larger one is refused (`bad_certificate`). */
  certificateBytesMax: 1024 * 1024,
  /** Interval between two checks whether the certificate was renewed. */
  certificateLookMs: 5000,
  /** One WebSocket message of a rank: above protocol's `batchBytesMax`, so that an oversized batch is refused by name, not by a broken connection. */
  webSocketPayloadBytesMax: 1024 * 1024,
  /** Answers that a rank's connection has not read yet; above, the service reads no batches from it. */
  sendBufferBytesMax: 256 * 1024,
  /** Interval between two WebSocket pings; a rank's connection that missed one is closed. */
  pingIntervalMs: 15_000,
  /** Time for peers to close their connections in good order when the service ends; then it cuts them. */
  closeGraceMs: 1000,
  /** Files of the built page, which is read whole at the start; with more, the service does not start (`bad_option`). */
  pageFilesMax: 256,
  /** All files of the built page together; with more, the service does not start (`bad_option`). */
  pageBytesMax: 64 * 1024 * 1024,
  /** Pages connected at once; further ones are refused with status 503. */
  viewPagesMax: 256,
  /** Runs that one page may have open; another one is refused (`too_many`). */
  viewRunsPerPageMax: 16,
  /** Requests of one page without an answer yet; further ones are refused (`too_many`). */
  viewRequestsPerPageMax: 32,
  /** Time that all pages together take of the thread in one go; then ranks and everything else have their turn. */
  viewSliceMs: 8,
  /** Shortest interval between two progress messages of one request. */
  viewProgressIntervalMs: 200,
  /** One frame of tiles, and one part of a longer message; a single larger tile goes out in several parts. */
  viewFrameBytesMax: 512 * 1024,
  /** Bytes that a page has not read yet; above, its requests wait, and at twice that the service does not read from it either. */
  viewSendBufferBytesMax: 4 * 1024 * 1024,
  /** Shortest interval between two messages about a run's new events, or about which runs there are. */
  viewGrowthIntervalMs: 250,
  /** A page that reads nothing for this long, not even a ping, is disconnected. */
  viewSilenceMsMax: 60_000,
  /** One message that a service may send a terminal (`ViewClient`): the names of a run with a million of them come in one. */
  viewClientBytesMax: 256 * 1024 * 1024,
  /** Interval between two checks for data that retention no longer keeps. */
  pruneIntervalMs: 60_000,
  /** A segment without a new batch for this long is ended, so that it can be pruned; earlier, if retention keeps less. */
  segmentIdleMs: 3_600_000,
  /** Pruning yields to new batches after this much work. */
  pruneSliceMs: 10,
  /** Rows of one summary: pruning joins batches until they have this many. */
  prunedRowsMax: 8192,
  /** A summary keeps one clock sample for each stretch of this length: the one with the shortest round trip. */
  prunedClockMs: 10_000,
  /** Removed trace files that a run's `pruned.json` names: the last ones. */
  prunedTracesMax: 64,
  /** An attempt to connect to NATS, or to publish an alert there, fails after this time. */
  natsConnectTimeoutMs: 3000,
  /** First back-off after a NATS error; it doubles up to `natsRetryMsMax`. */
  natsRetryMs: 250,
  /** Longest back-off after a NATS error; a batch that cannot be stored now is delivered again after it. */
  natsRetryMsMax: 5000,
  /** Messages of one fetch from the stream: at 1 MiB each, this also bounds their memory. */
  natsFetchMessagesMax: 128,
  /** A fetch from the stream ends after this time, however few messages came. */
  natsFetchExpiresMs: 2000,
  /** Delivered messages without an acknowledgement; the NATS server delivers no more until some have theirs. */
  natsAckPendingMax: 512,
  /** Runs that take no batch now, each with one message that waits; of further ones all wait. */
  natsHeldRunsMax: 256,
  /** After this time without the message that waits, of a run that takes no batch, reading begins again there: the stream may have deleted it. */
  natsHeldOverdueMs: 60_000,
  /** The NATS server delivers a message again that is not acknowledged within this time. */
  natsAckWaitMs: 30_000,
  /** A service that ends reads what the stream holds for this long; the rest waits there for the next start. */
  natsDrainMsMax: 5_000,
  /** Interval between two checks whether an ending service has read the whole stream. */
  natsDrainLookMs: 50,
  /**
   * Messages that the NATS server acknowledged this long ago are on its disk; younger ones may be gone when it is killed, and are read again then.
   */
  natsFlushMs: 5_000,
  /** Interval between two checks of the stream: which batches it deleted unread, and which ones every reader has read, so that they can be purged. */
  natsLookMs: 5_000,
  /** Readers of the stream that are asked how far they have read; with more of them nothing is purged. */
  natsReadersMax: 4096,
  /** The NATS server forgets a consumer that is unused for this long; a new one starts at the beginning and deduplication does the rest. */
  natsConsumerIdleMs: 7 * 24 * 3600 * 1000,
  /** Answers to requests for steps (`captureSteps`) remembered per rank: the last ones. */
  answersPerRankMax: 8,
  /** Captures that a service runs at once; further ones are refused (`too_many_captures`). */
  capturesAtOnceMax: 4,
  /** Traces of captures that a run keeps; the oldest is removed, with a notice. */
  capturesPerRunMax: 1000,
  /** A capture begins this far ahead of the furthest rank, so that its request arrives before its first step. */
  captureLeadMs: 500,
  /** Steps that a capture begins ahead of the furthest rank at most, however short they are. */
  captureLeadStepsMax: 10_000,
  /** Interval between two checks of the ranks while a capture waits. */
  captureLookMs: 50,
  /** Interval between two requests of a capture to its ranks, which answer how far they are. */
  captureAskMs: 1000,
  /** A rank that sends nothing for this long, though it is asked, is dead; a capture does not wait for it. */
  captureSilenceMsMax: 5000,
  /** The same while no rank of the run sends anything: the way to all of them is down, and a broker may come back. */
  captureAllSilentMsMax: 45_000,
  /** Ranks that a capture waits for are late when none of them has finished a step for this long. */
  captureStallMsMin: 15_000,
  /** Where steps are long, ranks that a capture waits for are late only when none has finished a step for the time of this many. */
  captureStallSteps: 10,
  /** Longest time until ranks that a capture waits for are late, also where no step is known; then it ends with what there is. */
  captureStallMsMax: 600_000,
  /** A capture that has not ended after this time ends with what there is. */
  captureWaitMsMax: 6 * 3600 * 1000,
  /** A window begins this long after it is announced: PyTorch's recorder asks for work every 5 s, and must know it 2 s ahead. */
  captureWindowLeadMs: 8500,
  /** A capture of a window waits for its files no longer than this after its end. */
  captureGatherMsMax: 150_000,
  /** Window for a request of steps whose length is not known, such as the first one of a PyTorch job. */
  captureWindowMsDefault: 2000,
  /** Longest window for a request of steps. */
  captureWindowMsMax: 60_000,
  /** A capture reads a rank from this long before its steps until this long after them, to align its clock. */
  captureClockMs: 30_000,
  /** Batches of a rank that are searched for a capture's steps, newest first; older ones are not. */
  captureBatchesMax: 1_000_000,
  /** Body of one `POST /v1/capture`; a longer one is refused. */
  captureRequestBytesMax: 4096,
  /** `flushRanks` and captures wait until no batch came for this long. */
  flushQuietMs: 250,
  /** `flushRanks` and captures wait no longer than this, even when batches keep coming. */
  flushWaitMsMax: 3000,
  /** Interval between two checks for new batches of a run that a page shows. */
  viewFollowMs: 250,
  /** Shortest interval between two fits of a live run's clocks; see `viewPauseFactor`. */
  viewAlignMs: 2_000,
  /** Shortest interval between two analyses of a live run; see `viewPauseFactor`. */
  viewAnalyseMs: 10_000,
  /** Batches of a live run that one analysis reads: the last ones. */
  viewAnalyseBatchesMax: 32_768,
  /** Batches per rank that one analysis of a live run reads, where that is more than `viewAnalyseBatchesMax` in all. */
  viewAnalyseBatchesPerRank: 256,
  /** Where reading a run took at least this long, its analysis begins this much later: the first pictures come first. */
  viewAnalyseDelayMs: 1_000,
  /** The analysis gives way to pages that asked for something within this time. */
  viewBusyMs: 250,
  /** To give way, the analysis rests this long between two of its slices. */
  viewGiveWayMs: 16,
  /** A live run's clock fits and analyses each pause for this many times as long as the last one took, if that exceeds their interval. */
  viewPauseFactor: 10,
  /** A run without a batch for this long is shown as over, though its ranks did not report their end. */
  viewSilentMs: 60_000,
  /** A timeline stays in memory this long after its last page has left. */
  viewIdleMs: 30_000,
  /** Timelines in memory; those without a page go first, and where all have one, another run is refused (`too_many`). */
  viewRunsMax: 16,
  /** Merges that pages ask for at one time, by comparisons and downloads, over all runs; further ones are refused (`too_many`). */
  viewMergesMax: 4,
  /** A download whose receiver takes nothing for this long ends, so that others get their turn. */
  viewDownloadStallMs: 60_000,
  /** Metadata entries of one process that a page gets; further ones are left out. */
  viewMetadataMax: 64,
  /** Characters of one metadata value that a page gets; the rest is cut off. */
  viewMetadataCharsMax: 512,
  /** Clock steps and shifted stretches of a process, and clock conflicts of a run, that a page gets; further ones are left out. */
  viewMarksMax: 1024,
  /** Runs that have series of their own in `/metrics`; further ones share `other`. */
  metricsRunsMax: 64,
  /** Ranks of a run that have series of their own in `/metrics`; further ones share `other`. */
  metricsRanksMax: 256,
  /** Phases of a run that have series of their own in `/metrics`; further ones share `other`. */
  metricsPhasesMax: 32,
  /** GPUs of a rank in `/metrics`; further ones are left out. */
  metricsGpusMax: 16,
  /** Phase names of a run that are remembered, with or without a series; further ones are looked up each time. */
  metricsPhaseNamesMax: 1024,
  /** Characters of a phase's label in `/metrics`; a longer name is shortened. */
  metricsLabelCharsMax: 128,
  /** Runs with any metrics at all; another one replaces the one longest without a batch. */
  metricsRunsKeptMax: 256,
  /** Ranks of a run with any metrics at all; further ones are left out. */
  metricsRanksKeptMax: 4096,
  /** Phases of own work whose lengths are kept for each rank, for its excess in `/metrics`: the first ones of a run. */
  metricsOwnPhasesMax: 8,
  /** Last steps of which these lengths are kept. */
  metricsPhaseStepsMax: 32,
  /** Steps of a rank that count as its last ones in `/metrics`. */
  metricsStepsMax: 128,
  /** A run that is over leaves `/metrics` after this long without a batch. */
  metricsIdleMs: 600_000,
  /** A run with ranks that did not report their end leaves `/metrics` after this long without a batch. */
  metricsSilentMs: 24 * 3600 * 1000,
  /** Interval between two checks for alerts that time alone raises, such as a silent rank. */
  alertTickMs: 1000,
  /** Interval between the first two requests for reports of collectives, while a hang is suspected; it doubles from request to request. */
  alertAskMsMin: 5000,
  /** Longest interval between two requests for reports of collectives. */
  alertAskMsMax: 60_000,
  /** A check that comes this long after the one before is skipped: the service was blocked, so it reads from the ranks first. */
  alertTickLateMs: 5000,
  /** The log of a run's alerts; a full one is rewritten with the newest alerts, up to half of it. */
  alertLogBytesMax: 4 * 1024 * 1024,
  /** Alerts of a run in memory; the oldest resolved ones go first, and open ones only above twice as many. */
  alertsPerRunMax: 256,
  /** Alerts among the findings on a run's page: those that fire first, then the newest. */
  alertFindingsMax: 16,
  /** The state behind alerts is saved when an alert changes, and otherwise no more often than this. */
  alertStateSaveMs: 30_000,
  /** An outage (a full disk, a broker out of reach) is over for alerts this long after its last sign: ranks try again after 5 s at most. */
  alertOutageEndMs: 15_000,
  /** A run without a batch for this long before the service starts is not opened at the start, but with its next batch. */
  alertResumeMsMax: 24 * 3600 * 1000,
  /** Runs that are opened at the start of the service because they may still go on: those with the last batches. */
  alertResumedRunsMax: 256,
  /** Steps before an onset, and after it, that are read for an alert's cause. */
  alertBlameSteps: 64,
  /** With fewer steps before the onset, the ranks were started again: the lives before are read, too. */
  alertBlameStepsMin: 16,
  /** Time to find an alert's cause; then the alert goes out without it. */
  alertCauseMsMax: 20_000,
  /** Shortest stretch of the timeline that the link of an alert shows. */
  alertPlaceMsMin: 1000,
  /** Lives of a rank over which its losses are summed up for alerts; the oldest goes first. */
  alertLivesPerRankMax: 64,
  /** Facts of a rank that decide how long its steps take; further ones are ignored. */
  alertContextFactsMax: 64,
} as const;
