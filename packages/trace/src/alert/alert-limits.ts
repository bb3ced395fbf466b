// Every bound of the alert rules, with its unit last.

export const alertLimits = {
  /** Steps of a run that some ranks have reported and others not yet; beyond, the oldest is judged by the ranks that reported it. */
  alertStepsPendingMax: 1024,
  /** Ranks that are watched for regressions of their own work; further ones are not. */
  alertRanksWatchedMax: 2048,
  /** Phases that are watched for regressions, in order of first sight; further ones are not. */
  alertPhasesMax: 32,
  /** Blocks of 8 steps after which a run is warm, however noisy it is: one on a busy host never becomes calm. */
  alertWarmUpBlocks: 16,
  /** Steps for which a finding waits for others that begin with it, so that all of one fault are one alert. */
  alertSettleSteps: 96,
  /** Onsets of two series are one fault when they are at most this many steps apart. */
  alertOnsetStepsApartMax: 64,
  /** Onsets of two ranks are one fault when they are at most this many steps apart: two blocks of a noisy series. */
  alertRankOnsetStepsApartMax: 32,
  /** Steps within which the slow rise of all ranks passes the noise of each; drifts further apart are separate alerts. */
  alertDriftStepsApartMax: 384,
  /** Improvements of the cluster's steps that are remembered: the last ones. */
  alertImprovementsMax: 8,
  /** Ranks of a job have at least this time to arrive, after the first; then the missing ones raise an alert. */
  alertAbsentMsMin: 60_000,
  /** Ranks that fall silent, lose data, … within this time are one alert. */
  alertJoinMs: 30_000,
  /** Incidents of one rule that are open at once; further ranks join the last. */
  alertOpenPerRuleMax: 64,
  /**
   * A missing batch counts as lost when others of its rank came for this long: batches may come out of order, and a broker delivers again after its
   * `natsAckWaitMs`.
   */
  alertMissingMs: 75_000,
  /** Long steps whose rank and phase are remembered: the last ones. */
  alertLongStepsKept: 64,
  /** Steps after the start of a job that are not compared with a limit on the step time. */
  alertLimitWarmUpSteps: 8,
  /** Last steps that are compared with a limit on the step time. */
  alertLimitSteps: 8,
  /** An alert fires when at least this many of the last `alertLimitSteps` steps are over the limit. */
  alertLimitStepsOver: 6,
  /** An alert is resolved when at most this many of the last `alertLimitSteps` steps are still over the limit. */
  alertLimitStepsUnder: 2,
  /** Recording's share of the step time is averaged over this many steps. */
  alertOverheadSteps: 64,
  /** Recording's share is judged only where the averaged steps took at least this long together. */
  alertOverheadMsMin: 1000,
  /** First steps of a run, in which memory is not watched for growth: caches fill in them. */
  alertMemoryWarmUpSteps: 50,
  /** Memory counters of one rank that are watched for growth; further ones are ignored. */
  alertMemoryCountersPerRankMax: 16,
  /** Windows in which one memory counter is watched for growth, each of twice the length of the one before: 400 000 steps in all. */
  alertMemoryWindowsMax: 12,
  /** Groups of ranks in which collectives are followed; further ones are ignored. */
  alertGroupsMax: 1024,
  /** Open parts of collectives of one rank that are followed; further ones are ignored. */
  alertOpenCollectivesPerRankMax: 256,
  /** A rank that sent nothing for this long (three heartbeats) while others wait for it may have stopped: `rank_stopped` decides. */
  alertSilentMs: 3000,
  /** A rank's report from before others began to wait for it may arrive this much later than theirs. */
  alertHeardMs: 300,
  /** A report of how far a rank came in its collectives counts for this long. */
  alertReportFreshMs: 90_000,
  /** A count of collectives stands still if two reports this far apart have the same. */
  alertReportsApartMs: 4000,
  /** A hang without a rank at fault takes at least this many times as long as a usual step. */
  alertHangSteps: 20,
  /** A hang without a rank at fault takes at least this many times as long as the longest step so far. */
  alertHangLongestSteps: 3,
  /** Where most ranks ended after the last step, those that still run are a hang after this many times the time of another one: one may save for long. */
  alertHangAfterEnd: 10,
  /** Ranks that one summary names; further ones are counted. */
  alertRanksNamedMax: 8,
} as const;
