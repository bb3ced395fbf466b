import { type AreaTable, type FlameNode, nanos, traceTime } from '@ranktrace/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MemoryBlocks } from '../model/block-store.ts';
import { traceEvent, traceLane, traceProcess } from '../testing/trace-events.ts';
import { Timeline } from './timeline.ts';

interface Given {
  readonly rank: number;
  readonly start: number;
  readonly length: number;
  readonly name: string;
}

/** With the timeline's values for it. */
interface Placed extends Given {
  readonly track: number;
  readonly event: number;
  readonly depth: number;
}

const lanes = [0, 1, 2].map((rank) => {
  const process = traceProcess({ index: rank + 1, rank, host: `h${rank}` });
  return traceLane({ process });
});

function build(given: readonly Given[]): { timeline: Timeline; placed: Placed[] } {
  const timeline = new Timeline({ blocks: new MemoryBlocks(), blockRowsMax: 16, cacheBytesMax: 2000 });
  const processes = lanes.map(({ process }) => timeline.addProcess(process));
  for (const [rank, lane] of lanes.entries()) processes[rank]?.lane(lane);
  const numbers = [0, 0, 0];
  const placed = given.map((one) => {
    const lane = lanes[one.rank];
    processes[one.rank]?.event(
      traceEvent({ ...(lane && { lane }), name: one.name, start: traceTime(one.start), length: nanos(one.length) }),
    );
    const event = numbers[one.rank] as number;
    numbers[one.rank] = event + 1;
    return { ...one, track: one.rank, event, depth: 0 };
  });
  for (const process of processes) process.end();
  return { timeline, placed: placed.map((one) => ({ ...one, depth: timeline.event(one.track, one.event)?.depth ?? -1 })) };
}

const events = fc
  .array(
    fc.record({
      rank: fc.integer({ min: 0, max: 2 }),
      gap: fc.integer({ min: 0, max: 60 }),
      length: fc.oneof({ weight: 6, arbitrary: fc.integer({ min: 0, max: 200 }) }, fc.integer({ min: 0, max: 5000 })),
      name: fc.constantFrom('a', 'b', 'c'),
    }),
    { minLength: 1, maxLength: 250, size: 'max' },
  )
  .map((shapes) => {
    let start = 0;
    return shapes.map(({ gap, ...rest }): Given => {
      start += gap;
      return { start, ...rest };
    });
  });

const window = fc.tuple(fc.integer({ min: -100, max: 8000 }), fc.integer({ min: 1, max: 8000 }));

function run<T>(steps: Generator<unknown, T>): T {
  let step = steps.next();
  while (step.done !== true) step = steps.next();
  return step.value;
}

/** The events in a window, cut to it. */
const cut = (placed: readonly Placed[], from: number, until: number) =>
  placed
    .filter(({ start, length }) => start < until && (start + length > from || start >= from))
    .map((one) => ({ ...one, cutFrom: Math.max(one.start, from), cutUntil: Math.min(one.start + one.length, until) }));

type Cut = ReturnType<typeof cut>[number];

/** The span directly around an event: the last open one of the line above. */
const parentOf = (all: readonly Cut[], one: Cut): Cut | undefined => {
  const above = all.filter(({ track, depth, event }) => track === one.track && depth === one.depth - 1 && event < one.event).at(-1);
  return above !== undefined && above.cutUntil > one.cutFrom ? above : undefined;
};

const covered = (inner: Cut, outer: Cut): number => Math.min(inner.cutUntil, outer.cutUntil) - inner.cutFrom;

