// First alone, with made-up stacks; then with real TensorFlow.js on its cpu backend and V8's stacks.

import * as tf from '@tensorflow/tfjs';
import fc from 'fast-check';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { detail } from '../model/detail.ts';
import { OpRecording } from '../testing/op-recording.ts';
import { CallStacks } from './call-stack.ts';
import type { TfjsEngine } from './engine.ts';
import { EngineHooks } from './engine-hooks.ts';
import { ModuleStack } from './layer-modules.ts';
import { StackPredictor } from './stack-predictor.ts';

/** An op, and the line that calls it. */
type Call = readonly [op: string, line: string];

/** Results of the looks at `steps`: the wrong ones, by step. */
function looks(predictor: StackPredictor<{ text: string }>, steps: Iterable<readonly Call[]>): { looks: number; wrong: number[] } {
  const result = { looks: 0, wrong: [] as number[] };
  let number = 0;
  for (const step of steps) {
    predictor.begin();
    for (const [op, line] of step) {
      result.looks++;
      predictor.pass(op, '');
      const known = predictor.take();
      if (known === undefined) predictor.learn({ text: line });
      else if (known.text !== line) result.wrong.push(number);
    }
    number++;
  }
  return result;
}

/** `count` steps, each chosen by its number. */
function* steps(count: number, choose: (step: number) => readonly Call[]): Generator<readonly Call[]> {
  for (let step = 0; step < count; step++) yield choose(step);
}

const calls = (...lines: string[]): readonly Call[] => lines.map((line, index) => [`op ${index}`, line]);

