// Compares the cost of recording with its budget every few steps; the trace records what is shed or sampled then.
//
// A person gets one warning, with the costliest detail and how to do without it. Only the trace and its summary record what is shed later.

import { heldDetail, sampledKey, shedKey } from '@ranktrace/protocol';
import { recordingLimits } from '../model/recording-limits.ts';
import type { DetailControl, Shed } from './detail-control.ts';
import type { Recorder } from './recorder.ts';

export class OverheadJudge {
  readonly #recorder: Recorder;
  readonly #control: DetailControl;
  readonly #budget: number;
  /** The recorder's count at the last judgement, ms. */
  #overheadMs = 0;
  #stepsMs = 0;
  #isWarned = false;

  constructor(recorder: Recorder, control: DetailControl, budget: number) {
    this.#recorder = recorder;
    this.#control = control;
    this.#budget = budget;
  }

  /** Judges the last `budgetStepsMin` steps. Returns the number of steps until the next judgement. */
  judge(): number {
    const { overheadMs, stepsMs } = this.#recorder;
    const shed = this.#control.step(overheadMs - this.#overheadMs, stepsMs - this.#stepsMs, recordingLimits.budgetStepsMin);
    if (shed !== undefined) this.#report(shed);
    else if (this.#control.every > 1) this.reportSampled();
    return this.restart();
  }

  /** Records how many steps have their ops so far, unless all have them. */
  reportSampled(): void {
    const { every, skipped } = this.#control;
    if (every === 1 && skipped === 0) return;
    const steps = this.#recorder.stepsEnded;
    this.#recorder.addMetadata(
      `${sampledKey}${this.#named('ops')}`,
      JSON.stringify({ every, steps, recorded: Math.max(0, steps - skipped) }),
    );
  }

  /** The recorded detail changes here, which voids earlier costs. Returns as `judge` does. */
  restart(): number {
    this.#overheadMs = this.#recorder.overheadMs;
    this.#stepsMs = this.#recorder.stepsMs;
    return recordingLimits.budgetStepsMin;
  }

  #report(shed: Shed): void {
    const { share, every } = shed;
    const what = this.#named(shed.what);
    const [took, budget] = [percent(share), percent(this.#budget)];
    if (every === undefined) {
      this.#recorder.instant('detail shed', { what, overhead: share, budget: this.#budget });
      this.#recorder.addMetadata(`${shedKey}${what}`, `recording took ${took} of the steps, over the budget of ${budget}`);
    } else {
      this.#recorder.instant('detail sampled', { what, every, overhead: share, budget: this.#budget });
      this.reportSampled();
    }
    if (this.#isWarned || share <= this.#budget) return;
    this.#isWarned = true;
    const why = `recording took ${took} of the steps, over overheadBudget, ${budget}`;
    const raised = Math.min(1, Number((1.5 * share).toPrecision(2)));
    const isLeft = every === undefined ? 'not recorded any more' : `recorded in one step of ${every} from here on`;
    const set = shed.remedies.join(' and ');
    const text = this.#control.isOfHeld
      ? `outside of the schedule's active steps, which have all, ${shed.what} are ${isLeft}: ${why}; to hold none set flightRecorderSteps: 0; to hold all set overheadBudget: ${raised}`
      : every === undefined
        ? `${what} are ${isLeft}: ${why}; to keep within it set ${set}; to record all the same set overheadBudget: ${raised}`
        : `${what} are ${isLeft}: ${why}; to have those of chosen steps set ${set}; to record all set overheadBudget: ${raised}`;
    process.emitWarning(text, 'RanktraceWarning');
  }

  #named(what: string): string {
    return this.#control.isOfHeld ? `${heldDetail}${what}` : what;
  }
}

const percent = (value: number): string => `${(100 * value).toFixed(2)} %`;