function expectedTable(placed: readonly Placed[], from: number, until: number) {
  const all = cut(placed, from, until);
  const names = [...new Set(all.map(({ name }) => name))];
  return names.map((name) => {
    const of = all.filter((one) => one.name === name);
    const sizes = of.map(({ cutFrom, cutUntil }) => cutUntil - cutFrom);
    const inside = all.reduce((sum, one) => {
      const parent = parentOf(all, one);
      return parent?.name === name ? sum + covered(one, parent) : sum;
    }, 0);
    const total = sizes.reduce((sum, size) => sum + size, 0);
    return {
      name,
      kind: 'span',
      count: of.length,
      total,
      self: Math.max(0, total - inside),
      shortest: Math.min(...sizes),
      longest: Math.max(...sizes),
      ranks: new Set(of.map(({ rank }) => rank)).size,
    };
  });
}

const byName = (a: { name: string }, b: { name: string }): number => (a.name < b.name ? -1 : 1);

describe('area', () => {
  it('is what the events in it add up to, name by name (seed 31)', () => {
    fc.assert(
      fc.property(events, window, (given, [from, size]) => {
        const { timeline, placed } = build(given);
        const table: AreaTable = run(timeline.area(from, from + size, []));
        expect(table.rows.map(({ place: _, ...row }) => row).sort(byName)).toEqual(expectedTable(placed, from, from + size).sort(byName));
        expect(table.events).toBe(cut(placed, from, from + size).length);
        for (const { place, name } of table.rows) {
          expect(placed.find(({ track, event }) => track === place.track && event === place.event)?.name).toBe(name);
        }
      }),
      { seed: 31, numRuns: 60 },
    );
  });

  it('is of the tracks asked for', () => {
    const { timeline } = build([0, 1, 2].map((rank) => ({ rank, start: 0, length: 10, name: `n${rank}` })));
    expect(run(timeline.area(0, 100, [1])).rows.map(({ name }) => name)).toEqual(['n1']);
  });

  it('counts steps under one name, and says so of none of their numbers', () => {
    const timeline = new Timeline({ blocks: new MemoryBlocks() });
    const process = timeline.addProcess(traceProcess());
    const lane = traceLane({ kind: 'steps', name: 'ProfilerSteps' });
    for (const step of [1, 2, 3]) {
      process.event(
        traceEvent({ lane, kind: 'step', step, name: `ProfilerStep#${step}`, start: traceTime(step * 100), length: nanos(100) }),
      );
    }
    const steps = { name: 'ProfilerStep', kind: 'step', count: 3, total: 300 };
    expect(run(timeline.area(0, 1000, [])).rows).toMatchObject([{ ...steps, self: 300 }]);
    // Beside the spans that they contain, steps have no time of their own.
    process.event(traceEvent({ lane: traceLane(), name: 'forward', start: traceTime(120), length: nanos(250) }));
    expect(run(timeline.area(0, 1000, [])).rows).toMatchObject([
      { ...steps, self: 0 },
      { name: 'forward', self: 250 },
    ]);
  });

  it('tells a kernel and a copy from the host span of the same name', () => {
    const timeline = new Timeline({ blocks: new MemoryBlocks() });
    const process = timeline.addProcess(traceProcess());
    const [host, stream] = [traceLane(), traceLane({ kind: 'stream', name: 'GPU 0 stream 7' })];
    const add = (lane: typeof host, category: string, name: string, start: number, length: number): void =>
      process.event(traceEvent({ lane, category, name, start: traceTime(start), length: nanos(length) }));
    add(host, 'cpu_op', 'triton_poi_fused_0', 0, 30);
    add(stream, 'kernel', 'triton_poi_fused_0', 20, 7);
    add(stream, 'gpu_memcpy', 'Memcpy HtoD', 40, 5);
    add(stream, 'gpu_user_annotation', 'forward', 50, 3);
    expect(run(timeline.area(0, 1000, [])).rows.map(({ name, kind, count, total }) => [name, kind, count, total])).toEqual([
      ['triton_poi_fused_0', 'span', 1, 30],
      ['triton_poi_fused_0', 'kernel', 1, 7],
      ['Memcpy HtoD', 'copy', 1, 5],
      ['forward', 'span', 1, 3],
    ]);
  });
});

