// The sums of each rank's host: those of its last life, together with what an agent recorded beside that life.

import { isBeside } from '@ranktrace/protocol';
import { besideOwners } from '../model/beside-owners.ts';
import type { TraceProcess } from '../model/trace-sink.ts';
import type { AllocationSum, OpSum, RankOps } from './op-sums.ts';

/** By rank. */
export function hostsByRank(hosts: readonly RankOps[]): Map<number, RankOps> {
  const byRank = new Map<number, RankOps>();
  for (const host of inOrder(hosts)) byRank.set(host.process.rank, host);
  const owners = besideOwners(hosts.map(({ process }) => process));
  for (const beside of hosts) {
    const { rank, index } = beside.process;
    const own = byRank.get(rank);
    if (own !== undefined && own !== beside && owners.get(index) === own.process) byRank.set(rank, together(own, beside));
  }
  return byRank;
}

/** By index of the process: which life of its rank it is, or the owner of what was recorded beside one. */
export function livesOf(hosts: readonly RankOps[]): ReadonlyMap<number, number> {
  const lives = new Map<number, number>();
  const seen = new Map<number, number>();
  const processes = inOrder(hosts).map(({ process }) => process);
  for (const { rank, index, incarnation } of processes) {
    if (isBeside(incarnation)) continue;
    const life = (seen.get(rank) ?? 0) + 1;
    seen.set(rank, life);
    lives.set(index, life);
  }
  for (const [index, owner] of besideOwners(processes)) lives.set(index, lives.get(owner.index) ?? 1);
  return lives;
}

/** Lives in order of time, after what was recorded beside them. */
const inOrder = (hosts: readonly RankOps[]): readonly RankOps[] => [...hosts].sort(({ process: a }, { process: b }) => orderOf(a, b));

const orderOf = (a: TraceProcess, b: TraceProcess): number =>
  Number(isBeside(b.incarnation)) - Number(isBeside(a.incarnation)) ||
  (a.incarnation < b.incarnation ? -1 : a.incarnation > b.incarnation ? 1 : a.index - b.index);

function together(own: RankOps, beside: RankOps): RankOps {
  const ops = new Map<string, OpSum>(own.ops);
  for (const [key, op] of beside.ops) {
    const known = ops.get(key);
    const longest = known !== undefined && known.longest > op.longest ? known : op;
    ops.set(key, {
      ...longest,
      isOp: op.isOp || known?.isOp === true,
      calls: op.calls + (known?.calls ?? 0),
      total: op.total + (known?.total ?? 0),
      self: op.self + (known?.self ?? 0),
    });
  }
  const allocators = new Map<string, AllocationSum>(own.allocators);
  for (const [key, one] of beside.allocators) {
    const known = allocators.get(key);
    const largest = known !== undefined && known.largest > one.largest ? known : one;
    allocators.set(key, {
      ...largest,
      allocations: one.allocations + (known?.allocations ?? 0),
      bytes: one.bytes + (known?.bytes ?? 0),
    });
  }
  const rest = { calls: own.rest.calls + beside.rest.calls, self: own.rest.self + beside.rest.self };
  return { ...own, ops, allocators, rest };
}
