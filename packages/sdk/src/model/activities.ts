// The recorded activities, and the bits of `detail` for them.

import { detail } from './detail.ts';
import { SdkError } from './errors.ts';
import { ProfilerActivity, supportedActivities } from './schedule.ts';
import { shownValue } from './shown-value.ts';

/** In torch.profiler's form: a list, or a map from activity to the wanted kinds of its events. */
export type Activities = Iterable<string> | Readonly<Record<string, readonly string[]>>;

export const activityNames: readonly string[] = Object.values(ProfilerActivity);

/** Kinds of host events by their names in Kineto. Its other kinds do not exist here. */
const hostKinds: Readonly<Record<string, number>> = {
  cpu_op: detail.ops,
  user_annotation: detail.spans | detail.nestedSpans,
  cpu_instant_event: detail.memory,
};

/** The options that ask for more about each op. */
export interface DetailFlags {
  readonly recordShapes: boolean;
  readonly profileMemory: boolean;
  readonly withStack: boolean | 'walk';
  readonly withFlops: boolean;
  readonly withModules: boolean;
}

/** Kinds of device events: counters of the devices, and kernels with all other work on them. */
const deviceKinds = ['counters', 'kernel'] as const;

/**
 * Bits of the wanted detail, and whether device counters and kernels are wanted: kernels only where a device is named, for recording them takes CUPTI from
 * every other profiler of the process. `source` names the option in an error. Throws SdkError `bad_option`.
 */
export function detailOf(
  activities: Activities | undefined,
  flags: DetailFlags,
  source: string,
): { readonly detail: number; readonly devices: boolean; readonly kernels: boolean } {
  const kinds = kindsOf(activities ?? supportedActivities(), source);
  if (kinds.size === 0)
    throw new SdkError('bad_option', `Bad ${source}: no valid profiler activities found; name one of ${activityNames.join(', ')}`);
  const host = kinds.get(ProfilerActivity.CPU);
  let bits = 0;
  if (kinds.has(ProfilerActivity.CPU)) {
    bits = host?.reduce((sum, kind) => sum | (hostKinds[kind] as number), 0) ?? detail.ops | detail.spans | detail.nestedSpans;
    if ((bits & detail.ops) !== 0) bits |= opBits(flags);
  }
  const wantsOf = (kind: (typeof deviceKinds)[number]): boolean =>
    [...kinds].some(([activity, wanted]) => activity !== ProfilerActivity.CPU && (wanted === undefined || wanted.includes(kind)));
  return { detail: bits, devices: wantsOf('counters'), kernels: activities !== undefined && wantsOf('kernel') };
}

function opBits({ recordShapes, profileMemory, withStack, withFlops, withModules }: DetailFlags): number {
  return (
    (recordShapes || withFlops ? detail.shapes : 0) |
    (profileMemory ? detail.memory : 0) |
    (withStack !== false ? detail.stacks : 0) |
    (withFlops ? detail.flops : 0) |
    (withModules ? detail.modules : 0)
  );
}

/** Kinds per activity; undefined for all of them. */
function kindsOf(activities: Activities, source: string): Map<string, readonly string[] | undefined> {
  const isList = Symbol.iterator in activities;
  const kinds = new Map<string, readonly string[] | undefined>(
    isList ? [...(activities as Iterable<string>)].map((name) => [name, undefined]) : Object.entries(activities),
  );
  for (const [activity, names] of kinds) {
    if (!activityNames.includes(activity)) {
      throw new SdkError('bad_option', `Bad ${source}: it must be one or more of ${activityNames.join(', ')}, got ${shownValue(activity)}`);
    }
    if (names === undefined) continue;
    const allowed: readonly string[] = activity === ProfilerActivity.CPU ? Object.keys(hostKinds) : deviceKinds;
    const wrong = Array.isArray(names) ? names.find((name) => !allowed.includes(name)) : names;
    if (wrong === undefined) continue;
    throw new SdkError(
      'bad_option',
      `Bad ${source}: the kinds of ${activity} must be a list of ${allowed.join(', ')}, got ${shownValue(wrong)}`,
    );
  }
  return kinds;
}
