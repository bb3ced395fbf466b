import type { EventPlace, Overview, RunModel } from '@ranktrace/protocol';
import { stepBit } from '@ranktrace/protocol';
import { expect, it } from 'vitest';
import { viewTrack } from '../testing/view-model.ts';
import { hasStep, rangeOfStep, stepOf } from './step-search.ts';

it.each([
  ['step 12', 12],
  ['#99', 99],
  ['ProfilerStep#300', 300],
  ['step', undefined],
  ['12', undefined],
])('a search for %s means step %s', (text, step) => {
  expect(stepOf(text)).toBe(step);
});

/** A run of two ranks that begin step N at 100 · N and 3 ns later, 90 ns long, in bins of `width` steps. */
function clientOf(width: number) {
  const asked: string[] = [];
  const place = (track: number, step: number): EventPlace => ({
    ...{ track, event: step, start: 100 * step + 3 * track, length: 90, depth: 0, name: `ProfilerStep#${step}` },
  });
  return {
    asked,
    overview: async (_: number, { fromStep = 0 } = {}): Promise<Overview> => {
      asked.push('overview');
      const begin = Math.floor(fromStep / width) * width;
      const ranks = [0, 1].map((rank) => ({ rank, steps: width }));
      return { fromStep: begin, steps: width, times: [100 * begin], slowest: [90], median: [90], ranks } as unknown as Overview;
    },
    find: async (names: readonly number[], tracks: readonly number[], time: number, direction: 'next' | 'previous') => {
      asked.push(direction);
      const all = tracks.map((track) => place(track, (names[0] ?? 0) - stepBit)).sort((a, b) => a.start - b.start);
      const found = direction === 'next' ? all.find(({ start }) => start > time) : all.findLast(({ start }) => start < time);
      return found ?? null;
    },
  };
}

const tracks = [viewTrack(0, 0, 'steps'), viewTrack(1, 1, 'steps'), viewTrack(2, 1, 'thread')];

it.each([4, 5, 54321])('step %i of a run whose bins hold two steps is that step, not the bin, on both ranks', async (step) => {
  const client = clientOf(2);
  expect(await rangeOfStep(client, tracks, step)).toEqual({ from: 100 * step, until: 100 * step + 93 });
});

it('a step that has a bin of its own needs no search', async () => {
  const client = clientOf(1);
  expect(await rangeOfStep(client, tracks, 7)).toEqual({ from: 700, until: 790 });
  expect(client.asked).toEqual(['overview']);
});

it('a step is not offered where the run ends before it, unless the run goes on or is being read', () => {
  const overview = { steps: 12, fromStep: 0, toStep: 11 } as Overview;
  const model = { live: false, read: 5, total: 5 } as RunModel;
  expect([3, 11, 12].map((step) => hasStep(step, overview, model))).toEqual([true, true, false]);
  expect(hasStep(99, overview, { ...model, live: true })).toBeUndefined();
  expect(hasStep(99, overview, { ...model, read: 4 })).toBeUndefined();
  expect(hasStep(99, undefined, model)).toBeUndefined();
});
