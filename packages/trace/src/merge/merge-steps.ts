// Some steps of a run alone: the merge of the whole run, passing on to the sink only the events that begin within these steps.
//
//   rank 0    |  41  |##42##|##43##|  44  |           each rank's own steps, on its own clock: the same numbers, not the same times
//   rank 1       |  41  |##42##|##43##|  44  |
//
// An event that began before, such as a span around the training, is not included; one that begins within the steps keeps its full length. Work of devices
// belongs to the step whose call launched it, and may run long after; where no call is known, it is an event like others. But a rank that tells the steps of
// which it sent all work sends their calls, too: what has none there was launched before.

import { type Dropped, deviceStepsKey, isBefore, lessDropped, type RankTime, type TraceTime } from '@ranktrace/protocol';
import type { FittedClocks } from '../align/fit-clocks.ts';
import type { BatchSource } from '../model/batch-source.ts';
import { argumentOf } from '../model/event-arguments.ts';
import { isDeviceKind } from '../model/lanes.ts';
import { LaunchTimes } from '../model/launch-times.ts';
import type { ProcessTotals, TraceEvent, TraceHeader, TraceLane, TraceSink } from '../model/trace-sink.ts';
import { type MergeProgress, RunAlignment } from './align-run.ts';
import { mergeAligned } from './merge-run.ts';

/** Steps of one rank, and their times: `until` is excluded, and Infinity where the last one goes on. Without steps it is a window of time alone. */
export interface StepWindow {
  readonly fromStep?: number | undefined;
  readonly toStep?: number | undefined;
  readonly from: RankTime;
  readonly until: RankTime;
}

/** The input of one rank, and its wanted steps. */
export interface StepsSource extends BatchSource {
  readonly windows: readonly StepWindow[];
  /** Losses that its batches report and that lie outside of its windows; absent: none. */
  readonly droppedElsewhere?: Dropped;
  /** It ended without a goodbye, as far as is known; absent: it goes on after its steps, or said goodbye later. */
  readonly isLost?: boolean;
}

/** Merges the wanted steps of all sources of one run into `sink`; yields after every batch. */
export function* mergeSteps(sources: readonly StepsSource[], sink: TraceSink): Generator<MergeProgress, readonly ProcessTotals[]> {
  const progress = { done: 0, total: 2 * sources.reduce((sum, source) => sum + source.count, 0) };
  const run = yield* new RunAlignment().finish(sources, progress);
  const windows = run.surveys.map((survey, index) => {
    const { clock } = run.fitted.clocks[index] as FittedClocks['clocks'][number];
    return (survey.source as StepsSource).windows.map(({ from, until, ...steps }) => ({
      ...steps,
      from: clock.toTrace(from),
      until: clock.toTrace(until),
    }));
  });
  return yield* mergeAligned(run, new StepsSink(sink, windows, sources), progress);
}

interface TraceWindow {
  readonly fromStep?: number | undefined;
  readonly toStep?: number | undefined;
  readonly from: TraceTime;
  readonly until: TraceTime;
}

/** Passes on the events in the windows of their process, and their lanes. */
class StepsSink implements TraceSink {
  readonly #sink: TraceSink;
  readonly #windows: readonly (readonly TraceWindow[])[];
  readonly #lanes = new Set<TraceLane>();
  readonly #sources: readonly StepsSource[];
  readonly #launches = new LaunchTimes();

  /** `windows`, `sources`: by process, in the order of `TraceHeader.processes`. */
  constructor(sink: TraceSink, windows: readonly (readonly TraceWindow[])[], sources: readonly StepsSource[]) {
    this.#sink = sink;
    this.#windows = windows;
    this.#sources = sources;
  }

  begin(header: TraceHeader): void {
    this.#sink.begin(header);
  }

  lane(): void {
    // Announced with its first event.
  }

  event(event: TraceEvent): void {
    const { lane, kind, step, start } = event;
    const windows = this.#windows[lane.process.index - 1] as readonly TraceWindow[];
    const launched = this.#launchOf(event);
    const isWanted = ({ fromStep, toStep, from, until }: TraceWindow): boolean => {
      const isOfSteps = fromStep !== undefined && toStep !== undefined;
      if (kind === 'step' && isOfSteps) return step >= fromStep && step <= toStep;
      const isWithin = (time: TraceTime): boolean => !isBefore(time, from) && isBefore(time, until);
      if (launched === undefined) return isWithin(start);
      // A window of time shows what runs in it, whoever launched it.
      return (launched !== null && isWithin(launched)) || (!isOfSteps && isWithin(start));
    };
    if (!windows.some(isWanted)) return;
    if (!this.#lanes.has(lane)) {
      this.#lanes.add(lane);
      this.#sink.lane(lane);
    }
    this.#sink.event(event);
  }

  /** Begin of the call that launched this, null before all steps; undefined for all but work of devices, and where no call is known. */
  #launchOf(event: TraceEvent): TraceTime | null | undefined {
    const launched = this.#launches.launchOf(event);
    if (launched !== undefined || !isDeviceKind(event.lane.kind) || argumentOf(event, 'correlation') === undefined) return launched;
    const { process } = event.lane;
    return this.#launches.has(process) && process.metadata.has(deviceStepsKey) ? null : undefined;
  }

  #ofWindows(total: ProcessTotals): ProcessTotals {
    const { rank, incarnation } = total.process;
    const source = this.#sources.find((one) => one.rank === rank && one.incarnation === incarnation);
    const dropped = source?.droppedElsewhere === undefined ? total.dropped : lessDropped(total.dropped, source.droppedElsewhere);
    return { ...total, dropped, ...(total.ended || source?.isLost === true ? {} : { goesOn: true }) };
  }

  end(totals: readonly ProcessTotals[]): void {
    this.#sink.end(totals.map((one) => this.#ofWindows(one)));
  }
}
