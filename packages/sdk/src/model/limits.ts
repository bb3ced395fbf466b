// Every bound of the SDK, with its unit last. docs/data-loss.md lists what a full one costs; the wire's own bounds are protocol's.

export const limits = {
  /** A spool segment is closed at this size: the unit in which acknowledged batches leave the disk. */
  spoolSegmentBytes: 8 * 1024 * 1024,
  /** Segments that share the bound of a spool, at least: smaller spools roll earlier, so that freeing one makes room. */
  spoolSegmentsMin: 8,
  /** On a disk that was full, segments are closed earlier, but not below this size. */
  spoolSegmentBytesMin: 16 * 1024,
  /** Batches in memory because the disk of the spool is full; further ones are dropped and counted, except for the last one of a life. */
  spoolMemoryBytesMax: 4 * 1024 * 1024,
  /** Disk space kept for the last batch of a life, which reports how many were lost. */
  spoolReserveBytes: 4096,
  /** Folders of runs and ranks that a start checks for fully acknowledged spools of dead ranks, to remove them; it leaves further ones. */
  sweptFoldersMax: 256,
  /** A spool of another host or container belongs to a dead process when nothing was written to it for this long. */
  leftoverQuietMs: 60_000,
  /** Unacknowledged batches in memory; later ones lie in the spool alone until these are acknowledged. */
  unackedBytesInMemoryMax: 4 * 1024 * 1024,

  /** Back-off before the first attempt to connect again; it doubles up to `reconnectDelayMsMax`. */
  reconnectDelayMsMin: 100,
  /** Longest back-off between two attempts to connect again. */
  reconnectDelayMsMax: 2000,
  /** An attempt to connect fails after this time; the next one follows. */
  connectTimeoutMs: 5000,
  /** A WebSocket that answered nothing for this long, pings included, is given up. */
  silenceMsMax: 15_000,
  /**
   * Batches that JetStream acknowledged stay in the spool this much longer, and are sent again when the connection breaks meanwhile: it answers
   * before its write buffer is flushed, so a killed nats-server loses its last moments.
   */
  brokerFlushMs: 2000,
  /** Batches that a rank remembers to have sent to JetStream; the oldest are forgotten first. */
  publishedIdsMax: 4096,
  /** Sending a batch fails when JetStream does not answer within this time. */
  publishTimeoutMs: 5000,
  /** Time to close a connection in good order; then it is cut. */
  closeTimeoutMs: 1000,
  /** At most one notice of a kind is logged within this time; the others are dropped. */
  noticeIntervalMs: 10_000,
  /** Kinds of notices remembered to find repeats; one more, and all of them are forgotten. */
  noticeKindsMax: 64,
  /** Reasons that are logged while a receiver is away; further ones are not. */
  awayReasonsMax: 8,

  /** Clock pings, one after the other, when a connection opens. */
  clockPingsAtConnect: 16,
  /** Clock pings, one after the other, in each later burst. */
  clockPingsPerBurst: 4,
  /** Time between two bursts of clock pings. */
  clockBurstIntervalMs: 1000,
  /** A clock ping without an answer for this long is given up, and the next one is sent. */
  clockPingTimeoutMs: 500,
  /** Clock samples kept until the next batch takes them; the oldest go first. */
  clockSamplesMax: 64,

  /** A rank sends a batch this often by default, in a job of few ranks. */
  flushIntervalMsDefault: 200,
  /** Where all ranks of a job would send more batches a second than this, each sends less often by default. */
  flushesPerSecondMax: 320,
  /** A rank sends a batch at least this often by default, however many ranks the job has. */
  flushIntervalMsLargeMax: 1000,

  /** Smallest value of the option `flushIntervalMs`, how often a rank sends a batch. */
  flushIntervalMsMin: 10,
  /** Largest value of the option `flushIntervalMs`, how often a rank sends a batch. */
  flushIntervalMsMax: 60_000,
  /** Smallest value of the option `ringBytes`: shared memory between a recording thread and the shipper. */
  ringBytesMin: 64 * 1024,
  /** Largest value of the option `ringBytes`: shared memory between a recording thread and the shipper. */
  ringBytesMax: 1024 * 1024 * 1024,
  /** Largest value of the option `exitDeadlineMs`: how long the end of the process waits for the last batches. */
  exitDeadlineMsMax: 600_000,
  /** Largest value of the option `firstStep`: half of the numbers of steps that can be asked for (`capturedStepMax`) are left for those after it. */
  firstStepMax: 1_073_741_823,
  /** Largest value of the option `flightRecorderSteps`: steps for which a rank holds detail back. */
  flightRecorderStepsMax: 100_000,
  /** Smallest value of the option `flightRecorderBytes`: memory for detail that a rank holds back. */
  flightRecorderBytesMin: 1024 * 1024,
  /** Largest value of the option `flightRecorderBytes`: memory for detail that a rank holds back. */
  flightRecorderBytesMax: 4 * 1024 * 1024 * 1024,
  /** Largest value of the option `sampleIntervalMs`, how often host and devices are sampled. */
  sampleIntervalMsMax: 3_600_000,
  /** Largest value of the option `postProcessingTimeoutS`: after so long, working out results stops with what there is. */
  postProcessingSMax: 86_400,
  /** Smallest value of the option `spoolBytesMax`: disk space of a rank's spool. */
  spoolBytesMin: 4 * 1024 * 1024,
  /** Largest value of the option `spoolBytesMax`: disk space of a rank's spool. */
  spoolBytesMax: 1024 * 1024 * 1024 * 1024,
} as const;
