// Calls of the host and the work that they launched on a device, and frames of Python around both.

import { type FlameNode, frameLine, nanos, type SpanTile, traceTime } from '@ranktrace/protocol';
import { describe, expect, it } from 'vitest';
import { MemoryBlocks } from '../model/block-store.ts';
import { finish } from '../model/finish.ts';
import type { TraceEvent } from '../model/trace-sink.ts';
import { traceEvent, traceLane, traceProcess } from '../testing/trace-events.ts';
import { Timeline } from './timeline.ts';

const process = traceProcess();
const thread = traceLane({ process });
const stream = traceLane({ process, index: 2, kind: 'stream', name: 'GPU 0 · stream 7' });
const steps = traceLane({ process, index: 3, kind: 'steps', name: 'ProfilerSteps' });

const span = (name: string, start: number, length: number, about: Partial<TraceEvent> = {}): TraceEvent =>
  traceEvent({ lane: thread, name, start: traceTime(start), length: nanos(length), ...about });
const launch = (correlation: number): Partial<TraceEvent> => ({ arguments: new Map([['correlation', correlation]]) });
const work = (name: string, start: number, length: number, correlation: number): TraceEvent =>
  span(name, start, length, { lane: stream, category: 'kernel', ...launch(correlation) });
const frame = (name: string, start: number, length: number): TraceEvent => span(name, start, length, { category: 'python_function' });

function timelineOf(events: readonly TraceEvent[], blockRowsMax = 4): Timeline {
  const timeline = new Timeline({ blocks: new MemoryBlocks(), blockRowsMax });
  const added = timeline.addProcess(process);
  for (const lane of [thread, stream, steps]) added.lane(lane);
  for (const event of events.toSorted((a, b) => a.start - b.start || b.length - a.length)) added.event(event);
  added.end();
  return timeline;
}

/** The event's number on its track, by name. */
function numberOf(timeline: Timeline, track: number, name: string): number {
  const count = timeline.track(track)?.events ?? 0;
  for (let event = 0; event < count; event++) if (timeline.event(track, event)?.name === name) return event;
  throw new Error(`There is no ${name}`);
}

describe('launches', () => {
  // Many blocks: each op launches one kernel, with correlations that a driver counts up.
  const ops = Array.from({ length: 40 }, (_, at) => [
    span(`op ${at}`, 100 * at, 90),
    span('inner', 100 * at + 5, 60),
    span(`call ${at}`, 100 * at + 10, 20, launch(at + 1)),
    work(`kernel ${at}`, 100 * at + 500, 80, at + 1),
  ]);
  const timeline = timelineOf(ops.flat());

  it('lead from work to its call and the spans around that, innermost first', () => {
    for (const at of [0, 17, 39]) {
      const details = timeline.event(1, numberOf(timeline, 1, `kernel ${at}`));
      expect(details?.launchedBy.map(({ name }) => name)).toEqual([`call ${at}`, 'inner', `op ${at}`]);
      expect(details?.launched).toEqual([]);
    }
  });

  it('lead from a call, and from an op around calls, to the work', () => {
    for (const name of ['call 17', 'op 17']) {
      const details = timeline.event(0, numberOf(timeline, 0, name));
      expect(details?.launched.map((place) => [place.name, place.track, place.start])).toEqual([['kernel 17', 1, 2200]]);
      expect([details?.launchedBy, details?.launchedLeftOut]).toEqual([[], 0]);
    }
  });

  it('of an op with very many are the first ones, and the rest is counted', () => {
    const all = timelineOf([span('step', 0, 10_000), ...ops.flat()]);
    const details = all.event(0, numberOf(all, 0, 'step'));
    expect(details?.launched.map(({ name }) => name)).toEqual(Array.from({ length: 16 }, (_, at) => `kernel ${at}`));
    expect(details?.launchedLeftOut).toBe(24);
  });

  it('are arrows where they are few, and none where they are many', () => {
    const few = timeline.links(0, 650, []).links.map(({ kind, from, to }) => [kind, from.time, to.time]);
    expect(few).toEqual([
      ['launch', 10, 500],
      ['launch', 110, 600],
    ]);
    const many = Array.from({ length: 200 }, (_, at) => [span('call', 10 * at, 5, launch(at + 1)), work('kernel', 10 * at + 3, 5, at + 1)]);
    expect(timelineOf(many.flat()).links(0, 5000, []).links).toEqual([]);
  });

  it('with numbers that cannot be correlations are none', () => {
    for (const value of [0, -1, 1.5, 2 ** 33, 'seven']) {
      const odd = timelineOf([span('call', 0, 5, { arguments: new Map([['correlation', value]]) })]);
      expect(odd.event(0, 0)?.launched).toEqual([]);
    }
  });
});

