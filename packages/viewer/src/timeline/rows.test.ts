import { frameLine } from '@ranktrace/protocol';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { modelOf, viewProcess, viewTrack } from '../testing/view-model.ts';
import type { Represented } from './outliers.ts';
import { type LayoutInput, layOut, movedOrder, type Row, rowAt, rowsBetween, stickyRow, toggled } from './rows.ts';

const input = (about: Partial<LayoutInput> = {}): LayoutInput => ({
  model: modelOf(2),
  grouping: 'rank',
  folded: new Set(),
  unfolded: new Set(),
  pinned: [],
  order: [],
  highlighted: new Set(),
  representatives: new Map(),
  ...about,
});

/** A row by its key, or its track's number, with `p` for its frames. */
const about = ({ key, kind, track }: Row): string =>
  (kind === 'track' || kind === 'counter') && track !== undefined ? `t${track.track}${key.endsWith('-python') ? 'p' : ''}` : key;
const keys = (rows: readonly Row[]): string => rows.map((row) => '·'.repeat(row.indent) + about(row)).join(' ');

const open = new Set(['r0', 'r1']);

test('several ranks have a line each: their steps, and what their devices or their main threads did', () => {
  const { rows } = layOut(input());
  expect(keys(rows)).toBe('r0 r1');
  expect(rows.map(({ height, lanes }) => [height, lanes.map(({ track }) => track)])).toEqual([
    [37, [1]],
    [37, [4]],
  ]);
  expect(keys(layOut(input({ model: modelOf(1) })).rows)).toBe('r0 ·t1 ·t2');
  expect(keys(layOut(input({ highlighted: new Set([1]) })).rows)).toBe('r0 r1 ·t4 ·t5');
});

test('an open rank has its steps in its own row, then threads, then counters', () => {
  const { rows } = layOut(input({ unfolded: open }));
  expect(keys(rows)).toBe('r0 ·t1 ·t2 r1 ·t4 ·t5');
  expect(rows[0]?.track?.track).toBe(0);
  expect(rows.map(({ height }) => height)).toEqual([28, 39, 38, 28, 39, 38]);
});

describe('a rank with GPUs', () => {
  const tracks = [
    viewTrack(0, 0, 'steps'),
    viewTrack(1, 0, 'thread', { name: 'autograd', tid: 9, events: 10 }),
    viewTrack(2, 0, 'thread', { name: 'process -1 · thread', tid: 4711, events: 90, frameDepth: 3 }),
    viewTrack(3, 0, 'stream', { name: 'GPU 0 · stream 20', tid: 0, events: 5 }),
    viewTrack(4, 0, 'stream', { name: 'GPU 0 · stream 7', tid: 0, events: 50, depth: 2 }),
    viewTrack(5, 0, 'counter', { name: 'Memory allocated · GPU 0', unit: 'B' }),
  ];
  const gpus = (about: Partial<LayoutInput> = {}): LayoutInput =>
    input({ model: { processes: [viewProcess(0)], tracks, groups: [] }, ...about });

  test('has its streams first, by number, then the main thread with its frames, others, memory', () => {
    const { rows } = layOut(gpus());
    expect(rows.map((row) => `${about(row)} ${row.label}`)).toEqual([
      'r0 Rank 0',
      't4 GPU 0 · stream 7',
      't3 GPU 0 · stream 20',
      't2p thread 4711 · Python',
      't2 thread 4711',
      't1 autograd',
      't5 Memory allocated · GPU 0',
    ]);
    expect(rows[3]).toMatchObject({ firstLine: frameLine, lines: 3, height: 57 });
  });

  test('threads of one name have their numbers', () => {
    const twins = [7, 8].map((tid) => viewTrack(10 + tid, 0, 'thread', { name: 'python', tid }));
    const { rows } = layOut(gpus({ model: { processes: [viewProcess(0)], tracks: [...tracks, ...twins], groups: [] } }));
    expect(rows.map(({ label }) => label).filter((label) => label.startsWith('python'))).toEqual(['python 7', 'python 8']);
  });

  test('folded, shows its streams on one line, the busiest on top', () => {
    const { rows } = layOut(gpus({ folded: new Set(['r0']) }));
    expect(rows.map(({ key, lanes }) => [key, lanes.map(({ track }) => track)])).toEqual([['r0', [3, 4]]]);
  });

  test.each([
    ['device', 'r0 ·t2p ·t2 ·t1 ·t5'],
    ['host', 'r0 ·t4 ·t3 ·t2p ·t5'],
    ['frames', 'r0 ·t4 ·t3 ·t2 ·t1 ·t5'],
    ['memory', 'r0 ·t4 ·t3 ·t2p ·t2 ·t1'],
  ])('without %s', (layer, shown) => {
    expect(keys(layOut(gpus({ hidden: new Set([layer]) })).rows)).toBe(shown);
  });

  test('its header stays at the top while its tracks are scrolled', () => {
    const two = { processes: [viewProcess(0), viewProcess(1)], tracks: [...tracks, viewTrack(6, 1, 'steps')], groups: [] };
    const { rows } = layOut(gpus({ model: two, unfolded: open }));
    const last = rows.findLast(({ process }) => process?.rank === 0) as Row;
    expect([0, 1, 100, last.top].map((scroll) => stickyRow(rows, scroll)?.key)).toEqual([undefined, 'r0', 'r0', 'r0']);
    expect(stickyRow(rows, last.top + last.height - 10)).toBe(undefined);
    expect(stickyRow(rows, last.top + last.height)).toBe(undefined);
  });
});

