import { expect, test } from 'vitest';
import { createOtherState } from './other-state.ts';
import { chooseOther, chooseRun, createViewState, swapRuns } from './view-state.ts';

test('both timelines show the same stretch of time, apart by the shift', () => {
  const state = createViewState();
  const other = createOtherState(state);
  state.otherShift.value = 1000;
  [state.from.value, state.until.value] = [10, 20];
  expect([other.from.value, other.until.value]).toEqual([1010, 1020]);
  other.from.value = 1005;
  expect(state.from.value).toBe(5);
});

test('what was selected, marked and unfolded in a run is not selected in the next one that is compared', () => {
  const state = createViewState();
  const other = createOtherState(state);
  const choose = (): void => {
    [other.selected.value, other.area.value] = [
      { track: 3, event: 7 },
      { from: 1, until: 2, tracks: ['r1-1kq0zb'] },
    ];
    [other.pinned.value, other.unfolded.value] = [['r1-1kq0zb'], new Set(['r1'])];
  };
  const isForgotten = (): boolean =>
    other.selected.value === undefined && other.area.value === undefined && other.pinned.value.length + other.unfolded.value.size === 0;
  chooseRun(state, 'a');
  chooseOther(state, 'b');
  choose();
  // It stays while the run does, whichever run lies beside it.
  chooseOther(state, 'b');
  chooseRun(state, 'd');
  expect(isForgotten()).toBe(false);
  chooseOther(state, 'c');
  expect(isForgotten()).toBe(true);
  choose();
  swapRuns(state);
  expect(isForgotten()).toBe(true);
});
