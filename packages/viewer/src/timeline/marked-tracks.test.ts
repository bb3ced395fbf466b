import { limits } from '@ranktrace/protocol';
import { expect, it } from 'vitest';
import { markedTracks } from './marked-tracks.ts';

it('are named, or all of the run; what is left out of too many is counted', () => {
  const marked = (count: number): ReadonlySet<number> => new Set(Array.from({ length: count }, (_, track) => track));
  const most = limits.viewTracksMax;
  expect(markedTracks(marked(3), 3)).toEqual({ tracks: [0, 1, 2], leftOut: 0 });
  expect(markedTracks(marked(most + 5), most + 5)).toEqual({ tracks: [], leftOut: 0 });
  expect(markedTracks(marked(most + 5), most + 6)).toEqual({ tracks: [...marked(most)], leftOut: 5 });
});
