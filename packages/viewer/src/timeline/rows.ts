// The layout of the timeline: its rows, their order, height and place, from the model and a person's choices.
//
//   group   host-a                    only when ranks are put together by host or axis; folded: a band of its ranks' step times
//   rest    ▸ 61 more ranks           those that are neither slow, fast nor typical: one band (outliers.ts)
//   rank    ▾ Rank 3  [ steps lane ]  always with its steps; folded, as it is where there are several, also with a line of its devices' work
//   track     stream, thread …        18 px for each line of nested spans; frames of Python are a row of their own
//   counter   loss                    a step line
//
// Keys stay the same while a run grows, and when it is read again: `g:host-a`, `r3` and its track `r3-1kq0zb` (client/track-keys.ts), that track's
// frames `r3-1kq0zb-python`, `c:r3`, `rest:g:host-a`.
// Invariant: rows lie one under the other without overlap, in order of `top`; pinned rows are laid out separately, from 0.

import { frameLine, isBeside, type RunModel, type ViewProcess, type ViewTrack } from '@ranktrace/protocol';
import { type Life, livesOf, trackKey } from '../client/track-keys.ts';
import type { Grouping } from '../client/view-state.ts';
import { formatMany } from '../controls/format.ts';
import { type Layer, layerOf } from './layers.ts';
import type { Representative, Represented } from './outliers.ts';

export type RowKind = 'group' | 'rank' | 'rest' | 'track' | 'counters' | 'counter';

export interface Row {
  readonly key: string;
  readonly kind: RowKind;
  /** CSS pixels from the top of its list. */
  readonly top: number;
  readonly height: number;
  readonly indent: number;
  readonly label: string;
  /** Set for rank, track and counter rows. */
  readonly process: ViewProcess | undefined;
  /** The track with the row's items: the lane of a track row, the steps of a rank row. */
  readonly track: ViewTrack | undefined;
  /** A folded rank's tracks that share one line below its steps. */
  readonly lanes: readonly ViewTrack[];
  /** Track row: the first of the track's lines that it shows, and their number. */
  readonly firstLine: number;
  readonly lines: number;
  /** Ranks that it represents. */
  readonly ranks: readonly number[];
  readonly isFoldable: boolean;
  readonly isFolded: boolean;
  /** Whether a band of step times is drawn in it. */
  readonly hasBand: boolean;
  readonly tag: Representative | undefined;
  /** Keys of the rows that it may be moved among, itself included; empty when it may not be moved. */
  readonly siblings: readonly string[];
}

export interface Layout {
  readonly pinned: readonly Row[];
  readonly pinnedHeight: number;
  readonly rows: readonly Row[];
  readonly height: number;
}

export interface LayoutInput {
  readonly model: Pick<RunModel, 'processes' | 'tracks' | 'groups'>;
  readonly grouping: Grouping;
  readonly folded: ReadonlySet<string>;
  readonly unfolded: ReadonlySet<string>;
  readonly pinned: readonly string[];
  readonly order: readonly string[];
  /** Layers that are not shown; a rank's steps always are. */
  readonly hidden?: ReadonlySet<string>;
  /** Never folded away. */
  readonly highlighted: ReadonlySet<number>;
  /** By rank; those that represent the others when there are many. */
  readonly representatives: ReadonlyMap<number, Represented>;
}

export const lineHeight = 18;
export const trackPadding = 3;
const rankHeight = 28;
/** With a line of work below its steps. */
const foldedRankHeight = 37;
const groupHeight = 26;
const bandHeight = 46;
const counterHeight = 38;
const countersHeight = 21;
/** Streams on one line of a folded rank: those with most events. */
const lanesMax = 16;
/** Number of a rank's counters that are shown by default. */
const countersOpenMax = 2;
/** With more processes than this, only the representatives are open. */
export const ranksOpenMax = 32;

/** Devices first: in a GPU job their work counts. */
const trackOrder = { steps: 0, device: 1, host: 2, counters: 4, memory: 3, frames: 2 } as const;
const orderOf = (track: ViewTrack): number => trackOrder[layerOf(track) ?? 'steps'];

interface Rank extends Life {
  readonly tracks: readonly ViewTrack[];
}

