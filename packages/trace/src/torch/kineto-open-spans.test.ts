import fc from 'fast-check';
import { expect, it } from 'vitest';
import { runCount } from '../../../../test/setup/seeds.ts';
import { ReadBudget } from '../model/read-budget.ts';
import { EventArguments } from './kineto-event-arguments.ts';
import { type OpenSpan, OpenSpans } from './kineto-open-spans.ts';

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
