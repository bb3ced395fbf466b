// Samples that the shipper worker takes beside draining rings: counters of the host and of this rank's devices.

import { gpuKey } from '@ranktrace/protocol';
import type { Sample } from '../collect/collector.ts';
import type { ResolvedOptions } from '../model/options.ts';
import { guarded } from '../process/guarded.ts';
import { HostCounters } from './host-counters.ts';
import { deviceUnits, startNvidiaSmi, visibleDevices } from './nvidia-smi.ts';
import { sampleLimits } from './sample-limits.ts';

export class Sampling {
  readonly #options: ResolvedOptions;
  readonly #add: (samples: readonly Sample[], until?: number) => void;
  readonly #notice: (line: string) => void;
  readonly #fact: (key: string, value: string) => void;
  /** Devices whose names are recorded. */
  readonly #named = new Set<string>();
  readonly #host = new HostCounters();
  /** Samples the host now, for the time up to `until` (RankTime, ns) if that is over. */
  readonly sampleHost: (until?: number) => void;
  readonly #timer: NodeJS.Timeout | undefined;
  /** Started once: programs may switch their samples on and off in every step. */
  #devices: { stop(): void } | undefined;
  #hasDevices = false;

  /** `fact`: for the rank's metadata. `own`: the worker's own counters, with each sample of the host. */
  constructor(
    options: ResolvedOptions,
    add: (samples: readonly Sample[], until?: number) => void,
    { notice, fact, own }: { notice(line: string): void; fact(key: string, value: string): void; own(): readonly Sample[] },
  ) {
    this.#options = options;
    this.#add = add;
    this.#notice = notice;
    this.#fact = fact;
    const isSampling = options.sampleIntervalMs > 0;
    const sample = guarded('sampling the host', (until?: number) => isSampling && add([...this.#host.sample(), ...own()], until));
    this.sampleHost = sample;
    if (!isSampling) return;
    // A rate is that of the time since the sample before: the next one tells of the time from here on.
    sample();
    this.#timer = setInterval(sample, options.sampleIntervalMs).unref();
    if (options.devices) this.toggleDevices(true);
  }

  /** While it is off, what devices report is left out. */
  toggleDevices(on: boolean): void {
    this.#hasDevices = on;
    const { sampleIntervalMs: intervalMs, hasLocalRank, cudaVisibleDevices } = this.#options;
    if (!on || intervalMs === 0 || this.#devices !== undefined) return;
    const devices = visibleDevices({ cudaVisibleDevices, hasLauncher: hasLocalRank });
    this.#devices = startNvidiaSmi({
      devices,
      intervalMs,
      onSample: ({ device, name, values }) => {
        if (!this.#hasDevices) return;
        if (!this.#named.has(device)) this.#name(device, name, devices === 'last' && this.#options.worldSize > 1);
        this.#add(Object.entries(values).map(([name, value]) => ({ name: `GPU ${device} ${name}`, value, unit: deviceUnits[name] ?? '' })));
      },
      onNotice: this.#notice,
    });
  }

  #name(device: string, name: string, isShared: boolean): void {
    if (this.#named.size >= sampleLimits.devicesMax) return;
    this.#named.add(device);
    this.#fact(`${gpuKey}${device}`, name);
    if (!isShared) return;
    this.#notice(
      `TensorFlow.js computes on the last GPU that it sees, and every rank of this host sees GPU ${device}: \`ranktrace run --gpus\`, or CUDA_VISIBLE_DEVICES, gives each rank its own`,
    );
  }

  /** Takes a last sample, which tells of what no whole interval does: all of a short run. */
  stop(): void {
    this.sampleHost();
    clearInterval(this.#timer);
    this.#devices?.stop();
  }
}
