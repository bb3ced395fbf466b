// Every bound of what blame may keep, with its unit last.

export const blameLimits = {
  /** Steps at full detail: the last ones. */
  blameStepsMax: 256,
  /** Steps of one window of a whole run, judged as it passes: a fault as long as a window is found wherever in the run it was. */
  blameWindowSteps: 64,
  /** Faults of passed windows that a run's blame remembers: the most costly ones. */
  blameEpisodesMax: 64,
  /** Changes of the cluster's step time at which windows may begin: the last ones. */
  blameChangesMax: 64,
  /** Steps of another kind that may turn out to be like the others on their devices: the last ones. */
  blameLongStepsMax: 4096,
  /** Causes of steps of another kind that are told apart; further ones share one. */
  blameLongGroupsMax: 64,
  /** Stretches of one such step, between meetings of all ranks, in each of which other ranks may be the slowest. */
  blameLongStretchesMax: 64,
  /** Distances between such steps of one cause that are counted. */
  blameLongDistancesMax: 64,
  /** Pieces of all ranks' steps that are kept at full detail, about 150 bytes each; older steps go first. */
  blamePiecesMax: 1_000_000,
  /** Spans of one process that may turn out to be phases of its step; of further ones only the time of the phase is known, not its place. */
  blameSpansPendingMax: 4096,
  /** Collectives of one process since its last step; further ones count as work like any other. */
  blameCollectivesPerStepMax: 16_384,
  /** Collectives of all processes that came without their end; the ends of further ones may stay unknown. */
  blameCollectivesOpenMax: 65_536,
  /** Stretches of one collective in which nothing else ran; further ones count as work. */
  blameExposedMax: 64,
  /** Threads of one process with lines that are known to be theirs; of a further one, phases on several lines are placed from one of them. */
  blameThreadsMax: 1024,
  /** Ops of one rank's step that are compared with those of its peers: the longest ones. */
  blameOpsPerStepMax: 32,
  /** Ops inside each other; the time of deeper ones counts for the last one around them. */
  blameOpDepthMax: 256,
  /** Ops of one process until its step ends; further ones are not compared. */
  blameOpsPendingMax: 65_536,
  /** Names of ops, each in each phase; further ones are not named. */
  blameOpNamesMax: 16_384,
  /** Names of phases (the time of further ones is in `other`), and groups of ranks. */
  blamePhasesMax: 256,
  /** Samples of one rank's wait for a CPU: the last ones. */
  blameSamplesMax: 4096,
  /** Findings of one report: the most costly ones. */
  blameFindingsMax: 16,
  /** Lines of one rank's breakdown about whom and what it waited for; further ones share the last. */
  blameWaitsPerRankMax: 32,
} as const;