test('more than two counters are folded into one row', () => {
  const model = modelOf(1);
  const counters = [7, 8].map((track) => viewTrack(track, 0, 'counter', { tid: track }));
  const many = input({ model: { ...model, tracks: [...model.tracks, ...counters] } });
  expect(keys(layOut(many).rows)).toBe('r0 ·t1 c:r0');
  expect(layOut(many).rows[2]).toMatchObject({ label: '3 counters', isFolded: true });
  expect(keys(layOut({ ...many, unfolded: new Set(['c:r0']) }).rows)).toBe('r0 ·t1 c:r0 ·t2 ·t7 ·t8');
});

test('a folded rank keeps its steps', () => {
  const { rows } = layOut(input({ unfolded: new Set(['r1']) }));
  expect(keys(rows)).toBe('r0 r1 ·t4 ·t5');
  expect(rows[0]).toMatchObject({ isFolded: true, isFoldable: true, track: { kind: 'steps' } });
});

test('ranks are put together by host or by axis', () => {
  const model = modelOf(6);
  const folded = new Set(['r0', 'r1', 'r2', 'r3', 'r4', 'r5']);
  expect(keys(layOut(input({ model, folded, grouping: 'host' })).rows)).toBe('g:h0 ·r0 ·r1 ·r2 ·r3 g:h1 ·r4 ·r5');
  expect(keys(layOut(input({ model, folded, grouping: 'tp' })).rows)).toBe('g:tp 0 ·r0 ·r1 g:tp 1 ·r2 ·r3 g:tp 2 ·r4 ·r5');
});

test('what is in no group of an axis is not lost', () => {
  const model = { ...modelOf(3), groups: [{ axis: 'tp', group: 'tp 0', ranks: [0, 1] }] };
  const { rows } = layOut(input({ model, grouping: 'tp', folded: new Set(['r0', 'r1', 'r2']) }));
  expect(keys(rows)).toBe('g:tp 0 ·r0 ·r1 g::none ·r2');
});

test('the second life of a rank is a row of its own', () => {
  const model = {
    processes: [viewProcess(0, { index: 1, incarnation: 'b' }), viewProcess(0)],
    tracks: [viewTrack(0, 0, 'thread'), viewTrack(1, 1, 'thread')],
    groups: [],
  };
  const { rows } = layOut(input({ model, unfolded: new Set(['r0', 'r0.2']) }));
  expect(rows.map((row) => `${about(row)} ${row.label}`)).toEqual(['r0 Rank 0', 't0 thread 1', 'r0.2 Rank 0, life 2', 't1 thread 1']);
});

test('what an agent recorded beside a rank is a row below it, and no life', () => {
  const processes = [viewProcess(0, { incarnation: 'by-a' }), viewProcess(0, { index: 1, incarnation: 'b' }), viewProcess(1, { index: 2 })];
  const model = { processes, tracks: [0, 1, 2].map((at) => viewTrack(at, at, 'thread')), groups: [] };
  const { rows } = layOut(input({ model, folded: new Set(['r0', 'r0.beside', 'r1']) }));
  expect(rows.map((row) => `${about(row)} ${row.label}`)).toEqual(['r0 Rank 0', 'r0.beside Rank 0 · PyTorch', 'r1 Rank 1']);
});

test('of a rank that was started again, the life that stands out has the mark', () => {
  const processes = [
    viewProcess(0, { incarnation: 'by-a' }),
    viewProcess(0, { index: 1, incarnation: 'b' }),
    viewProcess(0, { index: 2, incarnation: 'c' }),
    viewProcess(1, { index: 3 }),
  ];
  const model = { processes, tracks: [0, 1, 2, 3].map((at) => viewTrack(at, at, 'steps')), groups: [] };
  const tagged = (process: number): readonly string[] =>
    layOut(input({ model, representatives: new Map([[0, { as: 'slow' as const, process }]]) })).rows.flatMap(({ key, tag }) =>
      tag === undefined ? [] : [key],
    );
  expect([tagged(1), tagged(2)]).toEqual([['r0'], ['r0.2']]);
});

