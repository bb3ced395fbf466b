import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { StepBudget, StepHistory } from './step-history.ts';
import { stepLimits } from './step-limits.ts';

interface Bin {
  readonly step: number;
  readonly start: number;
  readonly count: number;
  readonly total: number;
  readonly longest: number;
}

function binsOf(history: StepHistory, from = 0, to = Number.MAX_SAFE_INTEGER): Bin[] {
  const bins: Bin[] = [];
  history.visit(from, to, (step, start, count, total, longest) => bins.push({ step, start, count, total, longest }));
  return bins;
}

const phases = (forward: number): ReadonlyMap<string, number> => new Map([['forward', forward]]);

/** The smallest budget that a history can have. */
const small = (): StepBudget => new StepBudget(0);
const room = stepLimits.stepBinsPerProcessMin;

describe('StepHistory', () => {
  it('knows every step by itself while there is room', () => {
    const history = new StepHistory();
    history.add(4, 100, 10, phases(6));
    history.add(5, 110, 30, phases(7));
    expect(binsOf(history)).toEqual([
      { step: 4, start: 100, count: 1, total: 10, longest: 10 },
      { step: 5, start: 110, count: 1, total: 30, longest: 30 },
    ]);
    expect(history.range).toEqual([4, 5]);
    expect(history.phaseTotals(5, 5)).toEqual(phases(7));
    expect(history.phaseTotals(0, 9)).toEqual(phases(13));
  });

  it('merges pairs when there is no room, and loses nothing of what they add up to', () => {
    const history = new StepHistory(small());
    const steps = 10 * room;
    for (let step = 0; step < steps; step++) history.add(step, step * 10, 10 + (step % 2), phases(1));
    expect(history.binSteps).toBe(16);
    expect(binsOf(history)).toHaveLength(steps / 16);
    expect(binsOf(history)[1]).toEqual({ step: 16, start: 160, count: 16, total: 168, longest: 11 });
    expect(history.phaseTotals(0, steps)).toEqual(phases(steps));
    expect(history.lengths.quantiles([0.5])?.[0]).toBeCloseTo(10.5, 0);
  });

  it('takes steps that jump, come late and come again', () => {
    const history = new StepHistory();
    for (const step of [10_000_000, 3, 10_000_001, 4, 3]) history.add(step, step, 5, undefined);
    expect(binsOf(history).map(({ step, count }) => [step, count])).toEqual([
      [3, 2],
      [4, 1],
      [10_000_000, 1],
      [10_000_001, 1],
    ]);
  });

  it('skips and counts what cannot be a step', () => {
    const history = new StepHistory();
    for (const step of [-1, 0.5, Number.NaN, 2 ** 60]) history.add(step, 0, 1, undefined);
    history.add(1, Number.NaN, 1, undefined);
    history.add(1, 0, -1, undefined);
    history.add(1, 0, Number.POSITIVE_INFINITY, undefined);
    expect(history).toMatchObject({ count: 0, skipped: 7, range: undefined });
  });

  it('leaves further phases, and one called `other`, to the rest of the step', () => {
    const history = new StepHistory();
    const many = Array.from({ length: 40 }, (_, phase): [string, number] => [`phase ${phase}`, 1]);
    history.add(0, 0, 100, new Map([['other', 5], ...many]));
    expect([...history.phaseTotals(0, 0).keys()]).toEqual(many.slice(0, stepLimits.stepPhasesMax).map(([name]) => name));
  });

  it('shares the room of a run', () => {
    const budget = new StepBudget(1000);
    const histories = [new StepHistory(budget), new StepHistory(budget)];
    expect(budget.binsPerProcess).toBe(500);
    for (const history of histories) for (let step = 0; step < 1000; step++) history.add(step, step, 1, undefined);
    expect(histories.map((history) => [history.binSteps, binsOf(history).length])).toEqual([
      [2, 500],
      [2, 500],
    ]);
  });

  it('is what a list of all steps would be, in bounded memory, in any order', () => {
    const step = fc.record({
      step: fc.oneof(fc.nat(200), fc.nat(5000), fc.maxSafeNat()),
      start: fc.nat(1_000_000),
      length: fc.nat(1000),
      forward: fc.nat(100),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 400, size: 'max' }), fc.nat(6000), fc.nat(6000), (steps, from, span) => {
        const history = new StepHistory(small());
        for (const { step, start, length, forward } of steps) history.add(step, start, length, phases(forward));
        const { binSteps } = history;
        expect(Math.log2(binSteps) % 1).toBe(0);
        const keyOf = (number: number): number => Math.floor(number / binSteps);
        const expected = new Map<number, Bin>();
        let forward = 0;
        for (const about of steps) {
          const key = keyOf(about.step);
          if (key < keyOf(from) || key > keyOf(from + span)) continue;
          const bin = expected.get(key);
          expected.set(key, {
            step: key * binSteps,
            start: Math.min(bin?.start ?? about.start, about.start),
            count: (bin?.count ?? 0) + 1,
            total: (bin?.total ?? 0) + about.length,
            longest: Math.max(bin?.longest ?? 0, about.length),
          });
          forward += about.forward;
        }
        const found = binsOf(history, from, from + span);
        expect(found).toEqual([...expected.values()].sort((a, b) => a.step - b.step));
        expect(found.length).toBeLessThanOrEqual(room);
        expect(history.phaseTotals(from, from + span).get('forward') ?? 0).toBe(forward);
        expect(history.count).toBe(steps.length);
      }),
      { seed: 3, numRuns: 300 },
    );
  });
});
