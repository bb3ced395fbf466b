import { expect, test } from 'vitest';
import { colourOf, mixed, palettes, pixelOf } from './palette.ts';

// Contrast as WCAG 2.1 defines it.
function luminance(pixel: number): number {
  const [r, g, b] = [pixel & 0xff, (pixel >>> 8) & 0xff, (pixel >>> 16) & 0xff].map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
const contrast = (a: number, b: number): number => {
  const [high, low] = [Math.max(luminance(a), luminance(b)), Math.min(luminance(a), luminance(b))];
  return (high + 0.05) / (low + 0.05);
};

test.each(['light', 'dark'] as const)('texts read on every colour of the %s theme', (name) => {
  const palette = palettes[name];
  const text = pixelOf(palette.text);
  for (const pixel of [...palette.spans, ...palette.steps]) expect(contrast(text, pixel)).toBeGreaterThan(4.5);
  expect(contrast(pixelOf(palette.muted), palette.header)).toBeGreaterThan(4.5);
});

test('what training programs are made of has colours of its own', () => {
  const names = ['data', 'forward', 'backward', 'optimizer', 'loss', 'all_reduce'];
  expect(new Set(names.map(colourOf)).size).toBe(names.length);
});

test('names that differ in numbers alone have one colour', () => {
  expect(colourOf('layer 12')).toBe(colourOf('layer 3'));
});

test('pixels are mixed by parts', () => {
  expect(mixed(pixelOf('#000000'), pixelOf('#ffffff'), 0)).toBe(pixelOf('#000000'));
  expect(mixed(pixelOf('#102030'), pixelOf('#ffffff'), 1)).toBe(pixelOf('#ffffff'));
  expect(mixed(pixelOf('#000000'), pixelOf('#ff8040'), 0.5)).toBe(pixelOf('#7f4020'));
});
