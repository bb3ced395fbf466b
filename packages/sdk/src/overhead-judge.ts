// What recording takes of the steps, held against its budget every few of them; what is shed then is told.

import { shedKey } from '@ranktrace/protocol';
import type { DetailControl } from './detail-control.ts';
import type { Recorder } from './recorder.ts';
import { recordingLimits } from './recording-limits.ts';

export class OverheadJudge {
  readonly #recorder: Recorder;
  readonly #control: DetailControl;
  readonly #budget: number;
  /** As the recorder had counted when it was judged last, ms. */
  #overheadMs = 0;
  #stepsMs = 0;

  constructor(recorder: Recorder, control: DetailControl, budget: number) {
    this.#recorder = recorder;
    this.#control = control;
    this.#budget = budget;
  }

  /** `budgetStepsMin` steps ended since the last time. Gives how many are to end until the next one. */
  judge(): number {
    const { overheadMs, stepsMs } = this.#recorder;
    const shed = this.#control.step(overheadMs - this.#overheadMs, stepsMs - this.#stepsMs, recordingLimits.budgetStepsMin);
    if (shed !== undefined) this.#tell(shed.what, shed.share);
    return this.restart();
  }

  /** What is recorded changes here: what it took before says nothing of it. Gives what `judge` does. */
  restart(): number {
    this.#overheadMs = this.#recorder.overheadMs;
    this.#stepsMs = this.#recorder.stepsMs;
    return recordingLimits.budgetStepsMin;
  }

  #tell(what: string, share: number): void {
    const [took, budget] = [percent(share), percent(this.#budget)];
    this.#recorder.instant('detail shed', { what, overhead: share, budget: this.#budget });
    this.#recorder.addMetadata(`${shedKey}${what}`, `recording took ${took} of the steps, over the budget of ${budget}`);
    const text = `${what} are not recorded any more: recording took ${took} of the steps, over overheadBudget, ${budget}`;
    process.emitWarning(text, 'RanktraceWarning');
  }
}

const percent = (value: number): string => `${(100 * value).toFixed(2)} %`;
