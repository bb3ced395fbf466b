import { limits } from '@ranktrace/protocol';
import { expect, it } from 'vitest';
import { modelOf, viewProcess, viewTrack } from '../testing/view-model.ts';
import { foldedTracks, markedTracks } from './marked-tracks.ts';
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
