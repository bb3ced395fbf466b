// Rows of a Kineto piece → tables of one batch, as the SDK sends them: ops share signatures, other arguments go by row.

import { createEventTables, EventTable, type EventTables, type Row, type TableName, tableNames } from '@ranktrace/protocol';
import type { ClockSample } from '../align/clock-evidence.ts';
import type { StringTable } from '../model/string-table.ts';
import type { KinetoPiece } from './kineto-piece.ts';
import type { SourceTrack } from './kineto-source-tracks.ts';

/** Strings of one batch; index 0 is ''. */
class BatchStrings {
  readonly texts: string[] = [''];
  readonly #indexes = new Map<string, number>([['', 0]]);
  #table: StringTable | undefined;
  /** By index in that table: index here + 1, 0 for texts that no item had so far. */
  #known = new Uint32Array(0);

  index(text: string): number {
    let index = this.#indexes.get(text);
    if (index === undefined) {
      index = this.texts.push(text) - 1;
      this.#indexes.set(text, index);
    }
    return index;
  }

  /** Index of a text of `table`: looked up once. */
  indexOf(table: StringTable, text: number): number {
    if (this.#table !== table) {
      this.#table = table;
      this.#known = new Uint32Array(table.strings.length);
    }
    const known = this.#known[text] as number;
    if (known > 0) return known - 1;
    const index = this.index(table.get(text));
    this.#known[text] = index + 1;
    return index;
  }
}

/** Keys of our own recorder's collectives that have columns of their own. */
const recordedKeys: ReadonlySet<string> = new Set([
  ...['Collective name', 'Process Group Name', 'Seq', 'In msg bytes'],
  ...['Rank', 'Src Rank', 'Dst Rank', 'Record function id'],
]);

/** Marks an asynchronous span by any number but 0. */
const asyncId = (isAsync: Uint8Array, event: number): number => (isAsync[event] === 1 ? event + 1 : 0);

const tableNumber = Object.fromEntries(tableNames.map((name, number) => [name, number])) as Readonly<Record<TableName, number>>;

/** Builds the tables of one batch: call `add` for each run of items, then `finish`. */
export class KinetoBatch {
  readonly #strings = new BatchStrings();
  readonly #tables: EventTables = createEventTables();
  readonly #only: ReadonlySet<TableName> | undefined;
  readonly #tracks: readonly SourceTrack[];
  readonly #seenTracks = new Set<number>();
  /** Texts of signatures, by their number among the texts of one piece: rows read back from disk number theirs anew. */
  readonly #signatures = new Map<number, number>();
  #signaturesOf: KinetoPiece | undefined;

  constructor(tracks: readonly SourceTrack[], only: readonly TableName[] | undefined) {
    this.#tracks = tracks;
    this.#only = only === undefined ? undefined : new Set(only);
  }

  /** Whether a table is wanted. */
  wants(name: TableName): boolean {
    return this.#only === undefined || this.#only.has(name);
  }

