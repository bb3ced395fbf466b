// The packets of a Perfetto trace, one after the other, from chunks of any size; finds the parts of each.
//
//   chunk   |  packet  |  packet  |  pac|ket  |  packet | …        a packet that a chunk cuts is copied together with the next one
//
// A packet may be a bundle: compressed bytes that inflate to further packets, which come in its place. Bundles inside of bundles are not opened.
//
// The parts of a packet may come in any order, but must be used in one: clear the state, take strings and defaults, read
// the event. So a first scan of each packet finds its parts.

import { TraceError } from '../model/errors.ts';
import { defaults, packet as field, sequenceFlags, trace } from './perfetto-fields.ts';
import { perfettoLimits as limits } from './perfetto-limits.ts';
import { cannotRead, lengthTag, varintTag, Wire } from './perfetto-wire.ts';

/** Fields that our writer does not use. `stateCleared` is what `sequenceFlags` says, too: old writers set it alone. */
const timestampClock = 58;
const compressedPackets = 50;
const stateCleared = 41;
const previousDropped = 42;

const packetTag = lengthTag(trace.packet);
const timestampTag = varintTag(field.timestamp);
const sequenceTag = varintTag(field.sequenceId);
const flagsTag = varintTag(field.sequenceFlags);
const clockTag = varintTag(timestampClock);
const clearedTag = varintTag(stateCleared);
const droppedTag = varintTag(previousDropped);
const eventTag = lengthTag(field.trackEvent);
const internedTag = lengthTag(field.internedData);
const defaultsTag = lengthTag(field.defaults);
const descriptorTag = lengthTag(field.trackDescriptor);
const snapshotTag = lengthTag(field.clockSnapshot);
const bundleTag = lengthTag(compressedPackets);

/** Most bytes of the tag and length in front of a packet. */
const headBytesMax = 20;

/** A part of the current packet: `wire.bytes[at, end)`; `at` is −1 where it has none. */
export interface PacketPart {
  at: number;
  end: number;
}

/** Inflates a stream of zlib or gzip. Throws where it is damaged, or gives more than `bytesMax`. */
export type InflateBundle = (bytes: Uint8Array, bytesMax: number) => Uint8Array;

/** The packets of `chunks`; the fields are those of the current one. */
export class PerfettoPackets {
  readonly wire = new Wire();
  /** Timestamp in two halves. */
  hasTime = false;
  timeLow = 0;
  timeHigh = 0;
  /** Its clock; 0 for the sequence's default. */
  clock = 0;
  sequence = 0;
  flags = 0;
  /** Whether packets of its sequence were lost right before it. */
  isAfterLoss = false;
  readonly event: PacketPart = { at: -1, end: -1 };
  readonly interned: PacketPart = { at: -1, end: -1 };
  readonly defaults: PacketPart = { at: -1, end: -1 };
  readonly descriptor: PacketPart = { at: -1, end: -1 };
  readonly snapshot: PacketPart = { at: -1, end: -1 };
  readonly #bundle: PacketPart = { at: -1, end: -1 };
  readonly #chunks: Iterator<Uint8Array>;
  readonly #inflate: InflateBundle | undefined;
  /** Inflated packets that are being read, and the offset of their bundle in the file. */
  #inflated: Uint8Array | undefined;
  #inflatedAt = 0;
  #inflatedOrigin = 0;
  /** Bytes of earlier bundles. */
  #inflatedBefore = 0;
  #bytes: Uint8Array = new Uint8Array(0);
  #at = 0;
  /** Offset of `#bytes` in the file. */
  #origin = 0;
  #packets = 0;
  /** Where and why the packets stop before the file's end: it was cut after its first ones. */
  stopped: string | undefined;
  /** Whether the current packet is all that is left of a bundle, or of its rest, that cannot be read. */
  isLostBundle = false;

