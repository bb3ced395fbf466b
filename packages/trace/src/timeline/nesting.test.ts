import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Nesting } from './nesting.ts';

interface Span {
  readonly start: number;
  readonly end: number;
}

/** The line of each span as a track places it; spans come in order of start. */
function linesOf(spans: readonly Span[]): number[] {
  const nesting = new Nesting();
  return spans.map(({ start, end }) => {
    const line = nesting.at(start);
    nesting.push(line, end);
    return line;
  });
}

/** Properly nested spans: a tree of `levels` levels, parents first. */
function tree(levels: number): fc.Arbitrary<Span[]> {
  const inside = levels === 0 ? fc.constant<Span[][]>([]) : fc.array(tree(levels - 1), { maxLength: 3 });
  const room = fc.integer({ min: 1, max: 5 });
  return fc.tuple(room, inside, room).map(([before, children, after]) => {
    let at = before;
    const moved = children.flatMap((spans) => {
      const by = at;
      at = Math.max(...spans.map(({ end }) => end + by));
      return spans.map(({ start, end }) => ({ start: start + by, end: end + by }));
    });
    return [{ start: 0, end: at + after }, ...moved];
  });
}

describe('Nesting', () => {
  it('puts a span on the line after the spans around it (seed 61)', () => {
    fc.assert(
      fc.property(tree(4), (spans) => {
        const around = spans.map(
          (span) => spans.filter((other) => other !== span && other.start <= span.start && other.end >= span.end).length,
        );
        expect(linesOf(spans)).toEqual(around);
      }),
      { seed: 61, numRuns: 200 },
    );
  });

  it('lets no two spans of one line overlap, however they overlap (seed 62)', () => {
    const given = fc.array(fc.tuple(fc.nat(20), fc.nat(100)), { maxLength: 60, size: 'max' }).map((steps) => {
      let start = 0;
      return steps.map(([gap, length]): Span => {
        start += gap;
        return { start, end: start + length };
      });
    });
    fc.assert(
      fc.property(given, (spans) => {
        const lines = linesOf(spans);
        for (const [index, { start, end }] of spans.entries()) {
          const beside = spans.filter((other, at) => at > index && lines[at] === lines[index] && other.start < end && other.end > start);
          expect(beside).toEqual([]);
        }
      }),
      { seed: 62, numRuns: 200 },
    );
  });

  it('keeps what is inside of a span below it until its end is known', () => {
    const nesting = new Nesting();
    nesting.push(nesting.at(0), Number.POSITIVE_INFINITY);
    expect(nesting.at(1000)).toBe(1);
    nesting.setEnd(0, 1500);
    expect([nesting.at(1499), nesting.at(1500)]).toEqual([1, 0]);
  });
});
