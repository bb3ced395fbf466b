// The steps of a run as they count: what a step takes. Where hosts run ahead of their devices, that is the step's window on the devices
// (device-windows.ts); else it is the host's step.
//
//   host     │ step 4 ─│ step 5 ─│ step 6 ─│                      0.4 ms each: the pace of launches
//   window   │ 4 ──────────────────│ 5 ─────────────│ 6 …         8 ms each: what a step takes
//
// Windows count where they are known of all steps of all ranks, and one of them is over 1 % longer or shorter than its host's step: where a host waits
// for its devices in each step, both are the same. Where only some ranks have device work, or its steps are not all known, hosts' steps stay.

import { nanos } from '@ranktrace/protocol';
import type { TraceEvent, TraceHeader, TraceProcess, TraceSink } from '../model/trace-sink.ts';
import { DeviceWindows } from './device-windows.ts';
import { type RankSummary, type RunSummary, StepSummarySink } from './step-summary.ts';

/** Steps that differ by less, as a share, are the same. */
const alikeMax = 0.01;

export interface CountedStepsOptions {
  /** Only these ranks and steps; default all. */
  readonly hasRank?: ((rank: number) => boolean) | undefined;
  readonly hasStep?: ((step: number) => boolean) | undefined;
}

/** The steps of a run as they count: those of `hosts`, or those of `devices`, which are undefined where some are not known. */
export function countedSteps(hosts: RunSummary, devices: RunSummary | undefined): RunSummary {
  if (hosts.stepCount === 0) return { ...hosts, takenBy: 'hosts' };
  if (devices === undefined || !areOfSame(hosts, devices)) return { ...hosts, takenBy: 'unknown' };
  const { steps, median, p95 } = devices;
  const isAlike = steps.every(({ longest }, at) => {
    const host = hosts.steps[at]?.longest ?? 0;
    return Math.abs(longest - host) <= alikeMax * host;
  });
  if (isAlike) return { ...hosts, takenBy: 'both' };
  const means = new Map(devices.ranks.map(({ rank, mean }) => [rank, mean]));
  const ranks = hosts.ranks.map((of): RankSummary => ({ ...of, mean: means.get(of.rank) ?? of.mean, hostMean: of.mean }));
  return { ...hosts, ...{ steps, median, p95, ranks }, takenBy: 'devices', hosts };
}

/** Whether both have the same number of steps, in all and of each rank. */
const areOfSame = (hosts: RunSummary, devices: RunSummary): boolean =>
  hosts.stepCount === devices.stepCount &&
  hosts.ranks.length === devices.ranks.length &&
  hosts.ranks.every(({ rank, steps }, at) => devices.ranks[at]?.rank === rank && devices.ranks[at]?.steps === steps);

/** Summary of each step over all ranks, as it counts. It takes all events of a run. */
export class CountedStepsSink implements TraceSink {
  readonly #options: CountedStepsOptions;
  readonly #hosts = new StepSummarySink();
  readonly #processes = new Set<TraceProcess>();
  readonly windows = new DeviceWindows();

  constructor(options: CountedStepsOptions = {}) {
    this.#options = options;
  }

  begin(header: TraceHeader): void {
    this.windows.begin(header);
  }

  lane(): void {}

  /** Returns the begin of the call that launched this; undefined for all but work of devices with a known one. */
  event(event: TraceEvent): number | undefined {
    const { process } = event.lane;
    if (event.kind === 'step' && this.#counts(process, event.step)) {
      this.#processes.add(process);
      this.#hosts.event(event);
    }
    return this.windows.event(event);
  }

  endStretch(): void {}

  end(): void {}

  /** Whether a rank has ended this step, or it is among those evicted. */
  has(step: number): boolean {
    return this.#hosts.has(step);
  }

  get summary(): RunSummary {
    const hosts = this.#hosts.summary;
    const isWorking = this.windows.processes.some(({ rank }) => this.#options.hasRank?.(rank) ?? true);
    return isWorking ? countedSteps(hosts, this.#devices()) : { ...hosts, takenBy: 'hosts' };
  }

  #counts({ rank }: TraceProcess, step: number): boolean {
    const { hasRank, hasStep } = this.#options;
    return (hasRank?.(rank) ?? true) && (hasStep?.(step) ?? true);
  }

  /** The windows of all steps; undefined where some are not known. */
  #devices(): RunSummary | undefined {
    const sink = new StepSummarySink();
    for (const process of this.#processes) {
      const windows = this.windows.of(process);
      if (windows === undefined) return undefined;
      for (const { window } of windows) {
        if (!this.#counts(process, window.number)) continue;
        sink.add(process, {
          step: window.number,
          start: window.start,
          length: nanos(window.end - window.start),
          overhead: nanos(0),
          phases: undefined,
        });
      }
    }
    return sink.summary;
  }
}
