// Times in ms here, on one axis; the matcher itself uses ns.

import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { runCount } from '../../../../test/setup/seeds.ts';
import { type AddedPart, CollectiveMatcher, type MatchedCollective, type MatcherBounds } from './collective-matcher.ts';

const ms = 1e6;

type Given = Partial<AddedPart> & { readonly rank: number };

function part({
  rank,
  member = rank + 1,
  op = 'all_reduce',
  group = 'world',
  sequence = 0,
  peer = -1,
  bytes = 4,
  ...times
}: Given): AddedPart {
  const entry = (times.entry ?? 0) * ms;
  const exit = 'exit' in times ? times.exit : (times.entry ?? 0) + 2;
  return { member, rank, op, group, sequence, peer, bytes, entry, exit: exit === undefined ? undefined : exit * ms };
}

/** `group#sequence: ranks`, `-members` missing, `+` still inside. */
function line({ group, sequence, pair, parts, missing }: MatchedCollective): string {
  const ranks = parts.map((part) => `${part.member}${part.exit === undefined ? '+' : ''}`).join(' ');
  const lost = missing.length > 0 ? ` -${missing.join(' -')}` : '';
  return `${group}#${sequence}${pair === undefined ? '' : `[${pair.join('>')}]`}: ${ranks}${lost}`;
}

function check(parts: readonly Given[], expected: readonly string[], bounds?: MatcherBounds): CollectiveMatcher {
  const reported: string[] = [];
  const matcher = new CollectiveMatcher((matched) => reported.push(line(matched)), bounds);
  for (const given of parts) matcher.add(part(given));
  matcher.end();
  expect(reported).toEqual(expected);
  return matcher;
}

/** A collective that `ranks` enter at `entry` and all leave 2 ms later. */
const together = (sequence: number, entry: number, ranks: readonly number[], about: Partial<Given> = {}): Given[] =>
  ranks.map((rank) => ({ ...about, rank, sequence, entry }));

