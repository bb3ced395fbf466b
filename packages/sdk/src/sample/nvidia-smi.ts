// Device counters from nvidia-smi: every NVIDIA driver includes this program, so that we need no native module.
//
//   nvidia-smi --query-gpu=… -lms N   one child for the whole time: a row per device and interval
//   nvidia-smi dmon -s t              a second one for PCIe throughput, once the first gave a row; not available on every device
//   nvidia-smi nvlink -gt d           totals of the links, now and then; never again if the first answer has no link
//
// Invariants: a failure here ends only counters, and nothing throws. However it fails, it gives exactly one notice, when it gives up; failures
// of the second and third command give none. All is bounded (sample-limits.ts).
// MIG devices are left out: nvidia-smi has no utilization for one, and reports memory, power and clocks only for the whole shared GPU.

import { guarded } from '../process/guarded.ts';
import {
  allFields,
  basicFields,
  type DeviceSample,
  isFieldError,
  isLinkLine,
  type LinkTotals,
  linkRates,
  readLinkTotals,
  readQueryRow,
  ThroughputReader,
} from './device-rows.ts';
import { type LineChildEnd, type LineChildParts, startLineChild } from './line-child.ts';
import { type SampleLimits, sampleLimits } from './sample-limits.ts';

export type { DeviceSample } from './device-rows.ts';
export { deviceUnits } from './device-rows.ts';
export { visibleDevices } from './visible-devices.ts';

export interface NvidiaSmiParts {
  /** Result of `visibleDevices`: indexes and UUIDs; empty: none; undefined: all; `'last'`: the last of all, known after one round of rows. */
  readonly devices: readonly string[] | 'last' | undefined;
  readonly intervalMs: number;
  /** Program to run; found in PATH. */
  readonly command?: string;
  /** Called for each row, on this thread. */
  readonly onSample: (sample: DeviceSample) => void;
  /** One line for people, without its end; at most once. */
  readonly onNotice: (line: string) => void;
  readonly limits?: SampleLimits;
}

/**
 * Samples devices until `stop`. Never throws.
 *
 * @example
 * const sampling = startNvidiaSmi({ devices: ['0'], intervalMs: 1000, onSample: ({ device, values }) => …, onNotice: say });
 */
export function startNvidiaSmi(parts: NvidiaSmiParts): { stop(): void } {
  const sampler = new Sampler(parts);
  sampler.start();
  return { stop: () => sampler.stop() };
}

class Sampler {
  readonly #parts: NvidiaSmiParts;
  readonly #command: string;
  readonly #limits: SampleLimits;
  readonly #intervalMs: number;
  /** Devices to query; undefined: all. */
  readonly #devices: readonly string[] | undefined;
  /** If only the last device is wanted: its index, once known. */
  #last: string | undefined;
  /** Identity by index: rows of the second and third child have only the index. */
  readonly #known = new Map<string, Pick<DeviceSample, 'uuid' | 'name'>>();
  readonly #running = new Set<{ stop(): void }>();
  readonly #timers = new Set<NodeJS.Timeout>();
  #fields = allFields;
  #links: { readonly totals: readonly LinkTotals[]; readonly atMs: number } | undefined;
  #stopped = false;

  constructor(parts: NvidiaSmiParts) {
    this.#parts = parts;
    this.#command = parts.command ?? 'nvidia-smi';
    this.#limits = parts.limits ?? sampleLimits;
    const interval = Math.round(parts.intervalMs) || 0;
    this.#intervalMs = Math.min(Math.max(interval, this.#limits.deviceIntervalMsMin), this.#limits.deviceIntervalMsMax);
    const named = parts.devices === 'last' ? undefined : parts.devices;
    this.#devices = named?.filter((device) => !device.startsWith('MIG-')).slice(0, this.#limits.devicesMax);
  }

  start(): void {
    const { devices } = this.#parts;
    if (devices?.length === 0) return;
    if (this.#devices?.length === 0) {
      this.#later(0, () => this.#giveUp('MIG devices have none of their own'));
      return;
    }
    this.#query(0);
  }

