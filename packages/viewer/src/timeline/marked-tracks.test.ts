import { limits } from '@ranktrace/protocol';
import { expect, it } from 'vitest';
import { modelOf, viewProcess, viewTrack } from '../testing/view-model.ts';
import { foldedTracks, isAreaPartial, markedTracks } from './marked-tracks.ts';
import { layOut } from './rows.ts';

it('are named, or all of the run; what is left out of too many is counted', () => {
  const marked = (count: number): ReadonlySet<number> => new Set(Array.from({ length: count }, (_, track) => track));
  const most = limits.viewTracksMax;
  expect(markedTracks(marked(3), 3)).toEqual({ tracks: [0, 1, 2], leftOut: 0 });
  expect(markedTracks(marked(most + 5), most + 5)).toEqual({ tracks: [], leftOut: 0 });
  expect(markedTracks(marked(most + 5), most + 6)).toEqual({ tracks: [...marked(most)], leftOut: 5 });
});

/** Two ranks on one host, the second of which was started again. */
const two = modelOf(2);
const model = {
  ...two,
  processes: [...two.processes, viewProcess(1, { index: 2, incarnation: 'b' })],
  tracks: [...two.tracks, viewTrack(6, 2, 'steps'), viewTrack(7, 2, 'thread')],
};
const rowsOf = (grouping: string, folded: readonly string[] = []) => {
  const places = { unfolded: new Set<string>(), pinned: [], order: [], highlighted: new Set<number>(), representatives: new Map() };
  return layOut({ model, grouping, folded: new Set(folded), ...places }).rows;
};

it('of a folded rank that was started again are those of its own life', () => {
  const tracks = new Map(model.tracks.map((track) => [track.track, track]));
  const processes = new Map(model.processes.map((process) => [process.index, process]));
  const marked = rowsOf('rank').map((row) => [row.key, [...foldedTracks(row, tracks, processes)].sort()]);
  expect(marked).toEqual([
    ['r0', [0, 1, 2]],
    ['r1', [3, 4, 5]],
    ['r1.2', [6, 7]],
  ]);
  const [host] = rowsOf('host', ['g:h0']);
  expect(host && [...foldedTracks(host, tracks, processes)].sort()).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
});

it('are partial while a rank of theirs has not come to the end of the area', () => {
  const processes = [viewProcess(0, { ended: false, until: 50 }), viewProcess(1, { ended: false, until: 90 })];
  const live = { ...two, processes, live: true, read: 9, total: 9 };
  const isPartial = (until: number, tracks: readonly number[], about: Partial<typeof live> = {}): boolean =>
    isAreaPartial({ until, tracks }, { ...live, ...about });
  expect([isPartial(60, [0]), isPartial(60, [3]), isPartial(60, []), isPartial(50, [])]).toEqual([true, false, true, false]);
  // A rank that has ended sends no more; a recorded run is read to its end.
  expect(isPartial(60, [], { processes: processes.map((process) => ({ ...process, ended: true })) })).toBe(false);
  expect([isPartial(60, [3], { live: false, read: 4 }), isPartial(60, [0], { live: false })]).toEqual([true, false]);
});
