// Reads a Kineto trace (torch.profiler's Chrome JSON, schema version 1 as written since 2021) from chunks of bytes into columns.
//
// Supported: `{…, "traceEvents": […], …}` with metadata before or after, and a bare array of events; complete events, begins with their ends, allocator
// instants, flows, process and thread names; with `keep: 'all'` also other instants, counters and arguments. Categories stay as written
// (meanings: kineto-categories.ts).
//
// Where a file is no JSON in the midst of its events, reading goes on with the next event: `table.skipped.broken` counts such places. A file that
// is cut off, or has no event after such a place, is read up to there: `table.stopped` says where and why. A bare array may lack its end, for the
// format's writers append to the file while the program runs.
//
// Invariant: any bytes give a table or a TraceError, in O(bytes) time, in the memory of the columns plus one value.
// Invariant: a unit changes the table only after its last byte was seen, so re-reading it after `moreWanted` repeats nothing.

import type { BlockStore } from '../model/block-store.ts';
import { decodeUtf8 } from '../model/decode-utf8.ts';
import { TraceError, type TraceErrorCode } from '../model/errors.ts';
import { cannotRead, JsonScanner, json, moreWanted } from '../model/json-scanner.ts';
import { limits } from '../model/limits.ts';
import { parsedBytesPerByte, type ReadBudget, textBytes } from '../model/read-budget.ts';
import { KinetoEvent } from './kineto-event.ts';
import { KinetoSpill } from './kineto-spill.ts';
import { KinetoTable } from './kineto-table.ts';
import { unplacedFlows } from './unplaced-flows.ts';

type State =
  | 'start'
  /** Before the first member of the file's object. */
  | 'first_member'
  /** After a member. */
  | 'next_member'
  | 'first_event'
  | 'next_event'
  /** In the midst of what is no JSON. */
  | 'broken'
  | 'end';

/** Errors of a file's text: what came before it is sound. */
const stoppable: ReadonlySet<TraceErrorCode> = new Set(['truncated', 'not_json', 'too_deep']);

/** Bytes before a brace, and from it on, by which it is known for the begin of an event. */
const aroundBegin = 128;
/** The keys that known writers begin an event with. */
const firstKeys: ReadonlySet<string> = new Set(['ph', 'name', 'cat', 'cname', 'pid', 'tid', 'ts', 'tts', 'dur', 'id', 'bp', 's', 'args']);

export interface KinetoReaderOptions {
  /** `known` (default): the fields that torch's averages need. `all`: every argument, instant and counter. */
  readonly keep?: 'known' | 'all' | undefined;
  /** Memory that the table may take; default: unlimited. */
  readonly budget?: ReadBudget | undefined;
  /** Takes the rows of a file that outgrows memory; then the table reads them from there. Default: all stay in memory. */
  readonly spill?: SpillOptions | undefined;
}

export interface SpillOptions {
  /** The store to write to, asked for when it is first needed. */
  readonly store: () => BlockStore;
  /** Rows of the file that memory holds; default: `limits.rowsInMemoryMax`. */
  readonly rowsMax?: number | undefined;
}

/**
 * Reader of one file. The caller unzips and feeds it: `reader.push(chunk)` for each chunk (its buffer may be refilled afterwards), then
 * `reader.finish()` for the table. Both throw TraceError.
 */
export class KinetoReader {
  readonly #scanner = new JsonScanner();
  readonly #table: KinetoTable;
  readonly #event: KinetoEvent;
  #state: State = 'start';
  #isBareArray = false;
  #hasEvents = false;
  #metadataBytes = 0;
  /** Why the place is no JSON after which an event is sought. */
  #broken: TraceError | undefined;
  /** Bytes after the committed ones in which no event begins; 0 at the broken place itself. */
  #sought = 0;
  readonly #spillOptions: SpillOptions | undefined;
  readonly #rowsMax: number;
  #spill: KinetoSpill | undefined;
  /** Units read since rows were last taken out of memory. */
  #units = 0;

  constructor({ keep = 'known', budget, spill }: KinetoReaderOptions = {}) {
    this.#spillOptions = spill;
    this.#rowsMax = spill?.rowsMax ?? limits.rowsInMemoryMax;
    this.#table = new KinetoTable(budget);
    this.#event = new KinetoEvent(this.#table, keep === 'all');
  }

