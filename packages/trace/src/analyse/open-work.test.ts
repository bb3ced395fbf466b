// Times here are in s.

import { nanos, traceTime } from '@ranktrace/protocol';
import { describe, expect, it } from 'vitest';
import { limits } from '../model/limits.ts';
import type { ProcessPlace, TraceEvent, TraceProcess } from '../model/trace-sink.ts';
import { processTotals, traceEvent, traceHeader, traceLane, traceProcess } from '../testing/trace-events.ts';
import { OpenWorkSink, type OpenWorkSummary } from './open-work.ts';

const s = (seconds: number) => traceTime(seconds * 1e9);

/** Lives of ranks, in order of index. */
const processesOf = (ranks: readonly number[]): TraceProcess[] =>
  ranks.map((rank, place) => traceProcess({ index: place + 1, rank, incarnation: `life-${place}`, hostName: 'node', pid: 40 + place }));

type State = TraceEvent['state'];

/** An event of the process in place `life`, on its line `line`. */
function event(life: number, state: State, name: string, start: number, about: Partial<TraceEvent> & { line?: string; end?: number } = {}) {
  const { line = 'main', end = start, ...fields } = about;
  return (processes: readonly TraceProcess[]): TraceEvent => {
    const lane = traceLane({ index: life * 10 + line.length, process: processes[life] as TraceProcess, name: line });
    return traceEvent({ state, lane, name, start: s(start), length: nanos((end - start) * 1e9), ...fields });
  };
}

const collective = (life: number, state: State, start: number, about: Parameters<typeof event>[4] = {}) =>
  event(life, state, 'all_reduce', start, { kind: 'collective', group: 'world', ...about });

function summaryOf(
  ranks: readonly number[],
  events: readonly ReturnType<typeof event>[],
  {
    ended = [],
    until = {},
    places = {},
    worldSize = ranks.length,
  }: {
    ended?: readonly number[];
    until?: Record<number, number>;
    places?: Record<number, ProcessPlace>;
    worldSize?: number;
  } = {},
): OpenWorkSummary {
  const processes = processesOf(ranks);
  const sink = new OpenWorkSink();
  sink.begin(traceHeader(processes, { worldSize }));
  for (const make of events) sink.event(make(processes));
  sink.end(
    processes.map((process, place) => {
      const heard = until[place] === undefined ? {} : { until: s(until[place]) };
      const where = places[place] === undefined ? {} : { place: places[place] };
      return processTotals({ process, ended: ended.includes(place), ...heard, ...where });
    }),
  );
  return sink.summary;
}

