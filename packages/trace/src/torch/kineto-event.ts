// One event of a Kineto trace: from its JSON object, with members in any order, to a row of the right table.
//
// Invariant: a field of the wrong type counts as absent; an event then left without name, process or time is counted, never guessed.
//
// The first event's time is the epoch, unless it is 0 and the clock's times follow: Kineto writes kernels without a time so (pytorch/kineto#109).
//
//   0  0  1.7e15  1.7e15+4  …    the first two are left out, the third's time is the epoch
//   0  4  9  …                   a file whose times begin at 0
//
// It is one file because reading a member and appending the row share the fields of the event, which are never an object of their own.

import { JsonKeys } from '../model/json-keys.ts';
import { type JsonScanner, json } from '../model/json-scanner.ts';
import { limits } from '../model/limits.ts';
import { KinetoCounterNames } from './kineto-counter-names.ts';
import { EventArguments } from './kineto-event-arguments.ts';
import { argumentFields, eventFields, type Field, type KnownMember, phase } from './kineto-event-fields.ts';
import { type EndedSpan, OpenSpans } from './kineto-open-spans.ts';
import { OtherArguments } from './kineto-other-arguments.ts';
import { type KinetoTable, kinetoKinds } from './kineto-table.ts';
import { TimeRounding } from './kineto-time-rounding.ts';

const asU32 = (value: number): number => (value >= 0 && value <= 0xffffffff ? value : 0);

/** An id as text, such as `0x1f`; NaN for text that is no number. */
const idOf = (text: string): number => (/^(?:0x[\da-f]{1,13}|\d{1,15})$/i.test(text) ? Number(text) : Number.NaN);

/** Text that the profiler's own marks have in place of a process. */
const markerProcesses: ReadonlySet<string> = new Set(['Spans', 'Traces', '']);

export class KinetoEvent {
  /** Time of the first event, µs; all times are relative to it. Undefined before that event. */
  epochMicros: number | undefined;

  readonly #table: KinetoTable;
  /** Events that are no longer in the table. */
  #eventsBefore = 0;
  readonly #keepsAll: boolean;
  readonly #eventKeys = new JsonKeys(eventFields);
  readonly #argumentKeys = new JsonKeys(argumentFields);
  readonly #tracks = new Map<number, Map<number, number>>();
  readonly #open: OpenSpans;
  readonly #counterNames: KinetoCounterNames;
  readonly #memoryName: number;
  readonly #outOfMemoryName: number;
  readonly #memoryCategoryName: number;
  readonly #traceCategory: number;
  /** Whether the first event was at 0, and all since then have one time: a far one may still be the first of the clock's. */
  #isUnsure = false;
  /** Bytes of the file before the event that is being read, and before that of the epoch. */
  #at = 0;
  #epochAt = 0;
  #lastPid = Number.NaN;
  #lastTid = Number.NaN;
  #lastTrack = 0;

  // The event being read.
  #phase = 0;
  #name = -1;
  #category = 0;
  #pid = Number.NaN;
  #isMarker = false;
  /** A thread number as it is; text as its string index below zero. */
  #tid = 0;
  #tidText: string | undefined;
  #hasTime = false;
  #micros = 0;
  #nanos = 0;
  #duration = -1;
  #id = 0;
  #idText: string | undefined;
  #memoryCategory = 0;
  #bytes = 0;
  #allocated = 0;
  #reserved = 0;
  #address = 0;
  #deviceType = 0;
  #deviceId = 0;
  #givenName: string | undefined;
  /** Arguments left out: no JSON, or too deep. */
  #unfit = 0;
  /** Those with columns. */
  #arguments = new EventArguments();
  readonly #others = new OtherArguments();
  readonly #rounding = new TimeRounding();

  /** `keepsAll`: keep other arguments, instants and counters too. */
  constructor(table: KinetoTable, keepsAll = false) {
    this.#table = table;
    this.#keepsAll = keepsAll;
    this.#open = new OpenSpans(table.budget);
    this.#counterNames = new KinetoCounterNames(table.strings, table.budget);
    this.#memoryName = table.strings.index('[memory]');
    this.#outOfMemoryName = table.strings.index('[OutOfMemory]');
    this.#memoryCategoryName = table.strings.index('[memory category]');
    this.#traceCategory = table.strings.index('Trace');
  }

