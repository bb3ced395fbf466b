// Every bound of what crosses a process boundary, with its unit last. Relations between limits are asserted in limits.test.ts.

export const limits = {
  /** A batch as sent: below NATS's default max_payload (1 MiB) with room for headers. */
  batchBytesMax: 960 * 1024,
  /** A batch's body once inflated: what a decoder may be made to allocate. */
  bodyBytesMax: 16 * 1024 * 1024,
  /** Rows of one table in one batch. */
  rowsPerTableMax: 65_536,
  /** Strings of one batch. */
  stringsPerBatchMax: 65_536,
  /** One string, in UTF-8 bytes; the recorder cuts longer ones and counts them. */
  stringBytesMax: 4096,
  /** Parts of a batch's msgpack: one per string, one per table, column and header field; what a decoder may be made to build. */
  valuesPerBatchMax: 65_536 + 4096,
  /** One control message, or one of a rank. */
  messageBytesMax: 64 * 1024,
  /** One status message: every rank of every open run, 1 KiB each at most, as many as there can be in one run. */
  statusBytesMax: 64 * 1024 * 1024,
  /** One message of the JetStream stream: a batch and its headers. */
  streamMessageBytesMax: 1024 * 1024,
  /** JetStream's own deduplication by message id; the run store's has no window. */
  streamDuplicateWindowMs: 2 * 60_000,
  /** How long JetStream keeps a batch that an aggregator has not read: it may be away for so long. */
  streamAgeMsMax: 24 * 3600 * 1000,
  /**
   * The most that the stream holds, unless an operator says otherwise: at 4 MB a second of 64 ranks, 49 minutes of batches that nobody read. Its halves are no
   * sizes that people give a server, so the first one that a server takes is below its `max_file`.
   */
  streamBytesMax: 11 * 1024 * 1024 * 1024,
  /** A server without room for so much is no server for batches. */
  streamBytesMin: 8 * 1024 * 1024,
  /** Copies of a stream that a cluster can have. */
  streamReplicasMax: 5,
  /** Run names: letters, digits, `_` and `-`, so that they are safe in subjects, paths and URLs. */
  runNameCharsMax: 64,
  rankMax: 65_535,
  hostCharsMax: 256,
  /** Steps above cannot be asked for by number: ranks keep the number in 32 bits. */
  capturedStepMax: 2_147_483_646,
  /** Steps of one capture. */
  capturedStepsMax: 100_000,
  /** Groups of which a rank says how many collectives it entered. */
  runningGroupsMax: 32,
  /** Batches a client may have sent and not yet seen acknowledged. */
  inFlightBatchesMax: 16,
  /** Tracks that one request of the page may name; none names all. */
  viewTracksMax: 8192,
  /** Tiles that one request may ask for. */
  viewTilesMax: 512,
  /** Names that a search finds, and that may be looked for. */
  viewNamesFoundMax: 1024,
  /** A name as it is shown; its whole text is in the details. */
  viewNameCharsMax: 200,
} as const;
