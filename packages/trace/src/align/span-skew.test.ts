import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { adjustSpanSkew, type SkewSpan } from './span-skew.ts';

interface Case {
  readonly name: string;
  readonly max_adjust_ms: number;
  readonly warning?: string;
  readonly spans: readonly {
    readonly id: number;
    readonly parent: number;
    readonly start_ms: number;
    readonly duration_ms: number;
    readonly host: string;
    readonly expected_start_ms: number;
    readonly events_ms?: readonly number[];
    readonly expected_events_ms?: readonly number[];
  }[];
}

const ms = 1e6;
const data = new URL('../../../../../shared/data/clock/jaeger_clockskew_cases.json', import.meta.url);
const { cases } = JSON.parse(readFileSync(data, 'utf8')) as { cases: readonly Case[] };
const id = (number: number): string => (number === 0 ? '' : number.toString(16).padStart(16, '0'));

describe('span skew', () => {
  it('knows all of Jaeger’s cases', () => expect(cases).toHaveLength(13));

  it.each(cases)('as Jaeger: $name', ({ spans, max_adjust_ms, warning }) => {
    const given = spans.map(
      ({ id: number, parent, start_ms, duration_ms, host, events_ms = [] }): SkewSpan => ({
        id: id(number),
        parentId: id(parent),
        start: start_ms * ms,
        length: duration_ms * ms,
        host,
        events: events_ms.map((time) => time * ms),
      }),
    );
    const adjusted = adjustSpanSkew(given, max_adjust_ms * ms);
    expect(adjusted.map(({ start }) => start / ms)).toEqual(spans.map(({ expected_start_ms }) => expected_start_ms));
    expect(adjusted.map(({ events }) => events.map((time) => time / ms))).toEqual(
      spans.map(({ events_ms = [], expected_events_ms = events_ms }) => expected_events_ms),
    );
    expect(adjusted.flatMap((span) => span.warning ?? [])).toEqual(warning === undefined ? [] : [warning]);
    expect(adjusted.map(({ raw }) => raw)).toEqual(given);
  });

  it('follows a host’s clock down the tree, and finds a new one where the trace leaves that host', () => {
    const span = (about: Partial<SkewSpan>): SkewSpan => ({ id: '', parentId: '', start: 0, length: 0, host: '', events: [], ...about });
    const spans = [
      span({ id: 'a', start: 0, length: 100, host: 'x' }),
      span({ id: 'b', parentId: 'a', start: 500, length: 60, host: 'y' }),
      span({ id: 'c', parentId: 'b', start: 510, length: 20, host: 'y' }),
      span({ id: 'd', parentId: 'c', start: 0, length: 10, host: 'x' }),
    ];
    // b: into the middle of a, 20; c: the same shift; d: compared with c as it lies now, 30 … 50.
    expect(adjustSpanSkew(spans, 1e9).map(({ start }) => start)).toEqual([0, 20, 30, 35]);
  });

  it('prints lengths of time as Go does', () => {
    const spans = (start: number): SkewSpan[] => [
      { id: 'a', parentId: '', start: 0, length: 10, host: 'x', events: [] },
      { id: 'b', parentId: 'a', start, length: 10, host: 'y', events: [] },
    ];
    const shown = (delta: number): string => /delta of ([^;]*)$/.exec(adjustSpanSkew(spans(-delta), 0)[1]?.warning ?? '')?.[1] ?? '';
    const given = [5, -1500, 1_500_000, -1_500_000_000, 60_000_000_000, 3_600_000_000_000, -90_061_500_000_000];
    expect(given.map(shown)).toEqual(['5ns', '-1.5µs', '1.5ms', '-1.5s', '1m0s', '1h0m0s', '-25h1m1.5s']);
  });

  it('bears any tree: cycles, orphans, duplicates, great depth (seed 43)', () => {
    const anySpan = fc.record({
      id: fc.nat(8).map(String),
      parentId: fc.nat(9).map((number) => (number === 9 ? '' : String(number))),
      start: fc.integer({ min: -1000, max: 1000 }),
      length: fc.nat(1000),
      host: fc.constantFrom('', 'x', 'y'),
      events: fc.array(fc.nat(100), { maxLength: 2 }),
    });
    fc.assert(
      fc.property(fc.array(anySpan, { maxLength: 20 }), (spans) => {
        const adjusted = adjustSpanSkew(spans, 1e9);
        expect(adjusted.map(({ raw }) => raw)).toEqual(spans);
        for (const { raw, start, events } of adjusted) expect(events).toEqual(raw.events.map((time) => time + start - raw.start));
      }),
      { seed: 43, numRuns: 500 },
    );
    const deep = Array.from({ length: 100_000 }, (_, at) => ({
      id: `${at}`,
      parentId: at === 0 ? '' : `${at - 1}`,
      start: 0,
      length: 1,
      host: '',
      events: [],
    }));
    expect(adjustSpanSkew(deep, 1e9)).toHaveLength(deep.length);
  });
});
