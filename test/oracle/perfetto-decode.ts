// A .pftrace taken apart by an independent reader: protobufjs, with the schema below, which was written from Perfetto's public .proto files
// and not from our writer.

import protobuf from 'protobufjs';

const schema = protobuf.parse(`
  syntax = "proto2";
  message Trace { repeated TracePacket packet = 1; }
  message TracePacket {
    optional ClockSnapshot clock_snapshot = 6;
    optional uint64 timestamp = 8;
    optional uint32 trusted_packet_sequence_id = 10;
    optional TrackEvent track_event = 11;
    optional InternedData interned_data = 12;
    optional uint32 sequence_flags = 13;
    optional TracePacketDefaults trace_packet_defaults = 59;
    optional TrackDescriptor track_descriptor = 60;
  }
  message ClockSnapshot {
    message Clock { optional uint32 clock_id = 1; optional uint64 timestamp = 2; }
    repeated Clock clocks = 1;
    optional uint32 primary_trace_clock = 2;
  }
  message TrackEventDefaults { optional uint64 track_uuid = 11; }
  message TracePacketDefaults { optional TrackEventDefaults track_event_defaults = 11; }
  message InternedString { optional uint64 iid = 1; optional string name = 2; }
  message InternedData {
    repeated InternedString event_categories = 1;
    repeated InternedString event_names = 2;
    repeated InternedString debug_annotation_names = 3;
  }
  message ProcessDescriptor {
    optional int32 pid = 1;
    optional int32 legacy_sort_index = 3;
    optional string process_name = 6;
    repeated string process_labels = 8;
  }
  message ThreadDescriptor {
    optional int32 pid = 1;
    optional int32 tid = 2;
    optional int32 legacy_sort_index = 3;
    optional string thread_name = 5;
  }
  message CounterDescriptor { optional int32 unit = 3; optional string unit_name = 6; }
  message TrackDescriptor {
    optional uint64 uuid = 1;
    optional string name = 2;
    optional ProcessDescriptor process = 3;
    optional ThreadDescriptor thread = 4;
    optional uint64 parent_uuid = 5;
    optional CounterDescriptor counter = 8;
    optional int32 child_ordering = 11;
    optional int32 sibling_order_rank = 12;
    optional string description = 14;
    optional int32 sibling_merge_behavior = 15;
  }
  message DebugAnnotation {
    oneof name_field { uint64 name_iid = 1; string name = 10; }
    oneof value {
      bool bool_value = 2;
      uint64 uint_value = 3;
      int64 int_value = 4;
      double double_value = 5;
      string string_value = 6;
    }
  }
  message TrackEvent {
    repeated uint64 category_iids = 3;
    repeated DebugAnnotation debug_annotations = 4;
    optional int32 type = 9;
    oneof name_field { uint64 name_iid = 10; string name = 23; }
    optional uint64 track_uuid = 11;
    repeated string categories = 22;
    oneof counter_value_field { int64 counter_value = 30; double double_counter_value = 44; }
    repeated uint64 flow_ids_old = 36;
    repeated fixed64 flow_ids = 47;
  }
`).root;
const traceType = schema.lookupType('Trace');

type EventType = 'begin' | 'end' | 'instant' | 'counter';
const eventTypes: Readonly<Record<number, EventType>> = { 1: 'begin', 2: 'end', 3: 'instant', 4: 'counter' };

export interface DecodedTrack {
  readonly uuid: string;
  /** Its own name, or that of its process or thread. */
  readonly name: string;
  readonly kind: 'process' | 'thread' | 'counter' | 'child';
  readonly parentUuid: string | undefined;
  readonly tid: number | undefined;
  readonly orderRank: number | undefined;
  readonly unitName: string | undefined;
  readonly description: string | undefined;
}

export interface DecodedEvent {
  readonly type: EventType;
  /** Perfetto time, ns. */
  readonly time: bigint;
  readonly track: string;
  readonly name: string | undefined;
  readonly categories: readonly string[];
  readonly flows: readonly bigint[];
  readonly value: number | undefined;
  readonly arguments: Readonly<Record<string, string | number | boolean>>;
}

export interface DecodedTrace {
  readonly tracks: readonly DecodedTrack[];
  readonly events: readonly DecodedEvent[];
  /** Packets with events, by type. */
  readonly counts: Readonly<Record<EventType, number>>;
  /** Readings of the clock snapshot by clock id. */
  readonly clocks: Readonly<Record<number, bigint>>;
}

interface Interned {
  readonly iid: string;
  readonly name: string;
}

interface Annotation {
  readonly nameIid?: string;
  readonly name?: string;
  readonly boolValue?: boolean;
  readonly intValue?: string;
  readonly doubleValue?: number;
  readonly stringValue?: string;
}