/** Lays out all rows; cheap enough for each growth of a run (64 ranks × 6 tracks: well below 1 ms). */
export function layOut(input: LayoutInput): Layout {
  const ranks = ranksOf(input.model);
  const isLarge = ranks.length > ranksOpenMax;
  const isFolded = (key: string, isUsually: boolean): boolean => (isUsually ? !input.unfolded.has(key) : input.folded.has(key));
  const hidden: ReadonlySet<string> = input.hidden ?? new Set();
  const isHidden = (track: ViewTrack): boolean => {
    const layer = layerOf(track);
    return layer !== undefined && hidden.has(layer) && !(layer === 'host' && track.frameDepth > 0 && !hidden.has('frames'));
  };
  const addTrack = (to: RowList, track: ViewTrack, rank: Rank, indent: number, shared: ReadonlySet<string>): void => {
    const hasFrames = track.frameDepth > 0 && !hidden.has('frames');
    const own = trackLabel(track);
    const label = shared.has(own) && track.tid > 0 ? `${own} ${track.tid}` : own;
    if (hasFrames) to.add({ ...trackRow(track, rank, indent, true), label: `${label} · Python` });
    if (!hidden.has(layerOf(track) ?? 'host')) to.add({ ...trackRow(track, rank, indent), label });
  };
  const list = new RowList();
  const byKey = new Map(ranks.map((rank) => [rank.key, rank]));

  const addRank = (to: RowList, rank: Rank, indent: number, isUsuallyFolded: boolean, siblings: readonly string[]): void => {
    const { process, tracks, key } = rank;
    const steps = tracks.find(({ kind }) => kind === 'steps');
    const others = tracks.filter((track) => track !== steps && !isHidden(track));
    const folded = isFolded(key, isUsuallyFolded);
    const represented = input.representatives.get(process.rank);
    const lanes = folded ? lanesOf(others.filter((track) => !hidden.has(layerOf(track) ?? ''))) : [];
    to.add({
      ...plain,
      key,
      kind: 'rank',
      height: lanes.length > 0 ? foldedRankHeight : rankHeight,
      indent,
      label: rankLabel(rank),
      process,
      track: steps,
      lanes,
      ranks: [process.rank],
      isFoldable: others.length > 0,
      isFolded: folded,
      tag: represented?.process === process.index ? represented.as : undefined,
      siblings,
    });
    if (folded) return;
    const shared = sharedLabels(others);
    const counters = others.filter(({ kind }) => kind === 'counter');
    const areMany = counters.length > countersOpenMax;
    for (const track of others) if (!areMany || track.kind !== 'counter') addTrack(to, track, rank, indent + 1, shared);
    if (!areMany) return;
    const countersKey = `c:${key}`;
    const areFolded = isFolded(countersKey, true);
    to.add({
      ...plain,
      key: countersKey,
      kind: 'counters',
      height: countersHeight,
      indent,
      label: formatMany(counters.length, 'counter'),
      process,
      ranks: [process.rank],
      isFoldable: true,
      isFolded: areFolded,
    });
    if (!areFolded) for (const track of counters) to.add(trackRow(track, rank, indent + 1));
  };
  // Several ranks have a line each, so that they can be compared; those that a person was led to are open.
  const isOneLine = (rank: Rank): boolean => ranks.length > 1 && !input.highlighted.has(rank.process.rank);

  for (const group of groupsOf(ranks, input)) {
    const members = inOrder(group.ranks, ({ key }) => key, input.order);
    const shown = isLarge ? members.filter((rank) => standsOut(rank, input)) : members;
    const rest = members.length - shown.length <= 1 ? [] : members.filter((rank) => !standsOut(rank, input));
    let indent = 0;
    if (group.label !== undefined) {
      const folded = isFolded(group.key, isLarge && shown.length === 0);
      list.add({
        ...plain,
        key: group.key,
        kind: 'group',
        height: folded ? bandHeight : groupHeight,
        label: group.label,
        ranks: members.map(({ process }) => process.rank),
        isFoldable: true,
        isFolded: folded,
        hasBand: folded,
        siblings: group.siblings,
      });
      if (folded) continue;
      indent = 1;
    }
    const siblings = members.map(({ key }) => key);
    if (rest.length === 0 || !isLarge) {
      for (const rank of members) addRank(list, rank, indent, isOneLine(rank), siblings);
      continue;
    }
    // The band first: outliers are read against it.
    const key = `rest:${group.key}`;
    const folded = isFolded(key, true);
    list.add({
      ...plain,
      key,
      kind: 'rest',
      height: folded ? bandHeight : groupHeight,
      indent,
      // A rank that was started again is one.
      label: formatMany(new Set(rest.map(({ process }) => process.rank)).size, shown.length === 0 ? 'rank' : 'more rank'),
      ranks: rest.map(({ process }) => process.rank),
      isFoldable: true,
      isFolded: folded,
      hasBand: folded,
    });
    if (!folded) for (const rank of rest) addRank(list, rank, indent + 1, true, siblings);
    for (const rank of shown) addRank(list, rank, indent, isOneLine(rank), siblings);
  }

  const pins = new RowList();
  for (const key of input.pinned) {
    const [life = '', line] = key.split('-');
    const rank = byKey.get(life);
    if (rank === undefined) continue;
    if (line === undefined) addRank(pins, rank, 0, isOneLine(rank), []);
    const isFrames = key.endsWith(framesEnd);
    const track = rank.tracks.find((each) => trackKey(rank.key, each) === (isFrames ? key.slice(0, -framesEnd.length) : key));
    if (track === undefined) continue;
    const row = trackRow(track, rank, 0, isFrames);
    const own = trackLabel(track);
    const shown = sharedLabels(rank.tracks).has(own) && track.tid > 0 ? row.label.replace(own, () => `${own} ${track.tid}`) : row.label;
    pins.add({ ...row, label: `${rankLabel(rank)} · ${shown}` });
  }
  return { pinned: pins.rows, pinnedHeight: pins.height, rows: list.rows, height: list.height };
}