describe('spans', () => {
  it('reports the innermost open one of every line, and what is around it', () => {
    const { ranks, until } = summaryOf(
      [0],
      [
        event(0, 'whole', 'ProfilerStep#3', 0, { kind: 'step', step: 3, end: 5 }),
        event(0, 'open', 'epoch', 1),
        event(0, 'open', 'read', 2, { line: 'io' }),
        event(0, 'open', 'forward', 6),
        event(0, 'open', 'layer', 6),
        event(0, 'open', 'done', 7),
        event(0, 'close', 'done', 7, { end: 8 }),
      ],
      { until: { 0: 30 } },
    );
    expect(until).toBe(s(30));
    expect(ranks).toEqual([
      {
        ...{ rank: 0, hostName: 'node', pid: 40, until: s(30), lastStep: { step: 3, end: s(5) } },
        ...{ place: undefined, phases: [], endedBy: undefined, isStopped: false },
        open: [
          { lane: 'io', kind: 'span', name: 'read', since: s(2), around: [] },
          { lane: 'main', kind: 'span', name: 'layer', since: s(6), around: ['epoch', 'forward'] },
        ],
      },
    ]);
  });

  it('says nothing of ranks that ended inside of nothing, and knows what was heard without a watermark', () => {
    const events = [event(0, 'whole', 'a', 0, { end: 9 }), event(1, 'open', 'b', 1), event(1, 'close', 'b', 1, { end: 2 })];
    expect(summaryOf([0, 1], events, { ended: [0, 1] })).toMatchObject({ ranks: [], collectives: [], until: s(9) });
    expect(summaryOf([0, 1], events, { ended: [1] }).ranks).toMatchObject([{ rank: 0, until: s(9), open: [] }]);
    expect(summaryOf([], []).until).toBeUndefined();
  });

  it('has last heard of a rank that did not end by what it did after its last watermark', () => {
    const steps = [event(0, 'whole', 'ProfilerStep#3', 0, { kind: 'step', step: 3, end: 5 }), event(0, 'open', 'forward', 5)];
    const killed = summaryOf([0], steps, { until: { 0: 4 } });
    expect(killed).toMatchObject({ until: s(5), ranks: [{ until: s(5), lastStep: { end: s(5) } }] });
    expect(summaryOf([0], steps, { until: { 0: 4 }, ended: [0] }).until).toBe(s(4));
  });

  it('does not take the lost end of a rank that ended for a hang', () => {
    const events = [event(0, 'open', 'a', 1), collective(0, 'open', 2), collective(1, 'open', 2)];
    expect(summaryOf([0, 1], events, { ended: [0] })).toMatchObject({
      ranks: [{ rank: 1, open: [{ name: 'all_reduce' }] }],
      collectives: [{ inside: [{ rank: 1 }], left: [0], missing: [] }],
    });
    expect(summaryOf([0, 1], events, { ended: [0, 1] })).toMatchObject({ ranks: [], collectives: [] });
  });

  it('counts two of the same start and name', () => {
    const twice = [event(0, 'open', 'a', 1), event(0, 'open', 'a', 1), event(0, 'close', 'a', 1, { end: 2 })];
    expect(summaryOf([0], twice).ranks[0]?.open).toHaveLength(1);
    expect(summaryOf([0], [...twice, event(0, 'close', 'a', 1, { end: 3 })]).ranks[0]?.open).toEqual([]);
  });

  it('reports the newest life alone', () => {
    const events = [event(0, 'open', 'first life', 1), collective(0, 'open', 1), event(1, 'whole', 'second life', 20, { end: 21 })];
    expect(summaryOf([5, 5], events, { ended: [1] })).toMatchObject({ ranks: [], collectives: [] });
  });

  it('counts what it has no room for', () => {
    const count = limits.openSpansMax + 5;
    const events = Array.from({ length: count }, (_, index) => event(0, 'open', `s${index}`, index));
    const { spansLeftOut, ranks } = summaryOf([0], events);
    expect(spansLeftOut).toBe(5);
    expect(ranks[0]?.open[0]?.around).toHaveLength(64);
  });
});

