// Every bound of the alert rules, with its unit last.

export const alertLimits = {
  /** Steps of a run that some ranks have told and others not yet; beyond, the oldest is judged by those that told it. */
  alertStepsPendingMax: 1024,
  /** Ranks whose own work, memory and overhead are watched; of further ones only whether they live. */
  alertRanksWatchedMax: 2048,
  /** Phases that are watched, in order of first sight. */
  alertPhasesMax: 32,
  /** Blocks of 8 steps after which a run is warm, however noisy it is: one on a busy host never becomes calm. */
  alertWarmUpBlocks: 16,
  /** Steps for which a finding waits for what becomes slower with it, so that all of one fault are one alert. */
  alertSettleSteps: 96,
  /** Onsets of two series that lie so close are one. */
  alertOnsetStepsApartMax: 64,
  /** Onsets of two ranks that lie so close are one: two blocks of a noisy series. */
  alertRankOnsetStepsApartMax: 32,
  /** Steps within which the slow rise of all ranks passes the noise of each. */
  alertDriftStepsApartMax: 384,
  /** Improvements of the cluster's steps that are remembered, the last ones. */
  alertImprovementsMax: 8,
  /** Ranks of a job have at least this time to come, after the first. */
  alertAbsentMsMin: 60_000,
  /** Ranks that fall silent, lose data, … within this time are one alert. */
  alertJoinMs: 30_000,
  /** Incidents of one rule that are open at once; what comes beyond joins the last. */
  alertOpenPerRuleMax: 64,
  /**
   * Batches of a rank may come out of order, and a broker delivers again after its `natsAckWaitMs`: what is missing is lost when others of the rank
   * came for so long.
   */
  alertMissingMs: 75_000,
  /** The last steps that a limit is held against, and how many of them must be over it (or, to be over, at most). */
  alertLimitSteps: 8,
  alertLimitStepsOver: 6,
  alertLimitStepsUnder: 2,
  /** Steps over which what recording takes is averaged, and ms that they must have taken. */
  alertOverheadSteps: 64,
  alertOverheadMsMin: 1000,
  /** Steps after which memory is looked at: caches fill before. */
  alertMemoryWarmUpSteps: 50,
  /** Counters of memory of one rank. */
  alertMemoryCountersPerRankMax: 16,
  /** Groups of ranks whose collectives are followed, and open parts of collectives of one rank. */
  alertGroupsMax: 1024,
  alertOpenCollectivesPerRankMax: 256,
  /** A rank that said nothing for so long while others wait for it may have stopped: `rank_stopped` decides. Three heartbeats. */
  alertSilentMs: 3000,
  /** What a rank said before others began to wait may come this much later than their word of it. */
  alertHeardMs: 300,
  /** A hang of nobody in particular takes so many times as long as a step usually does, and so many times as long as the longest one took. */
  alertHangSteps: 20,
  alertHangLongestSteps: 3,
  /** Places that a stop or a hang tells of. */
  alertPlacesToldMax: 4,
  /** Ranks named in one summary. */
  alertRanksNamedMax: 8,
} as const;