describe('flame', () => {
  it('puts every span under what it lies in, and times add up (seed 32)', () => {
    fc.assert(
      fc.property(events, window, (given, [from, size]) => {
        const { timeline, placed } = build(given);
        const all = cut(placed, from, from + size);
        const expected = new Map<string, number>();
        const pathOf = (one: Cut): string => {
          const parent = parentOf(all, one);
          return `${parent === undefined ? '' : pathOf(parent)}/${one.name}`;
        };
        for (const one of all) {
          const parent = parentOf(all, one);
          const path = pathOf(one);
          expected.set(path, (expected.get(path) ?? 0) + (parent === undefined ? one.cutUntil - one.cutFrom : covered(one, parent)));
        }
        const found = new Map<string, number>();
        const visit = (node: FlameNode, path: string): void => {
          for (const child of node.children) {
            found.set(`${path}/${child.name}`, child.total);
            visit(child, `${path}/${child.name}`);
          }
        };
        const root = run(timeline.flame(from, from + size, []));
        visit(root, '');
        expect(found).toEqual(expected);
        expect(root.total).toBe(root.children.reduce((sum, { total }) => sum + total, 0));
      }),
      { seed: 32, numRuns: 60 },
    );
  });
});

describe('a flame graph that is split', () => {
  it('has a node for each rank, for each device, or for each device of each rank, and the same total', () => {
    const timeline = new Timeline({ blocks: new MemoryBlocks() });
    for (const rank of [0, 1]) {
      const process = traceProcess({ index: rank + 1, rank });
      const added = timeline.addProcess(process);
      const [main, stream] = [
        traceLane({ index: 1, process }),
        traceLane({ index: 2, process, kind: 'stream', name: `GPU ${rank} · stream 7` }),
      ];
      const span = (lane: typeof main, name: string, start: number, length: number): void =>
        added.event(traceEvent({ lane, name, start: traceTime(start), length: nanos(length) }));
      span(main, 'forward', 0, 100 + rank);
      span(main, 'mm', 10, 20);
      span(stream, 'gemm', 15, 40);
      added.end();
    }
    const shape = ({ name, total, self, children }: FlameNode): string =>
      `${name} ${total}${self === 0 ? '' : ` (${self})`}${children.length === 0 ? '' : ` [${children.map(shape).join(', ')}]`}`;
    const split = (by?: 'rank' | 'device' | 'both'): string => shape(run(timeline.flame(0, 1000, [], by)));
    expect(split()).toBe(' 281 [forward 201 (161) [mm 40 (40)], gemm 80 (80)]');
    expect(split('rank')).toBe(
      ' 281 [rank 1 141 [forward 101 (81) [mm 20 (20)], gemm 40 (40)], rank 0 140 [forward 100 (80) [mm 20 (20)], gemm 40 (40)]]',
    );
    expect(split('device')).toBe(' 281 [host 201 [forward 201 (161) [mm 40 (40)]], GPU 0 40 [gemm 40 (40)], GPU 1 40 [gemm 40 (40)]]');
    expect(split('both')).toBe(
      ' 281 [rank 1 141 [host 101 [forward 101 (81) [mm 20 (20)]], GPU 1 40 [gemm 40 (40)]], ' +
        'rank 0 140 [host 100 [forward 100 (80) [mm 20 (20)]], GPU 0 40 [gemm 40 (40)]]]',
    );
  });
});

