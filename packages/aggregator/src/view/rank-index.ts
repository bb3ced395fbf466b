// Reads one incarnation of a rank into its timeline, batch by batch, on its own clock: a stuck rank holds up no other, and a new fit of the clocks
// moves nothing that was indexed.
//
// Batches come in order of sequence. After a late batch (a gap that was filled, detail that was held back until a request) the index reads this rank
// again from the start, in the order of time.

import { type Batch, type EventTable, rankTime } from '@ranktrace/protocol';
import { BatchMerger, type BatchSource, ownClock } from '@ranktrace/trace';
import type { ProcessTimeline } from '@ranktrace/trace/timeline';
import { ReadPrefix } from './read-prefix.ts';

interface Placed {
  readonly index: number;
  readonly since: number;
}

export class RankIndex {
  readonly timeline: ProcessTimeline;
  #merger: BatchMerger;
  /** Batches read, by their place in `#order`, or in the source where that is undefined. */
  #read = 0;
  #order: readonly Placed[] | undefined;
  readonly #prefix = new ReadPrefix();
  #sequence = -1;
  /** No event of a later batch starts before this, unless the batch states so. */
  #promised = Number.NEGATIVE_INFINITY;
  #dropped = 0;
  #hasEnded = false;

  constructor(timeline: ProcessTimeline) {
    this.timeline = timeline;
    this.#merger = this.#begin(false);
  }

  /** Number of batches in the timeline. */
  get read(): number {
    return this.#read;
  }

  /** Marks unread batches of `source`, so that the rank does not look shorter than it is before `follow` reaches it. */
  expect(source: BatchSource): void {
    this.timeline.isBeingRead = source.count > this.#read;
  }

  /**
   * Reads the new batches of `source`, a later state of the same one; yields after each batch, or few thousand events. `isWhole`: nothing is to
   * follow.
   */
  *follow(source: BatchSource, isWhole: boolean): Generator<void> {
    const isChanged = source.count > this.#read;
    if (isChanged && (this.#hasEnded || this.#prefix.hasChanged(source))) this.#restart(undefined);
    while (this.#read < source.count) {
      const placed = this.#order?.[this.#read];
      const batch = source.batch(placed?.index ?? this.#read);
      this.#read++;
      if (batch === undefined) continue;
      const { since = this.#promised } = batch.header;
      if (this.#order === undefined && since < this.#promised) {
        this.#restart(inOrderOfTime(source));
        continue;
      }
      yield* this.#take(batch, placed?.since ?? since);
      yield;
    }
    // Later batches are read by their sequence again.
    this.#order = undefined;
    if (isChanged) this.#prefix.note(source, this.#read);
    // In order of time, gaps in the sequence have no place.
    this.timeline.lostSomewhere(Math.max(0, source.missing - this.timeline.missing), 0);
    this.timeline.isBeingRead = false;
    // Without a goodbye it may have been killed.
    if (isWhole) yield* this.#end(false);
  }

  *#take(batch: Batch, since: number): Generator<void> {
    const { header } = batch;
    this.#noteLosses(batch);
    this.#merger.push(0, batch, rankTime(since));
    yield* this.#merger.advance();
    this.timeline.advance(since);
    this.#promised = Math.max(this.#promised, header.watermark);
    if (header.last) yield* this.#end(true);
  }

  #noteLosses({ header, tables }: Batch): void {
    const { sequence, dropped, watermark, pruned } = header;
    const first = pruned?.from ?? sequence;
    const begin = Math.min(0, earliest(tables.spans, tables.steps, Number.NEGATIVE_INFINITY, watermark));
    const from = Number.isFinite(this.#promised) ? this.#promised : begin;
    if (first > this.#sequence + 1 && this.#order === undefined) {
      const until = earliest(tables.spans, tables.steps, from, watermark);
      this.timeline.lost(from, until, first - this.#sequence - 1, 0);
    }
    if (dropped.events > this.#dropped) this.timeline.lost(from, Math.max(from, watermark), 0, dropped.events - this.#dropped);
    this.#dropped = Math.max(this.#dropped, dropped.events);
    this.#sequence = Math.max(this.#sequence, sequence);
  }

  *#end(inGoodOrder: boolean): Generator<void> {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#merger.finish(0);
    yield* this.#merger.advance();
    this.timeline.end(inGoodOrder);
  }

  #restart(order: readonly Placed[] | undefined): void {
    this.timeline.clear();
    this.#merger = this.#begin(order !== undefined);
    this.#order = order;
    this.#read = 0;
    this.#sequence = -1;
    this.#promised = Number.NEGATIVE_INFINITY;
    this.#dropped = 0;
    this.#hasEnded = false;
  }

  #begin(heldBack: boolean): BatchMerger {
    const merger = new BatchMerger(this.timeline.sink());
    merger.add(this.timeline.process, ownClock, heldBack);
    return merger;
  }
}

/** A source's batches by the time before which none of their events, nor of later ones, starts. */
function inOrderOfTime(source: BatchSource): Placed[] {
  const placed: Placed[] = [];
  let promised = Number.NEGATIVE_INFINITY;
  for (let index = 0; index < source.count; index++) {
    const header = source.batch(index, [])?.header;
    placed.push({ index, since: header?.since ?? promised });
    if (header !== undefined) promised = Math.max(promised, header.watermark);
  }
  return placed.sort((a, b) => a.since - b.since || a.index - b.index);
}

/** The earliest known record after `from`; at the latest `until`. */
function earliest(spans: EventTable<'spans'>, steps: EventTable<'steps'>, from: number, until: number): number {
  let first = Math.max(from, until);
  for (const { columns, length } of [spans, steps]) {
    for (let row = 0; row < length; row++) {
      const start = columns.start[row] as number;
      if (start >= from && start < first) first = start;
    }
  }
  return first;
}
