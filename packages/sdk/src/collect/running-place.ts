// The place of the thread that steps: the rest of the job learns it from a rank that is killed or hangs, whatever the schedule records.
//
//   step 300 | data | forward …                 sent with the next batch: { step: 300, phase: forward }
//   step 300 | data | …                         { step: 300, after: data }
//            | data | forward | all_reduce ……   { step: 300, phase: all_reduce, collective: … }; after a second there: and how far it is in each group
//
// While steps are short, the place in the midst of a step means little; in a rank's last batch it shows where the rank ended.

import { limits, type Running } from '@ranktrace/protocol';
import { recordingLimits } from '../model/recording-limits.ts';
import type { OpenSpan } from './open-span.ts';

/** The innermost place: the phase and the collective that began last. `ended`: the step's phase that ended last. */
export function placeOf(step: number, open: Iterable<OpenSpan>, ended: string | undefined): Running {
  let [phase, collective]: (OpenSpan['begin'] | undefined)[] = [];
  for (const { begin, phase: isPhase } of open) {
    if (isPhase !== undefined && begin.start >= (phase?.start ?? Number.NEGATIVE_INFINITY)) phase = begin;
    // Sends are numbered by pair, and no group waits for one.
    if (begin.table !== 'collectives' || begin.peer !== 0) continue;
    if (begin.start >= (collective?.start ?? Number.NEGATIVE_INFINITY)) collective = begin;
  }
  return {
    step,
    ...(phase && { phase: phase.name, since: phase.start }),
    ...(phase === undefined && ended !== undefined && { after: ended }),
    ...(collective && {
      collective: { op: collective.name, group: collective.extra, sequence: collective.sequence, since: collective.start },
    }),
  };
}

/** The places sent for one thread. */
export class ReportedPlace {
  #reported = '';
  #sinceMs = 0;
  #isStay = false;

  /** The text to send now; undefined where it was sent before. `entered`: by group, the last collective. */
  next(place: Running, entered: ReadonlyMap<string, number>, nowMs: number): string | undefined {
    const text = JSON.stringify(place);
    if (text !== this.#reported) {
      this.#reported = text;
      this.#sinceMs = nowMs;
      this.#isStay = false;
      return shortOf(place, text);
    }
    if (this.#isStay || nowMs - this.#sinceMs < recordingLimits.heartbeatIntervalMs) return undefined;
    this.#isStay = true;
    return shortOf({ ...place, entered: [...entered] }, text);
  }
}

/** Names may be as long as a whole fact. */
function shortOf(place: Running, less: string): string {
  const texts = [JSON.stringify(place), less];
  return texts.find((text) => Buffer.byteLength(text) <= limits.stringBytesMax) ?? JSON.stringify({ step: place.step });
}