interface Packet {
  readonly timestamp?: string;
  readonly trustedPacketSequenceId?: number;
  readonly sequenceFlags?: number;
  readonly clockSnapshot?: { readonly clocks: readonly { clockId: number; timestamp: string }[] };
  readonly internedData?: Readonly<Record<'eventCategories' | 'eventNames' | 'debugAnnotationNames', readonly Interned[]>>;
  readonly tracePacketDefaults?: { readonly trackEventDefaults?: { readonly trackUuid?: string } };
  readonly trackDescriptor?: {
    readonly uuid: string;
    readonly name?: string;
    readonly parentUuid?: string;
    readonly siblingOrderRank?: number;
    readonly description?: string;
    readonly process?: { readonly processName: string };
    readonly thread?: { readonly threadName: string; readonly tid: number };
    readonly counter?: { readonly unitName?: string };
  };
  readonly trackEvent?: {
    readonly type: number;
    readonly nameIid?: string;
    readonly name?: string;
    readonly trackUuid?: string;
    readonly categoryIids: readonly string[];
    readonly categories: readonly string[];
    readonly debugAnnotations: readonly Annotation[];
    readonly flowIds: readonly string[];
    readonly flowIdsOld: readonly string[];
    readonly counterValue?: string;
    readonly doubleCounterValue?: number;
  };
}

/** The state of a packet sequence so far. */
class Sequence {
  readonly names = new Map<string, string>();
  readonly categories = new Map<string, string>();
  readonly annotations = new Map<string, string>();
  track: string | undefined;
}

/** All tracks and events of a trace; throws if a packet uses an unannounced id, or both flow fields differ. */
export function decodePerfetto(bytes: Uint8Array): DecodedTrace {
  const { packet } = traceType.toObject(traceType.decode(bytes), { longs: String, arrays: true }) as { packet: Packet[] };
  const tracks: DecodedTrack[] = [];
  const events: DecodedEvent[] = [];
  const clocks: Record<number, bigint> = {};
  const sequences = new Map<number, Sequence>();
  for (const one of packet) {
    const id = one.trustedPacketSequenceId ?? fail('a packet without a sequence');
    if (((one.sequenceFlags ?? 0) & 1) !== 0) sequences.set(id, new Sequence());
    const sequence = sequences.get(id) ?? fail(`sequence ${id} does not begin with cleared state`);
    for (const { iid, name } of one.internedData?.eventNames ?? []) sequence.names.set(iid, name);
    for (const { iid, name } of one.internedData?.eventCategories ?? []) sequence.categories.set(iid, name);
    for (const { iid, name } of one.internedData?.debugAnnotationNames ?? []) sequence.annotations.set(iid, name);
    sequence.track = one.tracePacketDefaults?.trackEventDefaults?.trackUuid ?? sequence.track;
    for (const { clockId, timestamp } of one.clockSnapshot?.clocks ?? []) clocks[clockId] = BigInt(timestamp);
    if (one.trackDescriptor !== undefined) tracks.push(readTrack(one.trackDescriptor));
    if (one.trackEvent !== undefined) events.push(readEvent(one, one.trackEvent, sequence));
  }
  const counts = { begin: 0, end: 0, instant: 0, counter: 0 };
  for (const { type } of events) counts[type]++;
  return { tracks, events, counts, clocks };
}

function readTrack(track: NonNullable<Packet['trackDescriptor']>): DecodedTrack {
  const { uuid, name, parentUuid, siblingOrderRank: orderRank, description, process, thread, counter } = track;
  return {
    uuid,
    name: name ?? process?.processName ?? thread?.threadName ?? '',
    kind: process ? 'process' : thread ? 'thread' : counter ? 'counter' : 'child',
    parentUuid,
    tid: thread?.tid,
    orderRank,
    unitName: counter?.unitName,
    description,
  };
}

function readEvent(packet: Packet, event: NonNullable<Packet['trackEvent']>, sequence: Sequence): DecodedEvent {
  if (event.flowIds.join() !== event.flowIdsOld.join()) fail(`flow ids ${event.flowIds} and ${event.flowIdsOld} differ`);
  const { counterValue, doubleCounterValue } = event;
  return {
    type: eventTypes[event.type] ?? fail(`event type ${event.type}`),
    time: BigInt(packet.timestamp ?? fail('an event without a time')),
    track: event.trackUuid ?? sequence.track ?? fail('an event without a track'),
    name: event.nameIid === undefined ? event.name : known(sequence.names, event.nameIid),
    categories: [...event.categories, ...event.categoryIids.map((iid) => known(sequence.categories, iid))],
    flows: event.flowIds.map(BigInt),
    value: counterValue === undefined ? doubleCounterValue : Number(counterValue),
    arguments: Object.fromEntries(
      event.debugAnnotations.map((annotation) => {
        const { nameIid, name, boolValue, intValue, doubleValue, stringValue } = annotation;
        const key = nameIid === undefined ? name : known(sequence.annotations, nameIid);
        return [key ?? '', boolValue ?? stringValue ?? doubleValue ?? Number(intValue)];
      }),
    ),
  };
}

const known = (strings: ReadonlyMap<string, string>, iid: string): string => strings.get(iid) ?? fail(`iid ${iid} that nobody interned`);

function fail(what: string): never {
  throw new Error(`Bad Perfetto trace: ${what}`);
}