  /** Names all tracks of devices. */
  streams(): void {
    for (const [number, { kind }] of this.#tracks.entries()) if (kind === 'stream') this.#track(number);
  }

  metadata(key: string, value: string): void {
    this.#append('metadata', { key: this.#text(key), value: this.#text(value) });
  }

  /** `unix`: ns since 1970 at `time`. */
  wallClock(time: number, unix: bigint): void {
    const row = { time, width: 0, seconds: Number(unix / 1_000_000_000n), nanos: Number(unix % 1_000_000_000n) };
    this.#append('wallClocks', row);
  }

  /** `shift`: ns from the sample's own times to the batch's. */
  clockSample(sample: ClockSample, shift: number): void {
    this.#append('clockSamples', {
      sent: sample.sent + shift,
      received: sample.received + shift,
      remoteReceived: sample.remoteReceived,
      remoteSent: sample.remoteSent,
      host: this.#text(sample.remoteHost),
      hostEpoch: this.#text(`${sample.remoteEpoch}`),
    });
  }

  /**
   * The items at places `[from, until)` of a piece's order. `shift`: ns to add to its times. `tracks`: number of each of its tracks.
   */
  add(piece: KinetoPiece, from: number, until: number, shift: number, tracks: Uint32Array): void {
    if (!itemTables.some((name) => this.wants(name))) return;
    // Without spans most items need no work; the collectives are read alone this way.
    const onlyCollectives = !itemTables.some((name) => name !== 'collectives' && this.wants(name));
    const wantsSpans = this.wants('spans');
    if (wantsSpans) this.#makeRoom(piece, from, until);
    for (let place = from; place < until; place++) {
      const item = piece.order[place] as number;
      const event = piece.eventOf(item);
      if (event >= 0) {
        const collective = piece.collectiveOf(event);
        if (collective >= 0) this.#addCollective(piece, event, collective, shift, tracks);
        else if (onlyCollectives) continue;
        else if (piece.stepOf(event) >= 0) this.#addStep(piece, event, shift, tracks);
        else if (wantsSpans) this.#addSpan(piece, event, shift, tracks);
        continue;
      }
      if (onlyCollectives) continue;
      const kind = piece.kindOf(item);
      const row = piece.rowOf(kind, item);
      if (kind === 'memory') this.#addMemory(piece, row, shift, tracks);
      else if (kind === 'memoryCategories') this.#addMemoryCategory(piece, row, shift);
      else if (kind === 'instants') this.#addInstant(piece, row, shift, tracks);
      else this.#addCounter(piece, row, shift, tracks);
    }
  }

  finish(): { readonly strings: readonly string[]; readonly tables: EventTables } {
    return { strings: this.#strings.texts, tables: this.#tables };
  }

  /** Reserves room in the columns up front: nearly all items are spans. */
  #makeRoom(piece: KinetoPiece, from: number, until: number): void {
    let spans = 0;
    for (let place = from; place < until; place++) if (piece.eventOf(piece.order[place] as number) >= 0) spans++;
    const tables = this.#tables as { -readonly [N in TableName]: EventTable<N> };
    if (tables.spans.length > 0 || tables.numberArguments.length > 0) return;
    tables.spans = new EventTable('spans', spans);
    tables.ops = new EventTable('ops', spans);
    tables.numberArguments = new EventTable('numberArguments', 2 * spans);
  }

  #addSpan(piece: KinetoPiece, event: number, shift: number, tracks: Uint32Array): void {
    const { columns } = piece.table.events;
    const { strings } = piece.table;
    const spans = this.#tables.spans;
    const row = spans.length;
    if (row === spans.columns.start.length) spans.grow();
    const made = spans.columns;
    made.start[row] = (columns.start[event] as number) + shift;
    made.length[row] = columns.duration[event] as number;
    made.track[row] = this.#track(tracks[columns.track[event] as number] as number);
    made.name[row] = this.#strings.indexOf(strings, columns.name[event] as number);
    made.category[row] = this.#strings.indexOf(strings, columns.category[event] as number);
    made.id[row] = asyncId(columns.isAsync, event);
    made.parent[row] = made.state[row] = 0;
    spans.length = row + 1;
    const sequence = columns.sequence[event] as number;
    const others = columns.others[event] as number;
    const stack = columns.stack[event] as number;
    const modules = columns.modules[event] as number;
    if (this.wants('ops') && (others > 0 || sequence > 0 || stack > 0 || modules > 0)) {
      const ops = this.#tables.ops;
      const op = ops.length;
      if (op === ops.columns.row.length) ops.grow();
      const made = ops.columns;
      made.row[op] = row;
      made.signature[op] = others === 0 ? 0 : this.#signature(piece, others);
      made.sequence[op] = Math.max(0, sequence);
      made.isBackward[op] = made.allocated[op] = made.freed[op] = made.step[op] = 0;
      made.module[op] = this.#strings.indexOf(strings, modules);
      made.stack[op] = this.#strings.indexOf(strings, stack);
      ops.length = op + 1;
    }
    if (!this.wants('numberArguments')) return;
    if (sequence === 0) this.#number('spans', row, 'Sequence number', 0);
    this.#addLinks(piece, event, 'spans', row);
  }

  /** Adds an event's links to others: ids, correlation, arrows. */
  #addLinks(piece: KinetoPiece, event: number, table: 'spans' | 'collectives', row: number): void {
    const { columns } = piece.table.events;
    const { flows, strings } = piece.table;
    if (columns.externalId[event] !== 0) this.#number(table, row, 'External id', columns.externalId[event] as number);
    if (columns.correlation[event] !== 0) this.#number(table, row, 'correlation', columns.correlation[event] as number);
    if (columns.forwardThread[event] !== 0) this.#number(table, row, 'Fwd thread id', columns.forwardThread[event] as number);
    const flow = piece.flowOf(event);
    if (flow < 0) return;
    const name = strings.get(flows.columns.name[flow] as number);
    this.#number(table, row, `${name} ${flows.columns.isEnd[flow] === 1 ? 'in' : 'out'}`, flows.columns.id[flow] as number);
  }

  #addCollective(piece: KinetoPiece, event: number, collective: number, shift: number, tracks: Uint32Array): void {
    if (!this.wants('collectives')) return;
    const { columns } = piece.table.events;
    const { strings } = piece.table;
    const about = piece.collectives.columns;
    const row = this.#append('collectives', {
      start: (columns.start[event] as number) + shift,
      length: columns.duration[event] as number,
      track: this.#track(tracks[columns.track[event] as number] as number),
      op: this.#strings.indexOf(strings, about.op[collective] as number),
      group: this.#strings.indexOf(strings, about.group[collective] as number),
      sequence: about.sequence[collective] as number,
      bytes: about.bytes[collective] as number,
      id: asyncId(columns.isAsync, event),
      parent: 0,
      state: 0,
      peer: about.peer[collective] as number,
    } as Row<'collectives'>);
    if (!this.wants('stringArguments')) return;
    const isRecorded = about.isRecorded[collective] === 1;
    if (!isRecorded) this.#string('collectives', row, 'event', strings.get(columns.name[event] as number));
    this.#others(piece, columns.others[event] as number, 'collectives', row, isRecorded ? recordedKeys : undefined);
    this.#addLinks(piece, event, 'collectives', row);
  }

  #addStep(piece: KinetoPiece, event: number, shift: number, tracks: Uint32Array): void {
    const { columns } = piece.table.events;
    const { steps, phases } = piece.steps;
    const index = piece.stepOf(event);
    const step = steps.columns.number[index] as number;
    this.#append('steps', {
      start: (columns.start[event] as number) + shift,
      length: columns.duration[event] as number,
      track: this.#track(tracks[columns.track[event] as number] as number),
      step,
      overhead: steps.columns.overhead[index] as number,
    });
    for (let row = steps.columns.phasesFrom[index] as number; row < (steps.columns.phasesUntil[index] as number); row++) {
      this.#append('phases', {
        step,
        name: this.#text(piece.table.strings.get(phases.columns.name[row] as number)),
        length: phases.columns.length[row] as number,
        calls: phases.columns.calls[row] as number,
      });
    }
  }

  #addMemory({ table }: KinetoPiece, memory: number, shift: number, tracks: Uint32Array): void {
    const { columns } = table.memory;
    const name = table.strings.get(columns.name[memory] as number);
    const time = (columns.time[memory] as number) + shift;
    const track = this.#track(tracks[columns.track[memory] as number] as number);
    const about = {
      bytes: columns.bytes[memory] as number,
      total: columns.totalAllocated[memory] as number,
      address: columns.address[memory] as number,
      device: columns.deviceType[memory] as number,
    };
    const deviceId = columns.deviceId[memory] as number;
    if (name === '[memory]' && columns.totalReserved[memory] === 0 && deviceId === 0 && isAddress(about.address)) {
      this.#append('memory', { time, track, ...about, category: 0 });
      return;
    }
    // Unusual allocations: those with fields that the table of allocations lacks, or no allocation at all.
    const row = this.#append('instants', { time, track, name: this.#text(name), category: this.#text('cpu_instant_event') });
    this.#number('instants', row, 'Bytes', about.bytes);
    this.#number('instants', row, 'Total Allocated', about.total);
    this.#number('instants', row, 'Total Reserved', columns.totalReserved[memory] as number);
    this.#number('instants', row, 'Addr', about.address);
    this.#number('instants', row, 'Device Type', about.device);
    if (deviceId > 0) this.#number('instants', row, 'Device Id', deviceId);
  }

  #addMemoryCategory({ table }: KinetoPiece, index: number, shift: number): void {
    const { columns } = table.memoryCategories;
    const address = columns.address[index] as number;
    // A batch has no allocation at such an address.
    if (!isAddress(address)) return;
    this.#append('memory', {
      time: (columns.time[index] as number) + shift,
      track: this.#track(0),
      bytes: columns.bytes[index] as number,
      total: 0,
      address,
      device: columns.deviceType[index] as number,
      category: this.#text(table.strings.get(columns.category[index] as number)),
    });
  }

  #addInstant(piece: KinetoPiece, instant: number, shift: number, tracks: Uint32Array): void {
    const { columns } = piece.table.instants;
    const { strings } = piece.table;
    const row = this.#append('instants', {
      time: (columns.time[instant] as number) + shift,
      track: this.#track(tracks[columns.track[instant] as number] as number),
      name: this.#strings.indexOf(strings, columns.name[instant] as number),
      category: this.#strings.indexOf(strings, columns.category[instant] as number),
    });
    this.#others(piece, columns.others[instant] as number, 'instants', row);
  }

  #addCounter({ table }: KinetoPiece, counter: number, shift: number, tracks: Uint32Array): void {
    const { columns } = table.counters;
    this.#append('counters', {
      time: (columns.time[counter] as number) + shift,
      track: this.#track(tracks[columns.track[counter] as number] as number),
      name: this.#text(table.strings.get(columns.name[counter] as number)),
      unit: 0,
      value: columns.value[counter] as number,
    });
  }

  /** Arguments kept as JSON text, for events without a signature; values that are not plain stay text. */
  #others({ table }: KinetoPiece, others: number, owner: TableName, row: number, without?: ReadonlySet<string>): void {
    if (others === 0) return;
    const members = JSON.parse(`{${table.arguments.get(others)}}`) as Readonly<Record<string, unknown>>;
    for (const [key, value] of Object.entries(members)) {
      if (without?.has(key)) continue;
      if (typeof value === 'number') this.#number(owner, row, key, value);
      else this.#string(owner, row, key, typeof value === 'string' ? value : JSON.stringify(value));
    }
  }

  #number(owner: TableName, row: number, key: string, value: number): void {
    if (!this.wants(owner) || !this.wants('numberArguments')) return;
    const table = this.#tables.numberArguments;
    const at = table.length;
    if (at === table.columns.row.length) table.grow();
    const { columns } = table;
    columns.table[at] = tableNumber[owner];
    columns.row[at] = row;
    columns.key[at] = this.#text(key);
    columns.value[at] = value;
    table.length = at + 1;
  }

  #string(owner: TableName, row: number, key: string, value: string): void {
    if (this.wants(owner))
      this.#append('stringArguments', { table: tableNumber[owner], row, key: this.#text(key), value: this.#text(value) });
  }

  /** Events share most signatures: each is looked up by its number, and made a text once. */
  #signature(piece: KinetoPiece, others: number): number {
    if (this.#signaturesOf !== piece) this.#signatures.clear();
    this.#signaturesOf = piece;
    let index = this.#signatures.get(others);
    if (index === undefined) {
      index = this.#text(`{${piece.table.arguments.get(others)}}`);
      this.#signatures.set(others, index);
    }
    return index;
  }

  #text(text: string): number {
    return this.#strings.index(text);
  }

  /** The track's number; adds its description to this batch if that table is wanted. */
  #track(number: number): number {
    const track = this.#tracks[number];
    if (!this.#seenTracks.has(number) && track !== undefined) {
      this.#seenTracks.add(number);
      this.#append('tracks', { track: number, kind: this.#text(track.kind), name: this.#text(track.name), tid: track.tid });
    }
    return number;
  }

  /** The row's index; rows of unwanted tables are dropped. */
  #append<N extends TableName>(name: N, row: Row<N>): number {
    if (!this.wants(name)) return 0;
    return (this.#tables[name] as EventTable<N>).append(row);
  }
}

/** Whether a batch may have it as an address: a tagged pointer is beyond what a double holds exactly. */
const isAddress = (value: number): boolean => Number.isSafeInteger(value) && value >= 0;

const itemTables: readonly TableName[] = ['spans', 'instants', 'counters', 'steps', 'phases', 'collectives', 'memory'];
