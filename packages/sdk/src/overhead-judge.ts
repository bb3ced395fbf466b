// What recording takes of the steps, held against its budget every few of them; what is shed then is in the trace.
//
// A person is warned once, with what costs most and how to do without it. What has to go after that is in the trace and in its summary alone.

import { shedKey } from '@ranktrace/protocol';
import type { DetailControl, Shed } from './detail-control.ts';
import type { Recorder } from './recorder.ts';
import { recordingLimits } from './recording-limits.ts';

export class OverheadJudge {
  readonly #recorder: Recorder;
  readonly #control: DetailControl;
  readonly #budget: number;
  /** As the recorder had counted when it was judged last, ms. */
  #overheadMs = 0;
  #stepsMs = 0;
  #isWarned = false;

  constructor(recorder: Recorder, control: DetailControl, budget: number) {
    this.#recorder = recorder;
    this.#control = control;
    this.#budget = budget;
  }

  /** `budgetStepsMin` steps ended since the last time. Gives how many are to end until the next one. */
  judge(): number {
    const { overheadMs, stepsMs } = this.#recorder;
    const shed = this.#control.step(overheadMs - this.#overheadMs, stepsMs - this.#stepsMs, recordingLimits.budgetStepsMin);
    if (shed !== undefined) this.#tell(shed);
    return this.restart();
  }

  /** What is recorded changes here: what it took before says nothing of it. Gives what `judge` does. */
  restart(): number {
    this.#overheadMs = this.#recorder.overheadMs;
    this.#stepsMs = this.#recorder.stepsMs;
    return recordingLimits.budgetStepsMin;
  }

  #tell({ what, share, remedies }: Shed): void {
    const [took, budget] = [percent(share), percent(this.#budget)];
    this.#recorder.instant('detail shed', { what, overhead: share, budget: this.#budget });
    this.#recorder.addMetadata(`${shedKey}${what}`, `recording took ${took} of the steps, over the budget of ${budget}`);
    if (this.#isWarned) return;
    this.#isWarned = true;
    const lost = `${what} are not recorded any more: recording took ${took} of the steps, over overheadBudget, ${budget}`;
    const raised = Math.min(1, Number((1.5 * share).toPrecision(2)));
    const remedy = `to keep within it set ${remedies.join(' and ')}; to record all the same set overheadBudget: ${raised}`;
    process.emitWarning(`${lost}; ${remedy}`, 'RanktraceWarning');
  }
}

const percent = (value: number): string => `${(100 * value).toFixed(2)} %`;
