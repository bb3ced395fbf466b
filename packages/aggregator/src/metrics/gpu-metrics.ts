// GPU counters of ranks as metrics: the sdk samples them under the name `GPU <index> <counter>` (sdk: sample/sampling.ts).
//
// Invariant: a rank has at most `metricsGpusMax` GPUs here, whatever the names of its counters; further ones are left out.

import { aggregatorLimits as limits } from '../model/limits.ts';

/** Counter of a rank, metric, and the factor from the counter's unit to the metric's. */
export const gpuCounters = [
  { counter: 'gpu utilization', metric: 'ranktrace_gpu_utilization_ratio', help: 'Share of time in which a kernel ran', factor: 0.01 },
  { counter: 'memory used', metric: 'ranktrace_gpu_memory_used_bytes', help: 'Memory of the GPU that processes have reserved', factor: 1 },
  { counter: 'memory total', metric: 'ranktrace_gpu_memory_total_bytes', help: 'Memory of the GPU', factor: 1 },
  { counter: 'power', metric: 'ranktrace_gpu_power_watts', help: 'Power that the GPU draws', factor: 1 },
  { counter: 'temperature', metric: 'ranktrace_gpu_temperature_celsius', help: 'Temperature of the GPU', factor: 1 },
  { counter: 'sm clock', metric: 'ranktrace_gpu_sm_clock_hertz', help: 'Clock of the multiprocessors', factor: 1e6 },
] as const;

/** The last values of the GPUs of one rank. */
export class GpuReadings {
  readonly #gpus = new Map<string, Map<string, number>>();

  /** Takes a counter of the rank; ignores counters of no GPU. */
  take(name: string, value: number): void {
    const [, gpu = '', counter] = /^GPU (\d{1,4}) ([a-z ]+)$/.exec(name) ?? [];
    const about = gpuCounters.find((known) => known.counter === counter);
    if (about === undefined || !Number.isFinite(value)) return;
    let values = this.#gpus.get(gpu);
    if (values === undefined) {
      if (this.#gpus.size >= limits.metricsGpusMax) return;
      values = new Map();
      this.#gpus.set(gpu, values);
    }
    values.set(about.metric, value * about.factor);
  }

  /** The last values of a metric, by the GPU's index. */
  *of(metric: string): Generator<readonly [gpu: string, value: number]> {
    for (const [gpu, values] of this.#gpus) {
      const value = values.get(metric);
      if (value !== undefined) yield [gpu, value];
    }
  }

  clear(): void {
    this.#gpus.clear();
  }
}