  /** Reads the object at the scanner and appends its row. */
  read(scanner: JsonScanner): void {
    this.#clear();
    scanner.peek();
    const at = scanner.origin + scanner.at;
    this.#at = at;
    this.#members(scanner, this.#eventKeys, 1);
    const { skipped } = this.#table;
    const before = skipped.malformed;
    skipped.values += this.#unfit;
    this.#append(scanner);
    if (this.#unfit > 0 || skipped.malformed > before) this.#table.leftOutAt ??= at;
  }

  /** Runs `clear`, which takes all rows and arguments out of the table; those of open spans stay. */
  spill(clear: () => void): void {
    this.#eventsBefore += this.#table.events.length;
    this.#isUnsure = false;
    this.#open.keepArguments(this.#table.arguments, clear);
    this.#others.forget();
  }

  /** Appends the rows of spans that have ended and wait for one around them, which will not end. */
  endWaiting(scanner: JsonScanner): void {
    for (const [track, span] of this.#open.takeWaiting()) this.#appendEnded(scanner, span, track);
  }

  /** Ends the file: spans without an end are counted; the precision of its times and the names of its counters are known. */
  finish(scanner: JsonScanner): void {
    this.endWaiting(scanner);
    this.#table.skipped.malformed += this.#open.count;
    this.#table.timeError = this.#rounding.error;
    this.#counterNames.finish();
  }

  #clear(): void {
    this.#phase = 0;
    this.#name = -1;
    this.#category = 0;
    this.#pid = Number.NaN;
    this.#isMarker = false;
    this.#tid = 0;
    this.#tidText = undefined;
    this.#hasTime = false;
    this.#duration = -1;
    this.#id = 0;
    this.#idText = undefined;
    this.#memoryCategory = 0;
    this.#bytes = 0;
    this.#allocated = 0;
    this.#reserved = 0;
    this.#address = 0;
    this.#deviceType = 0;
    this.#deviceId = 0;
    this.#givenName = undefined;
    this.#arguments.clear();
    this.#others.clear();
    this.#unfit = 0;
  }

  #members(scanner: JsonScanner, keys: JsonKeys<KnownMember>, depth: number): void {
    scanner.expect(json.openObject);
    if (scanner.peek() === json.closeObject) {
      scanner.at++;
      return;
    }
    // The event's own members are depth 1, those of `args` 2.
    const keepsOthers = this.#keepsAll && depth === 2;
    keys.begin();
    do {
      scanner.peek();
      const from = scanner.at;
      scanner.unfit = false;
      const known = keys.read(scanner);
      const first = scanner.peek();
      const value = scanner.at;
      const field = known?.field;
      if (field === undefined) scanner.skip(depth);
      else if (first === json.quote) this.#string(field, scanner);
      else if (isNumber(scanner, first)) this.#number(field, scanner);
      else if (field === 'args' && first === json.openObject) this.#members(scanner, this.#argumentKeys, depth + 1);
      else this.#other(field, scanner, depth);
      if (scanner.unfit && depth === 2) this.#unfit++;
      else if (keepsOthers && !hasColumn(known, first)) this.#others.add(scanner, from, value, scanner.at);
    } while (scanner.another(json.closeObject));
  }

