// Links launched work to ops: each kernel, copy and driver call to the op that it works for.
//
//   by id      External id of a kernel or call = External id of the op                      torch's own link
//   by call    kernel ─ correlation → driver call ─ its time → op around it                 if the External id is the correlation itself
//
// Until 2023 a kernel's External id was its correlation; today this remains so for work launched outside all ops. Read as an op's id, it
// names none, or any op that happens to have that number.
//
// Invariant: an op is never a call, a Python function or asynchronous: torch links to ops and annotations alone.

import { besideCategories, indexesOf, runtimeCategories } from '../model/kineto-categories.ts';
import type { KinetoTable } from './kineto-table.ts';

/** Length of an event in µs, as torch computes it. */
export function elapsedMicros({ events, profileStart }: KinetoTable, row: number): number {
  const start = (events.columns.start[row] as number) - profileStart;
  return (start + (events.columns.duration[row] as number)) / 1000 - start / 1000;
}

/**
 * The links of function events: by id from the start; by call after `called` has received every host event in order of start, and
 * `linkByCall` has run. Events are numbers of function events, `row` their rows in the table.
 */
export class LaunchedWork {
  /** The op that an event works for, -1 if none; undefined if nothing can work for another. */
  readonly owner: Int32Array | undefined;
  /** Device time, µs, of what each event launched. */
  readonly deviceTime: Float64Array;
  /** Whether any event launched work that took device time. */
  any = false;
  readonly #table: KinetoTable;
  readonly #row: Int32Array;
  readonly #runtimes: ReadonlySet<number>;
  readonly #beside: ReadonlySet<number>;
  /** Events to link by their call. */
  readonly #byCall: number[] = [];
  /** The op around each driver call, by correlation. */
  readonly #calls: EventsById | undefined;

  constructor(table: KinetoTable, row: Int32Array, isDevice: Uint8Array, isAsync: Uint8Array, length: number) {
    this.#table = table;
    this.#row = row;
    this.#runtimes = indexesOf(table.strings, runtimeCategories);
    this.#beside = indexesOf(table.strings, besideCategories);
    this.deviceTime = new Float64Array(length);
    if (!isDevice.includes(1) && this.#runtimes.size === 0) return;
    this.owner = new Int32Array(length).fill(-1);
    this.#linkById(isDevice, isAsync, length);
    if (this.#byCall.length > 0) this.#calls = new EventsById(length);
  }

  ownerOf(event: number): number {
    return this.owner === undefined ? -1 : (this.owner[event] as number);
  }

  /** Registers a host event. `open`: the spans of its thread around it, outermost first; some may have ended. */
  called(event: number, open: readonly number[]): void {
    if (this.#calls === undefined) return;
    const { columns } = this.#table.events;
    const at = this.#row[event] as number;
    const correlation = columns.correlation[at] as number;
    if (correlation === 0 || !this.#runtimes.has(columns.category[at] as number)) return;
    const start = columns.start[at] as number;
    const op = open.findLast((around) => this.#isOpAt(this.#row[around] as number, start));
    if (op !== undefined) this.#calls.set(correlation, op);
  }

  /** Whether it is an op that runs at `time`, a call's begin: in whole µs the call may end after its op. */
  #isOpAt(row: number, time: number): boolean {
    const { columns } = this.#table.events;
    const category = columns.category[row] as number;
    if (this.#runtimes.has(category) || this.#beside.has(category)) return false;
    return time < (columns.start[row] as number) + (columns.duration[row] as number);
  }

  linkByCall(): void {
    const { columns } = this.#table.events;
    for (const event of this.#byCall) {
      const op = this.#calls?.get(columns.correlation[this.#row[event] as number] as number) ?? -1;
      if (op >= 0) this.#link(event, op, true);
    }
  }

  #linkById(isDevice: Uint8Array, isAsync: Uint8Array, length: number): void {
    const { columns } = this.#table.events;
    const annotation = this.#table.strings.find('gpu_user_annotation');
    // No call launches a wait of the host.
    const waits = indexesOf(this.#table.strings, ['cuda_sync', 'cuda_event']);
    // Events that work for an op; the others may be that op.
    const linked: number[] = [];
    const ops = new EventsById(length);
    for (let event = 0; event < length; event++) {
      const at = this.#row[event] as number;
      if (at < 0) continue;
      const category = columns.category[at] as number;
      if (isDevice[event] === 1 ? category !== annotation : this.#runtimes.has(category)) linked.push(event);
      else if (isDevice[event] === 0 && isAsync[event] === 0) ops.set(columns.externalId[at] as number, event);
    }
    for (const event of linked) {
      const at = this.#row[event] as number;
      const id = columns.externalId[at] as number;
      if (id !== 0 && id === columns.correlation[at]) {
        if (isDevice[event] === 1 && !waits.has(columns.category[at] as number)) this.#byCall.push(event);
        continue;
      }
      const op = ops.get(id);
      if (op >= 0) this.#link(event, op, isDevice[event] === 1);
    }
  }

  #link(event: number, op: number, isDevice: boolean): void {
    (this.owner as Int32Array)[event] = op;
    if (!isDevice) return;
    this.deviceTime[op] = (this.deviceTime[op] as number) + elapsedMicros(this.#table, this.#row[event] as number);
    this.any = true;
  }
}

/** Events by id. torch counts ids up, so nearly all fit an array; the rest go to a Map, which costs ten times as much. */
class EventsById {
  readonly #dense: Int32Array;
  readonly #sparse = new Map<number, number>();

  constructor(events: number) {
    this.#dense = new Int32Array(4 * events + 65_536).fill(-1);
  }

  set(id: number, event: number): void {
    if (id <= 0) return;
    if (Number.isInteger(id) && id < this.#dense.length) this.#dense[id] = event;
    else this.#sparse.set(id, event);
  }

  /** The event, -1 without one. */
  get(id: number): number {
    return (id > 0 && id < this.#dense.length ? this.#dense[id] : this.#sparse.get(id)) ?? -1;
  }
}