  stop(): void {
    this.#stopped = true;
    for (const timer of this.#timers) clearTimeout(timer);
    for (const child of this.#running) child.stop();
    this.#timers.clear();
    this.#running.clear();
  }

  #query(restarts: number): void {
    let refused = false;
    const args = [`--query-gpu=${this.#fields.join(',')}`, '--format=csv,noheader,nounits', '-lms', String(this.#intervalMs)];
    this.#run([...args, ...this.#only()], this.#intervalMs, {
      onLine: (line) => {
        refused ||= isFieldError(line);
        const sample = readQueryRow(this.#fields, line);
        if (sample !== undefined) this.#sampled(sample);
        return sample !== undefined;
      },
      onEnd: (end) => {
        if (refused && this.#fields !== basicFields) {
          this.#fields = basicFields;
          return this.#query(restarts);
        }
        const delayMs = end.absent ? undefined : this.#limits.restartDelaysMs[restarts];
        if (delayMs === undefined) return this.#giveUp(end.absent ? `it cannot be started (${end.reason})` : `it ended (${end.reason})`);
        this.#later(delayMs, () => this.#query(restarts + 1));
      },
    });
  }

  #sampled(sample: DeviceSample): void {
    const first = this.#known.size === 0;
    const isKnown = this.#known.has(sample.device);
    if (!isKnown && this.#known.size >= this.#limits.devicesMax) return;
    this.#known.set(sample.device, { uuid: sample.uuid, name: sample.name });
    // A repeated device ends the first round.
    if (this.#parts.devices === 'last' && isKnown) this.#last ??= [...this.#known.keys()].reduce((a, b) => (Number(a) > Number(b) ? a : b));
    this.#report(sample);
    if (!first) return;
    this.#throughput(0);
    this.#nvlink();
  }

  /** A row without identity: it counts only for a device that the query reported. */
  #addition({ device, values }: Pick<DeviceSample, 'device' | 'values'>): void {
    const identity = this.#known.get(device);
    if (identity !== undefined) this.#report({ device, ...identity, values });
  }

  #report(sample: DeviceSample): void {
    if (this.#parts.devices !== 'last' || sample.device === this.#last) this.#parts.onSample(sample);
  }

  #throughput(restarts: number): void {
    const seconds = Math.min(Math.max(Math.round(this.#intervalMs / 1000), 1), this.#limits.throughputIntervalSecondsMax);
    const reader = new ThroughputReader();
    let worked = false;
    this.#run(['dmon', '-s', 't', '-d', String(seconds), ...this.#only()], seconds * 1000, {
      onLine: (line) => {
        const row = reader.read(line);
        worked ||= row !== undefined;
        if (row !== undefined) this.#addition(row);
        return row !== undefined;
      },
      onEnd: () => {
        const delayMs = worked ? this.#limits.restartDelaysMs[restarts] : undefined;
        if (delayMs !== undefined) this.#later(delayMs, () => this.#throughput(restarts + 1));
      },
    });
  }

  #nvlink(): void {
    const lines: string[] = [];
    this.#run(['nvlink', '-gt', 'd', ...this.#only()], this.#limits.nvlinkTimeoutMs, {
      silenceMs: this.#limits.nvlinkTimeoutMs,
      linesMax: this.#limits.devicesMax * this.#limits.linksMax * 2,
      onLine: (line) => isLinkLine(line) && lines.push(line) > 0,
      onEnd: ({ ok }) => {
        const totals = readLinkTotals(lines);
        // A failed query is repeated; an answer without links is final.
        if (totals.length === 0 && (ok || this.#links === undefined)) return;
        const atMs = performance.now();
        const before = this.#links;
        if (totals.length > 0) this.#links = { totals, atMs };
        if (before !== undefined) for (const rate of linkRates(before.totals, totals, (atMs - before.atMs) / 1000)) this.#addition(rate);
        this.#later(Math.max(this.#limits.nvlinkIntervalMs, this.#intervalMs), () => this.#nvlink());
      },
    });
  }

  #only(): readonly string[] {
    return this.#devices === undefined ? [] : ['-i', this.#devices.join(',')];
  }

  #run(
    args: readonly string[],
    intervalMs: number,
    { onLine, onEnd, silenceMs, linesMax }: Pick<LineChildParts, 'onLine' | 'onEnd'> & { silenceMs?: number; linesMax?: number },
  ): void {
    if (this.#stopped) return;
    const child = startLineChild({
      command: this.#command,
      args,
      limits: linesMax === undefined ? this.#limits : { ...this.#limits, linesPerIntervalMax: linesMax },
      intervalMs,
      silenceMs: silenceMs ?? Math.max(this.#limits.silenceMsMax, this.#limits.silentIntervalsMax * intervalMs),
      onLine,
      onEnd: (end: LineChildEnd) => {
        this.#running.delete(child);
        if (!this.#stopped) onEnd(end);
      },
    });
    this.#running.add(child);
  }

  #later(delayMs: number, work: () => void): void {
    const again = guarded('sampling devices', () => {
      this.#timers.delete(timer);
      if (!this.#stopped) work();
    });
    const timer = setTimeout(again, delayMs).unref();
    this.#timers.add(timer);
  }

  #giveUp(reason: string): void {
    this.stop();
    this.#parts.onNotice(`no${this.#known.size > 0 ? ' more' : ''} GPU counters from nvidia-smi: ${reason}`);
  }
}
