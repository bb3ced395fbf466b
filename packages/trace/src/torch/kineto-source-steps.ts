// Steps of a Kineto trace: its `ProfilerStep#N` annotations; their phases are the annotations directly inside.
//
//   ProfilerStep#4 ────────────────────────────────────
//     forward ───────────    backward ──────  optimizer ───       phases
//       DistributedDataParallel.forward ──      Adam.step ─       inside a phase
//
// A file from our own recorder lists a step's phases and overhead itself: there phases may overlap, and some are collectives.
//
// Invariant: all steps are on one thread, each number once; other events of that name (on a GPU, another thread, repeated) stay spans.

import { ColumnTable } from '../model/column-table.ts';
import { limits } from '../model/limits.ts';
import { isLibraryAnnotation } from './kineto-collectives.ts';
import { deviceCategoriesOf } from './kineto-source-tracks.ts';
import type { KinetoTable } from './kineto-table.ts';

/** Name of a step's annotation. */
export const stepName = /^ProfilerStep#(\d{1,15})$/;
/** torch.compile names each graph by a hash that differs between ranks: as phases they share one name. */
const compiledGraph = /^## Call CompiledFxGraph \w+ ##$/;

/** Name of the phase that an annotation of this name is. */
export const phaseName = (annotation: string): string => (compiledGraph.test(annotation) ? 'CompiledFxGraph' : annotation);

export class KinetoSteps {
  readonly steps = new ColumnTable({ event: 'u32', number: 'f64', overhead: 'f64', phasesFrom: 'u32', phasesUntil: 'u32' } as const);
  /** Rows of one step are adjacent; `name` is a string of the table, `length` in ns. */
  readonly phases = new ColumnTable({ name: 'u32', length: 'f64', calls: 'u32' } as const);
  readonly #table: KinetoTable;
  /** Phase names that differ from their annotation's name, by the annotation's string index. */
  readonly #phaseNames = new Map<number, number>();

  /** `order`: rows of events in order of start, longest first. */
  constructor(table: KinetoTable, order: Uint32Array) {
    this.#table = table;
    const numbers = stepNumbers(table);
    if (numbers.size === 0) return;
    const track = this.#trackOfSteps(numbers);
    if (track === undefined) return;
    const renamed = [...table.strings.strings.entries()].filter(([, text]) => phaseName(text) !== text);
    for (const [index, text] of renamed) this.#phaseNames.set(index, table.strings.index(phaseName(text)));
    this.#collect(order, numbers, track);
  }

  /** The track with most steps on it. */
  #trackOfSteps(numbers: ReadonlyMap<number, number>): number | undefined {
    const { columns, length } = this.#table.events;
    const onDevice = deviceCategoriesOf(this.#table);
    const counts = new Map<number, number>();
    for (let row = 0; row < length; row++) {
      if (!numbers.has(columns.name[row] as number) || onDevice.has(columns.category[row] as number)) continue;
      const track = columns.track[row] as number;
      counts.set(track, (counts.get(track) ?? 0) + 1);
    }
    return [...counts].sort(([trackA, a], [trackB, b]) => b - a || trackA - trackB)[0]?.[0];
  }

  #collect(order: Uint32Array, numbers: ReadonlyMap<number, number>, track: number): void {
    const { events, strings, timeError } = this.#table;
    const { columns } = events;
    const annotation = strings.find('user_annotation');
    const onDevice = deviceCategoriesOf(this.#table);
    const seen = new Set<number>();
    const phases = new Map<number, { length: number; calls: number }>();
    let stepEnd = Number.NEGATIVE_INFINITY;
    let phaseEnd = Number.NEGATIVE_INFINITY;
    /** Whether the step lists its phases itself. */
    let isReported = false;
    for (const row of order) {
      if (columns.track[row] !== track) continue;
      const name = columns.name[row] as number;
      const number = numbers.get(name);
      const start = columns.start[row] as number;
      const end = start + (columns.duration[row] as number);
      if (number !== undefined && !seen.has(number) && !onDevice.has(columns.category[row] as number)) {
        this.#closeStep(phases);
        seen.add(number);
        const step = this.steps.add();
        this.steps.columns.event[step] = row;
        this.steps.columns.number[step] = number;
        const reported = recordedStep(this.#table, row);
        this.steps.columns.overhead[step] = reported?.overhead ?? 0;
        for (const [name, length] of reported?.phases ?? []) phases.set(strings.index(name), { length, calls: 1 });
        isReported = reported !== undefined;
        this.steps.columns.phasesFrom[step] = this.phases.length;
        this.steps.columns.phasesUntil[step] = this.phases.length;
        stepEnd = end;
        phaseEnd = start;
      } else if (
        !isReported &&
        columns.category[row] === annotation &&
        // A phase that times rounded in the file let begin before the previous one's end goes on after it.
        (start >= phaseEnd || (start >= phaseEnd - timeError && end > phaseEnd + timeError)) &&
        end <= stepEnd + timeError &&
        number === undefined
      ) {
        // The phases of a step are never longer than it.
        const length = Math.min(end, stepEnd) - Math.max(start, phaseEnd);
        phaseEnd = end;
        const phaseName = this.#phaseNames.get(name) ?? name;
        const phase = phases.get(phaseName);
        if (phase !== undefined) {
          phase.length += length;
          phase.calls++;
        } else if (phases.size < limits.phasesPerStepMax && !isLibraryAnnotation(strings.get(name))) {
          phases.set(phaseName, { length, calls: 1 });
        }
      }
    }
    this.#closeStep(phases);
  }

  #closeStep(phases: Map<number, { readonly length: number; readonly calls: number }>): void {
    for (const [name, { length, calls }] of phases) {
      const row = this.phases.add();
      this.phases.columns.name[row] = name;
      this.phases.columns.length[row] = length;
      this.phases.columns.calls[row] = calls;
    }
    phases.clear();
    if (this.steps.length > 0) this.steps.columns.phasesUntil[this.steps.length - 1] = this.phases.length;
  }
}

interface RecordedStep {
  /** Overhead, ns. */
  readonly overhead: number;
  readonly phases: readonly (readonly [name: string, length: number])[];
}

/** Phases and overhead that our own recorder wrote into a step; undefined for other steps. */
function recordedStep({ events, arguments: texts }: KinetoTable, event: number): RecordedStep | undefined {
  const others = events.columns.others[event] as number;
  if (others === 0) return undefined;
  const members = JSON.parse(`{${texts.get(others)}}`) as Readonly<Record<string, unknown>>;
  const phases = members['Phases (ns)'];
  if (typeof phases !== 'object' || phases === null || Array.isArray(phases)) return undefined;
  const overhead = members['Overhead (ns)'];
  const length = events.columns.duration[event] as number;
  return {
    overhead: isLength(overhead) ? Math.min(length, overhead) : 0,
    phases: Object.entries(phases)
      .slice(0, limits.phasesPerStepMax)
      .flatMap(([name, length]) => (isLength(length) ? [[name, length] as const] : [])),
  };
}

const isLength = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

/** Step number by string index of its name. */
function stepNumbers({ strings }: KinetoTable): ReadonlyMap<number, number> {
  const numbers = new Map<number, number>();
  for (const [index, text] of strings.strings.entries()) {
    const number = text.startsWith('ProfilerStep#') ? stepName.exec(text)?.[1] : undefined;
    if (number !== undefined && numbers.size < limits.stepsPerFileMax) numbers.set(index, Number(number));
  }
  return numbers;
}
