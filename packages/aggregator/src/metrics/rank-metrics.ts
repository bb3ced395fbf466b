// Metrics' state of one rank beside the live state: its last steps, the time of its last batch, its clock against ours, the fill of its ring.
//
//   slot      0     1     2   …                slot = step modulo metricsStepsMax
//   step    [128 ][129 ][ 2 ] …                NaN: empty
//   length, waited, overhead: ns               work = length − waited
//   phase lengths                              slot = step modulo metricsPhaseStepsMax, then the phase
//
// A clock sample proves that our clock is within ± half of its round trip of its middle, plus 50 ppm of its age (docs/clock-alignment.md). The rank
// keeps its best sample so far. A rank of this host reads our clock: ± 0.

import { type Batch, type BatchHeader, lowerMedian, ringFillCounter } from '@ranktrace/protocol';
import { aggregatorLimits as limits } from '../model/limits.ts';
import { GpuReadings } from './gpu-metrics.ts';
import type { RunSeries } from './run-series.ts';

/** ns of drift per ns. */
const driftMax = 50e-6;

/** Our clocks, read together. */
export interface ServiceClock {
  /** Identity of our monotonic clock. */
  readonly host: string;
  /** ns on it. */
  readonly monotonicNs: () => bigint;
}

/** One step of the window; ns. */
export interface WindowStep {
  readonly step: number;
  readonly length: number;
  /** The rank's own work in it, as far as phases show. */
  readonly work: number;
}

export class RankMetrics {
  /** The last samples of its GPUs. */
  readonly gpus = new GpuReadings();
  readonly #clock: ServiceClock;
  readonly #steps = new Float64Array(limits.metricsStepsMax).fill(Number.NaN);
  readonly #lengths = new Float64Array(limits.metricsStepsMax);
  readonly #waited = new Float64Array(limits.metricsStepsMax);
  readonly #overheads = new Float64Array(limits.metricsStepsMax);
  readonly #phaseSteps = new Float64Array(limits.metricsPhaseStepsMax).fill(Number.NaN);
  readonly #phaseLengths = new Float32Array(limits.metricsPhaseStepsMax * limits.metricsOwnPhasesMax);
  #incarnation = '';
  /** ns of our clock at which the last batch came. */
  #heardAt = 0n;
  #isSameHost = false;
  /** The best sample: half of its round trip, when it was taken by our clock, and our clock minus the rank's; ns. */
  #best: { readonly half: number; readonly at: bigint; readonly offset: bigint } | undefined;
  #ringFill: number | undefined;

  constructor(clock: ServiceClock) {
    this.#clock = clock;
  }

  /** Largest filled share of its ring at the last sample; undefined where the rank does not report it. */
  get ringFill(): number | undefined {
    return this.#ringFill;
  }

