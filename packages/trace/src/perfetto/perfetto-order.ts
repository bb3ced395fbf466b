// First look at the events of another writer's trace: writers with several packet sequences write one thread after the other, and converters in the
// order in which spans end. Our own writer's events are in order.

import { PerfettoClocks } from './perfetto-clocks.ts';
import { eventType, sequenceFlags } from './perfetto-fields.ts';
import type { PerfettoPackets } from './perfetto-packets.ts';
import { type PerfettoSequence, PerfettoSequences } from './perfetto-sequence.ts';
import { PerfettoTrackEvent } from './perfetto-track-event.ts';
import type { TrackKey } from './perfetto-tracks.ts';

export interface PerfettoOrder {
  /** Whether the events lie in the trace by time. */
  readonly isByTime: boolean;
  /** ns from a clock's time to BOOTTIME's at its first snapshot. */
  readonly firstOffsets: ReadonlyMap<number, number>;
}

/** The order of our own writer's traces. */
export const inOrder: PerfettoOrder = { isByTime: true, firstOffsets: new Map() };

/** Reads all packets; yields after each. `origin`: 0 of the axis, as a time of BOOTTIME. Throws TraceError. */
export function* learnOrder(packets: PerfettoPackets, origin: bigint): Generator<undefined, PerfettoOrder> {
  const clocks = new PerfettoClocks();
  clocks.setOrigin(origin);
  const sequences = new PerfettoSequences();
  const fields = new PerfettoTrackEvent();
  let isByTime = true;
  let last = Number.NEGATIVE_INFINITY;
  let begun: TrackKey | undefined;
  while (packets.next()) {
    yield;
    const sequence = sequences.of(packets);
    const time = timeOfPacket(packets, sequence, clocks);
    if (packets.event.at < 0 || !isReadable(packets, sequence, time)) continue;
    fields.read(packets.wire, packets.event);
    const track = trackOf(fields, sequence);
    const { type } = fields;
    // An end right behind its begin ends it, whatever its time.
    if (time < last && !(type === eventType.sliceEnd && track === begun)) isByTime = false;
    last = Math.max(last, time);
    begun = type === eventType.sliceBegin ? track : undefined;
  }
  return { isByTime, firstOffsets: clocks.firstOffsets };
}

/** The time of the current packet on the axis, after its snapshot is taken; NaN where it has none. To be called for every packet, as incremental clocks add up. */
export function timeOfPacket(packets: PerfettoPackets, sequence: PerfettoSequence, clocks: PerfettoClocks): number {
  if (packets.snapshot.at >= 0) clocks.snapshot(packets.wire, packets.snapshot, sequence.clocks);
  if (!packets.hasTime) return Number.NaN;
  const { timeLow, timeHigh, clock } = packets;
  return clocks.time(timeLow, timeHigh, clock === 0 ? sequence.defaultClock : clock, sequence.clocks);
}

/** Whether the current packet's event has a time, and what it refers to is known. */
export const isReadable = ({ flags }: PerfettoPackets, sequence: PerfettoSequence, time: number): boolean =>
  Math.abs(time) <= Number.MAX_SAFE_INTEGER && ((flags & sequenceFlags.needsState) === 0 || sequence.isKnown);

/** The track of an event. */
export const trackOf = ({ track }: PerfettoTrackEvent, { defaultTrack }: PerfettoSequence): TrackKey => track ?? defaultTrack ?? 0;