test('pinned lanes of several lives, and of threads of one name, are told apart', () => {
  const processes = [viewProcess(0), viewProcess(0, { index: 1, incarnation: 'b' })];
  const tracks = [0, 1].flatMap((at) => [7, 8].map((tid) => viewTrack(10 * at + tid, at, 'thread', { name: 'python', tid })));
  const model = { processes, tracks, groups: [] };
  const lanes = layOut(input({ model, unfolded: new Set(['r0', 'r0.2']) })).rows.filter(({ kind }) => kind === 'track');
  const { pinned } = layOut(input({ model, pinned: lanes.map(({ key }) => key) }));
  expect(pinned.map(({ label }) => label)).toEqual([
    'Rank 0 · python 7',
    'Rank 0 · python 8',
    'Rank 0, life 2 · python 7',
    'Rank 0, life 2 · python 8',
  ]);
});

test('of many ranks those that stand out are open below a band of the others', () => {
  const model = modelOf(100);
  const representatives = new Map<number, Represented>([
    [7, { as: 'slow', process: 7 }],
    [50, { as: 'median', process: 50 }],
  ]);
  const many = input({ model, representatives, highlighted: new Set([99]) });
  const { rows } = layOut(many);
  expect(keys(rows)).toBe('rest:g r7 r50 r99 ·t298 ·t299');
  expect(rows[0]).toMatchObject({ hasBand: true, label: '97 more ranks' });
  expect(rows[0]?.ranks).toHaveLength(97);
  const unfolded = layOut({ ...many, unfolded: new Set(['rest:g']) }).rows;
  expect(unfolded.filter(({ kind }) => kind === 'rank')).toHaveLength(100);
  expect(keys(unfolded.slice(0, 3))).toBe('rest:g ·r0 ·r1');
  // Two lives of a rank are one rank.
  const again = { ...model, processes: [...model.processes, viewProcess(3, { index: 100, incarnation: 'b' })] };
  expect(layOut({ ...many, model: again }).rows[0]).toMatchObject({ label: '97 more ranks' });
});

test('groups of many ranks are folded to a band unless one of them stands out', () => {
  const many = input({ model: modelOf(40), grouping: 'host', representatives: new Map([[5, { as: 'slow' as const, process: 5 }]]) });
  const { rows } = layOut(many);
  expect(keys(rows.slice(0, 6))).toBe('g:h0 g:h1 ·rest:g:h1 ·r5 g:h2 g:h3');
  expect(rows[0]).toMatchObject({ isFolded: true, hasBand: true });
});

test('pinned ranks and lanes are at the top, and stay where they are', () => {
  const lane = layOut(input({ unfolded: open })).rows.find(({ track }) => track?.track === 4)?.key ?? '';
  const { pinned, rows, pinnedHeight } = layOut(input({ pinned: [lane, 'r0', 'gone', 'r0-gone', 'r7-1'] }));
  expect(keys(pinned)).toBe('t4 r0');
  expect(pinned[0]?.label).toBe('Rank 1 · thread 1');
  expect(pinnedHeight).toBe(39 + 37);
  expect(keys(rows)).toBe('r0 r1');
});

test('a rank can be moved among those beside it', () => {
  const folded = new Set(['r0', 'r1', 'r2']);
  const before = layOut(input({ model: modelOf(3), folded }));
  const order = movedOrder([], before.rows[0]?.siblings ?? [], 'r2', 'r0');
  expect(keys(layOut(input({ model: modelOf(3), folded, order })).rows)).toBe('r2 r0 r1');
  expect(movedOrder(order, ['r2', 'r0', 'r1'], 'r2', 'elsewhere')).toBe(order);
});

test('folding and unfolding undo each other', () => {
  const [first] = layOut(input()).rows;
  const once = toggled(first as Row, new Set(), new Set());
  const [folded] = layOut(input(once)).rows;
  expect(folded?.isFolded).toBe(false);
  const twice = toggled(folded as Row, once.folded, once.unfolded);
  expect(layOut(input(twice)).rows[0]?.isFolded).toBe(true);
});

test('rows lie one below the other, and are found by height (seed 11)', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 60 }),
      fc.constantFrom('rank', 'host', 'tp', 'nothing'),
      fc.uniqueArray(fc.constantFrom('r0', 'r1', 'g:h0', 'g:tp 0', 'rest:g')),
      fc.uniqueArray(fc.constantFrom('r2', 'g:h1', 'rest:g', 'rest:g:h0')),
      fc.nat({ max: 4000 }),
      (ranks, grouping, folded, unfolded, y) => {
        const { rows, height } = layOut(input({ model: modelOf(ranks), grouping, folded: new Set(folded), unfolded: new Set(unfolded) }));
        let top = 0;
        for (const row of rows) {
          expect(row.top).toBe(top);
          top += row.height;
        }
        expect(height).toBe(top);
        const at = rowAt(rows, y);
        if (y >= height) expect(at).toBe(-1);
        else expect(rows[at]?.top).toBeLessThanOrEqual(y);
        const [first, last] = rowsBetween(rows, y, y + 300);
        expect(rows.slice(first, last)).toEqual(rows.filter((row) => row.top + row.height > y && row.top < y + 300));
        expect(new Set(rows.map(({ key }) => key)).size).toBe(rows.length);
      },
    ),
    { seed: 11, numRuns: 200 },
  );
});