/** Index of the row at a height; -1 above and below all. */
export function rowAt(rows: readonly Row[], y: number): number {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const { top, height } = rows[middle] as Row;
    if (y < top) high = middle;
    else if (y >= top + height) low = middle + 1;
    else return middle;
  }
  return -1;
}

/** The visible rows between two heights, as [first, before last]. */
export function rowsBetween(rows: readonly Row[], top: number, bottom: number): readonly [number, number] {
  let first = 0;
  let high = rows.length;
  while (first < high) {
    const middle = (first + high) >>> 1;
    const row = rows[middle] as Row;
    if (row.top + row.height <= top) first = middle + 1;
    else high = middle;
  }
  let last = first;
  while (last < rows.length && (rows[last] as Row).top < bottom) last++;
  return [first, last];
}

/** The order after a move of `key` to the place of `target`: all its siblings, and keys of other places unchanged. */
export function movedOrder(order: readonly string[], siblings: readonly string[], key: string, target: string): readonly string[] {
  const from = siblings.indexOf(key);
  const to = siblings.indexOf(target);
  if (from < 0 || to < 0 || from === to) return order;
  const beside = siblings.filter((each) => each !== key);
  beside.splice(to, 0, key);
  return [...order.filter((each) => !siblings.includes(each)), ...beside];
}

/** The keys folded and unfolded by hand after a click on a row. */
export function toggled(
  row: Pick<Row, 'key' | 'isFolded'>,
  folded: ReadonlySet<string>,
  unfolded: ReadonlySet<string>,
): { readonly folded: ReadonlySet<string>; readonly unfolded: ReadonlySet<string> } {
  const next = { folded: new Set(folded), unfolded: new Set(unfolded) };
  if (row.isFolded) {
    next.folded.delete(row.key);
    next.unfolded.add(row.key);
  } else {
    next.unfolded.delete(row.key);
    next.folded.add(row.key);
  }
  return next;
}

const plain = {
  indent: 0,
  process: undefined,
  track: undefined,
  lanes: [] as readonly ViewTrack[],
  firstLine: 0,
  lines: 1,
  ranks: [] as readonly number[],
  isFoldable: false,
  isFolded: false,
  hasBand: false,
  tag: undefined,
  siblings: [] as readonly string[],
} as const;

class RowList {
  readonly rows: Row[] = [];
  height = 0;

  add(row: Omit<Row, 'top'>): void {
    this.rows.push({ ...row, top: this.height });
    this.height += row.height;
  }
}

/** End of the key of a track's frames. */
const framesEnd = '-python';

function trackRow(track: ViewTrack, { key, process }: Rank, indent: number, isFrames = false): Omit<Row, 'top'> {
  const own = trackKey(key, track);
  const isCounter = track.kind === 'counter';
  const lines = Math.max(1, isFrames ? track.frameDepth : track.depth);
  const label = trackLabel(track);
  return {
    ...plain,
    key: isFrames ? `${own}${framesEnd}` : own,
    kind: isCounter ? 'counter' : 'track',
    height: isCounter ? counterHeight : lines * lineHeight + trackPadding,
    indent,
    label: isFrames ? `${label} · Python` : label,
    process,
    track,
    firstLine: isFrames ? frameLine : 0,
    lines,
    ranks: [process.rank],
  };
}

/** The number that Kineto gives to a process that it does not know. */
const unknownProcess = /^process -1 · /;

/** Name of a track for people: `GPU 0 · stream 7`, `thread 4711`. */
export function trackLabel({ kind, name, tid }: Pick<ViewTrack, 'kind' | 'name' | 'tid'>): string {
  const known = name.replace(unknownProcess, '').trim();
  if (known === '' || known === kind) return tid > 0 ? `${kind} ${tid}` : kind;
  return known;
}

/** Labels that several threads of a rank have: their numbers distinguish them. */
function sharedLabels(tracks: readonly ViewTrack[]): ReadonlySet<string> {
  const tids = new Map<string, number>();
  const shared = new Set<string>();
  for (const track of tracks) {
    const label = trackLabel(track);
    const tid = tids.get(label);
    if (tid === undefined) tids.set(label, track.tid);
    else if (tid !== track.tid) shared.add(label);
  }
  return shared;
}

