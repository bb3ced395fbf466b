// How long each rank waited for others, worked itself and kept its devices busy, by step: the cells of a heat map.
//
//   host alone     step ├── own work ──┤ waits in collectives ├ own ┤      own + waiting = the step
//   with devices   step ├ compute ─ exposed communication ─ idle ─ …       waiting = exposed communication, own = all else, busy = not idle
//
// Ranks that wait for each other have steps of equal length; only these measures show which of them is slow.
//
// Memory: that of `StepHistory`, whose bins become wider with more steps.

import type { GpuSummary } from '../gpu/gpu-summary.ts';
import type { TraceProcess } from '../model/trace-sink.ts';
import { StepBudget, StepHistory } from '../steps/step-history.ts';

export const stepMeasures = ['own', 'waiting', 'busy'] as const;
export type StepMeasure = (typeof stepMeasures)[number];

type ProcessKey = Pick<TraceProcess, 'rank' | 'incarnation'>;

export class StepMeasures {
  readonly #budget = new StepBudget();
  readonly #processes = new Map<string, StepHistory>();
  readonly #known = new Set<StepMeasure>();

  /** A step of a host; `waited`: ns of it, undefined where that is unknown. */
  host(process: ProcessKey, step: number, length: number, waited: number | undefined): void {
    if (waited === undefined) return;
    this.#add(this.#of(process), { step, start: 0, length }, [
      ['own', length - waited],
      ['waiting', waited],
    ]);
  }

  /** Where devices were recorded, they show more than hosts, which only launch their work. */
  devices({ ranks }: GpuSummary): void {
    for (const { rank, incarnation, steps } of ranks) {
      if (steps.length === 0) continue;
      const history = this.#of({ rank, incarnation });
      history.clear();
      for (const { step, start, length, exposed, idle } of steps) {
        this.#add(history, { step, start, length }, [
          ['own', length - exposed],
          ['waiting', exposed],
          ['busy', length - idle],
        ]);
      }
    }
  }

  /** The measures that some step has. */
  get known(): readonly StepMeasure[] {
    return stepMeasures.filter((measure) => this.#known.has(measure));
  }

  /**
   * The steps of a process, with the measures as phases; undefined without any. With devices, they are its steps there, at trace times; of a host, only
   * their lengths are known.
   */
  of(process: ProcessKey): StepHistory | undefined {
    return this.#processes.get(keyOf(process));
  }

  #of(process: ProcessKey): StepHistory {
    const key = keyOf(process);
    let history = this.#processes.get(key);
    if (history === undefined) {
      history = new StepHistory(this.#budget);
      this.#processes.set(key, history);
    }
    return history;
  }

  #add(
    history: StepHistory,
    { step, start, length }: { readonly step: number; readonly start: number; readonly length: number },
    measures: readonly (readonly [StepMeasure, number])[],
  ): void {
    history.add(step, start, length, new Map(measures.map(([measure, time]) => [measure, Math.max(0, time)])));
    for (const [measure] of measures) this.#known.add(measure);
  }
}

const keyOf = ({ rank, incarnation }: ProcessKey): string => `${rank} ${incarnation}`;
