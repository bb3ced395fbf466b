// Regressions in a series of step times.

export { type SeriesLevel, seriesStepsMin } from './compare-series.ts';
export { contextKeyOf } from './context-key.ts';
export { detectLimits } from './detect-limits.ts';
export {
  type DetectorOptions,
  DetectorPlan,
  defaultDetectorOptions,
  detectorOptionsFor,
  type Sensitivity,
  sensitivities,
  shortSeriesOptions,
} from './detector-options.ts';
export { LongStepDetector, type LongStepsOver, type LongStepsRise, longStepsChangeMin } from './long-step-detector.ts';
export { addedBy } from './long-steps.ts';
export { type SeriesColumn, type SeriesColumnNames, SeriesCsvReader, seriesColumns } from './series-csv.ts';
export { SeriesDetector } from './series-detector.ts';
export type { Improvement, StepTag, StepTimeFinding } from './step-time-finding.ts';
