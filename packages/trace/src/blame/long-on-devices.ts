// Long steps of hosts as their devices saw them. A host that runs ahead of its devices is held up once their queue is full, or where it waits for them:
// then its step is as long as theirs, after many that only launched.
//
//   host      1 2 3 4 5 6 7 8 │ 9 ───────│ 10 ──────│ 11 ──────│       9 to 11 are long on the host
//   devices   1 ──────│ 2 ──────│ 3 ──────│ 4 ──────│ 5 ──────│ …     and like all others on the devices
//
// A stall of a host that is ahead costs what its devices lose by it, on all ranks that wait for them, maybe in the next step alone.

import { median } from '../model/robust.ts';
import type { LongStep } from './long-steps.ts';

/** A step on the devices, ns. */
export interface DeviceLength {
  readonly longest: number;
  /** Over the ranks. */
  readonly mean: number;
  /** The blame of devices compares it with others, so it has all that it costs. */
  readonly isCompared: boolean;
}

/** Steps before and after one that tell what is usual around it. */
const aroundMax = 32;

/**
 * The steps that the devices' comparisons leave out, too, with their lengths and costs there. `lengths`: of steps on the devices by number; steps that they lack stay
 * as the hosts saw them.
 */
export function longOnDevices(hosts: readonly LongStep[], lengths: ReadonlyMap<number, DeviceLength>): readonly (LongStep | undefined)[] {
  const places = new Map([...lengths.keys()].sort((a, b) => a - b).map((step, place) => [step, place]));
  const sorted = [...places.keys()].map((step) => lengths.get(step) as DeviceLength);
  const areLong = new Set(hosts.map(({ step }) => step));
  const excess = (step: number): { readonly longest: number; readonly usual: number; readonly cost: number } | undefined => {
    const place = places.get(step);
    if (place === undefined) return undefined;
    const around = sorted.slice(Math.max(0, place - aroundMax), place + aroundMax + 1);
    const usual = median(around.map(({ longest }) => longest));
    const { longest, mean, isCompared } = sorted[place] as DeviceLength;
    return { longest, usual, cost: isCompared ? 0 : Math.max(0, mean - median(around.map((one) => one.mean))) };
  };
  return hosts.map((long) => {
    const here = excess(long.step);
    if (here === undefined) return long;
    // Where other ranks wait in the next step, that is theirs.
    const cost = here.cost + (areLong.has(long.step + 1) ? 0 : (excess(long.step + 1)?.cost ?? 0));
    if (cost === 0) return undefined;
    const factor = long.cost > 0 ? cost / long.cost : 0;
    const causes = long.causes.map((cause) => ({ ...cause, cost: factor * cause.cost }));
    return { ...long, length: here.longest, usual: here.usual, cost, causes };
  });
}
