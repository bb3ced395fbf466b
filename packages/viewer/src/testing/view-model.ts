// Small models of runs for tests.

import type { RunModel, ViewProcess, ViewTrack } from '@ranktrace/protocol';

export const viewProcess = (rank: number, about: Partial<ViewProcess> = {}): ViewProcess => ({
  index: rank,
  rank,
  incarnation: 'a',
  host: `h${rank >> 2}`,
  hostName: `node-${rank >> 2}`,
  pid: 100 + rank,
  ended: true,
  until: 1e9,
  version: 1,
  alignment: { method: 'exact', bound: 0, bounds: [], clockSteps: [], shifted: [] },
  gaps: [],
  missing: 0,
  droppedEvents: 0,
  metadata: [],
  ...about,
});

export const viewTrack = (track: number, process: number, kind: ViewTrack['kind'], about: Partial<ViewTrack> = {}): ViewTrack => ({
  track,
  process,
  kind,
  name: kind,
  tid: 1,
  overflow: 0,
  unit: '',
  depth: 1,
  frameDepth: 0,
  events: 100,
  low: 0,
  high: 10,
  ...about,
});

/** `ranks` ranks, each with steps, a thread two spans deep and a counter; tracks 3·rank, 3·rank + 1, 3·rank + 2. */
export const modelOf = (ranks: number): Pick<RunModel, 'processes' | 'tracks' | 'groups'> => ({
  processes: Array.from({ length: ranks }, (_, rank) => viewProcess(rank)),
  tracks: Array.from({ length: ranks }, (_, rank) => [
    viewTrack(3 * rank + 2, rank, 'counter'),
    viewTrack(3 * rank + 1, rank, 'thread', { depth: 2 }),
    viewTrack(3 * rank, rank, 'steps'),
  ]).flat(),
  groups: Array.from({ length: Math.ceil(ranks / 2) }, (_, at) => ({
    axis: 'tp',
    group: `tp ${at}`,
    ranks: [2 * at, 2 * at + 1].filter((rank) => rank < ranks),
  })),
});
