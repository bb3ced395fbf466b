// A histogram for prom-client's registry with observations of some ns: prom-client's own builds and hashes an object of labels for each value (1.7
// µs), and a service takes half a million phases a second.
//
//   series     labels → | ≤ 1 ms | ≤ 2 ms | … | more |, sum        not cumulative; made so when it is read
//
// Invariant: a series lives until it is removed; observers keep a reference to it, so that no value needs a lookup.

import type { Histogram, Registry } from 'prom-client';

export class HistogramSeries {
  readonly labels: Readonly<Record<string, string>>;
  readonly counts: Float64Array;
  sum = 0;
  readonly #bounds: readonly number[];

  constructor(bounds: readonly number[], labels: Readonly<Record<string, string>>) {
    this.#bounds = bounds;
    this.labels = labels;
    this.counts = new Float64Array(bounds.length + 1);
  }

  /** Takes a finite value. */
  observe(value: number): void {
    let bucket = 0;
    while (bucket < this.#bounds.length && value > (this.#bounds[bucket] as number)) bucket++;
    this.counts[bucket] = (this.counts[bucket] as number) + 1;
    this.sum += value;
  }
}

interface Sample {
  readonly metricName: string;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
}

export class SeriesHistogram {
  readonly name: string;
  readonly help: string;
  readonly type = 'histogram';
  readonly aggregator = 'sum';
  readonly #bounds: readonly number[];
  readonly #series = new Map<string, HistogramSeries>();

  /** `bounds`: upper bounds of the buckets, ascending, without the last, which is +Inf. */
  constructor(name: string, help: string, bounds: readonly number[]) {
    this.name = name;
    this.help = help;
    this.#bounds = bounds;
  }

  /** Registers this histogram in `registry`. */
  registerIn(registry: Registry): void {
    // The registry needs a metric's name, `get` and `reset`; its type wants the whole class.
    registry.registerMetric(this as unknown as Histogram);
  }

  /** The series with these labels, created on first use. */
  series(labels: Readonly<Record<string, string>>): HistogramSeries {
    const key = JSON.stringify(Object.entries(labels));
    let series = this.#series.get(key);
    if (series === undefined) {
      series = new HistogramSeries(this.#bounds, labels);
      this.#series.set(key, series);
    }
    return series;
  }

  remove({ labels }: HistogramSeries): void {
    this.#series.delete(JSON.stringify(Object.entries(labels)));
  }

  reset(): void {
    this.#series.clear();
  }

  async get(): Promise<{ name: string; help: string; type: string; aggregator: string; values: readonly Sample[] }> {
    const { name, help, type, aggregator } = this;
    return { name, help, type, aggregator, values: [...this.#series.values()].flatMap((series) => this.#samplesOf(series)) };
  }

  #samplesOf({ labels, counts, sum }: HistogramSeries): Sample[] {
    let count = 0;
    const buckets = Array.from(counts, (inBucket, at): Sample => {
      count += inBucket;
      return { metricName: `${this.name}_bucket`, labels: { le: this.#bounds[at] ?? '+Inf', ...labels }, value: count };
    });
    return [...buckets, { metricName: `${this.name}_sum`, labels, value: sum }, { metricName: `${this.name}_count`, labels, value: count }];
  }
}
