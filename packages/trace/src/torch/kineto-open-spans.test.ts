import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { runCount } from '../../../../test/setup/seeds.ts';
import { ReadBudget } from '../model/read-budget.ts';
import { differencesOfSpilled } from '../testing/spilled-kineto.ts';
import { EventArguments } from './kineto-event-arguments.ts';
import { type OpenSpan, OpenSpans } from './kineto-open-spans.ts';
import { readKineto } from './kineto-reader.ts';
import type { KinetoTable } from './kineto-table.ts';

const spanOf = (name: number, micros: number): OpenSpan => {
  return { micros, nanos: 0, name, category: 0, arguments: new EventArguments(), others: 0 };
};

it('an end closes the last begin of its name, else the last of all, as in a list that is searched (seed 46)', () => {
  const steps = fc.array(fc.record({ isEnd: fc.boolean(), name: fc.integer({ min: -1, max: 4 }) }), { maxLength: 60 });
  fc.assert(
    fc.property(steps, (all) => {
      const [open, list]: [OpenSpans, OpenSpan[]] = [new OpenSpans(new ReadBudget()), []];
      for (const [at, { isEnd, name }] of all.entries()) {
        if (isEnd) {
          const [span] = list.splice(name < 0 ? -1 : list.findLastIndex((one) => one.name === name), 1);
          expect(open.end(7, name)).toBe(span);
        } else {
          const span = spanOf(Math.max(0, name), at);
          list.push(span);
          open.begin(7, span);
        }
        expect(open.count).toBe(list.length);
      }
    }),
    { seed: 46, numRuns: runCount(500) },
  );
});

it('an end looks at few spans, however many are open', () => {
  const many = 2000;
  let looks = 0;
  const open = new OpenSpans(new ReadBudget());
  for (let name = 0; name < many; name++) {
    const span = spanOf(name, name);
    Object.defineProperty(span, 'name', {
      get() {
        looks++;
        return name;
      },
    });
    open.begin(7, span);
  }
  for (let name = 0; name < many; name++) expect(open.end(7, name)?.micros).toBe(name);
  expect(looks).toBeLessThan(8 * many);
});

describe('begins at one time, as of sampling profilers', () => {
  const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);
  const of = (ph: string, ts: number, name: string, tid = 1): object => ({ ph, name, pid: 1, tid, ts, args: { [ph]: name } });
  const stack = (ph: string, ts: number, names: string): object[] => [...names].map((name) => of(ph, ts, name));
  const rowsOf = ({ events, strings, arguments: texts, skipped }: KinetoTable): string => {
    const { name, duration, others } = events.columns;
    const row = (at: number) => `${strings.get(name[at] as number)} ${duration[at]} ${texts.get(others[at] as number)}`;
    return [...Array.from({ length: events.length }, (_, at) => row(at)), `left out: ${skipped.malformed}`].join('\n');
  };
  const read = (...events: object[]) => readKineto(bytesOf(JSON.stringify(events)), { keep: 'all' });
  const shown = (name: string, ns: number) => `${name} ${ns} "B":"${name}","E":"${name}"`;

  it('are rows in order of begin, for rows of equal times nest in that order', () => {
    const events = [
      ...stack('B', 0, 'mab'),
      of('B', 0, 'other', 2),
      ...stack('E', 9, 'ba'),
      ...stack('B', 9, 'cd'),
      ...stack('E', 9, 'dcm'),
    ];
    expect(rowsOf(read(...events, of('E', 9, 'other', 2)))).toBe(
      [shown('c', 0), shown('d', 0), shown('m', 9000), shown('a', 9000), shown('b', 9000), shown('other', 9000), 'left out: 0'].join('\n'),
    );
  });

  it('are there, too, where the span around them does not end, or ends before it began', () => {
    const ended = [shown('a', 9000), shown('b', 9000)];
    const events = [...stack('B', 0, 'mab'), ...stack('E', 9, 'ba')];
    expect(rowsOf(read(...events))).toBe([...ended, 'left out: 1'].join('\n'));
    expect(rowsOf(read(...events, of('E', -1, 'm')))).toBe([...ended, 'left out: 1'].join('\n'));
    const cut = readKineto(bytesOf(`{"traceEvents":${JSON.stringify(events).slice(0, -1)},{"ph`), { keep: 'all' });
    expect([rowsOf(cut), cut.stopped !== undefined]).toEqual([[...ended, 'left out: 1'].join('\n'), true]);
  });

  it('keep their arguments where the rows go to disk meanwhile', () => {
    const busy = Array.from({ length: 40 }, (_, at) => ({ ph: 'X', name: 'x', pid: 1, tid: 2, ts: at, dur: 1, args: { at } }));
    const file = bytesOf(JSON.stringify([...stack('B', 0, 'mab'), ...stack('E', 9, 'ba'), ...busy, of('E', 9, 'm')]));
    expect(differencesOfSpilled([file], 8)).toBe('');
  });

  it('costs about as much for each of many levels, also where each has a part that ended before the next began', () => {
    const levels = 40_000;
    const events = Array.from({ length: levels }, (_, level) => [of('B', 5, `a${level}`), of('B', 5, 'part'), of('E', 5, 'part')]).flat();
    const ends = Array.from({ length: levels }, (_, level) => of('E', 5, `a${levels - 1 - level}`));
    const { events: rows, strings, skipped } = readKineto(bytesOf(JSON.stringify([...events, ...ends])), { keep: 'all' });
    const names = [0, 1, 2, 3, 2 * levels - 2].map((row) => strings.get(rows.columns.name[row] as number));
    expect([rows.length, skipped.malformed, names]).toEqual([2 * levels, 0, ['a0', 'part', 'a1', 'part', `a${levels - 1}`]]);
  });
});
