import { expect, it } from 'vitest';
import { csvName, csvText, tabbedText } from './csv.ts';

const rows = [
  ['name', 'total ns', 'share'],
  ['void gemm<float, 2>("a")', 1234.5, null],
  ['=HYPERLINK("x")', Number.NaN, -0.5],
  ['two\nlines\there', 0, undefined],
];

it('quotes what needs it, and leaves no formula to a spreadsheet', () => {
  expect(csvText(rows)).toBe(
    ['name,total ns,share', '"void gemm<float, 2>(""a"")",1234.5,', '"\'=HYPERLINK(""x"")",,-0.5', '"two\nlines\there",0,', ''].join(
      '\r\n',
    ),
  );
});

it('keeps a cell on its line between tabs', () => {
  expect(tabbedText(rows).split('\n')).toEqual([
    'name\ttotal ns\tshare',
    'void gemm<float, 2>("a")\t1234.5\t',
    '\'=HYPERLINK("x")\t\t-0.5',
    'two lines here\t0\t',
  ]);
});

it('names files after tables', () => {
  expect(csvName('Kernels of rank 3, by name')).toBe('kernels-of-rank-3-by-name.csv');
});
