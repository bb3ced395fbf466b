// The tables of the TensorBoard plugin (pytorch/kineto, tb_plugin; removed in 2026): for people who compare with its figures.
//
//   step breakdown   each moment of a step counts for the first of these that runs: kernel, copy, set, communication, runtime call, data
//                    loader, op; else `other`
//   operators        host time with and without that of ops and calls inside; time of the work that they launched, by themselves and with ops inside
//
// An op that only calls an op of its own name is that op, once.
//
// Steps are the windows of device-work.ts. A last step with less than 80 % of the launches of the one before was cut off, and is left out.

import { hostKind, type RankWork, type WorkStep } from './device-work.ts';
import { Intervals, sweep } from './intervals.ts';
import { classOf, isTensorCoreOp, kindOf, usesTensorCores } from './kernel-class.ts';

export const pluginRoles = ['kernel', 'memcpy', 'memset', 'communication', 'runtime', 'dataLoader', 'cpuExec', 'other'] as const;

/** ns by role; they add up to the step. */
export interface PluginStep extends Record<(typeof pluginRoles)[number], number> {
  readonly step: number;
  readonly length: number;
}

/** How torch names the wait for a batch. */
export const dataLoaderName = /^enumerate\(DataLoader\)#.*\.__next__$|^enumerate\(DataPipe\)#/;

/** The windows of the steps that the plugin shows. */
export function pluginWindows(work: RankWork): readonly WorkStep[] {
  const { windows } = work;
  const launched = new Uint32Array(windows.length);
  for (let row = 0; row < work.work.length; row++) {
    const step = work.links.step[row] as number;
    if (step >= 0 && work.work.columns.kind[row] !== kindOf.sync) launched[step] = (launched[step] as number) + 1;
  }
  let kept = launched.length;
  while (kept > 1 && launched[kept - 1] === 0) kept--;
  if (kept > 1 && 0.8 * (launched[kept - 2] as number) > (launched[kept - 1] as number)) kept--;
  return windows.slice(0, kept);
}

/** The plugin's step breakdown. Roles after `last` count as `other`: those before it need no events of theirs. */
export function pluginSteps(work: RankWork, last: (typeof pluginRoles)[number] = 'other'): readonly PluginStep[] {
  const unions = roleUnions(work, pluginRoles.indexOf(last) + 1);
  return pluginWindows(work).map(({ number, start, end }) => {
    const times = new Float64Array(pluginRoles.length);
    sweep(unions, start, end, (running, from, until) => {
      // The lowest bit is the role that counts; without any, `other`.
      const role = running === 0 ? pluginRoles.length - 1 : 31 - Math.clz32(running & -running);
      times[role] = (times[role] as number) + until - from;
    });
    const roles = Object.fromEntries(pluginRoles.map((role, at) => [role, times[at] as number]));
    return { step: number, length: end - start, ...(roles as Record<(typeof pluginRoles)[number], number>) };
  });
}

/** Unions in the order of the first `count` roles, without `other`. */
function roleUnions(work: RankWork, count: number): readonly Intervals[] {
  const unions = pluginRoles.slice(0, Math.min(count, pluginRoles.length - 1)).map(() => new Intervals());
  const [kernel, memcpy, memset, communication, runtime, dataLoader, cpuExec] = unions;
  const { work: device, host, names } = work;
  const byKind = [kernel, memcpy, memset];
  for (let row = 0; row < device.length; row++) {
    const of = device.columns.class[row] === classOf.communication ? communication : byKind[device.columns.kind[row] as number];
    of?.add(device.columns.start[row] as number, device.columns.end[row] as number);
  }
  const isLoader = names.matching(dataLoaderName);
  for (let row = 0; row < host.length; row++) {
    const isCall = host.columns.kind[row] === hostKind.call;
    const of = isCall ? runtime : isLoader[host.columns.name[row] as number] === 1 ? dataLoader : cpuExec;
    of?.add(host.columns.start[row] as number, host.columns.end[row] as number);
  }
  return unions;
}

/** Times in ns. */
export interface PluginOp {
  readonly name: string;
  calls: number;
  hostTotal: number;
  hostSelf: number;
  deviceTotal: number;
  deviceSelf: number;
  tensorCoreTotal: number;
  tensorCoreSelf: number;
  /** Tensor cores could compute it, or an op inside it. */
  isEligible: boolean;
  /** Its longest call, ns on the trace's axis. */
  longest: { readonly from: number; readonly until: number };
}

