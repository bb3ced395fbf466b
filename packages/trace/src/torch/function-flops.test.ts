import { expect, test } from 'vitest';
import { functionFlops } from './function-flops.ts';

const conv = ['', '', '', '[2, 2]', '[1, 1]', '[1, 1]', '2'];

test.for([
  [
    'aten::mm',
    [
      [2, 3],
      [3, 4],
    ],
    undefined,
    48,
  ],
  ['aten::addmm', [[4], [2, 3], [3, 4]], undefined, 48],
  [
    'aten::bmm',
    [
      [5, 2, 3],
      [5, 3, 4],
    ],
    undefined,
    240,
  ],
  [
    'aten::baddbmm',
    [
      [5, 2, 4],
      [5, 2, 3],
      [5, 3, 4],
    ],
    undefined,
    240,
  ],
  ['aten::mul', [[2, 3], []], undefined, 6],
  ['aten::add', [[], []], undefined, 1],
  [
    'aten::conv2d',
    [
      [8, 4, 16, 16],
      [6, 2, 3, 3],
    ],
    conv,
    (2 * 8 * 8 * 8 * 3 * 3 * 4 * 6) / 2,
  ],
  [
    'aten::conv2d',
    [
      [8, 4, 16, 16],
      [6, 2, 3, 3],
    ],
    ['', '', '', '[1, 1]', 'same', '[1, 1]', '1'],
    0,
  ],
  [
    'aten::conv2d',
    [
      [4, 16, 16],
      [6, 2, 3, 3],
    ],
    conv,
    0,
  ],
  ['aten::mm', [[2, 3]], undefined, 0],
  ['aten::relu', [[2, 3]], undefined, 0],
] as const)('%s of %j does what torch says', ([op, shapes, concrete, flops]) => {
  expect(functionFlops(op, JSON.stringify(shapes), '', concrete === undefined ? '' : JSON.stringify(concrete))).toBe(flops);
});

test('a plain number is no tensor', () => {
  expect(functionFlops('aten::mul', '[[], [2]]', '["Scalar", "float"]', '')).toBe(0);
});
