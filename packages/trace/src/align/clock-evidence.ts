// What ranks say about clocks: the input of `fitClocks`. All of it comes from outside, so all of it may be wrong.

/** One ping, in ns: on the rank's clock (RankTime) and on the remote host's monotonic clock (absolute, as a bigint epoch plus ns). */
export interface ClockSample {
  readonly sent: number;
  readonly received: number;
  readonly remoteReceived: number;
  readonly remoteSent: number;
  readonly remoteHost: string;
  readonly remoteEpoch: bigint;
}

/** What one rank's life says about clocks. */
export interface ClockEvidence {
  readonly rank: number;
  readonly host: string;
  /** The host's monotonic clock at RankTime 0, ns. */
  readonly epoch: bigint;
  readonly samples: readonly ClockSample[];
  /** A wall clock reading: RankTime `time` was unix time `unix` ns. */
  readonly wallClock: { readonly time: number; readonly unix: bigint } | undefined;
  /** RankTime up to which the rank is known to have run (its last watermark), ns: the published bound holds until then. */
  readonly until?: number | undefined;
}
