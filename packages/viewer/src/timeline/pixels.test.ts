import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Pixels } from './pixels.ts';

const text = (pixels: Pixels): string[] =>
  Array.from({ length: pixels.height }, (_, y) =>
    [...pixels.data.subarray(y * pixels.width, (y + 1) * pixels.width)].map((pixel) => (pixel === 0 ? '.' : '#')).join(''),
  );

test('rectangles, lines and markers land where they are meant', () => {
  const pixels = new Pixels(9, 6);
  pixels.rect(1, 1, 4, 3, 1);
  pixels.repeat(Uint32Array.from([0, 0, 0, 0, 0, 0, 0, 1, 1]), 4, 6);
  pixels.marker(6, 3, 3, 1);
  expect(text(pixels)).toEqual(['.....###.', '.###..#..', '.###..#..', '.........', '.......##', '.......##']);
});

test('nothing is painted outside of the clip, whatever the arguments (seed 9)', () => {
  const number = fc.oneof(fc.integer({ min: -50, max: 80 }), fc.constantFrom(-1e9, 1e9, 1e300, Number.NaN, Number.POSITIVE_INFINITY));
  fc.assert(
    fc.property(number, number, number, number, fc.nat({ max: 20 }), fc.nat({ max: 20 }), (a, b, c, d, top, bottom) => {
      const pixels = new Pixels(30, 20);
      pixels.clip(Math.min(top, bottom), Math.max(top, bottom));
      pixels.rect(a, b, c, d, 1);
      pixels.column(a, b, c, 1);
      pixels.hatch(a, b, c, d, 1, 1, 5);
      pixels.marker(a, b, 7, 1);
      pixels.repeat(new Uint32Array(30).fill(1), a, b);
      for (const [y, line] of text(pixels).entries()) {
        if (y < Math.min(top, bottom) || y >= Math.max(top, bottom)) expect(line).toBe('.'.repeat(30));
      }
    }),
    { seed: 9, numRuns: 300 },
  );
});