/** Tracks that a folded rank shows on one line: its streams, those with most events on top; else its main thread. */
function lanesOf(tracks: readonly ViewTrack[]): readonly ViewTrack[] {
  const of = (layer: Layer): ViewTrack[] => tracks.filter((track) => layerOf(track) === layer && track.events > 0);
  const streams = of('device');
  if (streams.length > 0) return streams.sort((a, b) => a.events - b.events).slice(-lanesMax);
  return of('host').slice(0, 1);
}

/** What an agent recorded beside a rank is no life of it; it has the name that a trace gives it. */
function rankLabel({ process: { rank, incarnation }, life }: Rank): string {
  if (isBeside(incarnation)) return `Rank ${rank} · PyTorch`;
  return life === 1 ? `Rank ${rank}` : `Rank ${rank}, life ${life}`;
}

function ranksOf(model: LayoutInput['model']): Rank[] {
  const tracks = new Map<number, ViewTrack[]>();
  for (const track of model.tracks) {
    const list = tracks.get(track.process);
    if (list === undefined) tracks.set(track.process, [track]);
    else list.push(track);
  }
  return livesOf(model.processes).map((life) => ({
    ...life,
    tracks: (tracks.get(life.process.index) ?? []).sort((a, b) => orderOf(a) - orderOf(b) || byName(a, b)),
  }));
}

/** Streams by number; threads with the busiest, which is the main one, first. */
const byName = (a: ViewTrack, b: ViewTrack): number =>
  layerOf(a) === 'host' ? b.events - a.events || a.tid - b.tid : a.name.localeCompare(b.name, 'en', { numeric: true }) || a.tid - b.tid;

/**
 * The row that stays at the top while the rows below it, which belong to it, are scrolled: the header of the open rank or group whose rows are at
 * the top.
 */
export function stickyRow(rows: readonly Row[], scroll: number): Row | undefined {
  const [first] = rowsBetween(rows, scroll, scroll + 1);
  const top = rows[first];
  if (top === undefined) return undefined;
  if (top.kind === 'rank') return top.top < scroll && !top.isFolded && isParent(top, rows[first + 1]) ? top : undefined;
  if (top.process === undefined) return undefined;
  for (let at = first - 1; at >= 0; at--) {
    const row = rows[at] as Row;
    if (row.kind !== 'rank') continue;
    // The next rank's header is about to take its place.
    const next = rows[first + 1];
    const isLast = next === undefined || !isParent(row, next);
    return isLast && top.top + top.height - scroll < row.height ? undefined : row;
  }
  return undefined;
}

const isParent = (rank: Row, row: Row | undefined): boolean =>
  row !== undefined && row.kind !== 'rank' && row.process !== undefined && row.process === rank.process;

interface Group {
  readonly key: string;
  readonly label: string | undefined;
  readonly ranks: readonly Rank[];
  readonly siblings: readonly string[];
}

function groupsOf(ranks: readonly Rank[], { model, grouping, order }: LayoutInput): Group[] {
  if (grouping === 'rank' || ranks.length === 0) return [{ key: 'g', label: undefined, ranks, siblings: [] }];
  const groupOf = new Map<number, string>();
  if (grouping !== 'host') {
    for (const group of model.groups) {
      if (group.axis !== grouping) continue;
      for (const rank of group.ranks) if (!groupOf.has(rank)) groupOf.set(rank, group.group);
    }
  }
  const groups = new Map<string, { label: string; ranks: Rank[] }>();
  for (const rank of ranks) {
    const { process } = rank;
    const name = grouping === 'host' ? process.host : groupOf.get(process.rank);
    const key = name === undefined ? 'g::none' : `g:${name}`;
    const label = grouping === 'host' ? process.hostName || process.host || 'unknown host' : (name ?? `in no group of ${grouping}`);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, { label, ranks: [rank] });
    else group.ranks.push(rank);
  }
  const keys = inOrder([...groups.keys()], (key) => key, order);
  return keys.map((key) => ({ key, ...(groups.get(key) as { label: string; ranks: Rank[] }), siblings: keys }));
}

const standsOut = ({ process }: Rank, { representatives, highlighted, unfolded }: LayoutInput): boolean =>
  representatives.has(process.rank) || highlighted.has(process.rank) || unfolded.has(`show:${process.rank}`);

// Items in a person's order come first, in that order; the others follow in their own.
function inOrder<Item>(items: readonly Item[], keyOf: (item: Item) => string, order: readonly string[]): readonly Item[] {
  if (order.length === 0) return items;
  const places = new Map(order.map((key, place) => [key, place]));
  const place = (item: Item): number => places.get(keyOf(item)) ?? order.length;
  return [...items].sort((a, b) => place(a) - place(b));
}
