// Rows of a Kineto file in one order: all of them, or those of a stretch of time.
//
//   items   0 … events │ … memory │ … categories │ … instants │ … counters       one number for every row of the tables
//   order   items by key: the time at which they are known, the end for a step and the start for all else
//
// Invariant: the orders of a file's pieces, one after another, are the order of the whole file.

import { sortByTime } from '../model/sort-by-time.ts';
import type { KinetoCollectives } from './kineto-collectives.ts';
import type { KinetoSteps } from './kineto-source-steps.ts';
import { type ItemKind, itemKinds } from './kineto-tally.ts';
import type { KinetoRows } from './spilled-rows.ts';

/** Kinds of events, by row. */
export interface EventRoles {
  readonly collectives: KinetoCollectives;
  readonly steps: KinetoSteps;
  /** Row of `collectives` of an event, −1 if it is none. */
  collectiveOf(event: number): number;
  /** Row of `steps.steps` of an event, −1 if it is none. */
  stepOf(event: number): number;
}

export interface PieceOptions {
  /** Rows of events in order of start, longest first; sorted here where it is not given. */
  readonly events?: Uint32Array;
  /** The steps to give out here, in the order of the file. Others among the rows are of another piece. */
  readonly stepRows: Uint32Array;
  /** By row of events: its row in the file, if that differs. */
  readonly fileRows?: Uint32Array;
}

export class KinetoPiece {
  readonly table: KinetoRows;
  readonly collectives: KinetoCollectives;
  readonly steps: KinetoSteps;
  /** Items by key; `keyOf` gives each key. */
  readonly order: Uint32Array;
  readonly #roles: EventRoles;
  /** First item of each kind. */
  readonly #firsts: readonly number[];
  readonly #fileRows: Uint32Array | undefined;
  /** By row of events: flow row + 1 of an arrow at its start that its correlation does not give; undefined if the file has none. */
  readonly #flows: Uint32Array | undefined;

  constructor(table: KinetoRows, roles: EventRoles, { events: given, stepRows, fileRows }: PieceOptions) {
    this.table = table;
    this.#roles = roles;
    this.collectives = roles.collectives;
    this.steps = roles.steps;
    this.#fileRows = fileRows;
    const { columns, length } = table.events;
    const events = given ?? sortByTime(columns.start, columns.duration, length);
    this.#flows = flowsOfEvents(table, events);
    const firsts: number[] = [];
    let items = 0;
    for (const kind of itemKinds) {
      firsts.push(items);
      items += table[kind].length;
    }
    this.#firsts = firsts;
    this.order = this.#ordered(events, items - length, stepRows);
  }

  /** Key of the item at `place` of the order: ns from the table's epoch at which it is known. */
  keyOf(place: number): number {
    const item = this.order[place] as number;
    const kind = this.kindOf(item);
    return this.#key(kind, this.rowOf(kind, item));
  }

  /** Row of an event, as nearly all items are; −1 for any other. */
  eventOf(item: number): number {
    return item < this.table.events.length ? item : -1;
  }

  kindOf(item: number): ItemKind {
    let kind = itemKinds.length - 1;
    while (item < (this.#firsts[kind] as number)) kind--;
    return itemKinds[kind] as ItemKind;
  }

  rowOf(kind: ItemKind, item: number): number {
    return item - (this.#firsts[itemKinds.indexOf(kind)] as number);
  }

  collectiveOf(event: number): number {
    return this.#roles.collectiveOf(event);
  }

  stepOf(event: number): number {
    return this.#roles.stepOf(event);
  }

  /** Row of flows, −1 for none. */
  flowOf(event: number): number {
    return this.#flows === undefined ? -1 : (this.#flows[event] as number) - 1;
  }

  #key(kind: ItemKind, row: number): number {
    const { table } = this;
    if (kind !== 'events') return table[kind].columns.time[row] as number;
    const start = table.events.columns.start[row] as number;
    return this.stepOf(row) < 0 ? start : start + (table.events.columns.duration[row] as number);
  }

  /** Merges the events, in order already, with the few items of other kinds and the steps, whose key is their end. */
  #ordered(events: Uint32Array, points: number, steps: Uint32Array): Uint32Array {
    const others = this.#othersInOrder(points, steps);
    const isStep = Uint8Array.from(events, (event) => (this.stepOf(event) >= 0 ? 1 : 0));
    const spans = isStep.reduce((sum, is) => sum - is, events.length);
    if (others.length === 0 && spans === events.length) return events;
    const order = new Uint32Array(spans + others.length);
    const { duration } = this.table.events.columns;
    let to = 0;
    let at = 0;
    for (let place = 0; place < events.length; place++) {
      if (isStep[place] === 1) continue;
      const event = events[place] as number;
      const key = this.#key('events', event);
      for (; at < others.length; at++) {
        const other = others[at] as number;
        const kind = this.kindOf(other);
        const otherKey = this.#key(kind, this.rowOf(kind, other));
        // At equal keys the longer item encloses the shorter; steps and points in time have no length, and then the one first in the file is first.
        if (otherKey > key || (otherKey === key && ((duration[event] as number) > 0 || this.#isAfter(other, event)))) break;
        order[to++] = other;
      }
      order[to++] = event;
    }
    order.set(others.subarray(at), to);
    return order;
  }

  /** Whether an item is after an event in the file; points in time count as after all events. */
  #isAfter(item: number, event: number): boolean {
    if (item >= this.table.events.length) return true;
    return (this.#fileRows?.[item] ?? item) > (this.#fileRows?.[event] ?? event);
  }

  /** Steps, then all items that are no events, in order of their keys. */
  #othersInOrder(points: number, steps: Uint32Array): Uint32Array {
    const numbers = new Uint32Array(steps.length + points);
    numbers.set(steps);
    const first = this.table.events.length;
    for (let point = 0; point < points; point++) numbers[steps.length + point] = first + point;
    const keys = Float64Array.from(numbers, (item) => {
      const kind = this.kindOf(item);
      return this.#key(kind, this.rowOf(kind, item));
    });
    return sortByTime(keys, new Float64Array(keys.length), keys.length).map((index) => numbers[index] as number);
  }
}

/** An arrow begins and ends at the start of an event on its track; a kernel's arrow is already known by correlation. */
function flowsOfEvents(table: KinetoRows, order: Uint32Array): Uint32Array | undefined {
  const { flows, events } = table;
  let found: Uint32Array | undefined;
  for (let flow = 0; flow < flows.length; flow++) {
    const event = eventAt(table, order, flows.columns.time[flow] as number, flows.columns.track[flow] as number);
    if (event === undefined || events.columns.correlation[event] === flows.columns.id[flow]) continue;
    found ??= new Uint32Array(events.length);
    found[event] = flow + 1;
  }
  return found;
}

/** Events with the same start searched for the one on a track. */
const lookMax = 64;

function eventAt({ events }: KinetoRows, order: Uint32Array, time: number, track: number): number | undefined {
  const { columns } = events;
  let from = 0;
  let to = order.length;
  while (from < to) {
    const middle = (from + to) >> 1;
    if ((columns.start[order[middle] as number] as number) < time) from = middle + 1;
    else to = middle;
  }
  for (let at = from; at < Math.min(order.length, from + lookMax); at++) {
    const row = order[at] as number;
    if (columns.start[row] !== time) return undefined;
    if (columns.track[row] === track) return row;
  }
  return undefined;
}