/** Shorter than any call. */
const noCall = { from: 0, until: -1 };

/** The plugin's operators, in order of their first call. */
export function pluginOps(work: RankWork): readonly PluginOp[] {
  const { host, names, links } = work;
  const { start, end, kind, name } = host.columns;
  const make = (): Float64Array => new Float64Array(host.length);
  const [self, device, deviceSelf, cores, coresSelf] = [make(), make(), make(), make(), make()];
  const eligible = new Uint8Array(host.length);
  const isEligible = names.matching(isTensorCoreOp);
  addLaunched(work, deviceSelf, coresSelf);
  const add = (to: Float64Array, row: number, value: number): void => {
    to[row] = (to[row] as number) + value;
  };
  // What is inside comes behind what is around it: from the last row on, each is complete before it is added to its parent.
  for (let row = host.length - 1; row >= 0; row--) {
    const length = (end[row] as number) - (start[row] as number);
    const parent = (links.parent[row] as number) - 1;
    add(self, row, length);
    add(device, row, deviceSelf[row] as number);
    add(cores, row, coresSelf[row] as number);
    if (kind[row] === hostKind.op && (isEligible[name[row] as number] === 1 || (coresSelf[row] as number) > 0)) eligible[row] = 1;
    if (parent < 0) continue;
    add(self, parent, -length);
    if (kind[row] === hostKind.call) continue;
    add(device, parent, device[row] as number);
    add(cores, parent, cores[row] as number);
    if (eligible[row] === 1) eligible[parent] = 1;
  }
  // From the last row on, a chain of ops of one name adds up in the outermost.
  const into = repeatedOps(work);
  for (let row = host.length - 1; row >= 0; row--) {
    const outer = (into[row] as number) - 1;
    if (outer < 0) continue;
    for (const part of [self, deviceSelf, coresSelf]) add(part, outer, part[row] as number);
  }
  const ops = new Map<number, PluginOp>();
  for (let row = 0; row < host.length; row++) {
    if (kind[row] !== hostKind.op || into[row] !== 0) continue;
    let op = ops.get(name[row] as number);
    if (op === undefined) {
      const nothing = { calls: 0, hostTotal: 0, hostSelf: 0, deviceTotal: 0, deviceSelf: 0, tensorCoreTotal: 0, tensorCoreSelf: 0 };
      op = { name: names.text(name[row] as number), ...nothing, isEligible: eligible[row] === 1, longest: noCall };
      ops.set(name[row] as number, op);
    }
    op.calls++;
    const length = (end[row] as number) - (start[row] as number);
    op.hostTotal += length;
    if (length > op.longest.until - op.longest.from) op.longest = { from: start[row] as number, until: end[row] as number };
    op.hostSelf += self[row] as number;
    op.deviceTotal += device[row] as number;
    op.deviceSelf += deviceSelf[row] as number;
    op.tensorCoreTotal += cores[row] as number;
    op.tensorCoreSelf += coresSelf[row] as number;
  }
  return [...ops.values()];
}

/** Adds each work to the span around its call. */
function addLaunched(work: RankWork, device: Float64Array, cores: Float64Array): void {
  const { columns, length } = work.work;
  const isCores = work.names.matching(usesTensorCores);
  for (let row = 0; row < length; row++) {
    const call = work.callOf(row);
    if (call < 0 || columns.kind[row] === kindOf.sync) continue;
    const around = (work.links.parent[call] as number) - 1;
    if (around < 0) continue;
    const time = (columns.end[row] as number) - (columns.start[row] as number);
    device[around] = (device[around] as number) + time;
    if (isCores[columns.name[row] as number] === 1) cores[around] = (cores[around] as number) + time;
  }
}

/** By row of an op that is the only one in an op of its own name: the row + 1 of that op; 0 for all others. */
function repeatedOps({ host, links: { parent } }: RankWork): Uint32Array {
  const { kind, name } = host.columns;
  const inside = new Uint32Array(host.length);
  for (let row = 0; row < host.length; row++) {
    const around = (parent[row] as number) - 1;
    if (around >= 0 && kind[row] !== hostKind.call) inside[around] = (inside[around] as number) + 1;
  }
  const into = new Uint32Array(host.length);
  for (let row = 0; row < host.length; row++) {
    const around = (parent[row] as number) - 1;
    if (around < 0 || kind[row] !== hostKind.op || kind[around] !== hostKind.op) continue;
    if (name[row] === name[around] && inside[around] === 1) into[row] = around + 1;
  }
  return into;
}