describe('find', () => {
  it('gives the nearest event of the names before and after a time (seed 33)', () => {
    fc.assert(
      fc.property(events, fc.integer({ min: -10, max: 8000 }), fc.constantFrom('a', 'b', 'none'), (given, time, name) => {
        const { timeline, placed } = build(given);
        const index = timeline.search(name).names[0]?.name ?? 0;
        const starts = placed.filter((one) => one.name === name).map(({ start }) => start);
        const after = starts.filter((start) => start > time);
        const before = starts.filter((start) => start < time);
        expect(run(timeline.find([index], [], time, 'next'))?.start).toBe(after.length === 0 ? undefined : Math.min(...after));
        expect(run(timeline.find([index], [], time, 'previous'))?.start).toBe(before.length === 0 ? undefined : Math.max(...before));
      }),
      { seed: 33, numRuns: 60 },
    );
  });

  it('gives the nearest event of any name, of the depth asked for while there is one (seed 34)', () => {
    fc.assert(
      fc.property(events, fc.integer({ min: -10, max: 8000 }), fc.integer({ min: 0, max: 3 }), (given, time, depth) => {
        const { timeline, placed } = build(given);
        const own = placed.filter(({ track }) => track === 1);
        const nearest = (starts: readonly number[], direction: 'next' | 'previous'): number | undefined =>
          direction === 'next'
            ? starts.filter((start) => start > time).sort((a, b) => a - b)[0]
            : starts.filter((start) => start < time).sort((a, b) => b - a)[0];
        for (const direction of ['next', 'previous'] as const) {
          const any = nearest(
            own.map(({ start }) => start),
            direction,
          );
          const same = nearest(
            own.filter((one) => one.depth === depth).map(({ start }) => start),
            direction,
          );
          expect(run(timeline.find([], [1], time, direction))?.start).toBe(any);
          const found = run(timeline.find([], [1], time, direction, depth));
          expect(found?.start).toBe(same ?? any);
          if (same !== undefined) expect(found?.depth).toBe(depth);
        }
      }),
      { seed: 34, numRuns: 60 },
    );
  });

  it('goes on past each event to all others, those that start with it too, on any rank (seed 35)', () => {
    fc.assert(
      fc.property(events, fc.constantFrom('a', 'b'), (given, name) => {
        const { timeline, placed } = build(given);
        const index = timeline.search(name).names[0]?.name ?? 0;
        const named = placed.filter((one) => one.name === name).sort((a, b) => a.start - b.start || a.track - b.track || a.event - b.event);
        for (const direction of ['next', 'previous'] as const) {
          const found: string[] = [];
          let place = run(timeline.find([index], [], direction === 'next' ? -1 : 1e9, direction));
          for (; place !== undefined && found.length <= named.length; ) {
            found.push(`${place.track}.${place.event}`);
            place = run(timeline.find([index], [], place.start, direction, undefined, place));
          }
          const expected = named.map(({ track, event }) => `${track}.${event}`);
          expect(found).toEqual(direction === 'next' ? expected : expected.reverse());
        }
      }),
      { seed: 35, numRuns: 30 },
    );
  });
});

describe('search', () => {
  it('finds names whatever their case, those that took longest first', () => {
    const { timeline } = build([
      { rank: 0, start: 0, length: 10, name: 'aten::mm' },
      { rank: 0, start: 20, length: 50, name: 'aten::addmm' },
      { rank: 1, start: 20, length: 50, name: 'aten::addmm' },
      { rank: 1, start: 200, length: 5, name: 'copy' },
    ]);
    const found = timeline.search('MM');
    expect(found.names.map(({ name, count, total }) => [timeline.names.text(name), count, total])).toEqual([
      ['aten::addmm', 2, 100],
      ['aten::mm', 1, 10],
    ]);
    expect(found.leftOut).toBe(0);
  });
});

describe('names', () => {
  it('that are hostile, long or many cost no more than their bound', () => {
    const { timeline } = build([
      { rank: 0, start: 0, length: 10, name: '\u202e<script>' },
      { rank: 0, start: 20, length: 10, name: `${'x'.repeat(4096)}\ud800` },
      { rank: 0, start: 40, length: 10, name: '__proto__' },
      { rank: 0, start: 60, length: 10, name: '' },
    ]);
    expect([1, 3, 4].map((index) => timeline.names.text(index))).toEqual(['\\u202e<script>', '__proto__', '']);
    expect(timeline.names.text(2).length).toBe(200);
    expect(timeline.event(0, 0)?.fields).toEqual([['name', '\\u202e<script>']]);
    expect(timeline.names.text(99)).toBe('');
  });
});
