// How much of the communication runs behind compute, for a rank and for each of its process groups.

import { collectiveKind } from '@ranktrace/protocol';
import { bandwidthOf } from '../match/bus-bandwidth.ts';
import type { RankWork } from './device-work.ts';
import { Intervals } from './intervals.ts';
import { classOf } from './kernel-class.ts';

/** ns. Communication of all groups may overlap itself: groups need not add up to the rank. */
export interface CommunicationOverlap {
  readonly group: string;
  readonly kernels: number;
  readonly total: number;
  readonly overlapped: number;
  readonly exposed: number;
  /** `overlapped / total`; undefined without communication. */
  readonly share: number | undefined;
  /** Bytes that this rank put in; 0: not recorded. */
  readonly bytes: number;
  /** The fastest of its collectives, bytes per second on the bus; undefined where sizes are not known. */
  readonly busBandwidth: number | undefined;
}

/** Name of the line for all groups. */
export const allGroups = '(all groups)';

/** All groups together first, then each, the longest total first; empty without communication. */
export function communicationOverlap(work: RankWork, worldSize: number): readonly CommunicationOverlap[] {
  const { columns, length } = work.work;
  const compute = work.unionOf('compute');
  const make = () => ({ union: new Intervals(), kernels: 0, bytes: 0, bandwidth: 0 });
  const groups = new Map<number, ReturnType<typeof make>>();
  const all = make();
  for (let row = 0; row < length; row++) {
    if (columns.class[row] !== classOf.communication) continue;
    const transfer = (columns.transfer[row] as number) - 1;
    const name = transfer < 0 ? 0 : (work.transfers.columns.group[transfer] as number);
    let group = groups.get(name);
    if (group === undefined) {
      group = make();
      groups.set(name, group);
    }
    const [start, end] = [columns.start[row] as number, columns.end[row] as number];
    const bytes = transfer < 0 ? 0 : (work.transfers.columns.bytes[transfer] as number);
    const bandwidth = transfer < 0 || bytes === 0 ? 0 : bandwidthOfKernel(work, transfer, worldSize, bytes, end - start);
    for (const of of [all, group]) {
      of.union.add(start, end);
      of.kernels++;
      of.bytes += bytes;
      of.bandwidth = Math.max(of.bandwidth, bandwidth);
    }
  }
  if (all.kernels === 0) return [];
  const line = (group: string, { union, kernels, bytes, bandwidth }: typeof all): CommunicationOverlap => {
    const { total } = union;
    const overlapped = commonTime(union, compute);
    const share = total > 0 ? overlapped / total : undefined;
    const known = { bytes, busBandwidth: bandwidth > 0 ? bandwidth : undefined };
    return { group, kernels, total, overlapped, exposed: total - overlapped, share, ...known };
  };
  const lines = [...groups].map(([name, group]) => line(name === 0 ? '(group not recorded)' : work.names.text(name), group));
  return [line(allGroups, all), ...lines.sort((a, b) => b.total - a.total)];
}

/** Bandwidth of one rank's kernel: a lower bound, as the kernel also waits for the last rank. */
function bandwidthOfKernel({ transfers, names }: RankWork, transfer: number, worldSize: number, bytes: number, length: number): number {
  const kind = collectiveKind(names.text(transfers.columns.op[transfer] as number));
  const ranks = (transfers.columns.ranks[transfer] as number) || worldSize;
  return bandwidthOf(kind, Math.max(1, ranks), bytes, length)?.bus ?? 0;
}

/** Time that both unions cover, ns. */
export function commonTime(a: Intervals, b: Intervals): number {
  let sum = 0;
  let [ofA, ofB] = [0, 0];
  while (ofA < a.length && ofB < b.length) {
    const from = Math.max(a.from[ofA] as number, b.from[ofB] as number);
    const until = Math.min(a.until[ofA] as number, b.until[ofB] as number);
    if (until > from) sum += until - from;
    if ((a.until[ofA] as number) < (b.until[ofB] as number)) ofA++;
    else ofB++;
  }
  return sum;
}
