import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { expectSkewCase, type SkewCase } from './skew-case.ts';
import { adjustSpanSkew, type SkewSpan } from './span-skew.ts';

/** `id < parent host start+length → expected [events → expected]`, in ms; the rules are Jaeger's, the cases our own. */
const cases: readonly (Omit<SkewCase, 'spans'> & { readonly spans: readonly string[] })[] = [
  {
    name: 'a span whose parent is not there stays, and says whose it is',
    max_adjust_ms: 500,
    spans: ['7 < 171 x 20+40 → 20'],
    warning: 'parent span ID=00000000000000ab is not in the trace; skipping clock skew adjustment',
  },
  { name: 'a root on a host that nobody knows stays', max_adjust_ms: 500, spans: ['1 < 0 ? 20+40 → 20'] },
  {
    name: 'the second span of one id stays, and says so',
    max_adjust_ms: 500,
    spans: ['3 < 0 x 20+40 → 20', '3 < 0 y 70+10 → 70'],
    warning: 'duplicate span IDs; skipping clock skew adjustment',
  },
  {
    name: 'a child of one host with its parent stays inside of it',
    max_adjust_ms: 500,
    spans: ['1 < 0 x 20+40 → 20', '2 < 1 x 25+30 → 25'],
  },
  { name: 'a child of one host with its parent stays before it', max_adjust_ms: 500, spans: ['1 < 0 x 20+40 → 20', '2 < 1 x 5+30 → 5'] },
  { name: 'a child of one host with its parent stays behind it', max_adjust_ms: 500, spans: ['1 < 0 x 20+40 → 20', '2 < 1 x 90+30 → 90'] },
  { name: 'a child of another host that fits stays', max_adjust_ms: 500, spans: ['1 < 0 x 20+40 → 20', '2 < 1 y 20+40 → 20'] },
  {
    name: 'a longer child that begins after its parent stays',
    max_adjust_ms: 500,
    spans: ['1 < 0 x 20+40 → 20', '2 < 1 y 21+90 → 21'],
  },
  {
    name: 'a child is not moved on by more than allowed',
    max_adjust_ms: 24,
    spans: ['1 < 0 x 20+40 → 20', '2 < 1 y 0+30 → 0'],
    warning: 'max clock skew adjustment delta of 24ms exceeded; not applying calculated delta of 25ms',
  },
  {
    name: 'a child is moved on by just what is allowed',
    max_adjust_ms: 25,
    spans: ['1 < 0 x 20+40 → 20', '2 < 1 y 0+30 → 25'],
  },
  {
    name: 'a child is not moved back by more than allowed',
    max_adjust_ms: 24,
    spans: ['1 < 0 x 20+40 → 20', '2 < 1 y 61+30 → 61'],
    warning: 'max clock skew adjustment delta of 24ms exceeded; not applying calculated delta of -36ms',
  },
  {
    name: 'with nothing allowed, nothing is moved',
    max_adjust_ms: 0,
    spans: ['1 < 0 x 20+40 → 20', '2 < 1 y 0+30 → 0'],
    warning: 'clock skew adjustment disabled; not applying calculated delta of 25ms',
  },
  {
    name: 'a child from before its parent goes into its middle, with its events',
    max_adjust_ms: 500,
    spans: ['1 < 0 x 20+40 → 20', '2 < 1 y 0+30 → 25 [3,29 → 28,54]'],
  },
  { name: 'a longer child goes to its parent’s start', max_adjust_ms: 500, spans: ['1 < 0 x 20+40 → 20', '2 < 1 y 7+90 → 20'] },
  {
    name: 'a child that ends after its parent takes its own children along',
    max_adjust_ms: 500,
    spans: ['1 < 0 x 20+40 → 20', '2 < 1 y 45+20 → 30 [46 → 31]', '3 < 2 y 47+8 → 32 [50,55 → 35,40]'],
  },
];

const line = /^(\d+) < (\d+) (\S) (\d+)\+(\d+) → (\d+)(?: \[([\d,]+) → ([\d,]+)\])?$/;
const numbers = (list = ''): number[] => (list === '' ? [] : list.split(',').map(Number));
const spanOf = (text: string): SkewCase['spans'][number] => {
  const [, id, parent, host = '', start, length, expected, events, moved] = line.exec(text) ?? [];
  const times = { start_ms: Number(start), duration_ms: Number(length), expected_start_ms: Number(expected) };
  const of = { id: Number(id), parent: Number(parent), host: host === '?' ? '' : host };
  return { ...of, ...times, events_ms: numbers(events), expected_events_ms: numbers(moved) };
};

describe('span skew', () => {
  it.each(cases.map((one) => [one.name, one] as const))('%s', (_, { spans, ...about }) =>
    expectSkewCase({ ...about, spans: spans.map(spanOf) }),
  );

  it('follows a host’s clock down the tree, and finds a new one where the trace leaves that host', () => {
    const span = (about: Partial<SkewSpan>): SkewSpan => ({ id: '', parentId: '', start: 0, length: 0, host: '', events: [], ...about });
    const spans = [
      span({ id: 'a', start: 0, length: 100, host: 'x' }),
      span({ id: 'b', parentId: 'a', start: 500, length: 60, host: 'y' }),
      span({ id: 'c', parentId: 'b', start: 510, length: 20, host: 'y' }),
      span({ id: 'd', parentId: 'c', start: 0, length: 10, host: 'x' }),
    ];
    // b: into the middle of a, 20; c: the same shift; d: compared with c in its new place, 30 … 50.
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
