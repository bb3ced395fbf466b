import { traceTime } from '@ranktrace/protocol';
import type { OpenRank, OpenWorkSummary } from '@ranktrace/trace';
import { expect, it } from 'vitest';
import { formatOpenWork, openWorkData, rankRanges } from './print-open-work.ts';

const s = (seconds: number) => traceTime(seconds * 1e9);

const rank = (number: number, about: Partial<OpenRank> = {}): OpenRank => ({
  ...{ rank: number, hostName: `node-${number}`, pid: 1, until: s(100), lastStep: { step: 12, end: s(40) }, open: [] },
  ...{ place: undefined, phases: [], endedBy: undefined, isStopped: false },
  ...about,
});

const summary = (about: Partial<OpenWorkSummary>): OpenWorkSummary => ({
  ...{
    until: s(100),
    ranks: [],
    ended: undefined,
    collectives: [],
    collectivesLeftOut: 0,
    spansLeftOut: 0,
    roles: { of: () => 'work' as const },
  },
  ...about,
});

const wait = { lane: 'main', kind: 'collective', name: 'all_reduce', since: s(41), around: ['a', 'forward', 'layer 3', 'sync'] } as const;

it('says who waits for whom, and what each rank was inside of', () => {
  const inside = [0, 1].map((number) => ({ rank: number, since: s(41 + number) }));
  const text = formatOpenWork(
    summary({
      ranks: [
        rank(0, { open: [wait] }),
        rank(1, { open: [wait, { ...wait, lane: 'io', name: 'read\n', around: [] }, wait, wait, wait] }),
        rank(2, { until: s(40), lastStep: undefined }),
        rank(3, { open: [{ ...wait, around: [] }] }),
      ],
      collectives: [
        {
          ...{ group: 'world', sequence: 7, op: 'all_reduce', pair: undefined, inside, left: [3], missing: [2], bytes: 48 },
          unheard: [4, 5],
          differing: [
            { rank: 0, op: 'all_reduce', bytes: 96 },
            { rank: 1, op: 'broad\ncast', bytes: 48 },
          ],
        },
        {
          ...{ group: 'pp', sequence: 0, op: 'recv', pair: [2, 1], inside: [{ rank: 1, since: s(90) }], left: [], missing: [2] },
          ...{ unheard: [], differing: [], bytes: 0 },
        },
      ],
      spansLeftOut: 3,
    }),
  );
  expect(text.split('\n')).toEqual([
    'collectives that never ended',
    '  all_reduce world#7: open for 59.0 s, since 41.0 s',
    '    never entered  rank 2',
    '    not heard of   ranks 4, 5',
    '    inside         ranks 0, 1',
    '    left           rank 3',
    '    called other   rank 0: all_reduce with 96 bytes, where most have 48',
    '    called other   rank 1: broad\\u000acast',
    '  recv pp#0, rank 2 → rank 1: open for 10.0 s, since 90.0 s',
    '    never entered  rank 2',
    '    inside         rank 1',
    '',
    'last heard of    before the end          last step  inside of                                           for',
    'rank 0 · node-0            0 ns  12, 60.0 s before  main: … › forward › layer 3 › sync › all_reduce  59.0 s',
    'rank 1 · node-1            0 ns  12, 60.0 s before  main: … › forward › layer 3 › sync › all_reduce  59.0 s',
    '                                                    io: read\\u000a                                   59.0 s',
    '                                                    main: … › forward › layer 3 › sync › all_reduce  59.0 s',
    '                                                    and 2 more lines',
    'rank 2 · node-2          60.0 s                  -  -',
    'rank 3 · node-3            0 ns  12, 60.0 s before  main: all_reduce                                 59.0 s',
    '(3 open spans are not listed: there were too many)',
  ]);
});

it('is empty when every rank ended inside of nothing', () => {
  expect(formatOpenWork(summary({}))).toBe('');
  expect(formatOpenWork(summary({ until: undefined }))).toBe('');
});

it('cuts what is long, and gives all as data', () => {
  const ranks = Array.from({ length: 1024 }, (_, number) => rank(number));
  const collective = {
    group: 'world',
    op: 'barrier',
    pair: undefined,
    inside: ranks.map((one) => ({ rank: one.rank, since: s(1) })),
    left: [],
    ...{ unheard: [], differing: [], bytes: 0 },
  };
  const collectives = Array.from({ length: 12 }, (_, sequence) => ({ ...collective, sequence, missing: [] }));
  const text = formatOpenWork(summary({ ranks, collectives, collectivesLeftOut: 5 }));
  expect(text).toContain('inside         ranks 0–1023 (1 024)\n');
  expect(text).toContain('  and 7 more, entered later\n');
  expect(text).toContain('(32 of 1 024 ranks; all of them with --json)');
  const data = openWorkData(summary({ ranks, collectives })) as Record<string, Record<string, unknown>[]>;
  expect(data.ranks).toHaveLength(1024);
  expect(data.ranks?.[0]).toMatchObject({ untilNs: 100e9, lastStep: { step: 12, endNs: 40e9 } });
  expect(data.collectives?.[11]).toMatchObject({ sequence: 11 });
});

it('names ranks by ranges', () => {
  expect(rankRanges([5])).toBe('rank 5');
  expect(rankRanges([7, 0, 1, 2, 5, 6])).toBe('ranks 0–2, 5–7 (6)');
  expect(rankRanges([1, 2, 9])).toBe('ranks 1, 2, 9');
  expect(rankRanges(Array.from({ length: 20 }, (_, index) => 2 * index))).toBe('ranks 0, 2, 4, 6, 8, 10, 12, 14, … (20)');
});
