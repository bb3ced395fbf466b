// Every bound of the SDK, with its unit last. What a full one costs is in docs/data-loss.md; the wire's own bounds are protocol's.

export const limits = {
  /** A spool segment is closed once it has this many bytes: the unit in which acknowledged batches leave the disk. */
  spoolSegmentBytes: 8 * 1024 * 1024,
  /** Smaller spools roll earlier, so that at least this many segments share the bound and freeing one makes room. */
  spoolSegmentsMin: 8,
  /** On a disk that was full, segments are closed earlier, but not below this. */
  spoolSegmentBytesMin: 16 * 1024,
  /** Batches that found the disk of the spool full are held in memory up to this; the last one of a life always is. */
  spoolMemoryBytesMax: 4 * 1024 * 1024,
  /** Kept on disk for the last batch of a life: that one tells how many were lost. */
  spoolReserveBytes: 4096,
  /** Folders of runs and ranks that a start looks at for spools of dead ranks of which all is acknowledged, to remove them. */
  sweptFoldersMax: 256,
  /** A spool of another host or container is a dead process's when nothing was written to it for this long. */
  leftoverQuietMs: 60_000,
  /** Unacknowledged batches kept in memory; later ones lie in the spool alone until these are acknowledged. */
  unackedBytesInMemoryMax: 4 * 1024 * 1024,

  /** Wait before the first attempt to connect again; doubles up to `reconnectDelayMsMax`. */
  reconnectDelayMsMin: 100,
  reconnectDelayMsMax: 2000,
  /** One attempt to connect. */
  connectTimeoutMs: 5000,
  /** A WebSocket that answered nothing for this long, clock pings included, is given up. */
  silenceMsMax: 15_000,
  /**
   * What JetStream acknowledged stays in the spool this much longer, and is sent again when the connection breaks meanwhile: it answers before
   * its write buffer is flushed, so a killed nats-server loses its last moments.
   */
  brokerFlushMs: 2000,
  /** Batches of which a rank knows that it has sent them to JetStream before. */
  publishedIdsMax: 4096,
  /** JetStream's answer to one publish. */
  publishTimeoutMs: 5000,
  /** Closing a connection in good order; after that it is cut. */
  closeTimeoutMs: 1000,
  /** Notices of one kind: at most one in this time. */
  noticeIntervalMs: 10_000,
  /** Kinds of notices remembered for that, and reasons told per absence. */
  noticeKindsMax: 64,
  awayReasonsMax: 8,

  /** Clock pings, one after the other: when a connection opens, and once per `clockBurstIntervalMs`. */
  clockPingsAtConnect: 16,
  clockPingsPerBurst: 4,
  clockBurstIntervalMs: 1000,
  clockPingTimeoutMs: 500,
  /** Clock samples kept until the next batch takes them; the oldest go first. */
  clockSamplesMax: 64,

  /** By default a rank sends a batch this often… */
  flushIntervalMsDefault: 200,
  /** …less often where all ranks of the job would send more than so many a second… */
  flushesPerSecondMax: 320,
  /** …but at least this often. */
  flushIntervalMsLargeMax: 1000,

  /** Ranges of the options. */
  flushIntervalMsMin: 10,
  flushIntervalMsMax: 60_000,
  ringBytesMin: 64 * 1024,
  ringBytesMax: 1024 * 1024 * 1024,
  exitDeadlineMsMax: 600_000,
  flightRecorderStepsMax: 100_000,
  flightRecorderBytesMin: 1024 * 1024,
  flightRecorderBytesMax: 4 * 1024 * 1024 * 1024,
  sampleIntervalMsMax: 3_600_000,
  postProcessingSMax: 86_400,
  spoolBytesMin: 4 * 1024 * 1024,
  spoolBytesMax: 1024 * 1024 * 1024 * 1024,
} as const;
