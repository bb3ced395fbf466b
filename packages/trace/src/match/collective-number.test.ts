import { describe, expect, test } from 'vitest';
import { beforeCut, collectiveNumber, collectiveNumberData, fromEnd, repetition, windowStep } from './collective-number.ts';

describe('the number of a collective as people read it', () => {
  test.each([
    [0, '#0'],
    [7, '#7'],
    [4_503_599_627_370_486, ', 10th from the end'],
    [fromEnd - 1, ', the last'],
    [fromEnd - 2, ', 2nd from the end'],
    [fromEnd - 3, ', 3rd from the end'],
    [fromEnd - 11, ', 11th from the end'],
    [fromEnd - 112, ', 112th from the end'],
    [fromEnd - 121, ', 121st from the end'],
    [fromEnd - windowStep - 1, ', the last of the file before the last'],
    [fromEnd - 2 * windowStep - 4, ', 4th from the end of the 3rd last file'],
    [fromEnd - beforeCut, ', 1st after the cut'],
    [fromEnd - beforeCut - 1, ', 1st before the cut'],
    [fromEnd - beforeCut + 1, ', 2nd after the cut'],
    [fromEnd - 5 * windowStep - beforeCut - 12, ', 12th before the cut'],
    [repetition + 7, '#7, part 2'],
    [5 * repetition, '#0, part 6'],
    // Numbers chosen by a program.
    [1_795_348_897_703, '#1795348897703'],
    [fromEnd, '#4503599627370496'],
    [Number.MAX_SAFE_INTEGER, '#9007199254740991'],
  ])('%d: %s', (sequence, expected) => expect(collectiveNumber(sequence)).toBe(expected));
});

test('the number of a collective as data', () => {
  expect(
    [7, repetition + 7, fromEnd - windowStep - 6, fromEnd - beforeCut, fromEnd - windowStep - beforeCut - 2].map(collectiveNumberData),
  ).toEqual([
    { sequence: 7 },
    { sequence: 7, part: 2 },
    { sequence: null, fromEnd: 6, window: 1 },
    { sequence: null, beforeCut: 0, window: 0 },
    { sequence: null, beforeCut: 2, window: 1 },
  ]);
});
