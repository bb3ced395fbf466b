import { stepBit } from '@ranktrace/protocol';
import { expect, test } from 'vitest';
import { NameColourTable } from './name-colours.ts';
import { colourOf } from './palette.ts';

test('a name has the colour of its text, also when asked again', () => {
  const colours = new NameColourTable(() => ['forward', 'backward']);
  for (let time = 0; time < 2; time++) expect([colours.span(0), colours.span(1)]).toEqual([colourOf('forward'), colourOf('backward')]);
});

test('a name that is not reported yet gets its colour when it is', () => {
  const names = ['forward'];
  const colours = new NameColourTable(() => names);
  expect(colours.span(5000)).toBe(0);
  names[5000] = 'optimizer';
  expect(colours.span(5000)).toBe(colourOf('optimizer'));
});

test('steps alternate by their number, whether they are names or numbers', () => {
  const colours = new NameColourTable(() => ['ProfilerStep#4', 'ProfilerStep#5']);
  expect([colours.step(0), colours.step(1), colours.step(stepBit + 6), colours.step(stepBit + 7)]).toEqual([0, 1, 0, 1]);
  expect(colours.span(stepBit + 6)).toBe(colours.span(stepBit + 7));
});

test('after a reset names may be others', () => {
  let names = ['forward'];
  const colours = new NameColourTable(() => names);
  colours.span(0);
  names = ['backward'];
  colours.clear();
  expect(colours.span(0)).toBe(colourOf('backward'));
});
