// Names of ranks' lives, tracks and events that are the same each time that a run is read, for addresses and a person's choices: numbers of tracks and
// events are those of one reading.
//
//   r3   r3.2   r3.beside        rank 3, its second life, and what was recorded beside it
//   r3.2-1kq0zb                  a track of that life, by its kind, number and name
//   r3.2-1kq0zb_1200000456_2_9f  the event there that begins at 1.200000456 s of the trace, on line 2, with that name

import { type EventDetails, type EventPlace, isBeside, type RunModel, type ViewProcess, type ViewTrack } from '@ranktrace/protocol';
import type { RunClient } from './run-client.ts';
import type { EventLink, Selection } from './view-state.ts';

/** One life of a rank, counted from 1 in order of time. */
export interface Life {
  readonly key: string;
  readonly process: ViewProcess;
  readonly life: number;
}

/** By rank: its lives, then what was recorded beside them. */
const byLife = (a: ViewProcess, b: ViewProcess): number =>
  a.rank - b.rank ||
  Number(isBeside(a.incarnation)) - Number(isBeside(b.incarnation)) ||
  (a.incarnation < b.incarnation ? -1 : a.incarnation > b.incarnation ? 1 : a.index - b.index);

export function livesOf(processes: readonly ViewProcess[]): Life[] {
  const seen = new Map<string, number>();
  return [...processes].sort(byLife).map((process) => {
    const own = isBeside(process.incarnation) ? `r${process.rank}.beside` : `r${process.rank}`;
    const life = (seen.get(own) ?? 0) + 1;
    seen.set(own, life);
    return { key: life === 1 ? own : `${own}.${life}`, process, life };
  });
}

/** Key of a track of the life with this key. */
export const trackKey = (life: string, { kind, tid, overflow, unit, name }: ViewTrack): string =>
  `${life}-${shortHash(`${kind} ${tid} ${overflow} ${unit} ${name}`)}`;

export class TrackKeys {
  readonly #keys = new Map<number, string>();
  readonly #tracks = new Map<string, number>();

  constructor({ processes, tracks }: Pick<RunModel, 'processes' | 'tracks'>) {
    const lives = new Map(livesOf(processes).map(({ process, key }) => [process.index, key]));
    for (const track of tracks) {
      const key = trackKey(lives.get(track.process) ?? '', track);
      this.#keys.set(track.track, key);
      this.#tracks.set(key, track.track);
    }
  }

  /** Keys of those of the tracks that are there. */
  of(tracks: Iterable<number>): string[] {
    return [...tracks].flatMap((track) => this.#keys.get(track) ?? []);
  }

  /** Numbers of those of the tracks that are there. */
  numbers(keys: Iterable<string>): number[] {
    return [...keys].flatMap((key) => this.#tracks.get(key) ?? []);
  }
}

/** A link in an address. */
export const linkText = ({ track, start, depth, name }: EventLink): string => `${track}_${start}_${depth}_${name}`;

export function linkTo({ track, start, depth, name }: EventDetails, keys: TrackKeys): EventLink | undefined {
  const [key] = keys.of([track]);
  return key === undefined ? undefined : { track: key, start: Math.round(start), depth, name: shortHash(name) };
}

/** Clocks are fitted anew while a run goes on: the same event may begin a little earlier or later, ns. */
export const slackNs = 1e6;

/** The event that a link names; undefined where it is not there, or not yet read. */
export async function eventOf(link: EventLink, keys: TrackKeys, client: RunClient): Promise<Selection | undefined> {
  const [track] = keys.numbers([link.track]);
  if (track === undefined) return undefined;
  const name = client.model.peek()?.names.findIndex((each) => shortHash(each) === link.name) ?? -1;
  const distance = ({ start }: EventPlace): number => Math.abs(start - link.start);
  // Some events are shown by another name than they are listed by, as a collective's kernel; and one that is found late may enclose it.
  const ways =
    name < 0
      ? [{ names: [], depth: link.depth }]
      : [{ names: [name], depth: link.depth }, { names: [name] }, { names: [], depth: link.depth }];
  for (const { names, depth } of ways) {
    const ask = (direction: 'next' | 'previous'): Promise<EventPlace | null> =>
      client.find(names, [track], link.start - 1, direction, depth);
    const answers = await Promise.all([ask('next'), ask('previous')]);
    const found = answers.filter((place) => place !== null).filter((place) => place.depth === (depth ?? place.depth));
    const [nearest] = found.sort((a, b) => distance(a) - distance(b));
    if (nearest !== undefined && distance(nearest) <= slackNs) return { track: nearest.track, event: nearest.event };
  }
  return undefined;
}

/** FNV-1a of the text's UTF-16 units: 32 bits in up to seven letters and digits. */
function shortHash(text: string): string {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return (hash >>> 0).toString(36);
}