  push(chunk: Uint8Array): void {
    if (chunk.length === 0 || this.#table.stopped !== undefined) return;
    if (this.#scanner.feed(chunk)) this.#readUnits();
    this.#scanner.detach();
  }

  /** Ends the file here, for its bytes end in an error: of `why`. The table has what was read; call `finish` next. */
  stop(why: string): void {
    if (this.#table.stopped !== undefined) return;
    this.#stop(this.#scanner.error('truncated', why));
  }

  finish(): KinetoTable {
    if (this.#table.stopped === undefined) {
      this.#scanner.final = true;
      this.#readUnits();
      if (this.#isBareArray && this.#state === 'next_event') this.#state = 'end';
      if (this.#state !== 'end' && this.#table.stopped === undefined)
        this.#stop(this.#broken ?? this.#scanner.error('truncated', 'the file ends before its data does'));
    }
    this.#event.finish(this.#scanner);
    if (!this.#hasEvents) throw new TraceError('no_events', 'Cannot read the trace: it must have `traceEvents`, got none');
    const base = this.#table.metadata.get('baseTimeNanoseconds');
    if (this.#spill === undefined) this.#table.skipped.flows = unplacedFlows(this.#table);
    this.#spill?.finish();
    this.#table.epoch = BigInt(this.#event.epochMicros ?? 0) * 1000n + (typeof base === 'bigint' ? base : 0n);
    return this.#table;
  }

  #readUnits(): void {
    const scanner = this.#scanner;
    for (;;) {
      try {
        while (!scanner.isEmpty()) {
          this.#readUnit();
          scanner.commit();
          if (this.#spillOptions !== undefined && this.#isFull()) this.#spillRows(this.#spillOptions);
        }
        scanner.commit();
        return;
      } catch (cause) {
        if (cause === moreWanted) {
          scanner.rewind();
          return;
        }
        if (!(cause instanceof TraceError)) throw cause;
        if (this.#goesOnAfter(cause)) continue;
        this.#stop(cause);
        return;
      }
    }
  }

  /** Whether an event is sought after the error. */
  #goesOnAfter(error: TraceError): boolean {
    const isInEvents = this.#state === 'first_event' || this.#state === 'next_event';
    if (!isInEvents || error.code !== 'not_json' || this.#table.skipped.broken >= limits.brokenPlacesMax) return false;
    this.#broken = error;
    this.#sought = 0;
    this.#state = 'broken';
    this.#scanner.commit();
    return true;
  }

  /** Whether rows must go: there are many, or together with other files much. */
  #isFull(): boolean {
    this.#units++;
    if (this.#units >= this.#rowsMax) return true;
    const { held, bytesMax } = this.#table.budget;
    return this.#units >= this.#rowsMax * limits.spilledEarlyShare && held > bytesMax / 2;
  }

  #spillRows({ store }: SpillOptions): void {
    this.#units = 0;
    this.#spill ??= new KinetoSpill(this.#table, store(), this.#rowsMax);
    this.#event.spill(() => this.#spill?.take());
  }

  /** Keeps what was read before the error; without any event, and where memory or limits end the reading, throws it. */
  #stop(error: TraceError): void {
    this.#event.endWaiting(this.#scanner);
    const { events, memory, instants, counters, flows, skipped } = this.#table;
    const isEmpty = this.#spill === undefined && [events, memory, instants, counters, flows].every(({ length }) => length === 0);
    if (isEmpty || !stoppable.has(error.code)) throw error;
    this.#table.stopped = error.message.slice(cannotRead.length);
    skipped.rest = 1;
  }

  #readUnit(): void {
    const scanner = this.#scanner;
    switch (this.#state) {
      case 'start':
        this.#readStart();
        break;
      case 'first_member':
        this.#readMember(scanner.peek() !== json.closeObject);
        break;
      case 'next_member':
        this.#readMember(scanner.another(json.closeObject), true);
        break;
      case 'first_event':
        this.#readEvent(scanner.peek() !== json.closeArray);
        break;
      case 'next_event':
        if (this.#isBareArray && scanner.final && scanner.isLast(json.comma)) {
          scanner.at = scanner.end;
          break;
        }
        this.#readEvent(scanner.another(json.closeArray), true);
        break;
      case 'broken':
        this.#seekEvent();
        break;
      case 'end':
        throw scanner.wrong('nothing after its end');
    }
  }

  /** Goes on with the next event, and counts what lies before it. */
  #seekEvent(): void {
    const scanner = this.#scanner;
    const { bytes, end, at: from } = scanner;
    let at = bytes.indexOf(json.openObject, from + this.#sought);
    for (; at >= 0 && at < end; at = bytes.indexOf(json.openObject, at + 1)) {
      const begin = beginOf(scanner, at, from, this.#sought === 0);
      if (begin === 'unknown') break;
      if (begin === 'other') continue;
      this.#table.skipped.broken++;
      this.#table.brokenAt ??= this.#broken?.message.slice(cannotRead.length);
      this.#broken = undefined;
      scanner.at = at;
      this.#state = 'first_event';
      return;
    }
    if (scanner.final) throw this.#broken as TraceError;
    if (end - from > 2 * aroundBegin) {
      scanner.at = end - 2 * aroundBegin;
      this.#sought = aroundBegin;
    }
    scanner.commit();
    throw moreWanted;
  }

  #readStart(): void {
    const scanner = this.#scanner;
    let first = scanner.peek();
    if (first === 0xef) {
      // A byte order mark has three bytes; fewer cannot be judged yet.
      if (scanner.end - scanner.at < 3 && !scanner.final) throw moreWanted;
      if (scanner.bytes[scanner.at + 1] === 0xbb && scanner.bytes[scanner.at + 2] === 0xbf) scanner.at += 3;
      first = scanner.peek();
    }
    if (first !== json.openObject && first !== json.openArray) throw scanner.wrong('`{` or `[`');
    scanner.at++;
    this.#isBareArray = first === json.openArray;
    this.#hasEvents = this.#isBareArray;
    this.#state = this.#isBareArray ? 'first_event' : 'first_member';
  }

  #readMember(more: boolean, separated = false): void {
    const scanner = this.#scanner;
    if (!more) {
      if (!separated) scanner.at++;
      this.#state = 'end';
      return;
    }
    scanner.peek();
    scanner.string();
    const key = scanner.text();
    scanner.expect(json.colon);
    if (key === 'traceEvents') {
      scanner.expect(json.openArray);
      this.#hasEvents = true;
      this.#state = 'first_event';
      return;
    }
    scanner.peek();
    const from = scanner.at;
    scanner.unfit = false;
    scanner.skip();
    this.#keepMetadata(key, from, scanner.at);
    this.#state = 'next_member';
  }

  #keepMetadata(key: string, from: number, to: number): void {
    if (this.#scanner.unfit || this.#metadataBytes + to - from > limits.metadataBytesMax) {
      this.#table.skipped.metadata++;
      return;
    }
    this.#metadataBytes += to - from;
    const first = this.#scanner.bytes[from];
    const isNested = first === json.openObject || first === json.openArray;
    this.#table.budget.take(textBytes + (isNested ? parsedBytesPerByte : 2) * (key.length + to - from));
    const text = decodeUtf8(this.#scanner.bytes, from, to);
    // 1790857026000000000 does not fit a double.
    const isBase = key === 'baseTimeNanoseconds' && /^"?-?\d{1,30}"?$/.test(text);
    this.#table.metadata.set(key, isBase ? BigInt(text.replaceAll('"', '')) : JSON.parse(text));
  }

  #readEvent(more: boolean, separated = false): void {
    const scanner = this.#scanner;
    if (!more) {
      if (!separated) scanner.at++;
      this.#state = this.#isBareArray ? 'end' : 'next_member';
      return;
    }
    if (scanner.peek() === json.openObject) {
      this.#event.read(scanner);
    } else {
      scanner.skip();
      this.#table.skipped.malformed++;
    }
    this.#state = 'next_event';
  }
}

/** Kinds of braces; `unknown` while the bytes end too soon after one. */
type Begin = 'event' | 'other' | 'unknown';

/** Whether the brace at `at` begins an event: with a key of events, after another event, a comma, or the broken place, if `from` is that. */
function beginOf({ bytes, end, final }: JsonScanner, at: number, from: number, isPlace: boolean): Begin {
  const first = Math.max(from, at - aroundBegin);
  let before = at - 1;
  while (before >= first && isBlank(bytes[before] as number)) before--;
  const follows = before < first ? isPlace && first === from : bytes[before] === json.comma || bytes[before] === json.closeObject;
  if (!follows) return 'other';
  if (end - at < aroundBegin && !final) return 'unknown';
  const last = Math.min(end, at + aroundBegin);
  let key = at + 1;
  while (key < last && isBlank(bytes[key] as number)) key++;
  if (key >= last || bytes[key] !== json.quote) return 'other';
  const close = bytes.indexOf(json.quote, key + 1);
  return close >= 0 && close < last && firstKeys.has(decodeUtf8(bytes, key + 1, close)) ? 'event' : 'other';
}

const isBlank = (byte: number): boolean => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;

/** Reads a whole file from memory. */
export function readKineto(bytes: Uint8Array, options?: KinetoReaderOptions): KinetoTable {
  const reader = new KinetoReader(options);
  reader.push(bytes);
  return reader.finish();
}
