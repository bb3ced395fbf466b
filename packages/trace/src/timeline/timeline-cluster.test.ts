// The timeline of a whole simulated cluster, compared with the merge that filled it.

import { nanos, traceTime } from '@ranktrace/protocol';
import { describe, expect, it } from 'vitest';
import { mergeRun } from '../merge/merge-run.ts';
import { MemoryBlocks } from '../model/block-store.ts';
import { teeSink } from '../model/tee-sink.ts';
import type { TraceLane, TraceSink } from '../model/trace-sink.ts';
import { simulatedCluster } from '../simulate/simulated-cluster.ts';
import { traceEvent, traceLane, traceProcess } from '../testing/trace-events.ts';
import { Timeline } from './timeline.ts';
import { timelineSink } from './timeline-sink.ts';

function merged(): { timeline: Timeline; counts: Map<TraceLane, number>; flows: Map<bigint, number> } {
  const timeline = new Timeline({ blocks: new MemoryBlocks(), blockRowsMax: 256 });
  const counts = new Map<TraceLane, number>();
  const flows = new Map<bigint, number>();
  const counting: TraceSink = {
    begin: () => {},
    lane: () => {},
    event: ({ lane, state, flow }) => {
      if (state === 'close') return;
      counts.set(lane, (counts.get(lane) ?? 0) + 1);
      if (flow !== undefined) flows.set(flow, (flows.get(flow) ?? 0) + 1);
    },
    end: () => {},
  };
  const { sources } = simulatedCluster({ ranks: 4, hosts: 2, seconds: 3, seed: 7 });
  for (const _ of mergeRun(sources, teeSink(timelineSink(timeline), counting)));
  return { timeline, counts, flows };
}

describe('timelineSink', () => {
  const { timeline, counts, flows } = merged();

  it('puts every event of the merge on the track of its lane', () => {
    expect(timeline.processes.map(({ process, ended }) => [process.rank, ended])).toEqual([0, 1, 2, 3].map((rank) => [rank, true]));
    expect(timeline.tracks.map(({ lane, events }) => [lane.index, events])).toEqual(
      [...counts].map(([lane, count]) => [lane.index, count]).sort(([a = 0], [b = 0]) => a - b),
    );
  });

  it('finds the other ranks of collectives, and both sides of calls', () => {
    let looked = 0;
    for (const track of timeline.tracks) {
      for (let event = 0; event < track.events; event += 37) {
        const details = timeline.event(track.id, event);
        if (details === undefined || (details.kind !== 'collective' && details.kind !== 'rpc')) continue;
        looked++;
        expect(details.partnersMissing).toEqual([]);
        if (details.kind === 'collective')
          expect(details.partners.map(({ rank }) => rank)).toEqual([0, 1, 2, 3].filter((rank) => rank !== track.process.process.rank));
        for (const partner of details.partners) expect(timeline.event(partner.track, partner.event)?.name).toBe(details.name);
      }
    }
    expect(looked).toBeGreaterThan(10);
    expect(flows.size).toBeGreaterThan(10);
  });

  it('links what belongs together in a window, and only counts it where it is too much', () => {
    const middle = (timeline.from + timeline.until) / 2;
    const { links, leftOut } = timeline.links(middle, middle + 2e8, []);
    expect(leftOut).toBe(0);
    expect(links.length).toBeGreaterThan(0);
    for (const { from, to, kind } of links) {
      expect(['collective', 'rpc', 'send']).toContain(kind);
      expect(from.track).not.toBe(to.track);
    }
    expect(links.map(({ from }) => from.time)).toEqual(links.map(({ from }) => from.time).sort((a, b) => a - b));
  });

  it('knows the groups that ranks worked in', () => {
    expect(timeline.groups()).toEqual([{ axis: 'world', group: 'world', ranks: [0, 1, 2, 3] }]);
  });
});

describe('links', () => {
  it('go from the last rank in to those that waited, from sender to receiver, and to a server and back', () => {
    const timeline = new Timeline({ blocks: new MemoryBlocks() });
    const lanes = [0, 1].map((rank) => traceLane({ index: rank + 1, process: traceProcess({ index: rank + 1, rank, host: `h${rank}` }) }));
    const processes = lanes.map(({ process }) => timeline.addProcess(process));
    const add = (rank: number, start: number, length: number, about: object): void =>
      processes[rank]?.event(
        traceEvent({ ...(lanes[rank] && { lane: lanes[rank] }), start: traceTime(start), length: nanos(length), ...about }),
      );
    const collective = { kind: 'collective', group: 'g', flow: 1n << 63n } as const;
    add(0, 0, 100, { ...collective, name: 'all_reduce' });
    add(1, 60, 40, { ...collective, name: 'all_reduce' });
    add(0, 200, 10, { ...collective, name: 'send', peerRank: 1, flow: 7n });
    add(1, 195, 30, { ...collective, name: 'recv', peerRank: 0, flow: 7n });
    add(0, 300, 100, { kind: 'rpc', side: 'client', name: 'get', flow: 9n });
    add(1, 320, 50, { kind: 'rpc', side: 'server', name: 'get', flow: 9n });
    const reported = timeline
      .links(0, 1000, [])
      .links.map(({ kind, from, to, bound }) => [kind, from.track, from.time, to.track, to.time, bound]);
    expect(reported).toEqual([
      ['collective', 1, 60, 0, 100, 0],
      ['send', 0, 200, 1, 225, 0],
      ['rpc', 0, 300, 1, 320, 0],
      ['rpc', 1, 370, 0, 400, 0],
    ]);
    expect(timeline.event(0, 0)?.partners).toMatchObject([{ rank: 1, track: 1, event: 0, start: 60, length: 40 }]);
    expect(timeline.event(1, 1)?.partners).toMatchObject([{ rank: 0, event: 1 }]);
    expect(timeline.links(500, 600, [])).toEqual({ links: [], leftOut: 0 });
  });
});