describe('collectives', () => {
  it('forks: both go on from what is pending, each by itself', () => {
    const [own, forked]: [string[], string[]] = [[], []];
    const matcher = new CollectiveMatcher((matched) => own.push(line(matched)));
    for (const given of [...together(0, 0, [0, 1]), { rank: 0, sequence: 1, entry: 5 }]) matcher.add(part(given));
    const fork = matcher.fork((matched) => forked.push(line(matched)));
    fork.add(part({ rank: 1, sequence: 1, entry: 6, exit: undefined }));
    matcher.add(part({ rank: 2, sequence: 1, entry: 6 }));
    expect([own, forked]).toEqual([[], []]);
    fork.end();
    matcher.end();
    expect(own).toEqual(['world#0: 1 2 -3', 'world#1: 1 3 -2']);
    expect(forked).toEqual(['world#0: 1 2', 'world#1: 1 2+']);
  });

  it('brings the parts of one group and sequence together, by member', () => {
    check(
      [
        { rank: 2, entry: 0 },
        { rank: 0, entry: 1 },
        { rank: 1, group: 'other', entry: 1 },
        { rank: 1, entry: 1.5 },
      ],
      ['world#0: 1 2 3', 'other#0: 2'],
    );
  });

  it('reports at once what is complete, once the group is known', () => {
    const reported: string[] = [];
    const matcher = new CollectiveMatcher((matched) => reported.push(line(matched)));
    const all = (sequence: number, entry: number) => {
      for (const given of together(sequence, entry, [0, 1])) matcher.add(part(given));
    };
    all(0, 0);
    expect(reported).toEqual([]);
    all(1, 1200);
    expect(reported).toEqual(['world#0: 1 2', 'world#1: 1 2']);
    matcher.add(part({ rank: 0, sequence: 2, entry: 1300 }));
    expect(reported).toHaveLength(2);
    matcher.add(part({ rank: 1, sequence: 2, entry: 1300 }));
    expect(reported).toHaveLength(3);
  });

  it('waits for a rank whose first collective comes long after those of the others', () => {
    const others = [0, 1].map((rank) => ({ rank, entry: 0, exit: 30_001 }));
    const elsewhere = Array.from({ length: 100 }, (_, n) => ({ rank: 0, group: 'pair', sequence: n, entry: n * 200 }));
    const matcher = new CollectiveMatcher((matched) => matched.group === 'world' && reported.push(line(matched)));
    const reported: string[] = [];
    for (const given of [...others, ...elsewhere, { rank: 2, entry: 30_000, exit: 30_001 }]) matcher.add(part(given));
    matcher.end();
    expect(reported).toEqual(['world#0: 1 2 3']);
  });

  it('reports who is missing a second after the first exit', () => {
    const reported: string[] = [];
    const matcher = new CollectiveMatcher((matched) => reported.push(line(matched)));
    for (const given of [...together(0, 0, [0, 1, 2]), ...together(1, 10, [0, 2]), ...together(2, 20, [0, 1, 2])]) matcher.add(part(given));
    for (let entry = 100; entry < 1400; entry += 100) matcher.add(part({ rank: 0, group: 'other', sequence: entry, entry }));
    expect(reported.slice(0, 3)).toEqual(['world#0: 1 2 3', 'world#1: 1 3 -2', 'world#2: 1 2 3']);
  });

  it('misses a rank also in what was over before it was first seen: its recording began late', () => {
    check([...together(0, 0, [0, 1]), ...together(1, 10, [0, 1, 2])], ['world#0: 1 2 -3', 'world#1: 1 2 3']);
  });

  it('matches on when sequences have gaps', () => {
    check(
      [...together(3, 0, [0, 1]), ...together(9, 10, [0, 1]), ...together(4e15, 20, [0, 1])],
      ['world#3: 1 2', 'world#9: 1 2', 'world#4000000000000000: 1 2'],
    );
  });

  it('begins anew when a rank uses its number again, so that one number for all still matches by order', () => {
    check(
      [...together(0, 0, [0, 1]), ...together(0, 10, [0, 1]), ...together(0, 20, [1, 0])],
      ['world#0: 1 2', 'world#0: 1 2', 'world#0: 1 2'],
    );
  });

  it('counts a second part while the first still runs', () => {
    const matcher = check(
      [
        { rank: 0, entry: 0, exit: 9 },
        { rank: 0, entry: 1 },
        { rank: 1, entry: 1 },
      ],
      ['world#0: 1 2'],
    );
    expect(matcher.duplicates).toBe(1);
  });

  it('keeps two lives of a rank apart', () => {
    const second = together(0, 40, [0, 1]).map((given) => ({ ...given, member: given.rank + 11 }));
    check([...together(0, 0, [0, 1]), ...together(1, 10, [0]), ...second], ['world#0: 1 2', 'world#1: 1 -2', 'world#0: 11 12']);
  });

  it('does not match what comes more than a second after the first exit', () => {
    check([...together(0, 0, [0, 1]), { rank: 2, entry: 1003 }], ['world#0: 1 2 -3', 'world#0: 3 -1 -2']);
    check([...together(0, 0, [0, 1]), { rank: 2, entry: 1003 }], ['world#0: 1 2 3'], { horizonNs: Number.POSITIVE_INFINITY });
  });

  it('takes parts that come out of order', () => {
    const late = Array.from({ length: 40 }, (_, n) => [
      { rank: 0, sequence: n, entry: n * 50 + 50 },
      { rank: 1, sequence: n, entry: n * 50 },
    ]).flat();
    const reported: string[] = [];
    const matcher = new CollectiveMatcher((matched) => reported.push(line(matched)));
    for (const given of late) matcher.add(part(given));
    matcher.end();
    expect(reported.sort()).toEqual(Array.from({ length: 40 }, (_, n) => `world#${n}: 1 2`).sort());
  });

  it('calls it as most ranks do', () => {
    const ops: string[] = [];
    const matcher = new CollectiveMatcher(({ op }) => ops.push(op));
    for (const [rank, op] of ['b', 'a', 'a'].entries()) matcher.add(part({ rank, op }));
    for (const [rank, op] of ['b', 'a'].entries()) matcher.add(part({ rank, op, sequence: 1 }));
    matcher.end();
    expect(ops).toEqual(['a', 'b']);
  });
});

