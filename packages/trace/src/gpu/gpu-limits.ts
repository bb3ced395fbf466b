// Every bound of what the analyses of device work may keep, with its unit last.

export const gpuLimits = {
  /** Parts of collectives on devices that blame keeps, about 200 bytes each; further ones count as communication with unknown ranks. */
  gpuBlameCollectivesMax: 1_048_576,
  /** The last steps that blame of devices judges together; the earlier ones in windows. */
  gpuBlameStepsMax: 256,
  /** Laps of steps that blame of devices judges, where their numbers go back: the last ones. */
  gpuBlameLapsMax: 64,
  /** Kernels, copies, sets and syncs of all ranks together, about 70 bytes each; further ones are counted and left out. */
  gpuWorkMax: 4_000_000,
  /** Ops, annotations, modules and driver calls of the host, all ranks together, about 60 bytes each; further ones are counted and left out. */
  gpuHostSpansMax: 8_000_000,
  /** Host spans of a process that has not shown any device work so far: the last ones, as a process without devices needs none. */
  gpuHostSpansPendingMax: 131_072,
  /** Distinct names of kernels, ops and phases; further ones share `(other names)`. */
  gpuNamesMax: 262_144,
  /** Streams of one process; work on further ones is counted and left out. */
  gpuStreamsMax: 4096,
  /** Threads of one process that launch work; spans of further ones are counted and left out. */
  gpuThreadsMax: 4096,
  /** Steps of one process: the last ones. */
  gpuStepsMax: 65_536,
  /** Lines of one table in the summary of a rank: the ones with most time; the rest is summed up on one line. */
  gpuLinesMax: 64,
  /** Names in the kernel times of a run that `check` keeps for a comparison: the ones with most time; the rest is counted. */
  comparedKernelsMax: 256,
  /** Host spans and work of all ranks with a path across ranks; with more, each rank has its own path alone. */
  gpuPathEventsMax: 4_000_000,
  /** Names on one critical path in the summary: the ones with most time on it. */
  gpuPathLinesMax: 16,
  /** Parts of the critical path whose worth is worked out, beside all of each bound; a run of the graph takes some ms a million events. */
  gpuPathWorthMax: 8,
  /** Edges of a path's graph that is run again for the worth of its parts: 50 bytes an edge; beyond, no worth is worked out. */
  gpuPathWorthEdgesMax: 2_000_000,
  /** Pieces of the critical path that a page draws: the longest ones; the rest is counted. */
  gpuPathSegmentsMax: 4096,
  /** Steps of one rank with a breakdown of their own in the summary: the last ones; totals cover all of them. */
  gpuStepLinesMax: 256,
  /** Kernels of one launching op that make up a sequence; an op that launches more is cut off there. */
  gpuSequenceKernelsMax: 64,
  /** Distinct sequences of kernels of one rank; further ones are not counted. */
  gpuSequencesMax: 65_536,
  /** A collective of NCCL's plugin is the kernel whose begin and end lie so near to its own, ns: on an H200 they were 31,000 apart at most, mostly 3,000. */
  gpuNcclApartNsMax: 50_000,
  /** A launch that began this long after the device had drained is late, ns; a shorter gap between queued kernels is the device's own. */
  gpuKernelGapNsMax: 30_000,
  /** A device's own pause between two queued kernels where the recording has too few of them to tell, ns: 1,000 to 1,700 on V100, H100 and H200. */
  gpuKernelPauseNs: 1_000,
  /** A kernel that starts this long after its call returned waited for something else, ns: a launch takes a few µs. */
  gpuLaunchDelayNsMax: 100_000,
  /** A pause between two kernels of a stream that is longer than this has another reason than the first of them, ns. */
  gpuPathGapNsMax: 1_500_000,
  /** Launched work of a stream from which on its queue may be full: a further launch blocks the host until one has started. 1022 on an H200; HTA has 1024. */
  gpuQueueFullMin: 1000,
} as const;
