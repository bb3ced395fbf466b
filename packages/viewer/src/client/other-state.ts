// The state of the timeline of the run that the chosen one is compared with: both show the same stretch of time, all other state is separate.

import { effect } from '@preact/signals';
import { createViewState, forgetRows, type ViewState } from './view-state.ts';

export function createOtherState(state: ViewState): ViewState {
  const other = createViewState();
  let run = state.other.peek();
  effect(() => {
    // Tracks, events and rows of one run mean nothing in another.
    if (state.other.value !== run) forgetRows(other);
    run = state.other.value;
  });
  const isNear = (a: number | undefined, b: number | undefined): boolean =>
    a === b || (a !== undefined && b !== undefined && Math.abs(a - b) < 1e-3);
  const shifted = (time: number | undefined, by: number): number | undefined => (time === undefined ? undefined : time + by);
  for (const key of ['from', 'until'] as const) {
    effect(() => {
      const time = shifted(state[key].value, state.otherShift.value);
      if (!isNear(other[key].peek(), time)) other[key].value = time;
    });
    effect(() => {
      const time = shifted(other[key].value, -state.otherShift.peek());
      if (!isNear(state[key].peek(), time)) state[key].value = time;
    });
  }
  return other;
}
