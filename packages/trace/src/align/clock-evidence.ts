// Evidence of ranks about clocks: the input of alignment. It is untrusted, so any of it may be wrong.

/** One ping, in ns: on the rank's clock (RankTime) and on the remote host's monotonic clock (absolute, as a bigint epoch plus ns). */
export interface ClockSample {
  readonly sent: number;
  readonly received: number;
  readonly remoteReceived: number;
  readonly remoteSent: number;
  readonly remoteHost: string;
  readonly remoteEpoch: bigint;
}

/** Something that began and ended for a rank: RankTime, ns. */
export interface Interval {
  readonly start: number;
  readonly end: number;
}

/** Events that a rank shares with others, by keys known to all of them: evidence where there are no pings. */
export interface SharedEvents {
  /** Collectives that no rank leaves before all have entered, so that their ranks leave together. */
  readonly collectives: ReadonlyMap<string, Interval>;
  /** Remote calls by the client's span id, as the client and as the server recorded them. */
  readonly clients: ReadonlyMap<string, Interval>;
  readonly servers: ReadonlyMap<string, Interval>;
  /** Sends, by a name known to both sides: when the data left, and when it arrived. */
  readonly sends: ReadonlyMap<string, number>;
  readonly receives: ReadonlyMap<string, number>;
  /** Starts of steps, by number: roughly equal for all ranks, and no proof. */
  readonly steps: ReadonlyMap<number, number>;
}

/** Evidence of one rank's life about clocks. */
export interface ClockEvidence {
  readonly rank: number;
  readonly host: string;
  /** The host is not known, and `epoch` is that of a wall clock that several sources may share. */
  readonly hostUnknown?: boolean;
  /** The attempt of its job: ranks of different ones have no events and steps in common, whatever their numbers. Absent: 0. */
  readonly attempt?: number;
  /** The host's monotonic clock at RankTime 0, ns. */
  readonly epoch: bigint;
  /** Oldest first. */
  readonly samples: Iterable<ClockSample>;
  /** A wall clock reading: RankTime `time` was unix time `unix` ns. */
  readonly wallClock: { readonly time: number; readonly unix: bigint } | undefined;
  /** RankTime up to which the rank is known to have run (its last watermark), ns: the published bound holds until then. */
  readonly until?: number | undefined;
  readonly shared?: SharedEvents;
}
