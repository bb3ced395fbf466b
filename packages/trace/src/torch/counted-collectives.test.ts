// Files with sampled or missing kernels, compared with the same files whole: counts from the end are trusted for whole files, whatever their
// clocks, and for no others.

import { describe, expect, it } from 'vitest';
import { seedCount } from '../../../../test/setup/seeds.ts';
import { Random } from '../simulate/random.ts';
import { alignedJob, clocksApart, errorsAgainst, violations } from '../testing/aligned-kineto.ts';
import { gpuJob } from '../testing/gpu-job.ts';
import { mergedOnOwnClocks, sourcesOfKineto, tableOfKineto } from '../testing/merged-kineto.ts';

const seeds = seedCount(6);
const textsOf = (seed: number, ranks: number, clocks?: ReturnType<typeof clocksApart>): string[] =>
  gpuJob({ seed, ranks, steps: 6, ...(clocks && { clocks }) }).files.map(({ text }) => text);

interface Event {
  readonly cat?: string;
  readonly name: string;
}

/** The file without the kernels of collectives that `isLost` selects; `place` counts collectives in file order. */
function without(text: string, isLost: (place: number) => boolean): string {
  const { traceEvents, ...rest } = JSON.parse(text.replace(/"ts": ?([\d.]+)/g, '"ts":"$1"')) as { traceEvents: Event[] };
  let place = 0;
  const left = traceEvents.filter(({ cat, name }) => !(cat === 'kernel' && name.includes('nccl') && isLost(place++)));
  return JSON.stringify({ ...rest, traceEvents: left }).replace(/"ts":"([\d.]+)"/g, '"ts":$1');
}

/** Ranks with collectives that are kept as plain spans. */
function apart(texts: readonly string[]): number[] {
  return sourcesOfKineto(texts.map(tableOfKineto)).flatMap((source, rank) => {
    const { tables, strings } = source.batch(0) as NonNullable<ReturnType<typeof source.batch>>;
    const { columns, length } = tables.metadata;
    const keys = Array.from({ length }, (_, row) => strings[columns.key[row] as number]);
    return keys.includes('ranktrace.miscounted') ? [rank] : [];
  });
}

describe.each(Array.from({ length: seeds }, (_, seed) => seed + 40))('the count from the end of files (seed %i)', (seed) => {
  const random = new Random(seed);
  const ranks = 2 * (1 + Math.floor(random.uniform() * 3));

  it('is believed of whole files, on one clock and on clocks apart', () => {
    expect(apart(textsOf(seed, ranks))).toEqual([]);
    expect(apart(textsOf(seed, ranks, clocksApart(ranks)))).toEqual([]);
  });

  it('is not believed of files with a sample of the kernels, and moves no clock', () => {
    const whole = textsOf(seed, ranks);
    const sampled = whole.map((text) => without(text, () => random.uniform() < 0.7));
    const [merged, own] = [alignedJob(sampled), mergedOnOwnClocks(sourcesOfKineto(sampled.map(tableOfKineto)))];
    expect(violations(merged)).toBe(0);
    const asWritten = own.events.map(({ rank, kind, start, length }) => ({ rank, kind, key: '', start, end: start + length }));
    expect(errorsAgainst({ events: asWritten, processes: own.processes }, merged)).toEqual(Array(ranks).fill(0));
  });

  it('is not believed of a file that ends some steps earlier, and moves no clock', () => {
    const stranger = Math.floor(random.uniform() * ranks);
    for (const steps of [5, 4, 2]) {
      const shorter = gpuJob({ seed, ranks, steps }).files[stranger]?.text as string;
      const texts = textsOf(seed, ranks).map((text, rank) => (rank === stranger ? shorter : text));
      expect(apart(texts)).toContain(stranger);
      const [merged, own] = [alignedJob(texts), mergedOnOwnClocks(sourcesOfKineto(texts.map(tableOfKineto)))];
      const asWritten = own.events.map(({ rank, kind, start, length }) => ({ rank, kind, key: '', start, end: start + length }));
      expect(Math.max(...errorsAgainst({ events: asWritten, processes: own.processes }, merged))).toBeLessThan(2_000_000);
    }
  });

  it('is not believed of the one file that lacks some kernels in the middle', () => {
    const stranger = Math.floor(random.uniform() * ranks);
    const texts = textsOf(seed, ranks).map((text, rank) => (rank === stranger ? without(text, (place) => place % 7 === 3) : text));
    const found = apart(texts);
    expect(found).toContain(stranger);
    // When two halves disagree, either may be the whole one. This holds for the job, and for a half of the ranks that is itself a group.
    const halfOf = (rank: number): number => Math.floor((2 * rank) / ranks);
    if (ranks > 2) expect(found.filter((rank) => rank !== stranger && (ranks !== 4 || halfOf(rank) !== halfOf(stranger)))).toEqual([]);
    expect(violations(alignedJob(texts))).toBe(0);
  });
});