  /** Seconds since its last batch. */
  get silenceSeconds(): number {
    return Number(this.#clock.monotonicNs() - this.#heardAt) / 1e9;
  }

  /** ± ns of its clock against ours; undefined without evidence. */
  get clockBound(): number | undefined {
    if (this.#isSameHost) return 0;
    return this.#best === undefined ? undefined : this.#boundOf(this.#best);
  }

  /** Recording's share of the last steps; undefined without steps. */
  get overhead(): number | undefined {
    const [lengths, overheads] = [sumOf(this.#lengths), sumOf(this.#overheads)];
    return lengths > 0 ? overheads / lengths : undefined;
  }

  /** The last steps, in any order. */
  *steps(): Generator<WindowStep> {
    for (const [slot, step] of this.#steps.entries()) {
      const length = this.#lengths[slot] as number;
      // A phase may come before its step.
      if (!Number.isNaN(step) && length > 0) yield { step, length, work: Math.max(0, length - (this.#waited[slot] as number)) };
    }
  }

  /** Its median time per step in each phase of own work (`RunSeries.ownPhase`), ns, over the last steps. */
  get ownPhases(): number[] {
    const { metricsOwnPhasesMax: phases } = limits;
    const rows = [...this.#phaseSteps.keys()].filter((slot) => !Number.isNaN(this.#phaseSteps[slot] as number));
    return Array.from(
      { length: phases },
      (_, at) => lowerMedian(rows.map((slot) => this.#phaseLengths[slot * phases + at] as number)) ?? 0,
    );
  }

  /**
   * Takes a batch that was stored; `isLatest`: no later incarnation of the rank has come. Returns the delay between the batch's last event and its
   * arrival, ns; undefined while clocks do not show it.
   */
  add({ header, strings, tables }: Batch, series: RunSeries, isLatest: boolean): number | undefined {
    const now = this.#clock.monotonicNs();
    this.#heardAt = now;
    if (!isLatest) return undefined;
    if (header.incarnation !== this.#incarnation) this.#begin(header);
    const { steps, phases, counters, metadata } = tables;
    for (let row = 0; row < metadata.length; row++)
      series.roles.state(strings[metadata.columns.key[row] as number] ?? '', strings[metadata.columns.value[row] as number] ?? '');
    for (let row = 0; row < steps.length; row++) {
      const slot = this.#slot(steps.columns.step[row] as number);
      const length = steps.columns.length[row] as number;
      if (!isLength(length)) continue;
      series.steps.observe(length / 1e9);
      if (slot === undefined) continue;
      this.#lengths[slot] = length;
      this.#overheads[slot] = steps.columns.overhead[row] as number;
    }
    for (let row = 0; row < phases.length; row++) {
      const name = strings[phases.columns.name[row] as number] ?? '';
      const length = phases.columns.length[row] as number;
      if (!isLength(length)) continue;
      series.phase(name).observe(length / 1e9);
      const own = series.ownPhase(name);
      if (own !== undefined) this.#addPhase(phases.columns.step[row] as number, own, length);
      if (!series.isWaiting(name)) continue;
      const slot = this.#slot(phases.columns.step[row] as number);
      if (slot !== undefined) this.#waited[slot] = (this.#waited[slot] as number) + length;
    }
    for (let row = 0; row < counters.length; row++) {
      const name = strings[counters.columns.name[row] as number] ?? '';
      const value = counters.columns.value[row] as number;
      if (name === ringFillCounter) this.#ringFill = Math.min(1, Math.max(0, value / 100));
      else if (name.startsWith('GPU ')) this.gpus.take(name, value);
    }
    this.#addSamples(header, strings, tables);
    return this.#lagOf(header, now);
  }

  #begin(header: BatchHeader): void {
    this.#incarnation = header.incarnation;
    this.#isSameHost = header.host === this.#clock.host;
    this.#best = undefined;
    this.#ringFill = undefined;
    this.gpus.clear();
    this.#steps.fill(Number.NaN);
    this.#lengths.fill(0);
    this.#waited.fill(0);
    this.#overheads.fill(0);
    this.#phaseSteps.fill(Number.NaN);
  }

  /** Slot of a step; undefined for one older than the window. */
  #slot(step: number): number | undefined {
    const slot = step % limits.metricsStepsMax;
    const known = this.#steps[slot] as number;
    if (known === step) return slot;
    if (known > step) return undefined;
    this.#steps[slot] = step;
    this.#lengths[slot] = 0;
    this.#waited[slot] = 0;
    this.#overheads[slot] = 0;
    return slot;
  }

  #addPhase(step: number, phase: number, length: number): void {
    const slot = step % limits.metricsPhaseStepsMax;
    const known = this.#phaseSteps[slot] as number;
    if (known > step) return;
    const from = slot * limits.metricsOwnPhasesMax;
    if (known !== step) {
      this.#phaseSteps[slot] = step;
      this.#phaseLengths.fill(0, from, from + limits.metricsOwnPhasesMax);
    }
    this.#phaseLengths[from + phase] = (this.#phaseLengths[from + phase] as number) + length;
  }

  #addSamples(header: BatchHeader, strings: readonly string[], { clockSamples: { columns, length } }: Batch['tables']): void {
    const epoch = BigInt(header.epoch);
    for (let row = 0; row < length && !this.#isSameHost; row++) {
      if (strings[columns.host[row] as number] !== this.#clock.host) continue;
      const hostEpoch = strings[columns.hostEpoch[row] as number] ?? '';
      if (!/^\d{1,20}$/.test(hostEpoch)) continue;
      const [sent, received] = [columns.sent[row] as number, columns.received[row] as number];
      const [remoteReceived, remoteSent] = [columns.remoteReceived[row] as number, columns.remoteSent[row] as number];
      const half = (received - sent - (remoteSent - remoteReceived)) / 2;
      const middle = Math.round((remoteReceived - sent + remoteSent - received) / 2);
      if (!isLength(half) || !Number.isSafeInteger(middle)) continue;
      const offset = BigInt(hostEpoch) - epoch + BigInt(middle);
      const sample = { half, at: BigInt(hostEpoch) + BigInt(Math.round(remoteSent)), offset };
      if (this.#best === undefined || this.#boundOf(sample) <= this.#boundOf(this.#best)) this.#best = sample;
    }
  }

  #boundOf({ half, at }: { readonly half: number; readonly at: bigint }): number {
    return half + driftMax * Math.max(0, Number(this.#clock.monotonicNs() - at));
  }

  #lagOf(header: BatchHeader, now: bigint): number | undefined {
    if (!this.#isSameHost && this.#best === undefined) return undefined;
    const recorded = BigInt(header.epoch) + BigInt(header.watermark) + (this.#isSameHost ? 0n : (this.#best?.offset ?? 0n));
    return Math.max(0, Number(now - recorded));
  }
}

const isLength = (length: number): boolean => length >= 0 && length < Number.MAX_SAFE_INTEGER;
const sumOf = (values: Float64Array): number => values.reduce((sum, value) => sum + value, 0);
