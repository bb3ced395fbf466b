// Two runs, compared.

export { compareRuns } from './compare-runs.ts';
export { sidesTakenBy, sidesText } from './counted-sides.ts';
export { type RunTimes, RunTimesSink } from './run-times.ts';
export {
  decidingText,
  type JudgedSteps,
  judgeSteps,
  longLine,
  provableLine,
  signed,
  stepLevelOf,
  stepTimesOf,
  verdictLine,
  verdictNames,
} from './step-verdict.ts';
