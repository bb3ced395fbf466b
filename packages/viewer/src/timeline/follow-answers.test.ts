import { type Signal, signal } from '@preact/signals';
import type { EventDetails, EventPlace, Links, Overview, RunModel, SearchResult, ViewPath } from '@ranktrace/protocol';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { ConnectionLost, RequestRefused } from '../client/connection.ts';
import type { RunClient } from '../client/run-client.ts';
import { createViewState } from '../client/view-state.ts';
import { modelOf } from '../testing/view-model.ts';
import { TimelineSession } from './session.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const runOf = (about: Partial<RunModel> = {}): RunModel => ({
  run: 'train',
  epoch: 'first',
  worldSize: 2,
  unixEpoch: null,
  from: 0,
  until: 1e9,
  firstStep: 0,
  live: false,
  read: 1,
  total: 9,
  clockConflicts: [],
  names: ['forward'],
  ...modelOf(2),
  ...about,
});

/** A timeline on the page whose service answers with what `answers` has at that moment. */
function shownTimeline() {
  const model: Signal<RunModel | undefined> = signal(undefined);
  const resets = new Set<() => void>();
  const asked = { event: 0, search: 0, path: 0, links: 0 };
  const answers = {
    event: undefined as EventDetails | undefined,
    count: 1,
    path: null as ViewPath | null,
    isLineBroken: false,
    isAnalysed: false,
    /** The event of this number, where others have another answer. */
    moved: undefined as EventDetails | undefined,
    leftOut: 0,
    linksMs: Number.POSITIVE_INFINITY,
  };
  const client = {
    run: 'train',
    model,
    overviewOfAll: undefined,
    onReset: (listener: () => void) => {
      resets.add(listener);
      return () => resets.delete(listener);
    },
    overview: async (): Promise<Overview> => {
      const none = { findings: [], phases: [], phaseRoles: [], ranks: [], bins: [], times: [], slowest: [], toStep: 0 };
      return { ...none, analysed: answers.isAnalysed } as unknown as Overview;
    },
    links: (): Promise<Links> => {
      asked.links++;
      const links = { links: [], leftOut: answers.leftOut };
      return new Promise((resolve) => answers.linksMs < 1e6 && setTimeout(() => resolve(links), answers.linksMs));
    },
    find: async (): Promise<EventPlace | null> => answers.moved ?? null,
    event: async (_: number, event: number): Promise<EventDetails> => {
      asked.event++;
      if (answers.moved?.event === event) return answers.moved;
      if (answers.event === undefined) throw new RequestRefused('no_such_track', 'the run has no such track');
      return answers.event;
    },
    search: async (): Promise<SearchResult> => {
      asked.search++;
      return { names: [{ name: 0, count: answers.count }], total: 1 } as unknown as SearchResult;
    },
    path: async (): Promise<ViewPath | null> => {
      asked.path++;
      if (answers.isLineBroken) throw new ConnectionLost();
      return answers.path;
    },
  } as unknown as RunClient;
  const state = createViewState();
  const session = new TimelineSession(client, state);
  session.isShown.value = true;
  const restart = (next: RunModel): void => {
    for (const reset of resets) reset();
    model.value = next;
  };
  return { model, asked, answers, state, session, restart };
}

const found = { track: 1, event: 7, start: 5, length: 2, depth: 0, name: 'forward' } as unknown as EventDetails;

it('asks for the event of a link again as the run is read, until it is there', async () => {
  const { model, asked, answers, state, session } = shownTimeline();
  state.selected.value = { track: 1, event: 7 };
  model.value = runOf();
  await vi.advanceTimersByTimeAsync(10);
  expect([session.details.value, session.detailsProblem.value]).toEqual([undefined, 'the run has no such track']);
  answers.event = found;
  model.value = runOf({ read: 9 });
  await vi.advanceTimersByTimeAsync(10);
  expect([session.details.value, session.detailsProblem.value, session.place.value]).toEqual([found, undefined, found]);
  const before = asked.event;
  model.value = runOf({ read: 9, until: 2e9 });
  await vi.advanceTimersByTimeAsync(10);
  expect(asked.event).toBe(before);
  session.dispose();
});

it('looks for an open event again whose number is that of another one, as its rank was read again', async () => {
  const { model, answers, state, session } = shownTimeline();
  const open = { ...found, event: 7, open: true, start: 5e8, name: 'all_reduce' } as EventDetails;
  answers.event = open;
  model.value = runOf({ live: true });
  state.selected.value = { track: 1, event: 7 };
  await vi.advanceTimersByTimeAsync(10);
  const link = state.link.value;
  // It goes on, and another fit of the clocks moves it a little.
  answers.event = { ...open, start: 5e8 + 3e6, length: 9 };
  model.value = runOf({ live: true, until: 2e9 });
  await vi.advanceTimersByTimeAsync(10);
  expect([session.details.value?.start, state.selected.value?.event]).toEqual([5e8 + 3e6, 7]);
  // Earlier detail of the rank has come: number 7 is an event before it.
  answers.event = { ...open, start: 2e8, open: false, name: 'forward' };
  answers.moved = { ...open, event: 20, start: 5e8 + 3e6 };
  model.value = runOf({ live: true, until: 3e9 });
  await vi.advanceTimersByTimeAsync(2000);
  expect([session.details.value?.event, session.details.value?.name, state.selected.value]).toEqual([
    20,
    'all_reduce',
    { track: 1, event: 20 },
  ]);
  expect(state.link.value).toEqual({ ...link, start: 5e8 + 3e6 });
  session.dispose();
});

