import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type FixtureItem, spanTile } from '../testing/span-tile.ts';
import { mixed } from './palette.ts';
import { firstEndingAfter, type LineColours, type LineEvents, linesOf, paintLine } from './span-line.ts';

const ground = 0xff000000;
const inks = Uint32Array.of(0xffffffff, 0xff0000ff, 0xff00ff00);
const colours: LineColours = { table: inks, dimmed: inks, byName: (name) => name, means: undefined };

/** A line of `width` pixels, one per `nsPerPx`; letters are full colours, `~` a mixture, `.` the ground. */
function painted(
  items: readonly FixtureItem[],
  options: { from?: number; width?: number; nsPerPx?: number; clips?: readonly (readonly [number, number])[]; depth?: number } = {},
): { readonly line: string; readonly labels: string[]; readonly instants: number[] } {
  const { from = 0, width = 20, nsPerPx = 1, clips = [[Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY]], depth = 0 } = options;
  const tile = spanTile(items);
  const lines = linesOf(tile);
  const line = new Uint32Array(width).fill(ground);
  const labels: string[] = [];
  const instants: number[] = [];
  const events: LineEvents = {
    labelPxMin: 5,
    label: (left, right, item) => labels.push(`${tile.event[item]}: ${left}–${right}`),
    instant: (x) => instants.push(x),
  };
  for (const [clipFrom, clipUntil] of clips) {
    const [first, last] = [lines[depth] ?? 0, lines[depth + 1] ?? 0];
    paintLine(line, tile, first, last, clipFrom, clipUntil, { from, scale: 1 / nsPerPx, width }, colours, events);
  }
  const letters = [...line].map((pixel) =>
    pixel === ground ? '.' : pixel === inks[0] ? 'a' : pixel === inks[1] ? 'b' : pixel === inks[2] ? 'c' : '~',
  );
  return { line: letters.join(''), labels, instants };
}

test('spans are filled from edge to edge, with a pixel of ground between those that are wide', () => {
  const { line, labels } = painted([
    { start: 1, length: 6 },
    { start: 7, length: 2, name: 1 },
    { start: 9, length: 8, name: 2 },
  ]);
  expect(line).toBe('.aaaaa.bbccccccc....');
  expect(labels).toEqual(['0: 1–7', '2: 9–17']);
});

test('a span that is wider than the window is filled and named once', () => {
  expect(painted([{ start: -100, length: 300 }])).toEqual({ line: 'a'.repeat(20), labels: ['0: 0–20'], instants: [] });
});

test('crowds of short spans are as bright as they are busy, a single one can still be seen', () => {
  const { line } = painted(
    [
      { start: 0, length: 1, busy: 1 },
      { start: 40, length: 10, count: 9, busy: 1 },
      { start: 100, length: 10, count: 9, busy: 8 },
    ],
    { nsPerPx: 10 },
  );
  expect(line).toBe('~...~.....~.........');
  const pixels = new Uint32Array(2).fill(ground);
  const tile = spanTile([
    { start: 0, length: 1 },
    { start: 10, length: 10, count: 9, busy: 9.5 },
  ]);
  paintLine(pixels, tile, 0, 2, 0, 20, { from: 0, scale: 0.1, width: 2 }, colours, { labelPxMin: 5, label() {}, instant() {} });
  expect(pixels[0]).toBe(mixed(ground, 0xffffffff, 0.32));
  expect((pixels[1] as number) & 0xff).toBeGreaterThan(230);
});

test('instants are reported, not filled', () => {
  const { line, instants } = painted([{ start: 5, length: 0, kind: 'instant' }]);
  expect(line).toBe('.'.repeat(20));
  expect(instants).toEqual([5]);
});

test('parts beside each other paint what one part paints, and name a span once (seed 10)', () => {
  const items = fc
    .array(fc.tuple(fc.integer({ min: 0, max: 30 }), fc.integer({ min: 1, max: 40 }), fc.nat({ max: 2 })), { maxLength: 12 })
    .map((pairs) => {
      let at = -20;
      return pairs.map(([gap, length, name]): FixtureItem => {
        const start = at + gap;
        at = start + length;
        return { start, length, name };
      });
    });
  fc.assert(
    fc.property(items, fc.integer({ min: 1, max: 59 }), (list, cut) => {
      const whole = painted(list, { width: 60 });
      const parts = painted(list, {
        width: 60,
        clips: [
          [-1000, cut],
          [cut, 1000],
        ],
      });
      expect(parts.labels.sort()).toEqual(whole.labels.sort());
      expect(parts.line).toBe(whole.line);
    }),
    { seed: 10, numRuns: 300 },
  );
});

test('lines begin where their depth begins', () => {
  const tile = spanTile([
    { start: 0, length: 9 },
    { start: 1, length: 2, depth: 2 },
    { start: 4, length: 2, depth: 2 },
  ]);
  expect([...linesOf(tile)]).toEqual([0, 1, 1, 3]);
  expect([...linesOf(spanTile([]))]).toEqual([0]);
  expect(firstEndingAfter(tile, 1, 3, 3)).toBe(2);
  expect(
    painted(
      [
        { start: 0, length: 9 },
        { start: 1, length: 2, depth: 2 },
      ],
      { depth: 2 },
    ).line,
  ).toBe(`.aa${'.'.repeat(17)}`);
});
