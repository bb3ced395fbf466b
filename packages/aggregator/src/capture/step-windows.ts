// Finds when the steps of a capture were on one rank's clock, and which of its batches to read for them.
//
//   batches, by sequence     …  |  clock  |   the steps   |  clock  |  what was held back, alone  |
//                               ^ first                           ^ end           ◄── searched from here, steps alone
//
// Earlier batches cost a few header reads: watermarks never go back, so a binary search finds `first`.

import {
  type BatchHeader,
  type Dropped,
  decodeBatchHeader,
  isBefore,
  lessDropped,
  noneDropped,
  type RankTime,
  rankTime,
} from '@ranktrace/protocol';
import type { StepsSource, StepWindow } from '@ranktrace/trace';
import { aggregatorLimits as limits } from '../model/limits.ts';
import { readableSource, type StoredSource } from '../store/write-trace.ts';

/** Steps, both included. */
export interface StepRange {
  readonly fromStep: number;
  readonly toStep: number;
}

/** The batches of one incarnation to read for a window of time, `until` included: detail of it comes after its time, so all later ones are among them. */
export function windowOf(stored: StoredSource, from: number, until: number, onUnreadable?: (error: unknown) => void): StepsSource {
  const source = readableSource(stored, onUnreadable);
  const first = firstAfter(stored, rankTime(from - 1e6 * limits.captureClockMs));
  return {
    rank: source.rank,
    incarnation: source.incarnation,
    count: source.count - first,
    missing: 0,
    droppedElsewhere: droppedElsewhere(stored, rankTime(from), rankTime(until), [first, source.count - 1]),
    batch: (index, only) => source.batch(first + index, only),
    windows: [{ from: rankTime(from), until: rankTime(until + 1) }],
  };
}

/** The batches of one incarnation to read for these steps; undefined where it has none of them. Yields after every batch. */
export function* stepsOf(
  stored: StoredSource,
  ranges: readonly StepRange[],
  onUnreadable?: (error: unknown) => void,
): Generator<undefined, StepsSource | undefined> {
  const source = readableSource(stored, onUnreadable);
  const found = ranges.map((range) => ({ range, from: Number.POSITIVE_INFINITY, until: Number.NEGATIVE_INFINITY }));
  const oldestWanted = Math.min(...ranges.map(({ fromStep }) => fromStep));
  const heldBack: { readonly index: number; readonly since: RankTime }[] = [];
  let newest = { step: -1, end: Number.NEGATIVE_INFINITY };
  let oldest = Number.POSITIVE_INFINITY;
  const end = Math.max(0, source.count - limits.captureBatchesMax);
  for (let index = source.count - 1; index >= end && oldest >= oldestWanted; index--) {
    const batch = source.batch(index, ['steps']);
    yield;
    if (batch === undefined) continue;
    if (batch.header.since !== undefined) heldBack.push({ index, since: batch.header.since });
    const { columns, length } = batch.tables.steps;
    for (let row = 0; row < length; row++) {
      const [step, start] = [columns.step[row] as number, columns.start[row] as number];
      const over = start + (columns.length[row] as number);
      oldest = Math.min(oldest, step);
      if (step > newest.step) newest = { step, end: over };
      for (const window of found) {
        if (step < window.range.fromStep || step > window.range.toStep) continue;
        window.from = Math.min(window.from, start);
        window.until = Math.max(window.until, over);
      }
    }
  }
  const ended = headerAt(stored, source.count - 1)?.last === true;
  const windows: StepWindow[] = found.flatMap(({ range, from, until }) => {
    // The running step has no end yet: a rank that is stuck in it is what the capture is for.
    const runsIn = !ended && newest.step + 1 >= range.fromStep && newest.step < range.toStep && Number.isFinite(newest.end);
    if (runsIn) return [{ ...range, from: rankTime(Math.min(from, newest.end)), until: rankTime(Number.POSITIVE_INFINITY) }];
    return Number.isFinite(from) ? [{ ...range, from: rankTime(from), until: rankTime(until) }] : [];
  });
  if (windows.length === 0) return undefined;
  const clockNs = 1e6 * limits.captureClockMs;
  const from = Math.min(...windows.map((window) => window.from));
  const until = Math.max(...windows.map((window) => window.until));
  const first = firstAfter(stored, rankTime(from - clockNs));
  const last = firstAfter(stored, rankTime(until + clockNs));
  const indexes = Array.from({ length: last + 1 - first }, (_, index) => first + index);
  for (const { index, since } of heldBack.reverse()) if (index > last && isBefore(since, rankTime(until))) indexes.push(index);
  return {
    rank: source.rank,
    incarnation: source.incarnation,
    count: indexes.length,
    missing: 0,
    droppedElsewhere: droppedElsewhere(stored, rankTime(from), rankTime(until), [first, Math.max(...indexes)]),
    batch: (index, only) => source.batch(indexes[index] as number, only),
    windows,
  };
}

/** The last step that an incarnation ended, among its newest batches; −1 without one. Yields after every batch. */
export function* lastStepOf(stored: StoredSource): Generator<undefined, number> {
  const source = readableSource(stored, undefined);
  for (let index = source.count - 1; index >= Math.max(0, source.count - limits.captureBatchesMax); index--) {
    const steps = source.batch(index, ['steps'])?.tables.steps;
    yield;
    if (steps !== undefined && steps.length > 0) return (steps.columns.step as ArrayLike<number>)[steps.length - 1] as number;
  }
  return -1;
}

/**
 * Losses that the last of the batches from `first` to `last` reports, less those between two times. Batches have no times of losses: those since the batch
 * before the last one in front count as between, for a ring that is full is read a moment later.
 */
function droppedElsewhere(stored: StoredSource, from: RankTime, until: RankTime, [first, last]: readonly [number, number]): Dropped {
  const lostBy = (index: number): Dropped => headerAt(stored, index)?.dropped ?? noneDropped;
  const [before, after] = [firstAfter(stored, from, first, last) - 2, firstAfter(stored, until, first, last)];
  return lessDropped(lostBy(last), lessDropped(lostBy(after), lostBy(before)));
}

/** Index of the first batch whose watermark is after `time`, or of the last one; among those from `first` to `last`. */
function firstAfter(stored: StoredSource, time: RankTime, first = 0, last = stored.count - 1): number {
  let [low, high] = [first, last];
  while (low < high) {
    const middle = (low + high) >>> 1;
    const header = headerAt(stored, middle);
    if (header !== undefined && isBefore(time, header.watermark)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The header of the batch at `index`, or of the earlier batch that pruning joined it to. */
function headerAt(stored: StoredSource, index: number): BatchHeader | undefined {
  for (let at = index; at >= 0; at--) {
    const bytes = stored.read(at);
    if (bytes !== undefined) return decodeBatchHeader(bytes);
  }
  return undefined;
}
