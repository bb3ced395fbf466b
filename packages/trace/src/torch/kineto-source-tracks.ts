// Tracks of a rank's timeline from those of its Kineto files: threads of the process, streams of its devices.

import { deviceCategories, indexesOf } from '../model/kineto-categories.ts';
import type { KinetoTable } from './kineto-table.ts';
import type { KinetoTally } from './kineto-tally.ts';

export interface SourceTrack {
  readonly kind: 'thread' | 'stream';
  readonly name: string;
  /** The system's thread number; 0 if unknown, and for streams, which carry their number in the name. */
  readonly tid: number;
}

/** String indexes of the categories of device work. */
export const deviceCategoriesOf = ({ strings }: KinetoTable): ReadonlySet<number> => indexesOf(strings, deviceCategories);

/** A stream as our own Chrome JSON names it: one of collectives alone has no category of torch. */
const ownStream = /^GPU \d+ · .*stream/;

/** Tracks of one rank, over all of its files: the same thread of two files is one. */
export class SourceTracks {
  readonly tracks: SourceTrack[] = [];
  readonly #numbers = new Map<string, number>();

  /** `saved`: what `save` of another one gave, to go on with its numbers. */
  constructor(saved: readonly (readonly [key: string, track: SourceTrack])[] = []) {
    for (const [key, track] of saved) this.#numbers.set(key, this.tracks.push(track) - 1);
  }

  /** All tracks in order of their numbers; plain data. */
  save(): readonly (readonly [key: string, track: SourceTrack])[] {
    return [...this.#numbers].map(([key, number]) => [key, this.tracks[number] as SourceTrack]);
  }

  /** Number in `tracks` of each of the table's tracks. `pid`: the rank's process. */
  add(table: KinetoTable, tally: KinetoTally, pid: number): Uint32Array {
    return Uint32Array.from(table.tracks, (track, index) => {
      const given = table.threadNames.get(index)?.trim() ?? '';
      const isDevice = tally.isDevice(index) || ownStream.test(given);
      const key = `${isDevice ? 'device' : 'host'} ${track.pid} ${track.tid}`;
      let number = this.#numbers.get(key);
      if (number === undefined) {
        number = this.tracks.push(isDevice ? stream(track, given) : thread(track, given, pid)) - 1;
        this.#numbers.set(key, number);
      }
      return number;
    });
  }
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