  #string(field: Field, scanner: JsonScanner): void {
    scanner.string();
    const { strings } = this.#table;
    switch (field) {
      case 'ph':
        this.#phase = scanner.to - scanner.from === 1 ? (scanner.bytes[scanner.from] as number) : 0;
        return;
      case 'name':
        this.#name = strings.last(scanner);
        return;
      case 'cat':
        this.#category = strings.last(scanner);
        return;
      case 'pid':
        this.#setPid(scanner.text());
        return;
      case 'tid':
        this.#setTid(scanner.text());
        return;
      case 'id':
        this.#idText = scanner.text();
        this.#id = idOf(this.#idText);
        return;
      case 'Call stack':
        this.#arguments.stack = strings.last(scanner);
        return;
      case 'Module Hierarchy':
        this.#arguments.modules = strings.last(scanner);
        return;
      case 'category':
        this.#memoryCategory = strings.last(scanner);
        return;
      case 'given name':
        // A name from a metadata event: not worth interning when it is another event's argument.
        if (scanner.to - scanner.from <= 4096) this.#givenName = scanner.text();
        return;
      case 'Collective name':
      case 'Process Group Name':
      case 'dtype':
        this.#arguments.communication.text(field, strings.last(scanner));
    }
  }

  /** A number as text is a process; an event of any other text is left out and counted, unless it is a mark of the profiler. */
  #setPid(text: string): void {
    if (/^\d{1,15}$/.test(text)) this.#pid = Number(text);
    else this.#isMarker = markerProcesses.has(text);
  }

  /** In 2021 thread numbers were text on spans and numbers on instants. */
  #setTid(text: string): void {
    if (/^\d{1,15}$/.test(text)) this.#tid = Number(text);
    else this.#tidText = text;
  }

  #number(field: Field, scanner: JsonScanner): void {
    if (field === 'ts') {
      scanner.micros();
      this.#hasTime = Math.abs(scanner.wholeMicros) <= Number.MAX_SAFE_INTEGER;
      this.#micros = scanner.wholeMicros;
      this.#nanos = scanner.restNanos;
      this.#rounding.add(this.#micros, this.#nanos);
      return;
    }
    if (field === 'dur') {
      scanner.micros();
      this.#duration = scanner.wholeMicros * 1000 + scanner.restNanos;
      return;
    }
    const value = scanner.number();
    switch (field) {
      case 'pid':
        this.#pid = value;
        return;
      case 'tid':
        this.#tid = value;
        return;
      case 'id':
        this.#id = value;
        return;
      case 'External id':
        this.#arguments.externalId = value;
        return;
      case 'correlation':
        this.#arguments.correlation = asU32(value);
        return;
      case 'Sequence number':
        this.#arguments.sequence = value;
        return;
      case 'Fwd thread id':
        this.#arguments.forwardThread = asU32(value);
        return;
      case 'flops':
        this.#arguments.flops = value;
        return;
      case 'Async':
        this.#arguments.isAsync = value === 1 ? 1 : 0;
        return;
      case 'Bytes':
        this.#bytes = value;
        return;
      case 'Total Allocated':
        this.#allocated = value;
        return;
      case 'Total Reserved':
        this.#reserved = value;
        return;
      case 'Addr':
        this.#address = value;
        return;
      case 'Device Type':
        this.#deviceType = value;
        return;
      case 'Device Id':
        this.#deviceId = Math.max(0, value);
        return;
      case 'Seq':
      case 'In msg nelems':
      case 'Out msg nelems':
      case 'In msg bytes':
      case 'Src Rank':
      case 'Dst Rank':
        this.#arguments.communication.number(field, value);
    }
  }

  /** Interns arrays as text and skips all other values; distinct arrays have distinct texts. */
  #other(field: Field, scanner: JsonScanner, depth: number): void {
    const from = scanner.at;
    scanner.skip(depth);
    if (scanner.unfit) return;
    if (field === 'Input Dims') this.#arguments.shapes = this.#table.strings.slice(scanner, from, scanner.at);
    else if (field === 'Input type') this.#arguments.types = this.#table.strings.slice(scanner, from, scanner.at);
    else if (field === 'Concrete Inputs') this.#arguments.concrete = this.#table.strings.slice(scanner, from, scanner.at);
    else if (field === 'Output Dims') this.#arguments.outputs = this.#table.strings.slice(scanner, from, scanner.at);
  }

  #append(scanner: JsonScanner): void {
    const { skipped, memory, memoryCategories, flows, instants, counters } = this.#table;
    if (this.#isMarker) {
      skipped.markers++;
      // "PyTorch Profiler (0)": the one span that marks when recording began.
      if (this.#phase === phase.complete && this.#category === this.#traceCategory && this.#isTimed())
        this.#table.profileStart = this.#time();
    } else if (this.#phase === phase.complete) {
      if (this.#name < 0 || !this.#isPlaced() || !(this.#duration >= 0 && this.#duration <= Number.MAX_SAFE_INTEGER)) skipped.malformed++;
      else this.#appendComplete(scanner);
    } else if (this.#phase === phase.begin || this.#phase === phase.end) {
      if (!this.#isPlaced() || !(this.#phase === phase.begin ? this.#begin() : this.#end(scanner))) skipped.malformed++;
    } else if (this.#phase === phase.metadata) {
      this.#keepName();
    } else if (this.#phase === phase.flowStart || this.#phase === phase.flowEnd) {
      if (this.#isPlaced() && !Number.isNaN(this.#id)) this.#appendFlow();
      else skipped.malformed++;
    } else if (
      (this.#phase === phase.instant || this.#phase === phase.oldInstant) &&
      (this.#name === this.#memoryName || this.#name === this.#outOfMemoryName)
    ) {
      if (this.#isPlaced()) this.#appendMemory();
      else skipped.malformed++;
    } else if (this.#phase === phase.instant && this.#name === this.#memoryCategoryName) {
      if (this.#isPlaced()) this.#appendMemoryCategory();
      else skipped.malformed++;
    } else if (this.#keepsAll && (this.#phase === phase.instant || this.#phase === phase.oldInstant)) {
      if (this.#name >= 0 && this.#isPlaced()) this.#appendInstant();
      else skipped.malformed++;
    } else if (this.#keepsAll && this.#phase === phase.counter) {
      if (this.#name < 0 || !this.#isPlaced()) skipped.malformed++;
      else skipped.otherKinds += this.#appendCounter();
    } else {
      skipped.otherKinds++;
    }
    if (Math.max(memory.length, memoryCategories.length, flows.length, instants.length, counters.length) > limits.eventsPerFileMax)
      throw this.#tooMany(scanner);
  }

  #tooMany(scanner: JsonScanner): Error {
    return scanner.error('too_large', `a file may have ${limits.eventsPerFileMax} events, got more`);
  }

  #isPlaced(): boolean {
    return !Number.isNaN(this.#pid) && this.#isTimed();
  }

  /** Whether it has a time within 104 days (2^53 ns) of the first event's. */
  #isTimed(): boolean {
    if (!this.#hasTime) return false;
    if (Math.abs(this.#micros - (this.epochMicros ?? this.#micros)) <= 9e12) return true;
    if (!this.#isUnsure || this.#micros === 0) return false;
    this.#leaveOutAll();
    return true;
  }

  /** Leaves out all events so far, which are at 0 or alone at their time. */
  #leaveOutAll(): void {
    const table = this.#table;
    const before = table.skipped.malformed;
    for (const kind of kinetoKinds) {
      table.skipped.malformed += table[kind].length;
      table[kind].clear();
    }
    table.communications.clear();
    table.skipped.malformed += this.#open.clear();
    table.profileStart = 0;
    if (table.skipped.malformed > before) table.leftOutAt ??= this.#epochAt;
    this.epochMicros = undefined;
  }

  /** ns from the epoch, exact: subtracting µs before scaling keeps the number small. */
  #time(): number {
    if (this.epochMicros === undefined) {
      this.epochMicros = this.#micros;
      this.#epochAt = this.#at;
      this.#isUnsure ||= this.#micros === 0;
    } else if (this.#micros !== this.epochMicros) this.#isUnsure = false;
    return (this.#micros - this.epochMicros) * 1000 + this.#nanos;
  }

  #begin(): boolean {
    if (this.#name < 0) return false;
    // The first event's time is the epoch, and this may be it.
    this.#time();
    const others = this.#others.index(this.#table);
    const times = { micros: this.#micros, nanos: this.#nanos };
    this.#open.begin(this.#track(), { ...times, name: this.#name, category: this.#category, arguments: this.#arguments, others });
    this.#arguments = new EventArguments();
    return true;
  }

  /** Appends the span that ends; false if none is open, or it would end before it began. */
  #end(scanner: JsonScanner): boolean {
    const track = this.#track();
    const span = this.#open.end(track, this.#name);
    if (span === undefined) return false;
    const duration = (this.#micros - span.micros) * 1000 + this.#nanos - span.nanos;
    const given = this.#arguments;
    given.addFrom(span.arguments);
    this.#arguments = span.arguments;
    const ended = { ...span, arguments: given, others: this.#joined(span.others, this.#others.index(this.#table)), duration };
    if (duration >= 0 && this.#open.waits(track, ended)) return true;
    for (const row of this.#open.rowsOf(ended)) if (row.duration >= 0) this.#appendEnded(scanner, row, track);
    return duration >= 0;
  }

  #appendEnded(
    scanner: JsonScanner,
    { micros, nanos, name, category, duration, others, arguments: given }: EndedSpan,
    track: number,
  ): void {
    this.#micros = micros;
    this.#nanos = nanos;
    this.#name = name;
    this.#category = category;
    this.#duration = duration;
    this.#appendRow(scanner, track, others, given);
  }

  #appendComplete(scanner: JsonScanner): void {
    this.#appendRow(scanner, this.#track(), this.#others.index(this.#table), this.#arguments);
  }

  #appendRow(scanner: JsonScanner, track: number, others: number, given: EventArguments): void {
    const { events } = this.#table;
    if (this.#eventsBefore + events.length >= limits.eventsPerFileMax) throw this.#tooMany(scanner);
    const row = events.add();
    const { columns } = events;
    columns.start[row] = this.#time();
    columns.duration[row] = this.#duration;
    columns.name[row] = this.#name;
    columns.category[row] = this.#category;
    columns.track[row] = track;
    if (others !== 0) columns.others[row] = others;
    given.append(this.#table, row);
  }

  #joined(begun: number, others: number): number {
    const texts = this.#table.arguments;
    return begun === 0 || others === 0 ? begun + others : texts.index(`${texts.get(begun)},${texts.get(others)}`);
  }

  #appendInstant(): void {
    const row = this.#table.instants.add();
    const { columns } = this.#table.instants;
    columns.time[row] = this.#time();
    columns.name[row] = this.#name;
    columns.category[row] = this.#category;
    columns.track[row] = this.#track();
    columns.others[row] = this.#others.index(this.#table);
  }

  /**
   * Adds a row for each series that is a number. Returns how many are none, 1 for a counter without any.
   */
  #appendCounter(): number {
    const { counters } = this.#table;
    const series = Object.entries(this.#others.parsed());
    const values = series.map(([key, value]) => [key, numberIn(value)] as const).filter(([, value]) => Number.isFinite(value));
    const id = this.#idText ?? (this.#id > 0 ? String(this.#id) : '');
    for (const [key, value] of values) {
      const row = counters.add();
      counters.columns.time[row] = this.#time();
      counters.columns.name[row] = this.#counterNames.index(this.#name, this.#pid, id, key);
      counters.columns.track[row] = this.#track();
      counters.columns.value[row] = value;
    }
    return Math.max(1, series.length) - values.length;
  }

  #appendMemory(): void {
    const row = this.#table.memory.add();
    const { columns } = this.#table.memory;
    columns.time[row] = this.#time();
    columns.name[row] = this.#name;
    columns.track[row] = this.#track();
    columns.bytes[row] = this.#bytes;
    columns.totalAllocated[row] = this.#allocated;
    columns.totalReserved[row] = this.#reserved;
    columns.address[row] = this.#address;
    columns.deviceType[row] = this.#deviceType;
    columns.deviceId[row] = this.#deviceId;
  }

  #appendMemoryCategory(): void {
    const row = this.#table.memoryCategories.add();
    const { columns } = this.#table.memoryCategories;
    columns.time[row] = this.#time();
    columns.address[row] = this.#address;
    columns.category[row] = this.#memoryCategory;
    columns.bytes[row] = this.#bytes;
    columns.deviceType[row] = this.#deviceType;
  }

  #appendFlow(): void {
    const row = this.#table.flows.add();
    const { columns } = this.#table.flows;
    columns.time[row] = this.#time();
    columns.id[row] = this.#id;
    columns.name[row] = Math.max(this.#name, 0);
    columns.track[row] = this.#track();
    columns.isEnd[row] = this.#phase === phase.flowEnd ? 1 : 0;
  }

  #keepName(): void {
    if (this.#givenName === undefined || Number.isNaN(this.#pid) || this.#name < 0) return;
    const what = this.#table.strings.get(this.#name);
    if (what === 'process_name') this.#table.setName('processNames', this.#pid, this.#givenName);
    else if (what === 'thread_name') this.#table.setName('threadNames', this.#track(), this.#givenName);
  }

  #track(): number {
    const tid = this.#tidText === undefined ? this.#tid : -1 - this.#table.strings.index(this.#tidText);
    if (this.#pid === this.#lastPid && tid === this.#lastTid) return this.#lastTrack;
    let threads = this.#tracks.get(this.#pid);
    if (threads === undefined) {
      threads = new Map();
      this.#tracks.set(this.#pid, threads);
    }
    let track = threads.get(tid);
    if (track === undefined) {
      track = this.#table.addTrack({ pid: this.#pid, tid: this.#tidText ?? this.#tid });
      threads.set(tid, track);
    }
    this.#lastPid = this.#pid;
    this.#lastTid = tid;
    this.#lastTrack = track;
    return track;
  }
}

const isDigit = (byte: number): boolean => byte >= 0x30 && byte <= 0x39;
/** Whether the value at the scanner, whose first byte is `first`, is a number. */
const isNumber = (scanner: JsonScanner, first: number): boolean => isDigit(first) || (first === json.minus && !scanner.isNoNumber(first));

/** Whether a value that begins with `first` goes into a column of its own, or nowhere. */
function hasColumn(known: KnownMember | undefined, first: number): boolean {
  const column = known?.column;
  if (column === undefined || column === 'any') return column === 'any';
  return column === 'text' ? first === json.quote : first === json.minus || isDigit(first);
}

/** A counter's value, which some writers give as text; NaN for all else. */
function numberIn(value: unknown): number {
  if (typeof value === 'string' && value.trim() !== '') return Number(value);
  return typeof value === 'number' ? value : Number.NaN;
}
