// Events that a source shares with others, by keys known to all of them: evidence for hosts without pings, and for the place of a clock step
// between two pings. Read before any clock is known, so nothing here compares times.
//
// Invariant: at most `sharedEventsMax` events of each kind are kept, spread over the whole run, and the same ones in all sources: the hash
// of their keys has enough zeros at its end.

import { type Batch, type EventTable, isBarrierLike, pairOf, spanState, type TableName } from '@ranktrace/protocol';
import type { Interval, SharedEvents } from '../align/clock-evidence.ts';
import type { BatchSource } from '../model/batch-source.ts';
import { limits } from '../model/limits.ts';

const tables: readonly TableName[] = ['collectives', 'rpcs', 'steps'];

/** Reads the wanted batches of a source, by index; yields once for each. */
export function* sharedEvents(source: BatchSource, isWanted: (index: number) => boolean = () => true): Generator<void, SharedEvents> {
  const collectives = new KeptEvents<Interval>();
  const clients = new KeptEvents<Interval>();
  const servers = new KeptEvents<Interval>();
  const [sends, receives] = [new KeptEvents<number>(), new KeptEvents<number>()];
  const steps = new KeptEvents<number, number>();
  for (let index = 0; index < source.count; index++) {
    const batch = isWanted(index) ? source.batch(index, tables) : undefined;
    if (batch === undefined) continue;
    addCollectives(batch, collectives);
    addSends(batch, source.rank, sends, receives);
    addCalls(batch, clients, servers);
    const { columns, length } = batch.tables.steps;
    for (let row = 0; row < length; row++) steps.add(columns.step[row] as number, columns.start[row] as number);
    yield;
  }
  return {
    collectives: collectives.kept,
    clients: clients.kept,
    servers: servers.kept,
    sends: sends.kept,
    receives: receives.kept,
    steps: steps.kept,
  };
}

function addCollectives({ tables: { collectives }, strings }: Batch, kept: KeptEvents<Interval>): void {
  const { columns, length } = collectives;
  for (let row = 0; row < length; row++) {
    if (columns.state[row] === spanState.open || columns.peer[row] !== 0) continue;
    if (!isBarrierLike(strings[columns.op[row] as number] as string)) continue;
    const group = strings[columns.group[row] as number] as string;
    kept.add(`${columns.sequence[row]} ${group}`, intervalAt(collectives, row));
  }
}

/** A send has arrived when the receive ends; it surely left no earlier than its own start. */
function addSends(
  { tables: { collectives }, strings }: Batch,
  rank: number,
  sends: KeptEvents<number>,
  receives: KeptEvents<number>,
): void {
  const { columns, length } = collectives;
  for (let row = 0; row < length; row++) {
    const pair = pairOf(rank, (columns.peer[row] as number) - 1, strings[columns.op[row] as number] as string);
    if (pair === undefined || pair[0] === pair[1] || columns.state[row] === spanState.open) continue;
    const group = strings[columns.group[row] as number] as string;
    const { start, end } = intervalAt(collectives, row);
    const key = `${pair[0]} ${pair[1]} ${columns.sequence[row]} ${group}`;
    if (pair[0] === rank) sends.add(key, start);
    else receives.add(key, end);
  }
}

function addCalls({ tables: { rpcs }, strings }: Batch, clients: KeptEvents<Interval>, servers: KeptEvents<Interval>): void {
  const { columns, length } = rpcs;
  for (let row = 0; row < length; row++) {
    if (columns.state[row] === spanState.open) continue;
    const isServer = strings[columns.side[row] as number] === 'server';
    // The client's span id names the call.
    const id = hexOf(isServer ? columns.parentSpan : columns.span, row);
    if (id === '0000000000000000') continue;
    (isServer ? servers : clients).add(id, intervalAt(rpcs, row));
  }
}

function intervalAt({ columns }: EventTable<'collectives' | 'rpcs'>, row: number): Interval {
  const start = columns.start[row] as number;
  return { start, end: start + (columns.length[row] as number) };
}

function hexOf(ids: Uint8Array, row: number): string {
  return new DataView(ids.buffer, ids.byteOffset + row * 8, 8).getBigUint64(0).toString(16).padStart(16, '0');
}

/** Events by key; beyond the limit, only those stay that have a key with a hash divisible by a growing power of two. */
class KeptEvents<Event, Key extends string | number = string> {
  readonly kept = new Map<Key, Event>();
  #mask = 0;

  add(key: Key, event: Event): void {
    if ((hashOf(String(key)) & this.#mask) !== 0) return;
    // A later life of the rank may count from the start again: the first event stays.
    if (!this.kept.has(key)) this.kept.set(key, event);
    if (this.kept.size <= limits.sharedEventsMax) return;
    this.#mask = (this.#mask << 1) | 1;
    for (const held of this.kept.keys()) if ((hashOf(String(held)) & this.#mask) !== 0) this.kept.delete(held);
  }
}

/** FNV-1a, mixed once more: its low bits alone follow the last character too closely. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x45d9f3b);
  return (hash ^ (hash >>> 15)) >>> 0;
}
