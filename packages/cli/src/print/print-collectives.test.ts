import { nanos, traceTime } from '@ranktrace/protocol';
import type { CollectiveLine, CollectiveRecord, CollectiveSummary, SendLine, SpreadSummary } from '@ranktrace/trace';
import { describe, expect, it } from 'vitest';
import { collectivesData, formatCollectives } from './print-collectives.ts';

const of = (p50: number, p95: number, max: number): SpreadSummary => ({ count: 100, p50, p95, max });
const rank = (number: number, waiting: number, lastIn: number, missing = 0) => ({ rank: number, waiting: nanos(waiting), lastIn, missing });

const common = {
  group: 'dp',
  count: 100,
  incomplete: 0,
  unfinished: 0,
  unaligned: 0,
  entrySkew: of(1.2e6, 3.4e6, 9e6),
  transfer: of(400_000, 500_000, 900_000),
  distinguishable: 100,
  epsilon: nanos(12_000),
  violations: 0,
  bytes: 1e9,
  algorithmBandwidth: of(1e9, 1e9, 1e9),
  busBandwidth: of(1.5e9, 2e9, 2e9),
};

const line = (about: Partial<CollectiveLine>): CollectiveLine => ({
  ...common,
  op: 'all_reduce',
  ranks: 4,
  exitSpread: of(20_500, 100_000, 188_000),
  waiting: nanos(2.5e9),
  perRank: [rank(0, 1e9, 5), rank(1, 1e9, 12), rank(2, 5e8, 83), rank(3, 1e9, 0)],
  ...about,
});

const send = (about: Partial<SendLine>): SendLine => ({
  ...common,
  source: 0,
  destination: 1,
  withoutReceive: 0,
  withoutSend: 0,
  lateSender: nanos(3e9),
  lateReceiver: nanos(2e6),
  ...about,
});

const record: CollectiveRecord = {
  group: 'dp',
  sequence: 41,
  op: 'all_reduce',
  pair: undefined,
  time: traceTime(12.3e9),
  entrySkew: nanos(9e6),
  waiting: [0, 1, 2, 3].map((number) => ({ rank: number, waiting: nanos(number === 2 ? 0 : 8e6) })),
  lastIn: 2,
  transfer: nanos(400_000),
  epsilon: nanos(0),
  isDistinguishable: true,
  bytes: 64,
  algorithmBandwidth: 1,
  busBandwidth: 1.5,
};

const summary = (about: Partial<CollectiveSummary>): CollectiveSummary => ({
  ...{ collectives: [], sends: [], leftOut: 0, longest: [], parts: { added: 9, duplicates: 0, overflow: 0 } },
  ...about,
});

