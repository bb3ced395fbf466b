// Every bound of the simulated cluster, with its unit last.

export const simulationLimits = {
  /** Ranks of a simulated cluster; a host has one at least. */
  simulatedRanksMax: 1024,
  /** Four hours: each host's clock keeps a knot a second. */
  simulatedSecondsMax: 14_400,
  simulatedStepsMax: 1_000_000,
  simulatedStepMsMin: 1,
  simulatedStepMsMax: 60_000,
  simulatedDriftPpmMax: 1000,
  simulatedAsymmetryUsMax: 1_000_000,
  simulatedExitBiasUsMax: 100_000,
  /** A simulated clock's steps: one of a minute is no clock step any more. */
  simulatedClockStepUsMax: 60_000_000,
  simulatedClockStepsMax: 10_000,
  simulatedStragglersMax: 10_000,
  simulatedStragglerMsMax: 600_000,
  /** A network so much slower than it is. */
  simulatedTransferScaleMax: 100_000,
  simulatedRpcsPerSecondMax: 100_000,
  /** Share of what may be lost: above, hardly anything would be left to look at. */
  simulatedLostShareMax: 0.9,
  simulatedFlushMsMin: 10,
  simulatedFlushMsMax: 60_000,
  /** Rows of one kind of a simulated batch, so that 4096 calls with their random ids still fit one. */
  simulatedRowsPerBatchMax: 4096,
} as const;