describe('a predictor', () => {
  test('takes the stacks of equal steps after eight, and checks one in some 64 of them, then fewer', () => {
    const predictor = new StackPredictor<{ text: string }>();
    const step = calls('a', 'b', 'c', 'd');
    expect(
      looks(
        predictor,
        steps(8, () => step),
      ).wrong,
    ).toEqual([]);
    expect(predictor.counts).toEqual({ walked: 32, taken: 0, checked: 0, wrong: 0, wrongExpected: 0 });
    expect(
      looks(
        predictor,
        steps(10_000, () => step),
      ).wrong,
    ).toEqual([]);
    const { walked, taken, checked, wrong } = predictor.counts;
    expect({ walked, wrong }).toEqual({ walked: 32 + checked, wrong: 0 });
    expect(taken + walked).toBe(4 * 10_008);
    // 64 each at one in 64, 128 and 256, that is 28 672 looks, and the rest at one in 512.
    expect(checked).toBeGreaterThan(190);
    expect(checked).toBeLessThan(240);
  });

  test('takes the same ops in other modules, and after other ops, for others', () => {
    const predictor = new StackPredictor<{ text: string }>();
    const take = (...path: readonly [op: string, module: string][]) => {
      predictor.begin();
      for (const [op, module] of path) predictor.pass(op, module);
      return predictor.take()?.text;
    };
    for (let step = 0; step < 8; step++) {
      for (const stack of ['encoder', 'decoder']) {
        take(['MatMul', stack]);
        predictor.learn({ text: stack });
      }
    }
    expect(take(['MatMul', 'encoder'])).toBe('encoder');
    expect(take(['MatMul', 'decoder'])).toBe('decoder');
    expect(take(['MatMul', ''])).toBeUndefined();
    expect(take(['Cast', ''], ['MatMul', 'encoder'])).toBeUndefined();
  });

  test('learns a loop whose first step has another stack', () => {
    const predictor = new StackPredictor<{ text: string }>();
    const { wrong } = looks(
      predictor,
      steps(100, (step) => calls(step === 0 ? 'first' : 'later')),
    );
    expect(wrong).toEqual([]);
    expect(predictor.counts.taken).toBeGreaterThan(75);
  });

  test('never takes what changes about while it learns', () => {
    const predictor = new StackPredictor<{ text: string }>();
    const { wrong } = looks(
      predictor,
      steps(20_000, (step) => calls('same', `line ${step % 5}`)),
    );
    expect(wrong).toEqual([]);
    expect(predictor.counts.taken).toBeGreaterThan(19_000);
    expect(predictor.counts).toMatchObject({ wrong: 0 });
  });

  test('a change after it has learnt is found, counted, and everything is learnt anew', () => {
    const predictor = new StackPredictor<{ text: string }>();
    const epoch = (name: string) => calls(...Array.from({ length: 20 }, (_, index) => `${name} ${index}`));
    expect(
      looks(
        predictor,
        steps(100, () => epoch('train')),
      ).wrong,
    ).toEqual([]);
    const { wrong } = looks(
      predictor,
      steps(1000, () => epoch('tune')),
    );
    expect(predictor.counts.wrong).toBe(1);
    // A check every 64 looks: some three steps.
    expect(wrong.length).toBeGreaterThan(0);
    expect(wrong.at(-1)).toBeLessThan(13);
    expect(predictor.counts.taken).toBeGreaterThan(18_000);
  });

  test('a rare branch with the ops of another is wrong until it is found, as often as the counts say', () => {
    let [wrong, likely, last] = [0, 0, 0];
    // Few checks find each: only many programs together show the meaning of the count.
    for (let program = 1; program <= 60; program++) {
      const predictor = new StackPredictor<{ text: string }>();
      let seed = program;
      const isRare = () => {
        seed = (Math.imul(seed, 1_103_515_245) + 12_345) | 0;
        return (seed >>> 16) % 50 === 0;
      };
      const result = looks(
        predictor,
        steps(20_000, () => calls('always', isRare() ? 'rare' : 'mostly', 'again')),
      );
      const counts = predictor.counts;
      wrong += result.wrong.length;
      likely += counts.wrongExpected;
      last = Math.max(last, result.wrong.at(-1) ?? 0);
    }
    expect(wrong).toBeGreaterThan(likely / 1.5);
    expect(wrong).toBeLessThan(likely * 1.5);
    // A node with enough failed checks is always walked.
    expect(last).toBeLessThan(20_000);
  });

  test('an endless step is walked beyond its bound, and known below it again', () => {
    const predictor = new StackPredictor<{ text: string }>();
    const long = Array.from({ length: 17_000 }, (_, index): Call => ['Add', `line ${index}`]);
    expect(
      looks(
        predictor,
        steps(9, () => long),
      ).wrong,
    ).toEqual([]);
    const { walked, taken, checked } = predictor.counts;
    expect(taken + checked).toBe(16_384);
    expect(walked).toBe(9 * 17_000 - taken);
  });

  test('ever new steps start the tree afresh, and what repeats is learnt again', () => {
    const predictor = new StackPredictor<{ text: string }>();
    const step = calls('a', 'b');
    for (let round = 0; round < 3; round++) {
      const news = steps(200, (number) => Array.from({ length: 500 }, (_, index): Call => [`new ${round} ${number} ${index}`, 'x']));
      expect(looks(predictor, news).wrong).toEqual([]);
      const before = predictor.counts.taken;
      looks(
        predictor,
        steps(40, () => step),
      );
      expect(predictor.counts.taken).toBeGreaterThan(before);
    }
  });

  test('of random programs, the numbers add up, and what is taken is right where the ops show the lines', () => {
    const call = fc.tuple(fc.constantFrom('Add', 'Mul', 'Sum'), fc.nat({ max: 3 }));
    const branches = fc.array(fc.array(call, { maxLength: 6 }), { minLength: 1, maxLength: 4 });
    const choices = fc.array(fc.nat({ max: 3 }), { minLength: 1, maxLength: 30 });
    fc.assert(
      fc.property(branches, choices, fc.boolean(), (branches, choices, isReported) => {
        const predictor = new StackPredictor<{ text: string }>();
        const program = branches.map((branch, number) =>
          branch.map(([op, line], index): Call => {
            // `isTold`: each branch begins with an op of its own.
            const own = isReported && index === 0 ? `${op} ${number}` : op;
            return [own, isReported ? `branch ${number} line ${index}` : `line ${line}`];
          }),
        );
        const choose = (step: number) => program[(choices[step % choices.length] as number) % program.length] as readonly Call[];
        const { looks: asked, wrong } = looks(predictor, steps(600, choose));
        const counts = predictor.counts;
        expect(counts.walked + counts.taken).toBe(asked);
        expect(counts.wrong).toBeLessThanOrEqual(counts.checked);
        expect(counts.checked).toBeLessThanOrEqual(counts.walked);
        if (isReported) expect({ wrong, counted: counts.wrong }).toEqual({ wrong: [], counted: 0 });
      }),
      { seed: 20_261_121, numRuns: 300 },
    );
  });
});

const engine = tf.engine() as unknown as TfjsEngine;
const removals: (() => void)[] = [];
afterEach(() => {
  for (const remove of removals.splice(0)) remove();
});

