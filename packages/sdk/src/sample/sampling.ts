// What the shipper worker samples beside draining rings: counters of the host and of this rank's devices.

import type { Sample } from '../collector.ts';
import type { ResolvedOptions } from '../options.ts';
import { HostCounters } from './host-counters.ts';
import { deviceUnits, startNvidiaSmi, visibleDevices } from './nvidia-smi.ts';

export class Sampling {
  readonly #options: ResolvedOptions;
  readonly #add: (samples: readonly Sample[]) => void;
  readonly #notice: (line: string) => void;
  readonly #host = new HostCounters();
  readonly #timer: NodeJS.Timeout | undefined;
  #devices: { stop(): void } | undefined;

  /** `own`: what the worker says of itself with each sample of the host. */
  constructor(
    options: ResolvedOptions,
    add: (samples: readonly Sample[]) => void,
    notice: (line: string) => void,
    own: () => readonly Sample[],
  ) {
    this.#options = options;
    this.#add = add;
    this.#notice = notice;
    if (options.sampleIntervalMs === 0) return;
    this.#timer = setInterval(() => add([...this.#host.sample(), ...own()]), options.sampleIntervalMs).unref();
    if (options.devices) this.toggleDevices(true);
  }

  /** Begins to sample devices, or ends it. */
  toggleDevices(on: boolean): void {
    this.#devices?.stop();
    this.#devices = undefined;
    const { sampleIntervalMs: intervalMs, localRank, hasLocalRank, cudaVisibleDevices } = this.#options;
    if (!on || intervalMs === 0) return;
    this.#devices = startNvidiaSmi({
      devices: visibleDevices({ localRank, cudaVisibleDevices, hasLauncher: hasLocalRank }),
      intervalMs,
      onSample: ({ device, values }) => {
        this.#add(Object.entries(values).map(([name, value]) => ({ name: `GPU ${device} ${name}`, value, unit: deviceUnits[name] ?? '' })));
      },
      onNotice: this.#notice,
    });
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#devices?.stop();
  }
}