describe('collective part of the report', () => {
  it('has a skew of hours in hours', () => {
    const text = formatCollectives(summary({ collectives: [line({ entrySkew: of(1.2e6, 3600e9, 12_600e9) })] }));
    expect(text).toMatch(/^all_reduce .* 0\.00\/1\.00\/3\.50 h /m);
  });

  it('is a table with what was odd, and the longest, below it', () => {
    const collectives = [
      line({}),
      line({
        op: 'barrier',
        group: 'a\u001bb',
        incomplete: 3,
        violations: 1,
        unfinished: 2,
        busBandwidth: undefined,
        perRank: [rank(1, 0, 0, 3)],
      }),
      line({ op: 'all_gather', transfer: of(4000, 5000, 9000), distinguishable: 2, exitSpread: undefined }),
      line({
        op: 'reduce',
        unaligned: 100,
        entrySkew: undefined,
        transfer: undefined,
        busBandwidth: undefined,
        epsilon: undefined,
        exitSpread: undefined,
        perRank: [],
      }),
    ];
    expect(formatCollectives(summary({ collectives, longest: [record] })).split('\n')).toEqual([
      'collectives  group     ranks  calls   skew p50/p95/max      transfer p50    bus p50  waited  last in',
      'all_reduce   dp            4    100  1.20/3.40/9.00 ms  400 µs ± 12.0 µs  1.50 GB/s  2.50 s  rank 2 83 %',
      'barrier      a\\u001bb      4    103  1.20/3.40/9.00 ms  400 µs ± 12.0 µs          -  2.50 s  -',
      'all_gather   dp            4    100  1.20/3.40/9.00 ms  within ± 12.0 µs          -  2.50 s  rank 2 83 %',
      'reduce       dp            4    100                  -                 -          -  2.50 s  -',
      'skew = last − first rank in, waited = by all ranks for the last, transfer = from the last in to the first out',
      '  all_reduce dp: left within 20.5 µs of each other, 188 µs at most',
      '  barrier a\\u001bb: 2 that a rank never left, 1 drawn against causality, 3 with a part missing, not timed (rank 1 in 3), left within 20.5 µs of each other, 188 µs at most',
      '  reduce dp: 100 with a clock that is not aligned: not timed',
      'waited in longest:',
      '  all_reduce dp#41 at 12.3 s: rank 2 came 9.00 ms after the first, 3 ranks waited 24.0 ms in all',
    ]);
  });

  it('names no collective in which no rank waited, as where the parts of other ranks are missing', () => {
    const alone = { ...record, entrySkew: nanos(0), waiting: [{ rank: 0, waiting: nanos(0) }], lastIn: 0 };
    const one = { ...record, waiting: [0, 8e6].map((waiting, rank) => ({ rank, waiting: nanos(waiting) })), lastIn: 0 };
    expect(formatCollectives(summary({ collectives: [line({})], longest: [alone] }))).not.toContain('waited in longest');
    expect(
      formatCollectives(summary({ collectives: [line({})], longest: [one, alone] }))
        .split('\n')
        .slice(-2),
    ).toEqual(['waited in longest:', '  all_reduce dp#41 at 12.3 s: rank 0 came 9.00 ms after the first, 1 rank waited 8.00 ms in all']);
  });

  it('says of a transfer that nobody waits for that it is below 0, and of one on one clock that it is 0', () => {
    const of0 = (p50: number, epsilon: number) =>
      formatCollectives(
        summary({ collectives: [line({ transfer: of(p50, p50, p50), distinguishable: 0, epsilon: nanos(epsilon) })] }),
      ).split('\n')[1];
    expect(of0(-8e6, 5000)).toMatch(/ {2}-8\.00 ms ± 5\.00 µs +- {2}/);
    expect(of0(-8e6, 0)).toMatch(/ {2}-8\.00 ms +- {2}/);
    expect(of0(4000, 5000)).toMatch(/ {2}within ± 5\.00 µs +- {2}/);
  });

  it('has a table of sends', () => {
    const sends = [send({}), send({ source: -1, destination: -1, group: '(other groups)', withoutReceive: 4, incomplete: 4 })];
    expect(formatCollectives(summary({ sends })).split('\n')).toEqual([
      'sends           from → to        calls  late sender  late receiver      transfer p50  bandwidth p50',
      'dp              rank 0 → rank 1    100       3.00 s        2.00 ms  400 µs ± 12.0 µs      1.50 GB/s',
      '(other groups)  (several)          104       3.00 s        2.00 ms  400 µs ± 12.0 µs      1.50 GB/s',
      'late sender = the receiver waited so long in all for the sender to begin, late receiver = the other way round',
      '  (other groups) (several): 4 without a receive',
    ]);
  });

  it('says what could not be matched, and is empty without anything', () => {
    expect(formatCollectives(summary({}))).toBe('');
    expect(formatCollectives(summary({ leftOut: 7, parts: { added: 5000, duplicates: 1, overflow: 2 } })).split('\n')).toEqual([
      '(7 collectives and sends share the lines of other groups: there were too many)',
      '  2 of 5 000 parts could not be matched: too many waited at once',
      '  1 of 5 000 parts could not be matched: recorded twice',
    ]);
  });

  it('shows the first of many, and gives all as data', () => {
    const collectives = Array.from({ length: 30 }, (_, index) => line({ group: `g${index}` }));
    expect(formatCollectives(summary({ collectives }))).toContain('(the 20 of 30 that ranks waited in longest; all of them with --json)');
    const data = collectivesData(summary({ collectives, sends: [send({})], longest: [record] })) as Record<string, object[]>;
    expect(data.collectives).toHaveLength(30);
    expect(data.collectives?.[0]).toMatchObject({ group: 'g0', waitingNs: 2.5e9, entrySkewNs: { p50: 1.2e6 }, epsilonNs: 12_000 });
    expect(data.sends?.[0]).toMatchObject({ lateSenderNs: 3e9 });
    expect(data.longest?.[0]).toMatchObject({ timeNs: 12.3e9, sequence: 41 });
  });
});
