import { type Signal, signal } from '@preact/signals';
import { frameLine, type RunModel } from '@ranktrace/protocol';
import { expect, it } from 'vitest';
import type { RunClient } from '../client/run-client.ts';
import { createViewState, type JumpTarget, jump } from '../client/view-state.ts';
import { modelOf, viewProcess, viewTrack } from '../testing/view-model.ts';
import { pinSelection } from './navigate.ts';
import { rowAt } from './rows.ts';
import { TimelineSession } from './session.ts';

/** A timeline on the page, of a low window, whose service does not answer. */
function timelineOf(model: Pick<RunModel, 'processes' | 'tracks' | 'groups'>) {
  const about = { run: 'train', epoch: 'first', worldSize: 2, unixEpoch: null, from: 0, until: 1e9, firstStep: 0, live: false };
  const shown: Signal<RunModel | undefined> = signal({ ...about, read: 9, total: 9, clockConflicts: [], names: [], ...model });
  const never = () => new Promise(() => undefined);
  const client = { run: 'train', model: shown, onReset: () => () => undefined, overview: never, links: never, event: never, find: never };
  const state = createViewState();
  const session = new TimelineSession(client as unknown as RunClient, state);
  session.size.value = { width: 800, height: 60 };
  return { state, session };
}

it('pins the lane of the selected span: of a thread with frames of Python that of the span, of a folded rank its row', () => {
  const tracks = [viewTrack(0, 0, 'steps'), viewTrack(1, 0, 'thread', { depth: 2, frameDepth: 3 }), viewTrack(2, 1, 'thread')];
  const { state, session } = timelineOf({ processes: [viewProcess(0), viewProcess(1)], tracks, groups: [] });
  state.unfolded.value = new Set(['r0']);
  const pinnedBy = (track: number, depth: number): readonly string[] => {
    state.pinned.value = [];
    session.place.value = { track, event: 0, start: 0, length: 1, depth };
    pinSelection(session);
    return session.layout.value.pinned.map(({ label }) => label);
  };
  expect([pinnedBy(1, 0), pinnedBy(1, frameLine + 1), pinnedBy(2, 0)]).toEqual([
    ['Rank 0 · thread 1'],
    ['Rank 0 · thread 1 · Python'],
    ['Rank 1'],
  ]);
  session.dispose();
});

it('leads to the life of a rank at a time, else to its last one, in whatever order its lives were read, and not to what was recorded beside it', () => {
  const of = modelOf(5);
  const lives = ['c', 'b', 'by-c'].map((incarnation, at) =>
    viewProcess(4, { index: 4 + at, incarnation, until: incarnation === 'b' ? 5e8 : 1e9 }),
  );
  const model = {
    ...of,
    processes: [...of.processes.slice(0, 4), ...lives],
    tracks: [...of.tracks.filter(({ process }) => process < 4), ...[4, 5, 6].map((at) => viewTrack(20 + at, at, 'steps'))],
  };
  const goalOf = (target: JumpTarget): string | undefined => {
    const { state, session } = timelineOf(model);
    jump(state, target);
    const goal = session.scrollGoal.peek() ?? -1;
    session.dispose();
    const { rows } = session.layout.peek();
    return rows[rowAt(rows, goal + 40)]?.key;
  };
  expect([goalOf({ ranks: [4] }), goalOf({ ranks: [4], process: 5 }), goalOf({ ranks: [4], process: 6 })]).toEqual([
    'r4.2',
    'r4',
    'r4.beside',
  ]);
  // A finding has a time, and means the life of that time.
  expect([2e8, 6e8, 3e9].map((from) => goalOf({ ranks: [4], from, until: from + 1e8 }))).toEqual(['r4', 'r4.2', 'r4.2']);
});
