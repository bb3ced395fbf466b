// One lane of a Perfetto trace: its own packet sequence with the track among its defaults, so that events need not name it.
//
// Strings are interned per sequence (iid 1, 2, …), in a packet before the one that first uses them. At most `internedMax` per trace:
// a run with names that never repeat then writes them in full instead of filling memory.

import type { TraceLane } from '../model/trace-sink.ts';
import { interned, internedEntry, packet, trace } from './perfetto-fields.ts';
import type { ProtobufBuffer } from './protobuf-buffer.ts';

type InternedKind = keyof typeof interned;

/** Interned strings of one trace together: about 20 MB of maps. */
const internedMax = 200_000;

/** How much of `internedMax` a trace has used: one object, shared by its lanes. */
export interface InternedUse {
  count: number;
}

export class PerfettoLane {
  readonly lane: TraceLane;
  readonly sequenceId: number;
  readonly uuid: number;
  readonly #out: ProtobufBuffer;
  readonly #use: InternedUse;
  readonly #maps: Readonly<Record<InternedKind, Map<string, number>>> = {
    categories: new Map(),
    names: new Map(),
    annotationNames: new Map(),
  };

  constructor(lane: TraceLane, uuid: number, sequenceId: number, out: ProtobufBuffer, use: InternedUse) {
    this.lane = lane;
    this.uuid = uuid;
    this.sequenceId = sequenceId;
    this.#out = out;
    this.#use = use;
  }

  /** The iid of `text`, 0 when it must be written in full. Call between packets: it may write one. */
  intern(kind: InternedKind, text: string): number {
    return this.#maps[kind].get(text) ?? this.#add(kind, text);
  }

  /** The iid of a string that `intern` has seen; 0 when there is none. For use within a packet. */
  iid(kind: InternedKind, text: string): number {
    return this.#maps[kind].get(text) ?? 0;
  }

  #add(kind: InternedKind, text: string): number {
    if (this.#use.count >= internedMax) return 0;
    this.#use.count++;
    const map = this.#maps[kind];
    const iid = map.size + 1;
    map.set(text, iid);
    const out = this.#out;
    out.next();
    const whole = out.open(trace.packet);
    out.uint(packet.sequenceId, this.sequenceId);
    const data = out.open(packet.internedData);
    const entry = out.open(interned[kind]);
    out.uint(internedEntry.iid, iid);
    out.string(internedEntry.name, text);
    out.close(entry);
    out.close(data);
    out.close(whole);
    return iid;
  }
}
