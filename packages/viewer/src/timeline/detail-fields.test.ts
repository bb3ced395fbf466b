import { expect, it } from 'vitest';
import { shownFields } from './detail-fields.ts';

const kernel = 'ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)';

it("shows a collective's kernel by its own name, before all else", () => {
  const fields = [
    ['group', '0'],
    ['event', kernel],
  ] as const;
  expect(shownFields({ kind: 'collective', fields })).toEqual([
    ['kernel', kernel],
    ['group', '0'],
  ]);
  expect(shownFields({ kind: 'collective', fields: [['event', 'gloo:all_reduce']] })).toEqual([['recorded as', 'gloo:all_reduce']]);
});

it('leaves fields of other events as they are called', () => {
  expect(shownFields({ kind: 'span', fields: [['event', kernel]] })).toEqual([['event', kernel]]);
  expect(shownFields({ kind: 'collective', fields: [['group', '0']] })).toEqual([['group', '0']]);
});

it('gives bytes a unit where they are many', () => {
  const shown = shownFields({
    kind: 'span',
    fields: [
      ['bytes', '18874368'],
      ['bytes', '12'],
    ],
  });
  expect(shown.map(([, value]) => value.replaceAll('\u2009', ' '))).toEqual(['18 MiB (18874368)', '12']);
});
