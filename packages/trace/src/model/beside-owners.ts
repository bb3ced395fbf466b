// An agent's records of a rank come as a process of its own, beside the one that the rank recorded: both are one program.

import { isBeside } from '@ranktrace/protocol';
import type { TraceProcess } from './trace-sink.ts';

/** The rank's own process of what was recorded beside it: by its id, or where a container has ids of its own, the only one of the rank on that host. */
export function besideOwners(processes: readonly TraceProcess[]): ReadonlyMap<number, TraceProcess> {
  const placeOf = ({ rank, host }: TraceProcess): string => `${rank} ${host}`;
  const byPlace = new Map<string, TraceProcess[]>();
  for (const process of processes) {
    if (isBeside(process.incarnation)) continue;
    const own = byPlace.get(placeOf(process));
    if (own === undefined) byPlace.set(placeOf(process), [process]);
    else own.push(process);
  }
  const owners = new Map<number, TraceProcess>();
  for (const beside of processes) {
    if (!isBeside(beside.incarnation)) continue;
    const own = byPlace.get(placeOf(beside)) ?? [];
    const owner = own.find(({ pid }) => pid === beside.pid) ?? (own.length === 1 ? own[0] : undefined);
    if (owner !== undefined) owners.set(beside.index, owner);
  }
  return owners;
}