describe('open parts', () => {
  it('waits for their ends', () => {
    const reported: string[] = [];
    const matcher = new CollectiveMatcher((matched) => reported.push(line(matched)));
    matcher.add(part({ rank: 0, entry: 0, exit: 1 }));
    matcher.add(part({ rank: 1, entry: 0, exit: undefined }));
    for (let entry = 100; entry < 3000; entry += 100) matcher.add(part({ rank: 0, group: 'other', sequence: entry, entry }));
    expect(reported.filter((text) => text.startsWith('world'))).toEqual([]);
    matcher.close(2, 'world', 0, -1, 'all_reduce', 3000 * ms);
    expect(reported.at(-1)).toBe('world#0: 1 2');
    matcher.close(2, 'world', 0, -1, 'all_reduce', 3000 * ms);
    matcher.close(77, 'nobody', 0, -1, 'all_reduce', 3000 * ms);
    expect(matcher.givenUp).toBe(0);
  });

  it('reports what never ended, with who never came', () => {
    check(
      [
        ...together(0, 0, [0, 1, 2]),
        { rank: 0, sequence: 1, entry: 10, exit: undefined },
        { rank: 2, sequence: 1, entry: 11, exit: undefined },
      ],
      ['world#0: 1 2 3', 'world#1: 1+ 3+ -2'],
    );
  });

  it('goes on when the end of a part was lost', () => {
    check([{ rank: 0, entry: 0, exit: undefined }, { rank: 1, entry: 1 }, ...together(0, 10, [0, 1])], ['world#0: 1+ 2', 'world#0: 1 2']);
  });
});

describe('sends', () => {
  it('pairs a send with its receive, per direction and number', () => {
    check(
      [
        { rank: 0, op: 'isend', peer: 1, entry: 0 },
        { rank: 1, op: 'send', peer: 0, entry: 0 },
        { rank: 0, op: 'recv', peer: 1, entry: 1 },
        { rank: 1, op: 'irecv', peer: 0, entry: 1 },
        { rank: 1, op: 'recv', peer: 0, entry: 2, sequence: 1 },
        { rank: 0, op: 'send', peer: 2, entry: 3 },
      ],
      ['world#0[1>0]: 1 2', 'world#0[0>1]: 1 2', 'world#1[0>1]: 2 -1', 'world#0[0>2]: 1'],
    );
  });

  it('pairs a rank with itself, and the two ends of an exchange', () => {
    check(
      [
        { rank: 0, op: 'send', peer: 0 },
        { rank: 0, op: 'recv', peer: 0 },
        { rank: 3, op: 'ncclDevKernel_SendRecv', peer: 2 },
        { rank: 2, op: 'ncclDevKernel_SendRecv', peer: 3 },
      ],
      ['world#0[0>0]: 1 1', 'world#0[2>3]: 3 4'],
    );
  });

  it('keeps them apart from the collectives of their group', () => {
    check(
      [{ rank: 0, op: 'send', peer: 1 }, { rank: 0 }, { rank: 1 }, { rank: 1, op: 'recv', peer: 0 }],
      ['world#0[0>1]: 1 2', 'world#0: 1 2'],
    );
  });
});

describe('bounds', () => {
  it('gives up what waits longest, and counts it', () => {
    const matcher = check(
      Array.from({ length: 10 }, (_, sequence) => ({ rank: 0, sequence, exit: undefined })),
      ['world#7: 1+', 'world#8: 1+', 'world#9: 1+'],
      { collectivesMax: 3 },
    );
    expect(matcher.overflow).toBe(7);
    expect(check(together(0, 0, [0, 1, 2, 3]), [], { partsMax: 3 }).overflow).toBe(4);
  });

  it('forgets the groups that were used least recently', () => {
    const names = ['a', 'b', 'a', 'c'];
    const matcher = check(
      names.map((group, sequence) => ({ rank: 0, group, sequence })),
      ['a#0: 1', 'a#2: 1', 'c#3: 1'],
      { groupBytesMax: 2 * 620 },
    );
    expect(matcher.overflow).toBe(1);
  });

  it('holds neither hundreds of thousands of groups nor names of a megabyte', () => {
    let reported = 0;
    const matcher = new CollectiveMatcher(({ parts }) => {
      reported += parts.length;
    });
    for (let n = 0; n < 300; n++) matcher.add(part({ rank: 0, group: `${n} ${'x'.repeat(1e6)}`, entry: 0 }));
    expect(matcher.waiting).toBeLessThan(40);
    for (let n = 0; n < 300_000; n++) matcher.add(part({ rank: 0, group: `g${n}`, entry: 0 }));
    expect(matcher.waiting).toBeLessThanOrEqual(65_536);
    const waiting = matcher.waiting;
    matcher.end();
    expect(reported).toBe(waiting);
    expect(reported + matcher.givenUp).toBe(300_300);
  });

  it('takes times and numbers that make no sense', () => {
    const times = [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0, -1];
    let reported = 0;
    const matcher = new CollectiveMatcher(({ parts }) => {
      reported += parts.length;
    });
    let added = 0;
    for (const entry of times) {
      for (const exit of [...times, undefined]) {
        for (const sequence of times) {
          matcher.add({ ...part({ rank: 0 }), entry, exit, sequence });
          added++;
        }
      }
    }
    matcher.end();
    expect(reported + matcher.givenUp).toBe(added);
  });
});

