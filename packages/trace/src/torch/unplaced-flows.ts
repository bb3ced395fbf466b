// Arrows that no event of a batch can carry: torch writes their ends at the start of an event, other programs also inside of one.

import type { KinetoTable } from './kineto-table.ts';

/** Ends of arrows at whose time no event of their track begins. Of a file in memory. */
export function unplacedFlows({ events, flows }: Pick<KinetoTable, 'events' | 'flows'>): number {
  // By track: how many there are at each time.
  const byTrack: (Map<number, number> | undefined)[] = [];
  for (let flow = 0; flow < flows.length; flow++) {
    const [track, time] = [flows.columns.track[flow] as number, flows.columns.time[flow] as number];
    const times = byTrack[track] ?? new Map<number, number>();
    byTrack[track] = times;
    times.set(time, (times.get(time) ?? 0) + 1);
  }
  let unplaced = flows.length;
  for (let row = 0; unplaced > 0 && row < events.length; row++) {
    const times = byTrack[events.columns.track[row] as number];
    const start = events.columns.start[row] as number;
    const here = times?.get(start);
    if (here === undefined) continue;
    unplaced -= here;
    times?.delete(start);
  }
  return unplaced;
}