describe('collectives', () => {
  const all = [0, 1, 2].map((life) => collective(life, 'whole', 1, { end: 2, group: 'dp' }));
  const second = { sequence: 1, group: 'dp' };

  it('names the ranks that never entered, those inside since when, and those that left', () => {
    const { collectives } = summaryOf(
      [0, 1, 2, 3],
      [
        ...all,
        collective(3, 'whole', 1, { end: 2, group: 'dp' }),
        collective(0, 'open', 5, second),
        collective(2, 'whole', 4, { ...second, end: 6 }),
        collective(1, 'open', 3, second),
      ],
    );
    expect(collectives).toEqual([
      {
        ...{ group: 'dp', sequence: 1, op: 'all_reduce', pair: undefined, left: [2], missing: [3], unheard: [], differing: [], bytes: 0 },
        inside: [
          { rank: 1, since: s(3) },
          { rank: 0, since: s(5) },
        ],
      },
    ]);
  });

  it('names the ranks that called something else under its number, or an all-reduce of another size', () => {
    const of = (life: number, name: string, bytes: number) =>
      event(life, 'open', name, 1 + life, { kind: 'collective', group: 'world', sequence: 4, bytes });
    const { collectives } = summaryOf(
      [0, 1, 2, 3, 4],
      [of(0, 'all_reduce', 48), of(1, 'nccl:allreduce', 48), of(2, 'all_reduce', 96), of(3, 'broadcast', 48), of(4, 'all_reduce', 0)],
    );
    const differing = [
      { rank: 2, op: 'all_reduce', bytes: 96 },
      { rank: 3, op: 'broadcast', bytes: 48 },
    ];
    expect(collectives).toMatchObject([{ op: 'all_reduce', bytes: 48, missing: [], differing }]);
    // The payload of each rank may be of another size.
    const gathered = summaryOf([0, 1], [of(0, 'all_gather', 48), of(1, 'all_gather', 96)]);
    expect(gathered.collectives).toMatchObject([{ op: 'all_gather', bytes: 0, differing: [] }]);
  });

  it('knows of the group `world` who belongs to it, even at its first; not what ranks did that were not recorded', () => {
    const { collectives } = summaryOf([0, 1], [collective(1, 'open', 1)], { worldSize: 4 });
    expect(collectives).toMatchObject([{ inside: [{ rank: 1 }], missing: [0], unheard: [2, 3] }]);
  });

  it('leaves out what ended, and what nobody of today is inside of', () => {
    const { collectives } = summaryOf(
      [0, 1, 2],
      [...all, collective(0, 'open', 5, second), collective(0, 'close', 5, { ...second, end: 6 })],
    );
    expect(collectives).toEqual([]);
  });

  it('names the other side of a send', () => {
    const { collectives } = summaryOf([0, 1], [event(0, 'open', 'recv', 3, { kind: 'collective', group: 'pp', peerRank: 1 })]);
    expect(collectives).toMatchObject([{ pair: [1, 0], inside: [{ rank: 0 }], missing: [1] }]);
  });

  it('keeps those that wait longest', () => {
    const count = limits.openCollectivesMax + 7;
    const { collectives, collectivesLeftOut } = summaryOf(
      [0],
      Array.from({ length: count }, (_, index) => collective(0, 'open', index, { sequence: index })),
    );
    expect(collectives.map(({ sequence }) => sequence)).toEqual(Array.from({ length: limits.openCollectivesMax }, (_, index) => index));
    expect(collectivesLeftOut).toBe(7);
  });
});

describe('ranks that recorded nothing but say where they are', () => {
  const inPhase = (step: number, name: string, since: number): ProcessPlace => ({
    step,
    phase: { name, since: s(since) },
    collective: undefined,
    entered: new Map([['dp', 6]]),
  });
  const waits = (since: number): ProcessPlace => ({
    ...inPhase(9, 'backward', 4),
    collective: { op: 'all_reduce', group: 'dp', sequence: 7, since: s(since) },
    entered: new Map([['dp', 7]]),
  });

  it('are inside of that, and of the collective that others never entered', () => {
    const places = {
      0: waits(5),
      1: waits(6),
      2: inPhase(9, 'data', 3),
      3: { ...inPhase(9, 'optimizer', 8), entered: new Map([['dp', 7]]) },
    };
    // Rank 0 was recorded: its span and its own report are one. Ranks 2 and 3 have taken part in this group before.
    const before = [0, 1, 2, 3].map((life) => collective(life, 'whole', 1, { group: 'dp', sequence: 6, end: 2 }));
    const { ranks, collectives } = summaryOf([0, 1, 2, 3], [...before, collective(0, 'open', 5, { group: 'dp', sequence: 7 })], { places });
    expect(collectives).toMatchObject([{ group: 'dp', sequence: 7, op: 'all_reduce', left: [3], missing: [2] }]);
    expect(collectives[0]?.inside).toEqual([
      { rank: 0, since: s(5) },
      { rank: 1, since: s(6) },
    ]);
    expect(ranks.map(({ open }) => open.map(({ around, name, since }) => [...around, name, since]))).toEqual([
      [['all_reduce', s(5)]],
      [['backward', 'all_reduce', s(6)]],
      [['data', s(3)]],
      [['optimizer', s(8)]],
    ]);
  });

  it('are inside of nothing once they ended, or began anew', () => {
    const { ranks, collectives } = summaryOf([0, 0], [], { places: { 0: waits(5) }, ended: [1] });
    expect([ranks, collectives]).toEqual([[], []]);
  });
});
