import { expect, it } from 'vitest';
import { traceLane } from '../testing/trace-events.ts';
import { type ExposedPart, ExposedTime } from './exposed-time.ts';

const us = 1000;
const main = traceLane({ index: 1 });
const compute = traceLane({ index: 2, kind: 'stream' });
const nccl = traceLane({ index: 3, kind: 'stream' });

/** Work as [from, until] µs, and the exposed rest of a collective of 100 to 200 µs. */
function check(
  work: readonly (readonly [number, number])[],
  expected: ExposedPart['exposed'],
  lane = nccl,
  category = 'kernel',
  on = compute,
): void {
  const exposed = new ExposedTime();
  exposed.stepLane = main.index;
  const part: ExposedPart = { entry: 100 * us, exit: 200 * us, exposed: undefined };
  let isIn = false;
  for (const [from, until] of work) {
    if (from >= 100 && !isIn) exposed.collective(lane, part);
    isIn ||= from >= 100;
    exposed.span(on, category, from * us, until * us);
  }
  if (!isIn) exposed.collective(lane, part);
  expect(part.exposed?.map(([from, until]) => [from / us, until / us])).toEqual(expected);
}

it('leaves exposed what no kernel of another stream covers', () => {
  check([], undefined);
  check([[0, 130]], [[130, 200]]);
  check(
    [
      [0, 130],
      [160, 180],
    ],
    [
      [130, 160],
      [180, 200],
    ],
  );
  check([[0, 250]], []);
});

it('takes kernels that follow each other closely for one', () => {
  check(
    [
      [90, 110],
      [120, 140],
      [150, 170],
    ],
    [[170, 200]],
  );
});

it('takes ops for work where there are no kernels, and annotations for none', () => {
  const runloop = traceLane({ index: 4 });
  const autograd = traceLane({ index: 5 });
  check([[0, 130]], [[130, 200]], runloop, 'cpu_op', autograd);
  check([[0, 130]], undefined, runloop, 'user_annotation', autograd);
});

it('leaves a collective on the line of the step exposed', () => {
  check([[0, 130]], undefined, main);
});