/** Runs `step` this many times, once with each op's stack walked and once without; returns both lists of stacks, by step. */
function stacksOf(count: number, step: (number: number) => void): { walked: string[][]; found: string[][]; stacks: CallStacks } {
  const lists: string[][][] = [];
  const kept = [new CallStacks({ predicts: false }), new CallStacks()] as const;
  for (const stacks of kept) {
    const recording = new OpRecording();
    recording.detail = detail.ops | detail.stacks;
    const hooks = new EngineHooks(engine, recording, { modules: new ModuleStack(), stacks });
    removals.push(() => hooks.remove());
    const list: string[][] = [];
    for (let number = 0; number < count; number++) {
      stacks.beginStep();
      tf.tidy(() => step(number));
      list.push(recording.ops.map(({ name, stack, sequence }) => `${name} ${sequence < 0 ? 'backward' : stack}`));
      recording.clear();
    }
    lists.push(list);
    hooks.remove();
  }
  const [walked, found] = lists as [string[][], string[][]];
  return { walked, found, stacks: kept[1] };
}

describe('with TensorFlow.js', () => {
  beforeAll(async () => {
    await tf.setBackend('cpu');
  });

  test('equal steps take their stacks, which are those that a look finds', () => {
    const w = tf.variable(tf.ones([3, 2]));
    const optimizer = tf.train.sgd(0.1);
    const { walked, found, stacks } = stacksOf(200, () => {
      const x = tf.ones([4, 3]);
      const hidden = tf.relu(tf.matMul(x, w as tf.Variable<tf.Rank.R2>));
      tf.mean(tf.add(hidden, 1));
      optimizer.minimize(() => tf.mean(tf.square(tf.matMul(x, w as tf.Variable<tf.Rank.R2>))) as tf.Scalar);
    });
    expect(found).toEqual(walked);
    const { walked: looked, taken, checked, wrong } = stacks.counts as NonNullable<typeof stacks.counts>;
    expect(wrong).toBe(0);
    expect(taken).toBeGreaterThan(10 * looked);
    expect(checked).toBeGreaterThan(0);
    tf.dispose(w);
  });

  test('branches that run the same ops from other lines are found, counted, and right in the end', () => {
    const x = tf.ones([3]);
    const one = () => tf.relu(tf.add(x, 1));
    const other = () => tf.relu(tf.add(x, 1));
    // Long enough in each to learn it, and then in turn.
    const { walked, found, stacks } = stacksOf(5000, (number) =>
      number % (number < 2000 ? 40 : 2) < (number < 2000 ? 20 : 1) ? one() : other(),
    );
    const wrongSteps = found.flatMap((step, number) => (step.join() === walked[number]?.join() ? [] : [number]));
    const counts = stacks.counts as NonNullable<typeof stacks.counts>;
    expect(wrongSteps.length).toBeGreaterThan(0);
    expect(counts.wrong).toBeGreaterThan(0);
    expect(wrongSteps.at(-1)).toBeLessThan(4000);
    expect(found.at(-1)).toEqual(walked.at(-1));
    expect(found.at(-2)).toEqual(walked.at(-2));
    x.dispose();
  });

  test('a sequence of ops that changes is learnt anew, and never wrong', () => {
    const x = tf.ones([3]);
    const { walked, found, stacks } = stacksOf(300, (number) => {
      if (number % 3 === 0) tf.exp(x);
      const y = tf.add(x, 1);
      if (number >= 150) tf.log(y);
      tf.relu(y);
    });
    expect(found).toEqual(walked);
    expect(stacks.counts).toMatchObject({ wrong: 0 });
    expect(stacks.counts?.taken).toBeGreaterThan(400);
    x.dispose();
  });

  test('what was held and tried is not taken for another', () => {
    const stacks = new CallStacks();
    const at = (line: () => string) => line();
    const kind = {};
    const seen = Array.from({ length: 60 }, () => {
      stacks.beginStep();
      stacks.enter(kind);
      const inside = at(() => stacks.captureAt('Add', '').text);
      stacks.leave();
      const before = stacks.hold({ text: 'held', id: -1 });
      const held = stacks.captureAt('Add', '').text;
      stacks.hold(before);
      return `${inside} ${held} ${stacks.captureAt('Add', '').text.split(';')[0]}`;
    });
    // A trial in the first step reveals that code of this kind calls something of the user's: its inside is walked.
    expect(new Set(seen).size).toBe(1);
    expect(seen[0]).toContain(' held ');
    expect(stacks.counts?.taken).toBeGreaterThan(50);
  });
});
