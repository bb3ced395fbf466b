import { type CounterTile, tileWidth, traceTime } from '@ranktrace/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MemoryBlocks } from '../model/block-store.ts';
import { traceEvent, traceLane, traceProcess } from '../testing/trace-events.ts';
import { Timeline } from './timeline.ts';

const lane = traceLane({ kind: 'counter', name: 'memory', unit: 'bytes' });

function build(values: readonly (readonly [time: number, value: number])[]): Timeline {
  const timeline = new Timeline({ blocks: new MemoryBlocks(), blockRowsMax: 16 });
  const process = timeline.addProcess(traceProcess());
  for (const [time, value] of values) process.event(traceEvent({ lane, kind: 'counter', name: 'memory', start: traceTime(time), value }));
  process.end();
  return timeline;
}

const tileOf = (timeline: Timeline, level: number, index: number): CounterTile => timeline.tile({ track: 0, level, index }) as CounterTile;

/** A tile's expected rows, computed from the values themselves. */
function expected(values: readonly (readonly [number, number])[], level: number, index: number): number[][] {
  const grain = 2 ** level;
  const from = index * tileWidth(level);
  const before = values.filter(([time]) => time < from).at(-1);
  const cells = new Map<number, { time: number; held: number[] }>();
  for (const [time, value] of values) {
    if (time < from || time >= from + tileWidth(level)) continue;
    const cell = Math.floor(time / grain);
    const known = cells.get(cell) ?? { time, held: [] };
    known.held.push(value);
    cells.set(cell, known);
  }
  const rows = [...cells.values()].map(({ time, held }) => [
    time,
    held.at(-1) as number,
    Math.min(...held),
    Math.max(...held),
    held.length,
  ]);
  return before === undefined ? rows : [[before[0], before[1], before[1], before[1], 1], ...rows];
}

const rowsOf = ({ time, last, low, high, count }: CounterTile): number[][] =>
  [...time].map((at, row) => [at, last[row] as number, low[row] as number, high[row] as number, count[row] as number]);

const samples = fc
  .array(
    fc.tuple(
      fc.oneof({ weight: 30, arbitrary: fc.integer({ min: 1, max: 400 }) }, fc.integer({ min: 1, max: 100_000 })),
      fc.integer({ min: -50, max: 50 }),
    ),
    {
      minLength: 1,
      maxLength: 300,
      size: 'max',
    },
  )
  .map((steps) => {
    let time = 0;
    return steps.map(([gap, value]): [number, number] => {
      time += gap;
      return [time, value];
    });
  });

describe('a counter', () => {
  it('shows each cell as its values give it where it reads them, and their extremes and number wherever levels are (seed 21)', () => {
    fc.assert(
      fc.property(samples, (values) => {
        const timeline = build(values);
        for (const level of [0, 4, 8, 11, 14, 18]) {
          let [count, low, high] = [0, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
          for (let index = 0; index * tileWidth(level) <= timeline.until; index++) {
            const rows = rowsOf(tileOf(timeline, level, index));
            const wanted = expected(values, level, index);
            if (level === 0) expect(rows).toEqual(wanted);
            for (const [time, , least, most, events] of rows as [number, number, number, number, number][]) {
              if (time < index * tileWidth(level)) continue;
              count += events;
              low = Math.min(low, least);
              high = Math.max(high, most);
            }
            // A tile ends with the value in force then.
            if (wanted.length > 0 && level === 0) expect(rows.at(-1)?.[1]).toBe(wanted.at(-1)?.[1]);
          }
          expect([count, low, high]).toEqual([
            values.length,
            Math.min(...values.map((each) => each[1])),
            Math.max(...values.map((each) => each[1])),
          ]);
        }
      }),
      { seed: 21, numRuns: 30 },
    );
  });

  it('begins a tile with the value that holds there', () => {
    const timeline = build([
      [10, 5],
      [5000, 7],
    ]);
    expect(rowsOf(tileOf(timeline, 0, 1))).toEqual([[10, 5, 5, 5, 1]]);
    expect(tileOf(timeline, 0, 0).complete).toBe(true);
  });

  it('reports its range, and each value', () => {
    const timeline = build([
      [10, 5],
      [20, -7],
    ]);
    expect(timeline.track(0)?.shown()).toMatchObject({ kind: 'counter', low: -7, high: 5, events: 2, unit: 'bytes' });
    expect(timeline.event(0, 1)).toMatchObject({ kind: 'counter', start: 20, fields: [['value', '-7 bytes']] });
  });

  it('has a mean by how long each value held', () => {
    const timeline = build([
      [0, 10],
      [30, 20],
      [40, 0],
    ]);
    const area = timeline.area(10, 40, []);
    let step = area.next();
    while (step.done !== true) step = area.next();
    expect(step.value.counters).toEqual([{ track: 0, low: 0, high: 20, mean: (20 * 10 + 10 * 20) / 30 }]);
  });

  it('has a gap where its value is no number, which no range and no mean counts', () => {
    const values = [
      [0, 10],
      [10, Number.NaN],
      [30, 20],
      [40, Number.POSITIVE_INFINITY],
      [60, 4],
    ] as const;
    const timeline = build(values);
    expect(rowsOf(tileOf(timeline, 0, 0))).toEqual([
      [0, 10, 10, 10, 1],
      [10, Number.NaN, Number.NaN, Number.NaN, 1],
      [30, 20, 20, 20, 1],
      [40, Number.NaN, Number.NaN, Number.NaN, 1],
      [60, 4, 4, 4, 1],
    ]);
    // In cells of 64 ns, as of blocks that are finished.
    expect(rowsOf(tileOf(timeline, 6, 0))).toEqual([[0, 4, 4, 20, 5]]);
    const many = build(Array.from({ length: 200 }, (_, at) => [4 * at, at % 16 < 15 ? Number.NaN : at] as const));
    const extremes = rowsOf(tileOf(many, 8, 0)).flatMap(([, , low, high]) => [low, high]);
    expect(extremes.filter((value) => !Number.isNaN(value)).map((value) => Number(value) % 16)).toEqual([15, 15, 15, 15, 15, 15]);
    expect(timeline.track(0)?.shown()).toMatchObject({ low: 4, high: 20 });
    const counters = (from: number, until: number): unknown => {
      const area = timeline.area(from, until, []);
      let step = area.next();
      while (step.done !== true) step = area.next();
      return step.value.counters;
    };
    expect(counters(0, 60)).toEqual([{ track: 0, low: 4, high: 20, mean: (10 * 10 + 10 * 20) / 20 }]);
    expect(counters(12, 28)).toEqual([]);
  });
});