describe('frames of Python', () => {
  const timeline = timelineOf([
    frame('train.py(1): main', 0, 1000),
    frame('train.py(9): step', 100, 800),
    span('aten::mm', 200, 300),
    span('launch', 250, 50),
    span('outside', 1200, 100),
  ]);

  it('have lines of their own', () => {
    expect(timeline.track(0)?.shown()).toMatchObject({ depth: 2, frameDepth: 2, events: 5 });
    const tile = timeline.tile({ track: 0, level: 0, index: 0 }) as SpanTile;
    const places = [...tile.depth].map((depth, item) => `${timeline.names.text(tile.name[item] as number)} ${depth}`);
    expect(places).toEqual(['aten::mm 0', 'launch 1', `train.py(1): main ${frameLine}`, `train.py(9): step ${frameLine + 1}`]);
  });

  it('are around the ops in sums and in the flame graph', () => {
    const tree = finish(timeline.flame(0, 2000, []));
    const shown = ({ name, total, self, children }: FlameNode): unknown => [name, total, self, ...children.map(shown)];
    expect(shown(tree)).toEqual([
      '',
      1100,
      0,
      ['train.py(1): main', 1000, 200, ['train.py(9): step', 800, 500, ['aten::mm', 300, 250, ['launch', 50, 50]]]],
      ['outside', 100, 100],
    ]);
    const table = finish(timeline.area(0, 2000, []));
    expect(Object.fromEntries(table.rows.map(({ name, self }) => [name, self]))).toEqual({
      'train.py(1): main': 200,
      'train.py(9): step': 500,
      ...{ 'aten::mm': 250, launch: 50, outside: 100 },
    });
  });
});

describe('names and numbers for people', () => {
  const collective = (sequence: number, start: number): TraceEvent =>
    span('all_gather', start, 10, {
      ...{ lane: stream, kind: 'collective', group: 'dp', sequence },
      arguments: new Map([['event', 'ncclDevKernel_AllGather_RING_LL']]),
    });

  it('a collective is found by its kernel', () => {
    const timeline = timelineOf([collective(7, 0), span('other', 20, 5)]);
    const { names } = timeline.search('nccldev');
    expect(names.map(({ name, alias, count }) => [timeline.names.text(name), alias, count])).toEqual([
      ['all_gather', 'ncclDevKernel_AllGather_RING_LL', 1],
    ]);
    expect(timeline.search('gather').names.map(({ alias }) => alias)).toEqual([undefined]);
  });

  it('one counted from the end has its place in the file', () => {
    const timeline = timelineOf([2 ** 52 - 3, 2 ** 52 - 2, 2 ** 52 - 1].map((sequence, at) => collective(sequence, 20 * at)));
    const shown = [0, 1, 2].map((event) => timeline.event(1, event)?.fields.find(([key]) => key === 'sequence')?.[1]);
    expect(shown).toEqual(['#1 of 3', '#2 of 3', '#3 of 3']);
    const recorded = timelineOf([collective(28, 0)]).event(1, 0);
    expect(recorded?.fields.find(([key]) => key === 'sequence')?.[1]).toBe('#28');
  });

  it('times begin with the first step', () => {
    const step = traceEvent({ kind: 'step', lane: steps, name: 'ProfilerStep#3', step: 3, start: traceTime(700), length: nanos(50) });
    expect(timelineOf([span('before', 0, 5), step]).firstStep).toBe(700);
    expect(timelineOf([span('before', 0, 5)]).firstStep).toBe(undefined);
  });
});

it('marks of allocated memory are a counter of each device', () => {
  const memory = (start: number, device: number, total: number, id = -1): TraceEvent =>
    span('[memory]', start, 0, {
      kind: 'instant',
      arguments: new Map([
        ['Device Type', device],
        ['Total Allocated', total],
        ['Device Id', id],
      ]),
    });
  const timeline = timelineOf([memory(0, 0, 100), memory(10, 1, 4096), memory(20, 0, 50), memory(25, 1, 7, 3), span('op', 30, 5)]);
  const shown = timeline.tracks.filter(({ lane }) => lane.kind === 'counter').map((track) => track.shown());
  expect(shown.map(({ name, unit, events, low, high }) => [name, unit, events, low, high])).toEqual([
    ['Memory allocated · host', 'B', 2, 50, 100],
    ['Memory allocated · GPU 0', 'B', 1, 4096, 4096],
    ['Memory allocated · GPU 3', 'B', 1, 7, 7],
  ]);
  expect(timeline.track(0)?.events).toBe(1);
  // Files of 2021 have no totals.
  const old = [300, 200, -300].map((bytes, at) =>
    span('[memory]', at, 0, {
      kind: 'instant',
      arguments: new Map([...Object.entries({ Bytes: bytes, 'Device Type': 1, 'Total Allocated': 0 })]),
    }),
  );
  const summed = timelineOf(old).tracks.find(({ lane }) => lane.kind === 'counter');
  expect(summed?.range).toEqual([200, 500]);
});
