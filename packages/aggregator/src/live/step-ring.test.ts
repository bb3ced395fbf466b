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
