import { describe, expect, it } from 'vitest';
import { TraceError } from '../model/errors.ts';
import { Random } from '../simulate/random.ts';
import { type SeriesColumnNames, SeriesCsvReader } from './series-csv.ts';

/** A reader's result for a text, one line per row. */
function read(text: string, names: SeriesColumnNames = {}, pieces: readonly string[] = [text]): string[] {
  const rows: string[] = [];
  const reader = new SeriesCsvReader((step, time, context, tag) => rows.push([step, time, context, tag ?? '-'].join(' ')), names);
  for (const piece of pieces) reader.push(piece);
  reader.end();
  if (reader.skipped > 0) rows.push(`skipped ${reader.skipped}, first in line ${reader.firstSkippedLine}`);
  return rows;
}

const refused = (text: string, names: SeriesColumnNames = {}): string => {
  try {
    read(text, names);
  } catch (error) {
    if (error instanceof TraceError) return `${error.code}: ${error.message.replace('Cannot read a series of step times: ', '')}`;
    throw error;
  }
  return 'read';
};

describe('a recorded series', () => {
  it('is step, time, context and tag, in any order', () => {
    expect(read('step,time_ms\n1,2.5\n2,3e0\n')).toEqual(['1 2.5  -', '2 3  -']);
    expect(read('tag,context,time_ms,other,step\nEval,a b,7,x,9\n,,8,x,10')).toEqual(['9 7 a b eval', '10 8  -']);
  });

  it('may have Windows line ends, a byte order mark, quotes and empty lines', () => {
    expect(read('\uFEFFstep,"time_ms",context\r\n1,"2","a, ""b"""\r\n\r\n2,3,c\r\n')).toEqual(['1 2 a, "b" -', '2 3 c -']);
  });

  it('has the unit that the end of the column name says', () => {
    expect(read('step,time_s\n1,0.25')).toEqual(['1 250  -']);
    expect(read('step,step_ns\n1,250000')).toEqual(['1 0.25  -']);
    expect(read('step,duration_us\n1,250')).toEqual(['1 0.25  -']);
    expect(read('n,took\n1,250', { step: 'n', time: 'took' })).toEqual(['1 250  -']);
  });

  it('counts rows where it has no steps', () => {
    expect(read('time_ms\n5\nx\n6')).toEqual(['0 5  -', '2 6  -', 'skipped 1, first in line 3']);
  });

  it('takes what a tag column says for another kind of step, unless it says none', () => {
    const rows = read('step,time_ms,in_eval\n1,2,0\n2,2,1\n3,2,checkpoint\n4,2,train\n5,2,warm', { tag: 'in_eval' });
    expect(rows.map((row) => row.split(' ').at(-1))).toEqual(['-', 'eval', 'checkpoint', '-', 'eval']);
  });

  it('skips and counts rows that are none', () => {
    const rows = ['1,2', '1.5,2', '2,-2', '3,', '4,NaN', '5,1e999', '6', '7,2,3', '8,0x10', '9,"2', `10,${'9'.repeat(50)}`, '11,3'];
    expect(read(`step,time_ms\n${rows.join('\n')}`)).toEqual(['1 2  -', '11 3  -', 'skipped 10, first in line 3']);
  });

  it('is refused with one line where it is none', () => {
    expect([
      refused(''),
      refused('\n'),
      refused('step,time_ms\n'),
      refused('step,time_ms\na,b\n'),
      refused('a,b\n1,2'),
      refused('step,time_ms\n1,2', { time: 'wall' }),
      refused('"step,time_ms\n1,2'),
      refused(`step,time_ms\n${'9'.repeat(70_000)}`),
      refused(`${'a,'.repeat(2000)}\n1`),
    ]).toMatchInlineSnapshot(`
      [
        "not_csv: it is empty, a line with the names of columns is wanted",
        "not_csv: it has no column time_ms, nor was one named for the time; line 1 names """,
        "not_csv: there is no row in it",
        "not_csv: none of its 1 rows has a step number and a time",
        "not_csv: it has no column time_ms, nor was one named for the time; line 1 names "a", "b"",
        "not_csv: it has no column "wall"; line 1 names "step", "time_ms"",
        "not_csv: a quote in line 1 has no end",
        "too_large: line 2 is longer than 65536 characters",
        "not_csv: line 1 names 2001 columns, at most 1024 are read",
      ]
    `);
  });

  it.each([1, 2, 3, 4])('is the same in any pieces, and noise is refused with its own error (seed %i)', (seed) => {
    const random = new Random(seed, 'csv');
    const text = `step,time_ms,context\n${Array.from({ length: 50 }, (_, step) => `${step},${random.uniform(1, 9)},"c${random.whole(3)}"`).join('\r\n')}`;
    const pieces: string[] = [];
    for (let at = 0; at < text.length; ) {
      const length = 1 + random.whole(40);
      pieces.push(text.slice(at, at + length));
      at += length;
    }
    expect(read(text, {}, pieces)).toEqual(read(text));
    for (let round = 0; round < 200; round++) {
      const letters = 'step,time_ms\n"\r;\u0000é1234.-e';
      const noise = Array.from({ length: random.whole(80) }, () => letters[random.whole(letters.length)]).join('');
      refused(noise);
      refused(`step,time_ms\n${noise}`);
    }
  });
});
