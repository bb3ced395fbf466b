import { describe, expect, it } from 'vitest';
import { MemoryBlocks } from '../model/block-store.ts';
import { BlockCache } from './block-cache.ts';
import { BlockLog } from './block-log.ts';

const schema = { time: 'f64', value: 'f64', name: 'u32', kind: 'u8' } as const;

function filled(cacheBytes: number): BlockLog<typeof schema> {
  const log = new BlockLog(new BlockCache(new MemoryBlocks(), cacheBytes), schema);
  for (let index = 0; index < 25; index++) {
    const row = log.next();
    log.columns.time[row] = index * 10;
    log.columns.value[row] = index < 10 ? 0 : index / 2;
    log.columns.name[row] = index;
    log.columns.kind[row] = 255 - index;
    log.cover(index * 10, index * 10 + 5);
    if (++log.rows === 10) log.finish(index < 10 ? ['value'] : []);
  }
  return log;
}

describe('BlockLog', () => {
  it('gives back what was written, of finished blocks and of the one in memory', () => {
    const log = filled(0);
    expect([log.blocks, log.finished, log.length]).toEqual([3, 2, 25]);
    for (let number = 0; number < 25; number++) {
      const block = log.blockOf(number);
      const row = number - log.first(block);
      const { time, value, name, kind } = log.read(block);
      expect([time[row], value[row], name[row], kind[row]]).toEqual([number * 10, number < 10 ? 0 : number / 2, number, 255 - number]);
      expect(row).toBeLessThan(log.rowsOf(block));
    }
    expect([0, 1, 2].map((block) => [log.from(block), log.until(block)])).toEqual([
      [0, 95],
      [100, 195],
      [200, 245],
    ]);
  });

  it('changes a value in place, whether its block is cached, on the store or unfinished', () => {
    for (const cacheBytes of [0, 1e6]) {
      const log = filled(cacheBytes);
      log.read(0);
      log.patch(0, 3, 'value', 42);
      log.patch(1, 4, 'time', 43);
      log.patch(2, 1, 'value', 44);
      log.extend(0, 1000);
      expect([log.read(0).value[3], log.read(1).time[4], log.read(2).value[1], log.until(0)]).toEqual([42, 43, 44, 1000]);
      expect([log.read(0).value[2], log.read(0).name[3]]).toEqual([0, 3]);
    }
  });

  it('writes no bytes for a column that is zero', () => {
    const blocks = new MemoryBlocks();
    const log = new BlockLog(new BlockCache(blocks, 0), schema);
    log.next();
    log.columns.name[0] = 7;
    log.rows++;
    log.finish();
    expect(blocks.size).toBe(16);
    expect(log.read(0)).toEqual({ time: Float64Array.of(0), value: Float64Array.of(0), name: Uint32Array.of(7), kind: Uint8Array.of(0) });
  });
});

describe('MemoryBlocks', () => {
  it('refuses to reach beyond a block', () => {
    const blocks = new MemoryBlocks();
    const place = blocks.write(Uint8Array.of(1, 2, 3));
    blocks.write(Uint8Array.of(4));
    expect(() => blocks.read(place, 4)).toThrow(RangeError);
    expect([...blocks.read(place + 1, 2)]).toEqual([2, 3]);
  });
});