describe('whatever is lost', () => {
  const run = fc.record({
    ranks: fc.integer({ min: 1, max: 5 }),
    collectives: fc.integer({ min: 1, max: 40 }),
    gapMs: fc.integer({ min: 1, max: 900 }),
    lost: fc.array(fc.boolean(), { minLength: 200, maxLength: 200 }),
    open: fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 200, maxLength: 200 }),
    restartAt: fc.integer({ min: 0, max: 60 }),
    repeats: fc.boolean(),
    collectivesMax: fc.integer({ min: 1, max: 20 }),
  });

  it('reports no part twice, loses none uncounted, and mixes no numbers, groups or lives (seed 4)', () => {
    fc.assert(
      fc.property(run, ({ ranks, collectives, gapMs, lost, open, restartAt, repeats, collectivesMax }) => {
        const added: { readonly bytes: number; readonly group: string; readonly sequence: number }[] = [];
        const reported = new Set<number>();
        const matcher = new CollectiveMatcher(
          ({ group, sequence, parts }) => {
            expect(new Set(parts.map((part) => part.rank)).size).toBe(parts.length);
            for (const { bytes } of parts) {
              expect(reported.has(bytes)).toBe(false);
              reported.add(bytes);
              expect(added[bytes]).toMatchObject({ group, sequence });
            }
          },
          { collectivesMax },
        );
        let at = 0;
        for (let n = 0; n < collectives; n++) {
          for (let rank = 0; rank < ranks; rank++, at++) {
            if (lost[at % 200] === true) continue;
            const life = n < restartAt ? 0 : ranks;
            const group = n % 3 === 0 ? 'a' : 'b';
            const sequence = repeats ? n % 4 : n - (n < restartAt ? 0 : restartAt);
            const kind = open[at % 200] as number;
            const [entry, bytes] = [n * gapMs + rank / 10, added.length];
            added.push({ bytes, group, sequence });
            matcher.add(part({ rank, member: rank + 1 + life, group, sequence, bytes, entry, exit: kind < 2 ? undefined : entry + kind }));
            if (kind === 1) matcher.close(rank + 1 + life, group, sequence, -1, 'all_reduce', (entry + 5) * ms);
          }
        }
        matcher.end();
        expect(reported.size + matcher.givenUp).toBe(added.length);
        expect(matcher.waiting).toBe(0);
      }),
      { seed: 4, numRuns: runCount(300) },
    );
  });

  it('matches all that is left of a barrier-like run, in one piece each, whichever parts are dropped (seed 5)', () => {
    fc.assert(
      fc.property(run, ({ ranks, collectives, gapMs, lost }) => {
        const wanted = new Map<number, number>();
        const matcher = new CollectiveMatcher(({ sequence, parts }) => {
          expect(parts.length).toBe(wanted.get(sequence));
          wanted.delete(sequence);
        });
        let at = 0;
        for (let sequence = 0; sequence < collectives; sequence++) {
          for (let rank = 0; rank < ranks; rank++) {
            if (lost[at++ % 200] === true) continue;
            wanted.set(sequence, (wanted.get(sequence) ?? 0) + 1);
            matcher.add(part({ rank, sequence, entry: sequence * gapMs + rank / 10 }));
          }
        }
        matcher.end();
        expect(wanted.size).toBe(0);
      }),
      { seed: 5, numRuns: runCount(300) },
    );
  });
});
