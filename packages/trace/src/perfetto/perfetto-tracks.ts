// Tracks of a Perfetto trace, joined from its track descriptors. A track's process is that of the nearest track above it that has
// one; its line is named by itself, its thread or its process.
//
//   process track ◄── child track ◄── child track        uuid → parent uuid
//   thread track (pid, tid)                              process: the one with that pid
//
// Descriptors come repeatedly, and any may add a field; the last value of a field counts.

import { type ReadBudget, trackBytes } from '../model/read-budget.ts';
import { counter as counterField, counterUnit, process as processField, thread, track } from './perfetto-fields.ts';
import { perfettoLimits as limits } from './perfetto-limits.ts';
import type { PacketPart } from './perfetto-packets.ts';
import { lengthTag, varintTag, type Wire } from './perfetto-wire.ts';

/** Fields that our writer does not use. */
const staticName = 10;
const unitMultiplier = 4;
const isIncremental = 5;
const countUnit = 2;

/** Key of a track: its uuid, as a number where that is exact. */
export type TrackKey = number | bigint;

export interface TrackAbout {
  name?: string;
  parent?: TrackKey;
  pid?: number;
  tid?: number;
  processName?: string;
  threadName?: string;
  isProcess: boolean;
  isThread: boolean;
  counter?: { unit: string; multiplier: number; isIncremental: boolean };
  orderRank?: number;
}

/** Most tracks above each other that are followed: more are a circle. */
const parentsMax = 64;

/** The last number that `wire` read, as a key. */
export function keyOf(wire: Wire): TrackKey {
  return wire.high < 0x20_0000 ? wire.high * 2 ** 32 + wire.low : wire.whole;
}

export class PerfettoTracks {
  readonly #tracks = new Map<TrackKey, TrackAbout>();
  readonly #budget: ReadBudget;

  constructor(budget: ReadBudget) {
    this.#budget = budget;
  }

  get(key: TrackKey): TrackAbout | undefined {
    return this.#tracks.get(key);
  }

  /** All described tracks, in order of their first descriptor. */
  entries(): IterableIterator<[TrackKey, TrackAbout]> {
    return this.#tracks.entries();
  }

  /** Takes a descriptor; returns the track's key. */
  add(wire: Wire, { at, end }: PacketPart): TrackKey {
    let key: TrackKey = 0;
    const about: Partial<TrackAbout> = {};
    wire.at = at;
    for (let tag = wire.next(end); tag !== 0; tag = wire.next(end)) {
      if (tag === varintTag(track.uuid)) {
        wire.varint();
        key = keyOf(wire);
      } else if (tag === lengthTag(track.name) || tag === lengthTag(staticName)) about.name = wire.text(end);
      else if (tag === varintTag(track.parentUuid)) {
        wire.varint();
        about.parent = keyOf(wire);
      } else if (tag === varintTag(track.siblingOrderRank)) about.orderRank = wire.varint();
      else if (tag === lengthTag(track.process)) readProcess(wire, wire.nested(end), about);
      else if (tag === lengthTag(track.thread)) readThread(wire, wire.nested(end), about);
      else if (tag === lengthTag(track.counter)) readCounter(wire, wire.nested(end), about);
      else wire.skip(tag, end);
    }
    const known = this.#tracks.get(key);
    this.#budget.take((known === undefined ? trackBytes : 0) + charsOf(about) - charsOf(known ?? {}, about));
    if (known !== undefined) Object.assign(known, about);
    else {
      if (this.#tracks.size >= limits.perfettoTracksMax)
        throw wire.broken(`there are more than ${limits.perfettoTracksMax} tracks`, 'too_large');
      this.#tracks.set(key, { isProcess: false, isThread: false, ...about });
    }
    return key;
  }

  /** The track's own process id, or that of the nearest track above it that has one; 0 where none has. */
  pidOf(key: TrackKey): number {
    let about = this.#tracks.get(key);
    for (let above = 0; about !== undefined && above < parentsMax; above++) {
      if (about.pid !== undefined) return about.pid;
      about = about.parent === undefined ? undefined : this.#tracks.get(about.parent);
    }
    return 0;
  }
}

/** Bytes of the texts of a descriptor; with `replacing`, of those that it replaces. */
function charsOf(about: Partial<TrackAbout>, replacing: Partial<TrackAbout> = about): number {
  const of = (name: 'name' | 'processName' | 'threadName'): number => (replacing[name] === undefined ? 0 : 2 * (about[name]?.length ?? 0));
  const unit = replacing.counter === undefined ? 0 : 2 * (about.counter?.unit.length ?? 0);
  return of('name') + of('processName') + of('threadName') + unit;
}

function readProcess(wire: Wire, end: number, about: Partial<TrackAbout>): void {
  about.isProcess = true;
  for (let tag = wire.next(end); tag !== 0; tag = wire.next(end)) {
    if (tag === varintTag(processField.pid)) {
      wire.varint();
      about.pid = wire.low | 0;
    } else if (tag === lengthTag(processField.name)) about.processName = wire.text(end);
    else wire.skip(tag, end);
  }
}

function readThread(wire: Wire, end: number, about: Partial<TrackAbout>): void {
  about.isThread = true;
  for (let tag = wire.next(end); tag !== 0; tag = wire.next(end)) {
    if (tag === varintTag(thread.pid)) {
      wire.varint();
      about.pid = wire.low | 0;
    } else if (tag === varintTag(thread.tid)) {
      wire.varint();
      about.tid = wire.low | 0;
    } else if (tag === lengthTag(thread.name)) about.threadName = wire.text(end);
    else wire.skip(tag, end);
  }
}

function readCounter(wire: Wire, end: number, about: Partial<TrackAbout>): void {
  const counter = { unit: '', multiplier: 1, isIncremental: false };
  for (let tag = wire.next(end); tag !== 0; tag = wire.next(end)) {
    if (tag === varintTag(counterField.unit)) {
      const unit = wire.varint();
      counter.unit = unit === counterUnit.nanos ? 'ns' : unit === counterUnit.bytes ? 'bytes' : unit === countUnit ? 'count' : counter.unit;
    } else if (tag === lengthTag(counterField.unitName)) counter.unit = wire.text(end);
    else if (tag === varintTag(unitMultiplier)) {
      wire.varint();
      counter.multiplier = wire.signed || 1;
    } else if (tag === varintTag(isIncremental)) counter.isIncremental = wire.bool();
    else wire.skip(tag, end);
  }
  about.counter = counter;
}
