// Every bound of what the analyses of a run may keep for its tables, with its unit last.

export const analyseLimits = {
  /** Distinct names of spans of one rank with sums of their own, about 120 bytes each; further ones are summed up together. */
  opNamesPerRankMax: 8192,
  /** Spans inside each other for which own times are known; deeper ones count with the span around them. */
  opDepthMax: 1024,
  /** Devices of one rank whose memory is shown. */
  memoryDevicesPerRankMax: 32,
  /** Live allocations of one device of a rank, about 120 bytes each; further ones are of unknown category. */
  memoryLiveMax: 131_072,
  /** Ops with parts of the program that held a device's memory at its peak: those with most bytes. */
  memoryHoldersMax: 16,
  /** Points of one curve of memory: the greatest value of each stretch of time, which doubles where time goes on. */
  memoryCurvePointsMax: 256,
  /** Lines of one table of all ranks, or of one: those with most time; the rest is summed up on one line. */
  profileLinesMax: 64,
  /** Sequences of kernels of all ranks, or of one: those with most time. */
  profileSequencesMax: 16,
  /** Lines of all tables of single ranks together, about 200 bytes each: with many ranks, each has fewer. */
  profileRankLinesMax: 131_072,
  /** Lines that each table of a rank has, however many ranks there are. */
  profileLinesPerRankMin: 5,
  /** Ranks with lines of their own in tables of devices and of memory; further ones are counted. */
  profileRanksMax: 1024,
  /** Kernels of each rank beside its bars. */
  profileTopKernelsMax: 3,
} as const;
