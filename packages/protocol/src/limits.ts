// Every bound of what crosses a process boundary, with its unit last. Relations between limits are asserted in limits.test.ts.

export const limits = {
  /** A batch as sent, below NATS's default max_payload (1 MiB) with room for headers; a larger one is refused (`oversized`). */
  batchBytesMax: 960 * 1024,
  /** A batch's body once inflated: the most that a decoder may be made to allocate. A larger one is refused. */
  bodyBytesMax: 16 * 1024 * 1024,
  /** Rows of one table in a batch; a batch with more is refused. */
  rowsPerTableMax: 65_536,
  /** Entries of a batch's string table; a batch with more is refused. */
  stringsPerBatchMax: 65_536,
  /** One string, in UTF-8 bytes; the recorder cuts longer ones and counts them. */
  stringBytesMax: 4096,
  /** Parts of a batch's msgpack (one per string, one per table, column and header field): the most that a decoder may be made to build. */
  valuesPerBatchMax: 65_536 + 4096,
  /** One control message, or one message of a rank or a page; a longer one is refused (`oversized`). */
  messageBytesMax: 64 * 1024,
  /** One status message: every rank of every open run, 1 KiB each at most, as many as there can be in one run. A longer one is refused. */
  statusBytesMax: 64 * 1024 * 1024,
  /** One message of the JetStream stream, a batch with its headers; the NATS server refuses a larger one. */
  streamMessageBytesMax: 1024 * 1024,
  /** JetStream drops a batch that comes twice within this time, by message id; the run store's own deduplication has no window. */
  streamDuplicateWindowMs: 2 * 60_000,
  /** JetStream deletes a batch after this time, read or not: an aggregator may be away for as long. */
  streamAgeMsMax: 24 * 3600 * 1000,
  /**
   * Size of the stream, unless an operator sets another; when it is full, the oldest batches go. At 4 MB a second of 64 ranks it holds 49 minutes of
   * unread batches. Its halves are no sizes that people give a server, so the first one that a server takes is below its `max_file`.
   */
  streamBytesMax: 11 * 1024 * 1024 * 1024,
  /** Smallest stream that a server is asked for; one without room for it cannot take batches. */
  streamBytesMin: 8 * 1024 * 1024,
  /** Copies of the stream that a cluster of servers can have (`--stream-replicas`); more is refused. */
  streamReplicasMax: 5,
  /** Characters of a run's name (letters, digits, `_` and `-`, so that it is safe in subjects, paths and URLs); a longer one is refused. */
  runNameCharsMax: 64,
  /** Stretches of steps of which a rank says that it sent all work of its devices: the last ones, so that they fit one string. */
  deviceStretchesMax: 128,
  /** Highest number of a rank, which has 16 bits; a higher one is refused. */
  rankMax: 65_535,
  /** Characters of a host's id and of its name; recorders cut longer ones. */
  hostCharsMax: 256,
  /** Highest step that can be asked for by number, as ranks keep it in 32 bits; a higher one is refused. */
  capturedStepMax: 2_147_483_646,
  /** Steps of one capture; a request for more is refused. */
  capturedStepsMax: 100_000,
  /** Longest window that PyTorch ranks can be asked to record; a request for a longer one is refused. */
  windowMsMax: 600_000,
  /** Process groups of a rank's window whose collectives are counted from an agreed moment; those of further ones stay unnumbered spans. */
  windowGroupsMax: 16,
  /** Last collectives of a group that an agent reports to agree on that moment. */
  windowEndsMax: 32,
  /** Groups for which a rank reports how many collectives it entered; further ones are left out. */
  runningGroupsMax: 32,
  /** Batches that a client has sent without an acknowledgement; the next ones wait. */
  inFlightBatchesMax: 16,
  /** Tracks that one request of a page may name (none names all); a request with more is refused. */
  viewTracksMax: 8192,
  /** Tiles that one request of a page may ask for; a request with more is refused. */
  viewTilesMax: 512,
  /** Names that a search gives, and that one request may look for; further ones are counted. */
  viewNamesFoundMax: 1024,
  /** Characters of a name as it is shown; its whole text is in the details. */
  viewNameCharsMax: 200,
} as const;