describe.each([0, 1])('the count from the end of the files of a pipeline (seed %i)', (seed) => {
  const wholeOf = (steps: number): string[] =>
    gpuJob({ seed, ranks: 6, steps, clocks: clocksApart(6), pipeline: { stages: 3, microbatches: 4 } }).files.map(({ text }) => text);
  const filesOf = (steps: number): string[] => wholeOf(steps).map(withoutMeetingsOfAll);
  const ended = (stages: readonly number[]): string[] => {
    const shorter = filesOf(8);
    return filesOf(12).map((text, rank) => (stages.includes(Math.floor(rank / 2)) ? (shorter[rank] as string) : text));
  };

  it('is believed where all of them end with the same step', () => expect(apart(filesOf(12))).toEqual([]));

  it('is believed of ranks that have few events in common with the first compared, and many with others', () =>
    expect(apart(wholeOf(8))).toEqual([]));

  it('is not believed of a stage that ends some steps earlier, by either of its ranks', () => {
    expect(apart(ended([2]))).toEqual(expect.arrayContaining([4, 5]));
    expect(apart(ended([0]))).toEqual(expect.arrayContaining([0, 1]));
  });

  it('is believed of the two stages that end together', () => expect(apart(ended([2]))).not.toContain(0));
});

describe('the count from the end of files that end with different steps', () => {
  const clocks = clocksApart(4);
  const filesOf = (steps: number): string[] => gpuJob({ seed: 1, ranks: 4, steps, clocks }).files.map(({ text }) => text);
  const linesOf = (text: string, isKept: (line: string) => boolean): string => text.split('\n').filter(isKept).join('\n');
  const withoutSteps = (text: string): string => linesOf(text, (line) => !line.includes('ProfilerStep#'));
  const [whole, shorter] = [filesOf(6), filesOf(4)] as [string[], string[]];

  it('is not believed where they have no step in common', () => {
    // Steps are numbered from 2: rank 3 ends with step 5, and the others hold 6 and 7 alone.
    const late = whole.map((text) => linesOf(text, (line) => !/ProfilerStep#[2-5]"/.test(line)));
    expect(apart([...late.slice(0, 3), shorter[3] as string])).toContain(3);
  });

  it('is not believed of a file without steps, as it may end with any', () => {
    expect(apart([...whole.slice(0, 2), shorter[2] as string, withoutSteps(shorter[3] as string)])).toEqual(expect.arrayContaining([2, 3]));
    expect(apart([...whole.slice(0, 3), withoutSteps(whole[3] as string)])).toEqual([]);
  });
});

/** The file without the collectives of all ranks: groups of a stage, and sends, are left. */
function withoutMeetingsOfAll(text: string): string {
  const lines = text.split('\n');
  return lines.filter((line) => !(line.includes('ncclDevKernel_AllReduce') && line.includes('"tid":23'))).join('\n');
}

/** Collectives of a group, each at a time of the true clock: µs. */
interface Meeting {
  readonly group: string;
  readonly ranks: readonly number[];
  readonly at: readonly number[];
}

/** The file of a rank whose clock is ahead by `ahead` µs. */
function fileOf(rank: number, meetings: readonly Meeting[], ahead: number): string {
  const own = meetings.filter(({ ranks }) => ranks.includes(rank));
  const traceEvents = own.flatMap(({ group, ranks, at }) =>
    at.map((time) => ({
      ...{ ph: 'X', cat: 'kernel', name: 'ncclDevKernel_AllReduce_Sum_f32_RING_LL()', pid: 0, tid: 20, ts: 5_000 + ahead + time, dur: 50 },
      args: { 'Collective name': 'allreduce', 'Process Group Name': group, 'Group size': ranks.length },
    })),
  );
  const configs = own.map(({ group, ranks }) => ({ pg_name: group, ranks }));
  const distributedInfo = { rank, world_size: 4, pg_count: configs.length, pg_config: configs };
  return JSON.stringify({ distributedInfo, baseTimeNanoseconds: 1_759_300_074_000_000_000, traceEvents });
}

it('a group with few collectives is believed by the offsets of others, in whatever order these connect its ranks', () => {
  const every = (count: number, first: number): number[] => Array.from({ length: count }, (_, index) => first + index * 1000);
  const meetings: Meeting[] = [
    { group: '0', ranks: [0, 1, 2, 3], at: every(5, 500) },
    // Nodes come first, as they meet most often; then pairs across the nodes.
    { group: '1', ranks: [0, 1], at: every(25, 0) },
    { group: '2', ranks: [2, 3], at: every(25, 100) },
    { group: '10', ranks: [0, 2], at: every(20, 200) },
    { group: '11', ranks: [1, 3], at: every(20, 300) },
  ];
  expect(apart([0, 1, 2, 3].map((rank) => fileOf(rank, meetings, rank < 2 ? 0 : 3_000_000)))).toEqual([]);
});
