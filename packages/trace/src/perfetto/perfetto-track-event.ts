// One track event as it lies in its packet: the fields that we read, strings still by number. The object is reused.

import { annotation, event } from './perfetto-fields.ts';
import { perfettoLimits as limits } from './perfetto-limits.ts';
import type { PacketPart } from './perfetto-packets.ts';
import type { PerfettoSequence, Strings } from './perfetto-sequence.ts';
import { keyOf, type TrackKey } from './perfetto-tracks.ts';
import { fixed64Tag, lengthTag, varintTag, type Wire } from './perfetto-wire.ts';

/** Fields that our writer does not use. */
const terminatingFlow = 48;
const terminatingFlowOld = 42;
const extraCounters = 12;
const extraDoubleCounters = 46;
const annotationUint = 3;
const annotationPointer = 7;
const annotationNestedOld = 8;
const annotationJson = 9;
const annotationDictionary = 11;
const annotationArray = 12;
const annotationStringIid = 17;

const typeTag = varintTag(event.type);
const nameIidTag = varintTag(event.nameIid);
const nameTag = lengthTag(event.name);
const categoryIidTag = varintTag(event.categoryIid);
const categoryTag = lengthTag(event.category);
const trackTag = varintTag(event.trackUuid);
const annotationTag = lengthTag(event.annotation);
const flowTag = fixed64Tag(event.flowIds);
const flowOldTag = varintTag(event.flowIdsOld);
const endingFlowTag = fixed64Tag(terminatingFlow);
const endingFlowOldTag = varintTag(terminatingFlowOld);
const counterTag = varintTag(event.counterValue);
const doubleCounterTag = fixed64Tag(event.doubleCounterValue);
const extraCounterTag = varintTag(extraCounters);
const extraDoubleCounterTag = fixed64Tag(extraDoubleCounters);

export type Arguments = Map<string, string | number>;

export class PerfettoTrackEvent {
  type = 0;
  track: TrackKey | undefined;
  value = 0;
  /** Number of its arguments. */
  arguments = 0;
  /** Arguments, or parts of them, dropped beyond the limit. */
  leftOut = 0;
  /** Flows beside the first of an event. */
  flowsLeftOut = 0;
  /** Values of counters beside an event's own. */
  countersLeftOut = 0;
  #nameIid = 0;
  #name = '';
  #categoryIid = 0;
  #category = '';
  #flowLow = 0;
  #flowHigh = 0;
  /** Places of the arguments: at, end, at, end, … */
  readonly #places: number[] = [];

