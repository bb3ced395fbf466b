// Tracks of a rank's timeline from those of its Kineto files: threads of the process, streams of its devices.

import { deviceCategories, indexesOf } from './kineto-categories.ts';
import type { KinetoTable } from './kineto-table.ts';

export interface SourceTrack {
  readonly kind: 'thread' | 'stream';
  readonly name: string;
  /** The system's thread number; 0 if unknown, and for streams, which carry their number in the name. */
  readonly tid: number;
}

/** String indexes of the categories of device work. */
export const deviceCategoriesOf = ({ strings }: KinetoTable): ReadonlySet<number> => indexesOf(strings, deviceCategories);

/** The process with the most host events; 0 if there are none. */
export function mainPid(table: KinetoTable): number {
  const { columns, length } = table.events;
  const onDevice = deviceCategoriesOf(table);
  const ofTrack = new Float64Array(table.tracks.length);
  for (let row = 0; row < length; row++) {
    const track = columns.track[row] as number;
    if (!onDevice.has(columns.category[row] as number)) ofTrack[track] = (ofTrack[track] as number) + 1;
  }
  const ofPid = new Map<number, number>();
  for (const [track, { pid }] of table.tracks.entries()) ofPid.set(pid, (ofPid.get(pid) ?? 0) + (ofTrack[track] as number));
  let main = 0;
  let most = 0;
  for (const [pid, count] of ofPid) {
    if (count <= most || !Number.isSafeInteger(pid) || pid < 0) continue;
    main = pid;
    most = count;
  }
  return main;
}

/** Tracks of one rank, over all of its files: the same thread of two files is one. */
export class SourceTracks {
  readonly tracks: SourceTrack[] = [];
  readonly #numbers = new Map<string, number>();

  /** Number in `tracks` of each of the table's tracks. `pid`: the rank's process. */
  add(table: KinetoTable, pid: number): Uint32Array {
    const onDevice = deviceTracks(table);
    return Uint32Array.from(table.tracks, (track, index) => {
      const isDevice = onDevice[index] === 1;
      const key = `${isDevice ? 'device' : 'host'} ${track.pid} ${track.tid}`;
      let number = this.#numbers.get(key);
      if (number === undefined) {
        const given = table.threadNames.get(index)?.trim() ?? '';
        number = this.tracks.push(isDevice ? stream(track, given) : thread(track, given, pid)) - 1;
        this.#numbers.set(key, number);
      }
      return number;
    });
  }
}

/** 1 for tracks with any device event. */
function deviceTracks(table: KinetoTable): Uint8Array {
  const { columns, length } = table.events;
  const onDevice = deviceCategoriesOf(table);
  const is = new Uint8Array(table.tracks.length);
  for (let row = 0; row < length; row++) if (onDevice.has(columns.category[row] as number)) is[columns.track[row] as number] = 1;
  return is;
}

function stream({ pid, tid }: KinetoTable['tracks'][number], given: string): SourceTrack {
  const name = given !== '' ? given : typeof tid === 'string' ? tid : `stream ${tid}`;
  return { kind: 'stream', name: `GPU ${pid} · ${name}`, tid: 0 };
}

function thread({ pid, tid }: KinetoTable['tracks'][number], given: string, mainPid: number): SourceTrack {
  // Kineto's own names repeat the number: `thread 155 (pt_autograd_0)`.
  const named = /^thread \d+ \((.+)\)$/.exec(given)?.[1] ?? (/^thread \d+$/.test(given) ? '' : given);
  const own = named !== '' ? named : typeof tid === 'string' ? tid : 'thread';
  const name = pid === mainPid ? own : `process ${pid} · ${own}`;
  return { kind: 'thread', name, tid: typeof tid === 'number' && Number.isSafeInteger(tid) && tid > 0 ? tid : 0 };
}
