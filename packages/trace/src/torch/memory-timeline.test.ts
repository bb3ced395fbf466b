import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readKineto } from './kineto-reader.ts';
import {
  type MemoryTimelineOptions,
  memoryCategories,
  memoryTimeline,
  memoryTimelineJson,
  memoryTimelineRawJson,
} from './memory-timeline.ts';

const base = 1_790_857_026_000_000_000n;
const tableOf = (traceEvents: readonly object[]) =>
  readKineto(new TextEncoder().encode(JSON.stringify({ baseTimeNanoseconds: Number(base), traceEvents })));

/** µs, bytes. */
const memory = (ts: number, bytes: number, address: number, total = 0, type = 0) => ({
  ...{ ph: 'i', cat: 'cpu_instant_event', s: 't', name: '[memory]', pid: 1, tid: 1, ts },
  args: { Bytes: bytes, Addr: address, 'Total Allocated': total, 'Device Type': type },
});

const said = (ts: number, address: number, category: string, bytes = 0, type = 0) => ({
  ...{ ph: 'i', cat: 'cpu_instant_event', s: 't', name: '[memory category]', pid: 1, tid: 1, ts },
  args: { Addr: address, category, Bytes: bytes, 'Device Type': type },
});

/** Events as text, `time action bytes category`; times in µs of the file. */
const check = (traceEvents: readonly object[], wanted: readonly string[], options: MemoryTimelineOptions = {}): void => {
  const table = tableOf(traceEvents);
  const { events } = memoryTimeline(table, options);
  const names = ['', 'PREEXISTING', 'CREATE', 'INCREMENT_VERSION', 'DESTROY'];
  const start = Number(table.epoch - base);
  const rows = events.map(({ time, action, bytes, category }) => {
    return `${time === undefined ? '-' : (time + start) / 1000} ${names[action]} ${bytes} ${memoryCategories[category]}`;
  });
  expect(rows).toEqual(wanted);
};

describe('events', () => {
  test('a buffer is created and destroyed, and temporary unless somebody says more', () => {
    check(
      [memory(1, 64, 7), memory(2, 32, 8), memory(3, -64, 7)],
      ['1 CREATE 64 TEMPORARY', '2 CREATE 32 TEMPORARY', '3 DESTROY -64 TEMPORARY'],
    );
  });

  test('what is said last of a life counts for all of it, and not for the next life at its address', () => {
    check(
      [
        memory(1, 64, 7),
        said(1, 7, 'activation'),
        said(2, 7, 'GRADIENT'),
        memory(3, -64, 7),
        said(3, 7, 'PARAMETER'),
        said(3.5, 7, 'INPUT'),
        memory(4, 16, 7),
        said(5, 7, 'weather'),
        memory(6, 16, 9),
      ],
      ['1 CREATE 64 PARAMETER', '3 DESTROY -64 PARAMETER', '4 CREATE 16 UNKNOWN', '6 CREATE 16 TEMPORARY'],
    );
  });

  test('what was there before: freed, named, and the rest of no category', () => {
    check(
      [
        said(1, 2, 'PARAMETER', 400),
        said(1, 3, 'OPTIMIZER_STATE'),
        said(1, 5, 'INPUT'),
        memory(2, 10, 4, 1_010),
        memory(3, -100, 3, 910),
        memory(4, -50, 6, 860),
        // Its life has ended, so later categories no longer apply to it.
        said(5, 6, 'INPUT', 50),
      ],
      [
        '- PREEXISTING 100 OPTIMIZER_STATE',
        '- PREEXISTING 50 TEMPORARY',
        '- PREEXISTING 400 PARAMETER',
        '- PREEXISTING 450 UNKNOWN',
        '2 CREATE 10 TEMPORARY',
        '3 DESTROY -100 OPTIMIZER_STATE',
        '4 DESTROY -50 TEMPORARY',
      ],
    );
  });

  test('a second allocation at an address changes its size', () => {
    check(
      [memory(1, 64, 7), memory(2, 100, 7), said(2, 7, 'INPUT'), memory(3, -100, 7)],
      ['1 CREATE 64 INPUT', '2 INCREMENT_VERSION -64 INPUT', '2 INCREMENT_VERSION 100 INPUT', '3 DESTROY -100 INPUT'],
    );
  });

  test('of the device where there is one, else of the host', () => {
    const both = [memory(1, 64, 7, 0, 0), memory(2, 32, 7, 0, 1), said(3, 7, 'GRADIENT', 0, 1)];
    check(both, ['2 CREATE 32 GRADIENT']);
    check(both, ['1 CREATE 64 TEMPORARY'], { device: 'cpu' });
    check(both.slice(0, 1), ['1 CREATE 64 TEMPORARY']);
    check([], []);
  });
});

