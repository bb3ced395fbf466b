// The searches find the same values, in whatever form; and the test's random numbers are the same everywhere.

import * as tf from '@tensorflow/tfjs';
import { expect, test } from 'vitest';
import { readOptions, UsageError } from './options.ts';
import { searchBools, searchFloats, searchOnBackend } from './searches.ts';
import { stages } from './stages.ts';
import { uniform } from './uniform.ts';

const shape: [number, number, number] = [3, 4, 5];

test('all searches find the values above the mean of the largest outputs', async () => {
  await tf.setBackend('cpu');
  const values = uniform(60, { seed: 3, min: 0, max: 1 });
  const mask = tf.tensor3d(values, shape);
  // The largest outputs are 0.8 and 0.6, their mean is 0.7.
  const output = tf.tensor2d([0.1, 0.8, 0.6, 0.2], [2, 2]);
  const expected = [...values].flatMap((value, at) =>
    value > Math.fround(0.7) ? [[Math.floor(at / 20), Math.floor(at / 5) % 4, at % 5]] : [],
  );
  expect(expected.length).toBeGreaterThan(5);
  for (const search of [searchFloats, searchBools]) expect(search(mask, output).arraySync(), search.name).toEqual(expected);
  expect((await tf.whereAsync(searchOnBackend(mask, output) as tf.Tensor3D)).arraySync()).toEqual(expected);
});

test('nothing found is an empty list of indices', async () => {
  await tf.setBackend('cpu');
  const found = searchFloats(tf.zeros(shape), tf.ones([2, 2]));
  expect(found.shape).toEqual([0, 3]);
});

test('uniform numbers depend on the seed alone, and lie within their bounds', () => {
  const numbers = uniform(1000, { seed: 7, min: -2, max: 3 });
  expect(uniform(1000, { seed: 7, min: -2, max: 3 })).toEqual(numbers);
  expect(uniform(1000, { seed: 8, min: -2, max: 3 })).not.toEqual(numbers);
  expect(Math.min(...numbers)).toBeGreaterThanOrEqual(-2);
  expect(Math.max(...numbers)).toBeLessThanOrEqual(3);
  const mean = numbers.reduce((sum, value) => sum + value, 0) / numbers.length;
  expect(Math.abs(mean - 0.5)).toBeLessThan(0.2);
});

test('options: all stages, or one; what is neither is reported', () => {
  expect(readOptions([])).toEqual({ stages, json: false, out: 'ranktrace-out' });
  expect(readOptions(['--stage', '2', '--json', '--out', 'x'])).toEqual({ stages: [stages[1]], json: true, out: 'x' });
  expect(() => readOptions(['--stage', '0'])).toThrow(new UsageError('Cannot use --stage "0": it must be 1, 2 or 3'));
  expect(() => readOptions(['2'])).toThrow(UsageError);
});
