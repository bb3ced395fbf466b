// The layout of the timeline: its rows, their order, height and place, from the model and a person's choices.
//
//   group   host-a                    only when ranks are put together by host or axis; folded: a band of its ranks' step times
//   rest    ▸ 61 more ranks           those that are neither slow, fast nor typical: one band (outliers.ts)
//   rank    ▾ Rank 3  [ steps lane ]  always with its steps, so that a folded rank still says how it does
//   track     thread, stream …        18 px for each line of nested spans
//   counter   loss                    a step line
//
// Keys stay the same while a run grows: `g:host-a`, `r3` (`r3.2` for its second life), `t17`, `c:r3`, `rest:g:host-a`.
// Invariant: rows lie one under the other without overlap, in order of `top`; pinned rows are laid out separately, from 0.

import type { RunModel, ViewProcess, ViewTrack } from '@ranktrace/protocol';
import type { Grouping } from '../client/view-state.ts';
import { formatCount, formatMany } from '../controls/format.ts';
import type { Representative } from './outliers.ts';

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
  /** Never folded away. */
  readonly highlighted: ReadonlySet<number>;
  /** By rank; those that represent the others when there are many. */
  readonly representatives: ReadonlyMap<number, Representative | undefined>;
}

export const lineHeight = 18;
export const trackPadding = 3;
const rankHeight = 28;
const groupHeight = 26;
const bandHeight = 46;
const counterHeight = 38;
const countersHeight = 21;
/** Number of a rank's counters that are shown by default. */
const countersOpenMax = 2;
/** With more processes than this, only the representatives are open. */
export const ranksOpenMax = 32;

const trackOrder: Readonly<Record<ViewTrack['kind'], number>> = { steps: 0, thread: 1, stream: 2, device: 3, counter: 4 };

interface Rank {
  readonly key: string;
  readonly process: ViewProcess;
  readonly life: number;
  readonly lives: number;
  readonly tracks: readonly ViewTrack[];
}

/** Lays out all rows; cheap enough for each growth of a run (64 ranks × 6 tracks: well below 1 ms). */
export function layOut(input: LayoutInput): Layout {
  const ranks = ranksOf(input.model);
  const isLarge = ranks.length > ranksOpenMax;
  const isFolded = (key: string, isUsually: boolean): boolean => (isUsually ? !input.unfolded.has(key) : input.folded.has(key));
  const list = new RowList();
  const byKey = new Map(ranks.map((rank) => [rank.key, rank]));

  const addRank = (to: RowList, rank: Rank, indent: number, isUsuallyFolded: boolean, siblings: readonly string[]): void => {
    const { process, tracks, key } = rank;
    const steps = tracks.find(({ kind }) => kind === 'steps');
    const others = tracks.filter((track) => track !== steps);
    const folded = isFolded(key, isUsuallyFolded);
    to.add({
      ...plain,
      key,
      kind: 'rank',
      height: rankHeight,
      indent,
      label: rank.life === 1 ? `Rank ${process.rank}` : `Rank ${process.rank}, life ${rank.life}`,
      process,
      track: steps,
      ranks: [process.rank],
      isFoldable: others.length > 0,
      isFolded: folded,
      tag: rank.life === rank.lives ? input.representatives.get(process.rank) : undefined,
      siblings,
    });
    if (folded) return;
    const counters = others.filter(({ kind }) => kind === 'counter');
    const areMany = counters.length > countersOpenMax;
    for (const track of others) if (!areMany || track.kind !== 'counter') to.add(trackRow(track, process, indent + 1));
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
    if (!areFolded) for (const track of counters) to.add(trackRow(track, process, indent + 1));
  };

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
      for (const rank of members) addRank(list, rank, indent, false, siblings);
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
      label: `${formatCount(rest.length)} ${shown.length === 0 ? '' : 'more '}ranks`,
      ranks: rest.map(({ process }) => process.rank),
      isFoldable: true,
      isFolded: folded,
      hasBand: folded,
    });
    if (!folded) for (const rank of rest) addRank(list, rank, indent + 1, true, siblings);
    for (const rank of shown) addRank(list, rank, indent, false, siblings);
  }

  const pins = new RowList();
  const trackByKey = new Map<string, readonly [ViewTrack, ViewProcess]>();
  for (const { tracks, process } of ranks) for (const track of tracks) trackByKey.set(`t${track.track}`, [track, process]);
  for (const key of input.pinned) {
    const rank = byKey.get(key);
    if (rank !== undefined) addRank(pins, rank, 0, false, []);
    const found = trackByKey.get(key);
    if (found !== undefined) {
      const row = trackRow(found[0], found[1], 0);
      pins.add({ ...row, label: `Rank ${found[1].rank} · ${row.label}` });
    }
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

function trackRow(track: ViewTrack, process: ViewProcess, indent: number): Omit<Row, 'top'> {
  const isCounter = track.kind === 'counter';
  return {
    ...plain,
    key: `t${track.track}`,
    kind: isCounter ? 'counter' : 'track',
    height: isCounter ? counterHeight : Math.max(1, track.depth) * lineHeight + trackPadding,
    indent,
    label: track.name === '' ? `${track.kind} ${track.tid}` : track.name,
    process,
    track,
    ranks: [process.rank],
  };
}

function ranksOf(model: LayoutInput['model']): Rank[] {
  const tracks = new Map<number, ViewTrack[]>();
  for (const track of model.tracks) {
    const list = tracks.get(track.process);
    if (list === undefined) tracks.set(track.process, [track]);
    else list.push(track);
  }
  const lives = new Map<number, number>();
  for (const { rank } of model.processes) lives.set(rank, (lives.get(rank) ?? 0) + 1);
  const seen = new Map<number, number>();
  return [...model.processes]
    .sort((a, b) => a.rank - b.rank || (a.incarnation < b.incarnation ? -1 : a.incarnation > b.incarnation ? 1 : a.index - b.index))
    .map((process) => {
      const life = (seen.get(process.rank) ?? 0) + 1;
      seen.set(process.rank, life);
      return {
        key: life === 1 ? `r${process.rank}` : `r${process.rank}.${life}`,
        process,
        life,
        lives: lives.get(process.rank) ?? 1,
        tracks: (tracks.get(process.index) ?? []).sort(
          (a, b) => trackOrder[a.kind] - trackOrder[b.kind] || a.tid - b.tid || (a.name < b.name ? -1 : 1),
        ),
      };
    });
}

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
