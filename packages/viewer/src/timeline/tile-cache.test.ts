import type { Tile, TileKey } from '@ranktrace/protocol';
import { expect, test, vi } from 'vitest';
import { spanTile } from '../testing/span-tile.ts';
import { type Part, TileCache, type TileSource, tileCacheLimits } from './tile-cache.ts';

interface Asked {
  readonly keys: readonly TileKey[];
  readonly abort: AbortSignal | undefined;
  /** Answers with a tile for each key, or with the given ones. */
  answer(tiles?: readonly Tile[]): Promise<void>;
  fail(): Promise<void>;
}

/** A source that answers when the test asks it to. */
class HandSource implements TileSource {
  readonly asked: Asked[] = [];

  tiles(keys: readonly TileKey[], onTiles: (tiles: readonly Tile[]) => void, abort?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const settled = async (): Promise<void> => {
        for (let turn = 0; turn < 4; turn++) await Promise.resolve();
      };
      this.asked.push({
        keys,
        abort,
        answer: (tiles = keys.map((key) => spanTile([{ start: key.index, length: 1 }], key))) => {
          onTiles(tiles);
          resolve();
          return settled();
        },
        fail: () => {
          reject(new Error('refused'));
          return settled();
        },
      });
      abort?.addEventListener('abort', () => reject(abort.reason as Error));
    });
  }
}

const state = (about: object = {}) => ({ track: 1, version: 1, stamp: 1, ...about });

/** One frame that shows these slots of a track; returns the drawn parts as `level:index→from–until`. */
function frame(cache: TileCache, slots: readonly (readonly [number, number])[], track = state()): string[] {
  const parts: Part[] = [];
  cache.begin();
  for (const [level, index] of slots) cache.parts(track, level, index, 0, parts);
  cache.end();
  return parts.map(({ entry, from, until }) => `${entry.tile?.level}:${entry.tile?.index}→${from}–${until}`);
}

test('a slot is asked for once, and drawn when it has come', async () => {
  const source = new HandSource();
  const changed = vi.fn();
  const cache = new TileCache(source, changed);
  expect(
    frame(cache, [
      [0, 0],
      [0, 1],
    ]),
  ).toEqual([]);
  expect(
    frame(cache, [
      [0, 0],
      [0, 1],
    ]),
  ).toEqual([]);
  expect(source.asked).toHaveLength(1);
  expect(source.asked[0]?.keys).toEqual([
    { track: 1, level: 0, index: 0 },
    { track: 1, level: 0, index: 1 },
  ]);
  await source.asked[0]?.answer();
  expect(changed).toHaveBeenCalled();
  expect(
    frame(cache, [
      [0, 0],
      [0, 1],
    ]),
  ).toEqual(['0:0→0–1024', '0:1→1024–2048']);
  expect(source.asked).toHaveLength(1);
  expect(cache.isLoading).toBe(false);
});

test('until a slot has come, its part of a coarser tile is drawn', async () => {
  const source = new HandSource();
  const cache = new TileCache(source, () => undefined);
  frame(cache, [[3, 0]]);
  await source.asked[0]?.answer();
  expect(frame(cache, [[1, 1]])).toEqual(['3:0→2048–4096']);
});

test('finer tiles are drawn instead when they cover the slot', async () => {
  const source = new HandSource();
  const cache = new TileCache(source, () => undefined);
  frame(cache, [
    [4, 0],
    [1, 0],
    [1, 1],
  ]);
  await source.asked[0]?.answer();
  expect(frame(cache, [[2, 0]])).toEqual(['1:0→0–2048', '1:1→2048–4096']);
  expect(frame(cache, [[2, 1]])).toEqual(['4:0→4096–8192']);
});

test('incomplete tiles are asked again only after the track has grown, and stay drawn meanwhile', async () => {
  const source = new HandSource();
  const cache = new TileCache(source, () => undefined);
  const incomplete = [spanTile([], { track: 1, level: 0, index: 0, complete: false })];
  frame(cache, [[0, 0]]);
  await source.asked[0]?.answer(incomplete);
  frame(cache, [[0, 0]]);
  expect(source.asked).toHaveLength(1);
  expect(frame(cache, [[0, 0]], state({ stamp: 2 }))).toEqual(['0:0→0–1024']);
  expect(source.asked).toHaveLength(2);
});

