import { expect, test } from 'vitest';
import { chooseOther, chooseRun, createViewState, jump, swapRuns } from './view-state.ts';

test('a jump shows the range with a fifth of it on each side, and marks the ranks', () => {
  const state = createViewState();
  state.follow.value = true;
  jump(state, { ranks: [3, 5], from: 1e9, until: 2e9 });
  expect(state.page.value).toBe('timeline');
  expect(state.follow.value).toBe(false);
  expect([state.from.value, state.until.value]).toEqual([0.8e9, 2.2e9]);
  expect([...state.highlighted.value]).toEqual([3, 5]);
  expect(state.target.value).toEqual({ ranks: [3, 5], from: 1e9, until: 2e9 });
});

test('a jump to nothing but ranks leaves the window where it is', () => {
  const state = createViewState();
  [state.from.value, state.until.value] = [1, 2];
  jump(state, { ranks: [1] });
  expect([state.from.value, state.until.value]).toEqual([1, 2]);
});

test('another run begins from the whole, with nothing selected; the same run changes nothing', () => {
  const state = createViewState();
  chooseRun(state, 'a');
  [state.from.value, state.until.value, state.selected.value] = [1, 2, { track: 1, event: 1 }];
  chooseRun(state, 'a');
  expect(state.selected.value).toEqual({ track: 1, event: 1 });
  chooseRun(state, 'b');
  expect([state.run.value, state.from.value, state.until.value, state.selected.value]).toEqual(['b', undefined, undefined, undefined]);
});

test('the other run stays beside the same times only while both runs stay', () => {
  const state = createViewState();
  const shown = () => [state.run.value, state.other.value, state.otherShift.value];
  const shift = (by: number): void => {
    state.otherShift.value = by;
  };
  chooseRun(state, 'a');
  chooseOther(state, 'b');
  shift(500);
  chooseOther(state, 'b');
  expect(shown()).toEqual(['a', 'b', 500]);
  swapRuns(state);
  expect(shown()).toEqual(['b', 'a', -500]);
  chooseOther(state, 'c');
  expect(shown()).toEqual(['b', 'c', 0]);
  shift(700);
  chooseRun(state, 'a');
  expect(shown()).toEqual(['a', 'c', 0]);
});
