import { nanos, openBit, type SpanTile, tileWidth, traceTime } from '@ranktrace/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { runCount } from '../../../../test/setup/seeds.ts';
import { type BlockStore, MemoryBlocks } from '../model/block-store.ts';
import type { TraceEvent } from '../model/trace-sink.ts';
import { traceEvent, traceLane, traceProcess } from '../testing/trace-events.ts';
import type { ProcessTimeline } from './process-timeline.ts';
import { instantKind, kindIndex } from './span-log.ts';
import { Timeline } from './timeline.ts';
import { identityClock, type TimelineClock } from './timeline-clock.ts';
import { timelineLimits } from './timeline-limits.ts';

/** A store that returns bytes at offsets unaligned for typed arrays. */
class OddBlocks implements BlockStore {
  readonly #blocks = new MemoryBlocks();

  write(bytes: Uint8Array): number {
    return this.#blocks.write(bytes);
  }

  read(place: number, length: number): Uint8Array {
    const bytes = new Uint8Array(length + 3);
    bytes.set(this.#blocks.read(place, length), 3);
    return bytes.subarray(3);
  }

  overwrite(place: number, bytes: Uint8Array): void {
    this.#blocks.overwrite(place, bytes);
  }
}

/** A test's event; own times, ns. */
interface Given {
  readonly start: number;
  readonly length: number;
  readonly name: string;
  readonly kind: 'span' | 'instant' | 'collective';
  /** Added as open first, and closed after this many more events. */
  readonly closedAfter?: number;
}

const lane = traceLane();

function build(given: readonly Given[], clock: TimelineClock = identityClock, blocks: BlockStore = new OddBlocks()) {
  const timeline = new Timeline({ blocks, cacheBytesMax: 4096, blockRowsMax: 16 });
  const process = timeline.addProcess(traceProcess(), clock);
  process.lane(lane);
  const due: { at: number; close: () => void }[] = [];
  for (const [index, one] of given.entries()) {
    for (const { close } of due.filter(({ at }) => at === index)) close();
    const event = eventOf(one);
    if (one.closedAfter === undefined) process.event(event);
    else {
      process.event({ ...event, state: 'open', length: nanos(0) });
      due.push({ at: index + one.closedAfter, close: () => process.event({ ...event, state: 'close' }) });
    }
  }
  for (const { close } of due.filter(({ at }) => at >= given.length)) close();
  process.end();
  return { timeline, process };
}

const eventOf = ({ start, length, name, kind }: Given): TraceEvent =>
  traceEvent({ lane, kind, name, start: traceTime(start), length: nanos(kind === 'instant' ? 0 : length), group: 'g' });

/** Every tile of a level between the first start and the last end. */
function tilesOf(timeline: Timeline, level: number, track = 0): SpanTile[] {
  const width = tileWidth(level);
  const tiles: SpanTile[] = [];
  for (let index = Math.floor(timeline.from / width); index * width <= timeline.until; index++) {
    const tile = timeline.tile({ track, level, index });
    if (tile?.type !== 'spans') throw new Error('no tile of spans');
    tiles.push(tile);
  }
  return tiles;
}

const shape = fc.record({
  gap: fc.oneof(
    { weight: 60, arbitrary: fc.integer({ min: 0, max: 300 }) },
    { weight: 1, arbitrary: fc.integer({ min: 0, max: 500_000 }) },
  ),
  length: fc.oneof(
    { weight: 30, arbitrary: fc.integer({ min: 0, max: 500 }) },
    { weight: 2, arbitrary: fc.integer({ min: 0, max: 100_000 }) },
    { weight: 1, arbitrary: fc.integer({ min: 0, max: 3_000_000 }) },
    // As long as a grain, or nearly: a clock's drift makes it longer or shorter.
    { weight: 4, arbitrary: fc.constantFrom(1023, 1024, 4095, 4096, 16_383, 16_384, 65_535, 65_536) },
  ),
  name: fc.constantFrom('a', 'b', 'c', 'd'),
  kind: fc.constantFrom<Given['kind']>('span', 'span', 'span', 'collective', 'instant'),
});

/** Events in order of start. */
const inOrder = fc.array(shape, { minLength: 1, maxLength: 300, size: 'max' }).map((shapes) => {
  let start = 0;
  return shapes.map(({ gap, ...rest }): Given => {
    start += gap;
    return { start, ...rest };
  });
});

/** The same events, some of them added as open, and closed later: soon, when their block is on the store, or at the end. */
const withOpen = fc
  .tuple(inOrder, fc.array(fc.integer({ min: 0, max: 60 }), { minLength: 300, maxLength: 300, size: 'max' }))
  .map(([given, delays]) => {
    const starts = new Set<number>();
    return given.map((one, index): Given => {
      // Two open events with one start cannot be distinguished.
      if (one.kind === 'instant' || starts.has(one.start) || index % 3 !== 0) return one;
      starts.add(one.start);
      return { ...one, closedAfter: 1 + (delays[index] as number) };
    });
  });

/** In order, except some that come up to 40 events late. */
const someLate = fc
  .tuple(inOrder, fc.array(fc.integer({ min: 0, max: 40 }), { minLength: 300, maxLength: 300, size: 'max' }))
  .map(([given, delays]) => {
    const keyed = given.map((one, index) => ({ one, key: index + (index % 7 === 0 ? (delays[index] as number) : 0) }));
    return keyed.sort((a, b) => a.key - b.key).map(({ one }) => one);
  });

const levels = [0, 3, 5, 6, 7, 8, 10, 12, 13, 15, 18, 20] as const;

/** Checks every tile against the events themselves. */
function checkTiles({ timeline }: { timeline: Timeline }, given: readonly Given[], clock: TimelineClock, isNested = true): void {
  const shown = given.map((one) => {
    const start = clock.toTrace(one.start);
    return { ...one, start, end: one.kind === 'instant' ? start : clock.toTrace(one.start + one.length) };
  });
  const busy = given.reduce((sum, { kind, length }) => sum + (kind === 'instant' ? 0 : length), 0);
  for (const level of levels) {
    const must = (isSo: boolean, what: string): void => {
      if (!isSo) throw new Error(`items of level ${level} must be ${what}`);
    };
    // The finest levels of a long run are thousands of tiles; coarse ones cover the same ground.
    if ((timeline.until - timeline.from) / tileWidth(level) > 60) continue;
    const grain = 2 ** level;
    const tiles = tilesOf(timeline, level);
    let [count, covered] = [0, 0];
    for (const tile of tiles) {
      must(tile.complete, 'complete');
      const from = tile.index * tileWidth(level);
      const until = from + tileWidth(level);
      const singles = new Set<string>();
      for (let item = 0; item < tile.start.length; item++) {
        const start = tile.start[item] as number;
        const length = tile.length[item] as number;
        if (start >= from && start < until) {
          count += tile.count[item] as number;
          covered += tile.busy[item] as number;
        }
        const name = timeline.names.text(tile.name[item] as number);
        if (tile.count[item] === 1) singles.add(`${start} ${length} ${name} ${tile.kind[item]}`);
        const longest = timeline.event(0, tile.event[item] as number);
        must(longest?.name === name && longest.depth === tile.depth[item] && longest.start >= start, 'named as its longest');
        const next = item + 1;
        if (tile.depth[next] !== tile.depth[item]) continue;
        must((tile.start[next] as number) >= start, 'in order');
        if (
          isNested &&
          tile.kind[item] !== instantKind &&
          tile.kind[next] !== instantKind &&
          (tile.depth[item] as number) < timelineLimits.timelineDepthMax
        ) {
          must(start + length <= (tile.start[next] as number) + 1, 'beside each other');
        }
      }
      for (const { start, end, name, kind } of shown) {
        if (end - start < grain || start >= until || end <= from) continue;
        must(singles.has(`${start} ${end - start} ${name} ${kindIndex[kind]}`), 'single');
      }
    }
    expect(count).toBe(given.length);
    expect(Math.abs(covered - busy)).toBeLessThanOrEqual(1 + busy * 1e-4);
  }
}

/** A clock that runs 40 ppm fast and bends; whole ns, as from clock models. */
const bentClock: TimelineClock = {
  toTrace: (own) => Math.round(own * (own < 1e6 ? 1.00004 : 1.00001) + (own < 1e6 ? 1e5 : 1e5 + 30)),
  toOwn: (trace) => (trace - 1e5 < 1e6 * 1.00004 ? (trace - 1e5) / 1.00004 : (trace - 1e5 - 30) / 1.00001),
};

describe('tiles', () => {
  it('count every event once at every level, and leave what is as long as the grain as it is (seed 11)', () => {
    fc.assert(
      fc.property(inOrder, (given) => checkTiles(build(given), given, identityClock)),
      { seed: 11, numRuns: runCount(20) },
    );
  });

  it('do so for spans that are reported open first and end later (seed 12)', () => {
    fc.assert(
      fc.property(withOpen, (given) => checkTiles(build(given), given, identityClock)),
      { seed: 12, numRuns: runCount(20) },
    );
  });

  it('do so for events that come late, which may lie over others (seed 13)', () => {
    fc.assert(
      fc.property(someLate, (given) => checkTiles(build(given), given, identityClock, false)),
      { seed: 13, numRuns: runCount(20) },
    );
  });

  it('do so on a clock that drifts and bends (seed 14)', () => {
    fc.assert(
      fc.property(inOrder, (given) => checkTiles(build(given, bentClock), given, bentClock)),
      { seed: 14, numRuns: runCount(20) },
    );
  });

  it('show a span that has not ended up to now, and are not complete with it', () => {
    const timeline = new Timeline({ blocks: new MemoryBlocks() });
    const process = timeline.addProcess(traceProcess());
    const open = traceEvent({ lane, state: 'open', start: traceTime(100), name: 'forward' });
    process.event(open);
    process.event(traceEvent({ lane, start: traceTime(200), length: nanos(50), name: 'inside' }));
    process.advance(5000);
    const tile = (): SpanTile => timeline.tile({ track: 0, level: 0, index: 0 }) as SpanTile;
    expect([...tile().kind]).toEqual([openBit, 0]);
    expect([...tile().length]).toEqual([4900, 50]);
    expect([...tile().depth]).toEqual([0, 1]);
    expect(tile().complete).toBe(false);
    expect(timeline.event(0, 0)).toMatchObject({ name: 'forward', open: true, length: 4900, self: 4850 });
    process.event({ ...open, state: 'close', length: nanos(400) });
    expect([...tile().kind]).toEqual([0, 0]);
    expect([...tile().length]).toEqual([400, 50]);
    expect(tile().complete).toBe(true);
    expect(timeline.event(0, 0)).toMatchObject({ open: false, length: 400 });
  });

  it('are complete as far as nothing more can come', () => {
    const timeline = new Timeline({ blocks: new MemoryBlocks() });
    const process = timeline.addProcess(traceProcess(), { toTrace: (own) => own + 1000, toOwn: (trace) => trace - 1000 });
    process.event(traceEvent({ lane, start: traceTime(1), length: nanos(50), name: 'a' }));
    const complete = (index: number): boolean | undefined => timeline.tile({ track: 0, level: 0, index })?.complete;
    expect(complete(0)).toBe(false);
    process.advance(24);
    expect([complete(0), complete(1)]).toEqual([true, false]);
    process.end();
    expect(complete(1)).toBe(true);
  });

  it('of steps are complete where a step has ended: the next one is reported at its end', () => {
    const timeline = new Timeline({ blocks: new MemoryBlocks() });
    const process = timeline.addProcess(traceProcess());
    const steps = traceLane({ kind: 'steps', name: 'ProfilerSteps' });
    const step = (start: number, length: number): void =>
      process.event(
        traceEvent({ lane: steps, kind: 'step', name: `ProfilerStep#${start}`, start: traceTime(start), length: nanos(length) }),
      );
    step(0, 1500);
    process.advance(4000);
    const complete = (): (boolean | undefined)[] => [0, 1, 2].map((index) => timeline.tile({ track: 0, level: 0, index })?.complete);
    expect(complete()).toEqual([true, false, false]);
    const { version } = process;
    step(1500, 2400);
    expect([...complete(), process.version]).toEqual([true, true, true, version]);
  });

  it('are void when something comes before a time until which they were complete', () => {
    const timeline = new Timeline({ blocks: new MemoryBlocks() });
    const process = timeline.addProcess(traceProcess());
    const { version } = process;
    process.event(traceEvent({ lane, start: traceTime(10), length: nanos(5), name: 'a' }));
    process.advance(5000);
    expect(process.version).toBe(version);
    for (const start of [20, 40]) process.event(traceEvent({ lane, start: traceTime(start), length: nanos(5), name: 'late' }));
    process.advance(6000);
    process.advance(7000);
    expect(process.version).toBe(version + 1);
  });

  it('of a track that does not exist are none', () => {
    expect(new Timeline({ blocks: new MemoryBlocks() }).tile({ track: 0, level: 3, index: 0 })).toBeUndefined();
  });

  it('of nothing but spans inside each other stay on lines, the deepest share the last one', () => {
    const given = Array.from(
      { length: 400 },
      (_, index): Given => ({ start: index, length: 100_000 - 2 * index, name: 'n', kind: 'span' }),
    );
    const { timeline } = build(given);
    expect(timeline.track(0)?.shown().depth).toBe(timelineLimits.timelineDepthMax + 1);
    const [tile] = tilesOf(timeline, 8) as [SpanTile];
    expect(tile.count.reduce((sum, count) => sum + count, 0)).toBe(400);
  });

  it('hold few items however many events there are', () => {
    const given = Array.from(
      { length: 60_000 },
      (_, index): Given => ({ start: index * 100, length: 90, name: `n${index % 7}`, kind: 'span' }),
    );
    const { timeline } = build(given);
    for (const level of [8, 10, 12, 14]) {
      for (const tile of tilesOf(timeline, level)) expect(tile.start.length).toBeLessThanOrEqual(1025);
    }
  });
});

describe('a process', () => {
  const pair = (process: ProcessTimeline): void => {
    process.event(traceEvent({ lane, start: traceTime(0), length: nanos(10), name: 'a' }));
    process.event(traceEvent({ lane, start: traceTime(1e9), length: nanos(10), name: 'b' }));
  };

  it('gets a new version when a clock moves something that is shown, also little by little', () => {
    const timeline = new Timeline({ blocks: new MemoryBlocks() });
    const process = timeline.addProcess(traceProcess());
    pair(process);
    const by = (offset: number): TimelineClock => ({ toTrace: (own) => own + offset, toOwn: (trace) => trace - offset });
    const before = process.version;
    process.setClock(by(300), process.process);
    expect(process.version).toBe(before);
    process.setClock(by(600), process.process);
    expect(process.version).toBe(before + 1);
    expect(timeline.from).toBe(600);
    expect(timeline.tile({ track: 0, level: 0, index: 0 })).toMatchObject({ version: before + 1, start: Float64Array.of(600) });
  });

  it('forgets its events and takes up its tracks again when they are read anew', () => {
    const timeline = new Timeline({ blocks: new MemoryBlocks() });
    const process = timeline.addProcess(traceProcess());
    pair(process);
    process.lost(0, 10, 1, 2);
    const { version } = process;
    process.clear();
    expect(timeline.search('a').names).toEqual([]);
    expect(timeline.tile({ track: 0, level: 20, index: 0 })).toMatchObject({ start: new Float64Array(0), version: version + 1 });
    expect([process.gaps, process.missing]).toEqual([[], 0]);
    const again = { ...lane };
    process.event(traceEvent({ lane: again, start: traceTime(5), length: nanos(10), name: 'a' }));
    expect(timeline.tracks.length).toBe(1);
    expect(timeline.event(0, 0)).toMatchObject({ start: 5 });
    expect(timeline.search('a').names).toMatchObject([{ count: 1, total: 10 }]);
  });

  it('reports gaps in trace time, those that touch as one', () => {
    const timeline = new Timeline({ blocks: new MemoryBlocks() });
    const process = timeline.addProcess(traceProcess(), { toTrace: (own) => own + 7, toOwn: (trace) => trace - 7 });
    process.lost(10, 20, 1, 0);
    process.lost(20, 30, 2, 5);
    process.lost(50, 60, 0, 1);
    expect(process.shownGaps).toEqual([
      { from: 17, until: 37, batches: 3, events: 5 },
      { from: 57, until: 67, batches: 0, events: 1 },
    ]);
    expect([process.missing, process.droppedEvents]).toEqual([3, 6]);
  });

  it('keeps a bounded number of gaps', () => {
    const process = new Timeline({ blocks: new MemoryBlocks() }).addProcess(traceProcess());
    for (let gap = 0; gap < 5000; gap++) process.lost(gap * 10, gap * 10 + 1, 1, 0);
    expect(process.gaps.length).toBe(1024);
    expect(process.gaps.at(-1)).toMatchObject({ until: 49_991 });
    expect(process.missing).toBe(5000);
  });

  it('reports an event with all that was said of it, at its begin and at its end', () => {
    const timeline = new Timeline({ blocks: new MemoryBlocks(), blockRowsMax: 16 });
    const process = timeline.addProcess(traceProcess());
    const stack = 'model.py(7): forward;train.py(3): step';
    const open = traceEvent({
      lane,
      state: 'open',
      start: traceTime(0),
      name: 'x'.repeat(300),
      category: 'cpu_op',
      arguments: new Map<string, string | number>([
        ['begin', 1],
        ['long', 'y'.repeat(5000)],
      ]),
    });
    process.event(open);
    for (let index = 1; index < 40; index++) process.event(traceEvent({ lane, start: traceTime(index), name: 'n' }));
    process.event({
      ...open,
      state: 'close',
      length: nanos(90),
      arguments: new Map<string, string | number>([
        ['end', Number.NaN],
        ['Call stack', stack],
      ]),
    });
    const details = timeline.event(0, 0);
    expect(details).toMatchObject({ open: false, length: 90, category: 'cpu_op', kind: 'span', self: 90 });
    expect(Object.fromEntries(details?.fields ?? [])).toEqual({ name: 'x'.repeat(300), begin: '1', long: 'y'.repeat(5000), end: 'NaN' });
    expect(details?.stack).toEqual(['model.py(7): forward', 'train.py(3): step']);
    expect(timeline.event(0, 40)).toBeUndefined();
    expect(timeline.event(0, 0.5)).toBeUndefined();
    expect(timeline.event(1, 0)).toBeUndefined();
  });
});
