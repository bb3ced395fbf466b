// One Kineto file as a window of its rank's time: rows of all its tables in one order, and the role of each event.
//
//   items   0 … events │ … memory │ … categories │ … instants │ … counters       one number for every row of the table
//   order   items by key: the time at which they are known, the end for a step and the start for all else
//
// Invariant: an event is exactly one of span, step and collective.

import { isCounted } from '../match/collective-number.ts';
import { sortByTime } from '../model/sort-by-time.ts';
import { findCollectives, type KinetoCollectives } from './kineto-collectives.ts';
import { KinetoSteps } from './kineto-source-steps.ts';
import type { KinetoTable } from './kineto-table.ts';

/** Kinds of items, in the order of their row numbers. */
export const itemKinds = ['events', 'memory', 'memoryCategories', 'instants', 'counters'] as const;
export type ItemKind = (typeof itemKinds)[number];

export interface WindowCounts {
  readonly span: number;
  readonly instant: number;
  readonly counter: number;
  readonly step: number;
  readonly collective: number;
}

export class KinetoWindow {
  readonly table: KinetoTable;
  readonly collectives: KinetoCollectives;
  readonly steps: KinetoSteps;
  /** Items by key; `keyOf` gives each key. */
  readonly order: Uint32Array;
  /** First item of each kind. */
  readonly #firsts: readonly number[];
  /** By row of events: 0 a span, 2 i + 1 collective i, 2 i + 2 step i. */
  readonly #roles: Uint32Array;
  #apart = 0;
  /** By row of events: flow row + 1 of an arrow at its start that its correlation does not give; undefined if the file has none. */
  readonly #flows: Uint32Array | undefined;

  /** `fromEnd`: 0 for the last window of its rank, 1 for the one before, … */
  constructor(table: KinetoTable, fromEnd: number) {
    this.table = table;
    const { columns, length } = table.events;
    const events = sortByTime(columns.start, columns.duration, length);
    this.collectives = findCollectives(table, fromEnd);
    this.steps = new KinetoSteps(table, events);
    this.#roles = new Uint32Array(length);
    for (let row = 0; row < this.steps.steps.length; row++) {
      this.#roles[this.steps.steps.columns.event[row] as number] = 2 * row + 2;
    }
    for (let row = 0; row < this.collectives.length; row++) this.#roles[this.collectives.columns.event[row] as number] = 2 * row + 1;
    this.#flows = flowsOfEvents(table, events);
    const firsts: number[] = [];
    let items = 0;
    for (const kind of itemKinds) {
      firsts.push(items);
      items += table[kind].length;
    }
    this.#firsts = firsts;
    this.order = this.#ordered(events, items);
  }

  /** Turns a group's collectives with counted numbers into spans; returns how many. */
  setApart(group: string): number {
    const { columns, length } = this.collectives;
    const label = this.table.strings.find(group);
    let count = 0;
    for (let row = 0; row < length; row++) {
      if (columns.group[row] !== label || !isCounted(columns.sequence[row] as number)) continue;
      this.#roles[columns.event[row] as number] = 0;
      count++;
    }
    this.#apart += count;
    return count;
  }

  /** Key of the item at `place` of the order: ns from the table's epoch at which it is known. */
  keyOf(place: number): number {
    const item = this.order[place] as number;
    const kind = this.kindOf(item);
    return this.#key(kind, this.rowOf(kind, item));
  }

  kindOf(item: number): ItemKind {
    let kind = itemKinds.length - 1;
    while (item < (this.#firsts[kind] as number)) kind--;
    return itemKinds[kind] as ItemKind;
  }

  rowOf(kind: ItemKind, item: number): number {
    return item - (this.#firsts[itemKinds.indexOf(kind)] as number);
  }

  /** Row of `collectives` of an event, −1 if it is none. */
  collectiveOf(event: number): number {
    const role = this.#roles[event] as number;
    return role % 2 === 1 ? (role - 1) / 2 : -1;
  }

  /** Row of `steps.steps` of an event, −1 if it is none. */
  stepOf(event: number): number {
    const role = this.#roles[event] as number;
    return role > 0 && role % 2 === 0 ? role / 2 - 1 : -1;
  }

  /** Row of flows, −1 for none. */
  flowOf(event: number): number {
    return this.#flows === undefined ? -1 : (this.#flows[event] as number) - 1;
  }

  /** First key and last end, ns from the table's epoch. */
  get extent(): { readonly first: number; readonly last: number } {
    const { columns, length } = this.table.events;
    if (this.order.length === 0) return { first: 0, last: 0 };
    let last = this.keyOf(this.order.length - 1);
    for (let row = 0; row < length; row++) last = Math.max(last, (columns.start[row] as number) + (columns.duration[row] as number));
    return { first: this.keyOf(0), last };
  }

  get counts(): WindowCounts {
    const { events, memory, memoryCategories, instants, counters } = this.table;
    const step = this.steps.steps.length;
    const collective = this.collectives.length - this.#apart;
    return {
      span: events.length - step - collective,
      instant: memory.length + memoryCategories.length + instants.length,
      counter: counters.length,
      step,
      collective,
    };
  }

  #key(kind: ItemKind, row: number): number {
    const { table } = this;
    if (kind !== 'events') return table[kind].columns.time[row] as number;
    const start = table.events.columns.start[row] as number;
    return this.stepOf(row) < 0 ? start : start + (table.events.columns.duration[row] as number);
  }

  /** Merges the events, in order already, with the few items of other kinds and the steps, whose key is their end. */
  #ordered(events: Uint32Array, items: number): Uint32Array {
    const others = this.#othersInOrder(items - events.length);
    if (others.length === 0) return events;
    const order = new Uint32Array(items);
    const { duration } = this.table.events.columns;
    let to = 0;
    let at = 0;
    for (const event of events) {
      if (this.stepOf(event) >= 0) continue;
      const key = this.#key('events', event);
      for (; at < others.length; at++) {
        const other = others[at] as number;
        const kind = this.kindOf(other);
        const otherKey = this.#key(kind, this.rowOf(kind, other));
        // At equal keys the longer item encloses the shorter; steps and points in time have no length, and then the lower number is first.
        if (otherKey > key || (otherKey === key && ((duration[event] as number) > 0 || other > event))) break;
        order[to++] = other;
      }
      order[to++] = event;
    }
    order.set(others.subarray(at), to);
    return order;
  }

  /** Steps, then all items that are no events, in order of their keys. */
  #othersInOrder(points: number): Uint32Array {
    const { event } = this.steps.steps.columns;
    const steps = event.slice(0, this.steps.steps.length).sort();
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
function flowsOfEvents(table: KinetoTable, order: Uint32Array): Uint32Array | undefined {
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

function eventAt({ events }: KinetoTable, order: Uint32Array, time: number, track: number): number | undefined {
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
