import { Random } from '@ranktrace/trace/simulate';
import { expect, test } from 'vitest';
import { StepRing } from './step-ring.ts';

const text = (ring: StepRing): string =>
  [...ring.summaries()]
    .map(({ step, length, phases }) => `${step}:${length}${[...phases].map(([name, spent]) => ` ${name}=${spent}`).join('')}`)
    .join(' | ');

test('keeps the last steps, with phases that came before or after their step', () => {
  const ring = new StepRing(20);
  for (let step = 0; step < 50; step++) {
    if (step % 2 === 0) ring.addPhase(step, 'forward', step + 1);
    ring.addStep(step, 100 + step);
    if (step % 2 === 1) ring.addPhase(step, 'backward', step + 1);
  }
  ring.addPhase(49, 'backward', 5);
  const lines = text(ring).split(' | ');
  expect(lines).toHaveLength(20);
  expect(lines[0]).toBe('30:130 forward=31');
  expect(lines[19]).toBe('49:149 backward=55');
});

test('leaves out steps that have not ended', () => {
  const ring = new StepRing();
  ring.addPhase(7, 'forward', 1);
  expect(text(ring)).toBe('');
  ring.addStep(7, 9);
  expect(text(ring)).toBe('7:9 forward=1');
});

test('after a restart a step that comes again is a new step', () => {
  const ring = new StepRing();
  ring.addStep(3, 10);
  ring.restart();
  ring.addStep(3, 20);
  expect(text(ring)).toBe('3:10 | 3:20');
});

test('steps in any order find their slots, as a list of the last ones would (seeds)', () => {
  for (let seed = 1; seed <= 40; seed++) {
    const random = new Random(seed, 'step-ring');
    const ring = new StepRing(24);
    let kept: { step: number; length: number; phase: number; isOld: boolean }[] = [];
    for (let turn = 0; turn < 400; turn++) {
      if (random.chance(0.01)) {
        ring.restart();
        kept = kept.map((one) => ({ ...one, isOld: true }));
      }
      const step = Math.floor(turn / 3) + random.whole(seed % 2 === 0 ? 3 : 60);
      let row = kept.find((one) => one.step === step && !one.isOld);
      if (row === undefined) {
        row = { step, length: Number.NaN, phase: 0, isOld: false };
        kept = [...kept, row].slice(-24);
      }
      if (random.chance(0.5)) {
        row.length = turn + 1;
        ring.addStep(step, turn + 1);
      } else {
        row.phase += turn;
        ring.addPhase(step, 'forward', turn);
      }
    }
    const ended = kept.filter(({ length }) => !Number.isNaN(length));
    expect(text(ring)).toBe(ended.map(({ step, length, phase }) => `${step}:${length}${phase > 0 ? ` forward=${phase}` : ''}`).join(' | '));
  }
});
