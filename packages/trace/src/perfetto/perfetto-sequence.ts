// State of one packet sequence of a Perfetto trace that its later packets refer to: interned strings, the default track and clock.
// A packet with `state cleared` voids all of it, and nothing that needs it can be read before the first such packet.

import type { SequenceClock } from './perfetto-clocks.ts';
import { event as eventField, interned, internedEntry, sequenceFlags } from './perfetto-fields.ts';
import { perfettoLimits as limits } from './perfetto-limits.ts';
import type { PacketPart, PerfettoPackets } from './perfetto-packets.ts';
import { keyOf, type TrackKey } from './perfetto-tracks.ts';
import { lengthTag, varintTag, type Wire } from './perfetto-wire.ts';

/** Interned values of arguments: our writer does not use them. */
const internedValues = 29;

export type Strings = ReadonlyMap<number, string>;

/** Bytes held by all sequences: one object, shared by them. */
export interface InternedHeld {
  bytes: number;
}

/** Approximate memory of a string beside its characters, bytes. */
const entryBytes = 64;

export class PerfettoSequence {
  /** How often its state was cleared. */
  cleared = 0;
  /** Whether its references are known: its state was cleared, and since then no packet of it was lost. */
  isKnown = false;
  defaultTrack: TrackKey | undefined;
  defaultClock = 0;
  readonly clocks = new Map<number, SequenceClock>();
  readonly #names = new Map<number, string>();
  readonly #categories = new Map<number, string>();
  readonly #annotationNames = new Map<number, string>();
  readonly #annotationValues = new Map<number, string>();
  readonly #held: InternedHeld;
  #bytes = 0;

  constructor(held: InternedHeld) {
    this.#held = held;
  }

  get names(): Strings {
    return this.#names;
  }

  get categories(): Strings {
    return this.#categories;
  }

  get annotationNames(): Strings {
    return this.#annotationNames;
  }

  get annotationValues(): Strings {
    return this.#annotationValues;
  }

  /** Takes the current packet's changes of the state, before its event is read. */
  take(packets: PerfettoPackets): void {
    if (packets.isAfterLoss) this.isKnown = false;
    if ((packets.flags & sequenceFlags.stateCleared) !== 0) this.#clear();
    if (packets.interned.at >= 0) this.#intern(packets.wire, packets.interned);
    if (packets.defaults.at >= 0) this.#setDefaults(packets);
  }

  #clear(): void {
    this.cleared++;
    this.isKnown = true;
    this.defaultTrack = undefined;
    this.defaultClock = 0;
    if (this.#bytes === 0) return;
    for (const strings of [this.#names, this.#categories, this.#annotationNames, this.#annotationValues]) strings.clear();
    this.#held.bytes -= this.#bytes;
    this.#bytes = 0;
  }

  #setDefaults(packets: PerfettoPackets): void {
    const { wire } = packets;
    const { clock, event } = packets.readDefaults();
    this.defaultClock = clock;
    if (event.at < 0) return;
    wire.at = event.at;
    for (let tag = wire.next(event.end); tag !== 0; tag = wire.next(event.end)) {
      if (tag === varintTag(eventField.trackUuid)) {
        wire.varint();
        this.defaultTrack = keyOf(wire);
      } else wire.skip(tag, event.end);
    }
  }

  #intern(wire: Wire, { at, end }: PacketPart): void {
    wire.at = at;
    for (let tag = wire.next(end); tag !== 0; tag = wire.next(end)) {
      if (tag === lengthTag(interned.names)) this.#add(this.#names, wire, end);
      else if (tag === lengthTag(interned.categories)) this.#add(this.#categories, wire, end);
      else if (tag === lengthTag(interned.annotationNames)) this.#add(this.#annotationNames, wire, end);
      else if (tag === lengthTag(internedValues)) this.#add(this.#annotationValues, wire, end);
      else wire.skip(tag, end);
    }
  }

  #add(strings: Map<number, string>, wire: Wire, end: number): void {
    const until = wire.nested(end);
    let [iid, text] = [0, ''];
    for (let tag = wire.next(until); tag !== 0; tag = wire.next(until)) {
      if (tag === varintTag(internedEntry.iid)) iid = wire.varint();
      else if (tag === lengthTag(internedEntry.name)) text = wire.text(until);
      else wire.skip(tag, until);
    }
    const replaced = strings.get(iid);
    strings.set(iid, text);
    const bytes = entryBytes + 2 * text.length - (replaced === undefined ? 0 : entryBytes + 2 * replaced.length);
    this.#bytes += bytes;
    this.#held.bytes += bytes;
    if (this.#held.bytes > limits.perfettoInternedBytesMax) {
      throw wire.broken(`interned strings take more than ${limits.perfettoInternedBytesMax} bytes`, 'too_large');
    }
  }
}

/** The sequences of a trace, by their id. */
export class PerfettoSequences {
  readonly #sequences = new Map<number, PerfettoSequence>();
  readonly #held: InternedHeld = { bytes: 0 };

  /** The sequence of the current packet, updated with that packet's state. */
  of(packets: PerfettoPackets): PerfettoSequence {
    let sequence = this.#sequences.get(packets.sequence);
    if (sequence === undefined) {
      if (this.#sequences.size >= limits.perfettoSequencesMax) {
        throw packets.wire.broken(`there are more than ${limits.perfettoSequencesMax} packet sequences`, 'too_large');
      }
      sequence = new PerfettoSequence(this.#held);
      this.#sequences.set(packets.sequence, sequence);
    }
    sequence.take(packets);
    return sequence;
  }
}