test('tiles of another version are asked again, but an answer that lags behind is not asked for endlessly', async () => {
  const source = new HandSource();
  const cache = new TileCache(source, () => undefined);
  frame(cache, [[0, 0]]);
  await source.asked[0]?.answer();
  frame(cache, [[0, 0]], state({ version: 2 }));
  expect(source.asked).toHaveLength(2);
  await source.asked[1]?.answer();
  frame(cache, [[0, 0]], state({ version: 2 }));
  expect(source.asked).toHaveLength(2);
});

test('a slot that gets no tile is not asked for endlessly', async () => {
  const source = new HandSource();
  const cache = new TileCache(source, () => undefined);
  frame(cache, [[0, 0]]);
  await source.asked[0]?.answer([]);
  frame(cache, [[0, 0]]);
  expect(source.asked).toHaveLength(1);
});

test('what is no longer visible is given up, and asked again when it is', () => {
  const source = new HandSource();
  const cache = new TileCache(source, () => undefined);
  frame(cache, [[0, 0]]);
  frame(cache, [[0, 500]]);
  expect(source.asked[0]?.abort?.aborted).toBe(true);
  frame(cache, [[0, 0]]);
  expect(source.asked.map(({ keys }) => keys[0]?.index)).toEqual([0, 500, 0]);
});

test('a refused request is made again after a while, not at once', async () => {
  vi.useFakeTimers();
  try {
    const source = new HandSource();
    const changed = vi.fn();
    const cache = new TileCache(source, changed);
    frame(cache, [[0, 0]]);
    await source.asked[0]?.fail();
    frame(cache, [[0, 0]]);
    expect(source.asked).toHaveLength(1);
    vi.advanceTimersByTime(tileCacheLimits.retryMs);
    expect(changed).toHaveBeenCalled();
    frame(cache, [[0, 0]]);
    expect(source.asked).toHaveLength(2);
  } finally {
    vi.useRealTimers();
  }
});

test('many slots are asked for in several requests, the most urgent first, never more at a time than the service takes', async () => {
  const source = new HandSource();
  const cache = new TileCache(source, () => undefined);
  cache.begin();
  const parts: Part[] = [];
  for (let index = 0; index < 1000; index++) cache.parts(state(), 0, index, 1000 - index, parts);
  cache.end();
  expect(source.asked).toHaveLength(tileCacheLimits.batchesMax);
  expect(source.asked[0]?.keys[0]?.index).toBe(999);
  expect(source.asked.every(({ keys }) => keys.length <= tileCacheLimits.batchTilesMax)).toBe(true);
});

test('memory is bounded: what was not shown for longest goes first', async () => {
  const source = new HandSource();
  const cache = new TileCache(source, () => undefined, { bytesMax: 60_000 });
  for (let index = 0; index < 100; index++) {
    frame(cache, [[0, index]]);
    await source.asked.at(-1)?.answer();
    expect(cache.bytes).toBeLessThan(65_000);
  }
  expect(frame(cache, [[0, 99]])).toHaveLength(1);
  expect(frame(cache, [[0, 0]])).toHaveLength(0);
});

test('a tile that was not drawn for two minutes is dropped, one that is drawn stays', async () => {
  const source = new HandSource();
  let now = 0;
  const cache = new TileCache(source, () => undefined, { now: () => now });
  // A live run that is followed: one slot is always drawn, the others pass.
  for (let index = 1; index < 1000; index++, now += 1000) {
    frame(cache, [
      [0, 0],
      [0, index],
    ]);
    await source.asked.at(-1)?.answer();
  }
  expect(cache.bytes).toBeLessThan(140 * 2500);
  expect(frame(cache, [[0, 0]])).toHaveLength(1);
  expect(frame(cache, [[0, 950]])).toHaveLength(1);
  expect(frame(cache, [[0, 800]])).toHaveLength(0);
});

test('after a reset nothing is left, and late answers change nothing', async () => {
  const source = new HandSource();
  const cache = new TileCache(source, () => undefined);
  frame(cache, [[0, 0]]);
  cache.clear();
  await source.asked[0]?.answer();
  expect(cache.bytes).toBe(0);
});
