// Every bound of what is remembered and shown of steps, with its unit last.

export const stepLimits = {
  /** Bins of steps of all processes of a run together, about 60 bytes each with three phases; with more steps, a bin holds 2, 4, 8, … of them. */
  stepBinsMax: 524_288,
  /** Bins of one process, however few processes there are: a run of at most this many steps has a bin for each. */
  stepBinsPerProcessMax: 65_536,
  /** Bins that a process has at least, however many processes there are. */
  stepBinsPerProcessMin: 64,
  /** Bins of a process that its typical step is the median of, evenly over its steps: a median of more is hardly better, and takes longer. */
  typicalBinsMax: 64,
  /** Steps of all ranks whose windows on their devices are found while events come; with more, the steps of hosts count. */
  deviceStepsMax: 1_048_576,
  /** Steps among them of a rank that has not shown any work of a device so far. */
  deviceStepsPendingMax: 4096,
  /** Pieces of a rank's device work that wait for the end of the step that launched them: the last ones. */
  deviceWorkWaitingMax: 65_536,
  /** Times that a rank's numbers of steps go back; after further ones, a step with a number that was there is taken for the same step. */
  stepLapsMax: 1024,
  /** Named phases of one process's steps, and of an overview; further ones are part of the rest of the step. */
  stepPhasesMax: 16,
  /** Places (where ranks stand) that a stop or a hang names; further ones are left out. */
  stepPlacesNamedMax: 4,
  /** Cells of an overview's heat map; with many ranks it has fewer bins. */
  overviewCellsMax: 262_144,
  /** Bins of the charts of a report's file: as many as the page has pixels for. */
  reportBinsMax: 256,
  /** Cells of each heat map of a report's file, about 6 bytes each for each measure; with many ranks it has fewer bins. */
  reportCellsMax: 65_536,
  /** Phases that the heat map of a report's file can show: those that take most time. */
  reportPhasesMax: 4,
} as const;