describe("torch's files", () => {
  const trace = [said(0.5, 2, 'PARAMETER', 400), memory(1.2, 10, 4, 410), memory(1.9, 5, 5, 415), memory(3, -10, 4, 405)];
  const timeline = memoryTimeline(tableOf(trace));

  test('sizes by category, one row for each µs in which something happened', () => {
    const us = Number(base / 1000n);
    // A 0 to stack on, then PARAMETER, OPTIMIZER_STATE, INPUT, TEMPORARY, ACTIVATION, GRADIENT, AUTOGRAD_DETAIL, unknown.
    expect(JSON.parse(memoryTimelineJson(timeline))).toEqual([
      [us + 1, us + 3],
      [
        [0, 400, 0, 0, 15, 0, 0, 0, 0],
        [0, 400, 0, 0, 5, 0, 0, 0, 0],
      ],
    ]);
  });

  test('raw: time in ns, action, bytes, category', () => {
    expect(memoryTimelineRawJson(timeline)).toBe(
      `[[-1, 1, 400, 0], [${base + 1200n}, 2, 10, 3], [${base + 1900n}, 2, 5, 3], [${base + 3000n}, 4, -10, 3]]`,
    );
  });

  test('of nothing', () => {
    const nothing = memoryTimeline(tableOf([]));
    expect([memoryTimelineJson(nothing), memoryTimelineRawJson(nothing)]).toEqual(['[[], []]', '[]']);
  });
});

test.for(['bmm_nested', 'conv_train', 'mask_indices'])('of %s, the sum is what the allocator says is allocated', (name) => {
  const url = new URL(`../../../../test/data/kineto/torch-reference/${name}.pt.trace.json.gz`, import.meta.url);
  const table = readKineto(gunzipSync(readFileSync(url)));
  const { times, sizes } = memoryTimeline(table);
  const { columns, length } = table.memory;
  const wanted = new Map<number, number>();
  for (let row = 0; row < length; row++) {
    const micros = Math.floor(((columns.time[row] as number) + Number(table.epoch % 1000n)) / 1000);
    wanted.set(micros, columns.totalAllocated[row] as number);
  }
  const got = Array.from(times, (time, step) => [time, sizes.reduce((sum, bytes) => sum + (bytes[step] as number), 0)]);
  expect(got).toEqual([...wanted].sort(([a], [b]) => a - b));
});

test('no category ever falls below zero, and a life takes away what it added', () => {
  const anything = fc.record({
    ts: fc.nat(40),
    address: fc.nat(4),
    bytes: fc.integer({ min: -50, max: 50 }),
    category: fc.option(fc.constantFrom(...memoryCategories), { nil: undefined }),
  });
  fc.assert(
    fc.property(fc.array(anything, { maxLength: 60 }), (list) => {
      const trace = list.map(({ ts, address, bytes, category }) =>
        category === undefined ? memory(ts, bytes, address) : said(ts, address, category, Math.max(0, bytes)),
      );
      const { sizes, events } = memoryTimeline(tableOf(trace));
      for (const bytes of sizes) expect(bytes.every((size) => size >= 0)).toBe(true);
      const last = sizes.reduce((sum, bytes) => sum + (bytes.at(-1) ?? 0), 0);
      expect(events.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(last);
    }),
    { seed: 3 },
  );
});