  /** Without `inflate` bundles are not opened. */
  constructor(chunks: Iterable<Uint8Array>, inflate?: InflateBundle) {
    this.#chunks = chunks[Symbol.iterator]();
    this.#inflate = inflate;
  }

  /** Bytes read, with those that bundles gave. */
  get worked(): number {
    return this.done + this.#inflatedBefore + this.#inflatedAt;
  }

  /** Bytes read. */
  get done(): number {
    return this.#origin + this.#at;
  }

  /** Closes the source of the chunks, where it can be closed. */
  close(): void {
    this.#chunks.return?.();
  }

  /** Goes to the next packet; false at the end, also that of a file that was cut. Throws TraceError, also for one cut in its first packet. */
  next(): boolean {
    if (this.stopped !== undefined) return false;
    try {
      const found = this.#next();
      if (found) this.#packets++;
      return found;
    } catch (error) {
      if (!(error instanceof TraceError) || error.code !== 'truncated' || this.#packets === 0) throw error;
      this.stopped = error.message.slice(cannotRead.length);
      return false;
    }
  }

  #next(): boolean {
    const { wire } = this;
    if (this.#nextInflated()) return true;
    for (;;) {
      this.#have(headBytesMax);
      const { length } = this.#bytes;
      if (this.#at === length) return false;
      wire.turnTo(this.#bytes, this.#at, length, this.#origin);
      if (this.done === 0 && this.#bytes[0] !== packetTag) {
        throw wire.broken(`it must begin with a packet (0x0a), got 0x${(this.#bytes[0] as number).toString(16).padStart(2, '0')}`);
      }
      const tag = this.#head(() => wire.varint());
      if ((tag & 7) !== 2) {
        this.#head(() => wire.skip(tag, length));
        this.#at = wire.at;
        continue;
      }
      const size = this.#head(() => wire.varint());
      if (size > limits.perfettoPacketBytesMax) {
        throw wire.broken(`a packet has ${size} bytes, at most ${limits.perfettoPacketBytesMax} are read`, 'too_large');
      }
      const head = wire.at - this.#at;
      this.#have(head + size);
      const at = this.#at + head;
      if (at + size > this.#bytes.length) {
        wire.turnTo(this.#bytes, at, this.#bytes.length, this.#origin);
        throw wire.broken(`a packet must hold ${size} bytes, the file ends after ${this.#bytes.length - at}`, 'truncated');
      }
      this.#at = at + size;
      if (tag !== packetTag) continue;
      wire.turnTo(this.#bytes, at, this.#at, this.#origin);
      this.#findParts();
      if (this.#bundle.at < 0 || !this.#openBundle(this.#origin + at) || this.#nextInflated()) return true;
    }
  }

  /** Inflates the bundle in the current packet; false where it cannot be: that packet stays, to be counted. */
  #openBundle(origin: number): boolean {
    const { at, end } = this.#bundle;
    this.#inflatedOrigin = origin;
    try {
      this.#inflated = this.#inflate?.(this.#bytes.subarray(at, end), limits.perfettoBundleBytesMax);
    } catch {
      this.#inflated = undefined;
    }
    this.isLostBundle = this.#inflated === undefined;
    return !this.isLostBundle;
  }

  /** Goes to the next packet of the open bundle; false at its end. What follows an error in it is lost, and becomes one packet without content. */
  #nextInflated(): boolean {
    const bytes = this.#inflated;
    if (bytes === undefined) return false;
    const { wire } = this;
    const origin = this.#inflatedOrigin;
    let isLost = false;
    try {
      for (;;) {
        wire.turnTo(bytes, this.#inflatedAt, bytes.length, origin);
        const tag = wire.next(bytes.length);
        if (tag === 0) break;
        if (tag === packetTag) {
          this.#inflatedAt = wire.nested(bytes.length);
          wire.turnTo(bytes, wire.at, this.#inflatedAt, origin);
          this.#findParts();
          this.isLostBundle = this.#bundle.at >= 0;
          return true;
        }
        wire.skip(tag, bytes.length);
        this.#inflatedAt = wire.at;
      }
    } catch (error) {
      if (!(error instanceof TraceError)) throw error;
      this.#clear();
      isLost = this.isLostBundle = true;
    }
    this.#inflatedBefore += bytes.length;
    this.#inflatedAt = 0;
    this.#inflated = undefined;
    return isLost;
  }

  /** The default clock in a packet's defaults (0 for none), and the place of the event defaults; leaves `wire` there. */
  readDefaults(): { readonly clock: number; readonly event: PacketPart } {
    const { wire } = this;
    const { at, end } = this.defaults;
    let clock = 0;
    const event = { at: -1, end: -1 };
    wire.at = at;
    for (let tag = wire.next(end); tag !== 0; tag = wire.next(end)) {
      if (tag === varintTag(timestampClock)) clock = wire.varint();
      else if (tag === lengthTag(defaults.trackEvent)) this.#part(event, end);
      else wire.skip(tag, end);
    }
    return { clock, event };
  }

  #findParts(): void {
    const { wire } = this;
    const { end } = wire;
    this.#clear();
    for (let tag = wire.next(end); tag !== 0; tag = wire.next(end)) {
      if (tag === timestampTag) {
        wire.varint();
        this.hasTime = true;
        this.timeLow = wire.low;
        this.timeHigh = wire.high;
      } else if (tag === sequenceTag) this.sequence = wire.varint();
      else if (tag === flagsTag) this.flags |= wire.varint();
      else if (tag === clearedTag) this.flags |= wire.bool() ? sequenceFlags.stateCleared : 0;
      else if (tag === droppedTag) this.isAfterLoss = wire.bool();
      else if (tag === eventTag) this.#part(this.event, end);
      else if (tag === internedTag) this.#part(this.interned, end);
      else if (tag === defaultsTag) this.#part(this.defaults, end);
      else if (tag === descriptorTag) this.#part(this.descriptor, end);
      else if (tag === snapshotTag) this.#part(this.snapshot, end);
      else if (tag === bundleTag) this.#part(this.#bundle, end);
      else if (tag === clockTag) this.clock = wire.varint();
      else wire.skip(tag, end);
    }
  }

  #clear(): void {
    this.hasTime = false;
    this.clock = 0;
    this.sequence = 0;
    this.flags = 0;
    this.isAfterLoss = false;
    this.event.at = -1;
    this.interned.at = -1;
    this.defaults.at = -1;
    this.descriptor.at = -1;
    this.snapshot.at = -1;
    this.#bundle.at = -1;
    this.isLostBundle = false;
  }

  #part(part: PacketPart, end: number): void {
    const { wire } = this;
    part.end = wire.nested(end);
    part.at = wire.at;
    wire.at = part.end;
  }

  /** Reads part of a packet's head; a read beyond the last byte means that the file was cut. */
  #head<T>(read: () => T): T {
    try {
      return read();
    } catch (error) {
      if (this.wire.end - this.#at < headBytesMax) throw this.wire.broken('the file ends in the middle of a packet', 'truncated');
      throw error;
    }
  }

  /** Ensures that `count` bytes are available from `#at` on, or all that the file has left. */
  #have(count: number): void {
    if (this.#bytes.length - this.#at >= count) return;
    const kept = this.#bytes.subarray(this.#at);
    const parts = [kept];
    let length = kept.length;
    while (length < count) {
      const { done, value } = this.#chunks.next();
      if (done === true) break;
      parts.push(value);
      length += value.length;
    }
    this.#origin += this.#at;
    this.#at = 0;
    if (parts.length === 1) {
      this.#bytes = kept;
      return;
    }
    this.#bytes = kept.length === 0 && parts.length === 2 ? (parts[1] as Uint8Array) : joined(parts, length);
  }
}

function joined(parts: readonly Uint8Array[], length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}