  /** Reads the event in `part` of the packet that `wire` is at. */
  read(wire: Wire, { at, end }: PacketPart): void {
    this.type = 0;
    this.track = undefined;
    this.value = 0;
    this.arguments = 0;
    this.#nameIid = 0;
    this.#name = '';
    this.#categoryIid = 0;
    this.#category = '';
    this.#flowLow = 0;
    this.#flowHigh = 0;
    wire.at = at;
    for (let tag = wire.next(end); tag !== 0; tag = wire.next(end)) {
      if (tag === typeTag) this.type = wire.varint();
      else if (tag === nameIidTag) this.#nameIid = wire.varint();
      else if (tag === annotationTag) this.#addArgument(wire, end);
      else if (tag === categoryIidTag) {
        const iid = wire.varint();
        // Only the first of several counts.
        if (this.#categoryIid === 0) this.#categoryIid = iid;
      } else if (tag === trackTag) {
        wire.varint();
        this.track = keyOf(wire);
      } else if (tag === nameTag) this.#name = wire.text(end);
      else if (tag === categoryTag) {
        const category = wire.text(end);
        if (this.#category === '') this.#category = category;
      } else if (tag === counterTag) {
        wire.varint();
        this.value = wire.signed;
      } else if (tag === doubleCounterTag) this.value = wire.double();
      else if (tag === flowTag || tag === endingFlowTag) {
        wire.fixed64();
        this.#flow(wire);
      } else if (tag === flowOldTag || tag === endingFlowOldTag) {
        wire.varint();
        this.#flow(wire);
      } else {
        if (tag === extraCounterTag || tag === extraDoubleCounterTag) this.countersLeftOut++;
        wire.skip(tag, end);
      }
    }
  }

  name(sequence: PerfettoSequence): string {
    return this.#nameIid > 0 ? (sequence.names.get(this.#nameIid) ?? '') : this.#name;
  }

  category(sequence: PerfettoSequence): string {
    return this.#categoryIid > 0 ? (sequence.categories.get(this.#categoryIid) ?? '') : this.#category;
  }

  get flow(): bigint | undefined {
    if (this.#flowLow === 0 && this.#flowHigh === 0) return undefined;
    return (BigInt(this.#flowHigh) << 32n) | BigInt(this.#flowLow);
  }

  /** Its arguments in order, nested values as `KEY.NAME` and `KEY[0]`; undefined without any. Only while `wire` is at its packet. */
  readArguments(wire: Wire, sequence: PerfettoSequence): Arguments | undefined {
    if (this.arguments === 0) return undefined;
    const read = new ArgumentReader(wire, sequence);
    for (let place = 0; place < 2 * this.arguments; place += 2) {
      wire.at = this.#places[place] as number;
      read.annotation(this.#places[place + 1] as number, '', 0);
    }
    this.leftOut += read.leftOut;
    return read.arguments.size === 0 ? undefined : read.arguments;
  }

  #addArgument(wire: Wire, end: number): void {
    const until = wire.nested(end);
    if (this.arguments < limits.perfettoArgumentsMax) {
      this.#places[2 * this.arguments] = wire.at;
      this.#places[2 * this.arguments + 1] = until;
      this.arguments++;
    } else this.leftOut++;
    wire.at = until;
  }

  #flow(wire: Wire): void {
    if (this.#flowLow !== 0 || this.#flowHigh !== 0) {
      if (wire.low !== this.#flowLow || wire.high !== this.#flowHigh) this.flowsLeftOut++;
      return;
    }
    this.#flowLow = wire.low;
    this.#flowHigh = wire.high;
  }
}

class ArgumentReader {
  readonly arguments: Arguments = new Map();
  leftOut = 0;
  readonly #wire: Wire;
  readonly #names: Strings;
  readonly #values: Strings;

  constructor(wire: Wire, { annotationNames, annotationValues }: PerfettoSequence) {
    this.#wire = wire;
    this.#names = annotationNames;
    this.#values = annotationValues;
  }

  /** Reads the annotation from `wire.at` to `end`; `above` is the key of the one around it. */
  annotation(end: number, above: string, depth: number, index?: number): void {
    const wire = this.#wire;
    const start = wire.at;
    let name = '';
    let value: string | number | undefined;
    let isNested = false;
    for (let tag = wire.next(end); tag !== 0; tag = wire.next(end)) {
      if (tag === varintTag(annotation.nameIid)) name = this.#names.get(wire.varint()) ?? '';
      else if (tag === lengthTag(annotation.name)) name = wire.text(end);
      else if (tag === varintTag(annotation.int)) {
        wire.varint();
        value = this.#whole(wire.signed, true);
      } else if (tag === lengthTag(annotation.string) || tag === lengthTag(annotationJson)) value = wire.text(end);
      else if (tag === fixed64Tag(annotation.double)) value = wire.double();
      else if (tag === varintTag(annotation.bool)) value = String(wire.bool());
      else if (tag === varintTag(annotationUint)) value = this.#whole(wire.varint(), false);
      else if (tag === varintTag(annotationStringIid)) value = this.#values.get(wire.varint()) ?? '';
      else if (tag === varintTag(annotationPointer)) {
        wire.varint();
        value = `0x${wire.whole.toString(16)}`;
      } else {
        isNested ||= tag === lengthTag(annotationDictionary) || tag === lengthTag(annotationArray);
        if (tag === lengthTag(annotationNestedOld)) this.leftOut++;
        wire.skip(tag, end);
      }
    }
    const key = index === undefined ? (above === '' ? name : `${above}.${name}`) : `${above}[${index}]`;
    if (value !== undefined) this.#add(key, value);
    if (isNested) this.#inside(start, end, key, depth + 1);
  }

  #inside(start: number, end: number, key: string, depth: number): void {
    const wire = this.#wire;
    if (depth > limits.perfettoArgumentDepthMax) {
      this.leftOut++;
      return;
    }
    wire.at = start;
    let index = 0;
    for (let tag = wire.next(end); tag !== 0; tag = wire.next(end)) {
      if (tag !== lengthTag(annotationDictionary) && tag !== lengthTag(annotationArray)) {
        wire.skip(tag, end);
        continue;
      }
      const until = wire.nested(end);
      if (this.arguments.size >= limits.perfettoArgumentsMax) this.leftOut++;
      else if (tag === lengthTag(annotationArray)) this.annotation(until, key, depth, index++);
      else this.annotation(until, key, depth);
      wire.at = until;
    }
  }

  #add(key: string, value: string | number): void {
    if (this.arguments.size < limits.perfettoArgumentsMax || this.arguments.has(key)) this.arguments.set(key, value);
    else this.leftOut++;
  }

  /** The last number as it is, or as text where a double cannot hold it. */
  #whole(value: number, isSigned: boolean): number | string {
    if (Number.isSafeInteger(value)) return value;
    return String(isSigned ? BigInt.asIntN(64, this.#wire.whole) : this.#wire.whole);
  }
}
