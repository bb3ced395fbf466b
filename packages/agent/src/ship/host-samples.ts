// Counters of host and devices for the ranks of this host: sampled once, sent with each rank that they concern.

import { gpuKey } from '@ranktrace/protocol';
import { type DeviceSample, deviceUnits, HostCounters, startNvidiaSmi } from '@ranktrace/sdk/shipping';
import { agentLimits as limits } from '../model/limits.ts';
import type { RankSession } from './rank-session.ts';

export class HostSamples {
  readonly #sessions: () => Iterable<RankSession>;
  readonly #host = new HostCounters();
  readonly #devices: { stop(): void };
  /** Devices whose names a session has. */
  readonly #named = new WeakMap<RankSession, Set<string>>();

  /** `sessions`: those of the ranks that run now. */
  constructor(sessions: () => Iterable<RankSession>, notice: (line: string) => void) {
    this.#sessions = sessions;
    this.#devices = startNvidiaSmi({
      devices: undefined,
      intervalMs: limits.sampleIntervalMs,
      onSample: (sample) => this.#addDevice(sample),
      onNotice: notice,
    });
  }

  stop(): void {
    this.#devices.stop();
  }

  /** Of the counters of a process only the host's own concern a rank. */
  sampleHost(): void {
    const counters = this.#host.sample().filter(({ name }) => name === 'system cpu');
    for (const session of this.#sessions()) session.addCounters(counters);
  }

  #addDevice({ device, uuid, name, values }: DeviceSample): void {
    const counters = Object.entries(values).map(([counter, value]) => ({
      name: `GPU ${device} ${counter}`,
      value,
      unit: deviceUnits[counter] ?? '',
    }));
    for (const session of this.#sessions()) {
      if (!isDeviceOf(session, device, uuid)) continue;
      const named = this.#named.get(session) ?? new Set();
      this.#named.set(session, named);
      if (!named.has(device)) session.addFact(`${gpuKey}${device}`, name);
      named.add(device);
      session.addCounters(counters);
    }
  }
}

/** PyTorch's programs compute on the visible device of their local rank. */
function isDeviceOf({ options: { localRank, cudaVisibleDevices } }: RankSession, device: string, uuid: string): boolean {
  const visible = cudaVisibleDevices?.split(',').map((entry) => entry.trim());
  const own = visible === undefined ? `${localRank}` : visible.length === 1 ? visible[0] : visible[localRank];
  return own === device || (own?.startsWith('GPU-') === true && uuid.startsWith(own));
}
