import { expect, it } from 'vitest';
import type { Connection } from '../client/connection.ts';
import { RunClient } from '../client/run-client.ts';
import { createViewState } from '../client/view-state.ts';
import { KeptSessions } from './kept-sessions.ts';

/** A line on which nothing is ever answered. */
const silent = {
  listen: () => () => undefined,
  onUp: () => () => undefined,
  request: () => new Promise(() => undefined),
} as unknown as Connection;

it('keeps the session of a run until the run is no longer looked at', () => {
  const sessions = new KeptSessions();
  const state = createViewState();
  const client = new RunClient(silent, 'night');
  const session = sessions.of(client, state);
  session.scrollTop.value = 120;
  expect(sessions.of(client, state)).toBe(session);
  expect(sessions.of(client, state).scrollTop.value).toBe(120);
  const other = sessions.of(new RunClient(silent, 'other'), createViewState());
  expect(other).not.toBe(session);
  client.close();
  expect([session.isDisposed, other.isDisposed]).toEqual([true, false]);
});

it('begins anew with another view of the same run', () => {
  const sessions = new KeptSessions();
  const client = new RunClient(silent, 'night');
  const before = sessions.of(client, createViewState());
  const after = sessions.of(client, createViewState());
  expect([before.isDisposed, after.isDisposed]).toEqual([true, false]);
  client.close();
  expect(after.isDisposed).toBe(true);
});

it('shows what was chosen last, the event or the area, and the one that is left', () => {
  const sessions = new KeptSessions();
  const state = createViewState();
  const { panel } = sessions.of(new RunClient(silent, 'night'), state);
  expect(panel.value).toBeUndefined();
  state.area.value = { from: 0, until: 10, tracks: [] };
  expect(panel.value).toBe('area');
  state.selected.value = { track: 1, event: 2 };
  expect(panel.value).toBe('details');
  // The same event, gone to once more.
  state.area.value = { from: 0, until: 20, tracks: [] };
  state.selected.value = { track: 1, event: 2 };
  expect(panel.value).toBe('details');
  state.selected.value = undefined;
  expect(panel.value).toBe('area');
  state.area.value = undefined;
  expect(panel.value).toBeUndefined();
});