it('asks no more for an event that a whole run does not have', async () => {
  const { model, asked, state, session } = shownTimeline();
  state.selected.value = { track: 99, event: 0 };
  model.value = runOf({ read: 9 });
  await vi.advanceTimersByTimeAsync(60_000);
  expect(asked.event).toBeLessThan(3);
  session.dispose();
});

it('counts the matches of a search again as the run is read, at most once a second, and no more at its end', async () => {
  const { model, asked, answers, state, session } = shownTimeline();
  model.value = runOf();
  state.search.value = 'forward';
  await vi.advanceTimersByTimeAsync(200);
  expect([asked.search, session.matches.value?.result.names[0]?.count]).toEqual([1, 1]);
  for (let read = 2; read <= 9; read++) {
    answers.count = read;
    model.value = runOf({ read });
    await vi.advanceTimersByTimeAsync(10);
  }
  await vi.advanceTimersByTimeAsync(60_000);
  expect([asked.search, session.matches.value?.result.names[0]?.count]).toEqual([2, 9]);
  session.dispose();
});

it('gets the arrows of a run that grows more often than they take, and the newer ones later', async () => {
  const { model, asked, answers, session } = shownTimeline();
  session.size.value = { width: 800, height: 600 };
  answers.linksMs = 300;
  for (let grown = 1; grown <= 40; grown++) {
    answers.leftOut = grown;
    model.value = runOf({ live: true, until: 1e9 + grown });
    await vi.advanceTimersByTimeAsync(250);
  }
  expect(session.links.value?.leftOut).toBeGreaterThan(30);
  expect(asked.links).toBeLessThan(12);
  // The last growth is asked for, too, and then nothing more.
  await vi.advanceTimersByTimeAsync(60_000);
  expect(session.links.value?.leftOut).toBe(40);
  expect(asked.links).toBeLessThan(14);
  // Another window begins anew.
  const before = asked.links;
  session.show({ from: 0, until: 1e8 });
  await vi.advanceTimersByTimeAsync(1000);
  expect(asked.links).toBe(before + 1);
  session.dispose();
});

it('asks for the critical path again where the line broke meanwhile', async () => {
  const { model, answers, state, session } = shownTimeline();
  Object.assign(answers, { path: { step: 3, segments: [] }, isLineBroken: true });
  state.path.value = true;
  model.value = runOf({ read: 9 });
  await vi.advanceTimersByTimeAsync(100);
  answers.isLineBroken = false;
  await vi.advanceTimersByTimeAsync(5000);
  expect(session.path.value?.step).toBe(3);
  session.dispose();
});

it('asks for the critical path again once all of a run that went on is analysed', async () => {
  const { model, asked, answers, state, session } = shownTimeline();
  answers.path = { step: 3, segments: [] } as unknown as ViewPath;
  state.path.value = true;
  model.value = runOf({ live: true, read: 9 });
  await vi.advanceTimersByTimeAsync(30_000);
  session.pathAt.value = 2;
  expect([asked.path, session.path.value?.step]).toEqual([1, 3]);
  answers.path = { step: 400, segments: [] } as unknown as ViewPath;
  model.value = runOf({ live: false, read: 9 });
  await vi.advanceTimersByTimeAsync(1000);
  expect(session.path.value?.step).toBe(3);
  answers.isAnalysed = true;
  await vi.advanceTimersByTimeAsync(30_000);
  expect([asked.path, session.path.value?.step, session.pathAt.value]).toEqual([2, 400, undefined]);
  session.dispose();
});

it('searches and asks for the critical path anew in a run of another epoch, and keeps the choices of rows', async () => {
  const { model, answers, state, session, restart } = shownTimeline();
  const path = { step: 3, segments: [] } as unknown as ViewPath;
  answers.path = path;
  state.path.value = true;
  state.search.value = 'forward';
  model.value = runOf({ read: 9 });
  state.area.value = { from: 0, until: 5, tracks: [] };
  state.pinned.value = ['r1', 'r1-1kq0zb'];
  await vi.advanceTimersByTimeAsync(5000);
  answers.count = 5;
  answers.path = { ...path, step: 4 };
  restart(runOf({ read: 9, epoch: 'second' }));
  expect([session.matches.value, session.path.value]).toEqual([undefined, undefined]);
  expect([state.area.value, state.pinned.value]).toEqual([{ from: 0, until: 5, tracks: [] }, ['r1', 'r1-1kq0zb']]);
  await vi.advanceTimersByTimeAsync(5000);
  expect([session.matches.value?.result.names[0]?.count, session.path.value?.step]).toEqual([5, 4]);
  session.dispose();
});
