// Every bound of the simulated cluster, with its unit last.

export const simulationLimits = {
  /** Ranks of a simulated cluster (a host has at least one); more is refused. */
  simulatedRanksMax: 1024,
  /** Length of a simulated run: each host's clock keeps a knot a second. A longer one is refused. */
  simulatedSecondsMax: 14_400,
  /** Steps of a simulated run; more is refused. */
  simulatedStepsMax: 1_000_000,
  /** Shortest step where no rank waits; a shorter one is refused. */
  simulatedStepMsMin: 1,
  /** Longest step where no rank waits; a longer one is refused. */
  simulatedStepMsMax: 60_000,
  /** Deviation of the clocks' rates among hosts, ppm; more is refused. */
  simulatedDriftPpmMax: 1000,
  /** How much longer a host's way to the aggregator may be, and its way back shorter, or the reverse; more is refused. */
  simulatedAsymmetryUsMax: 1_000_000,
  /** Mean delay at which hosts leave collectives; more is refused. */
  simulatedExitBiasUsMax: 100_000,
  /** Jump of a host's clock, ahead or back: one of a minute is no clock step any more. A larger one is refused. */
  simulatedClockStepUsMax: 60_000_000,
  /** Jumps of all hosts' clocks together; more of them is refused. */
  simulatedClockStepsMax: 10_000,
  /** Slow ranks that the options may list; a longer list is refused. */
  simulatedStragglersMax: 10_000,
  /** Time by which one slow rank may lengthen a phase; more is refused. */
  simulatedStragglerMsMax: 600_000,
  /** Factor by which collectives and sends take longer once all ranks are there; a larger one is refused. */
  simulatedTransferScaleMax: 100_000,
  /** Remote calls between ranks in the whole cluster, per second; more is refused. */
  simulatedRpcsPerSecondMax: 100_000,
  /** Share of parts and batches that may be lost; more is refused, as hardly anything would be left to look at. */
  simulatedLostShareMax: 0.9,
  /** Shortest time between two batches of a rank; a shorter one is refused. */
  simulatedFlushMsMin: 10,
  /** Longest time between two batches of a rank; a longer one is refused. */
  simulatedFlushMsMax: 60_000,
  /** Rows of one kind of a simulated batch, so that 4096 calls with their random ids still fit one. */
  simulatedRowsPerBatchMax: 4096,
} as const;
