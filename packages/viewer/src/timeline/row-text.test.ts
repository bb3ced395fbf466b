import { expect, it } from 'vitest';
import { modelOf, viewProcess } from '../testing/view-model.ts';
import { bandTitle, noteOf } from './row-text.ts';
import { layOut } from './rows.ts';

it('names a group by its ranks, however often each was started', () => {
  const two = modelOf(2);
  const model = { ...two, processes: [...two.processes, viewProcess(1, { index: 2, incarnation: 'b' })] };
  const places = { unfolded: new Set<string>(), pinned: [], order: [], highlighted: new Set<number>(), representatives: new Map() };
  const [host] = layOut({ model, grouping: 'host', folded: new Set(['g:h0']), ...places }).rows;
  expect(host && [noteOf(host), bandTitle(host)]).toEqual(['2 ranks', 'Step time of 2 ranks']);
});
