// One run on the timeline: the values computed from its model and the view, and a person's actions on it. follow-answers.ts makes its requests
// besides tiles, navigate.ts goes from event to event; the component (timeline-view.tsx) and its canvas (stage.ts) draw it.
//
//   model ┐                      ┌► layout ┐
//   state ┼─ signals, computed ──┼► window ┼──► frame
//   asked ┘                      └► …      ┘
//
// Invariant: after `dispose` nothing here asks or changes anything.

import { batch, computed, effect, type ReadonlySignal, type Signal, signal } from '@preact/signals';
import {
  type EventDetails,
  type EventPlace,
  type Links,
  nameText,
  type RunModel,
  type SearchResult,
  shortName,
  tileWidth,
  type ViewPath,
  type ViewProcess,
  type ViewTrack,
} from '@ranktrace/protocol';
import type { Area, RunClient } from '../client/run-client.ts';
import { TrackKeys } from '../client/track-keys.ts';
import { type Grouping, select, type ViewState } from '../client/view-state.ts';
import { type ProcessState, processStates } from '../overview/rank-lives.ts';
import { type AlertMark, alertMarks } from './alert-marks.ts';
import { type ClockMarks, clockMarks, noClockMarks } from './clock-marks.ts';
import { followLinkedEvent, followLinks, followPath, followSearch, followSelection } from './follow-answers.ts';
import { FollowedOverview } from './followed-overview.ts';
import { lanesTop, levelOf, pinnedBottom, rulerHeight, stateOf } from './frame-painter.ts';
import { type Item, itemAt } from './hit.ts';
import { NameColourTable } from './name-colours.ts';
import { goToTarget, keepInView, reveal } from './navigate.ts';
import { representativesOf } from './outliers.ts';
import { communicationColour } from './palette.ts';
import { lanesDepthMax, lanesPlace } from './row-lines.ts';
import { type Layout, layOut, lineHeight, type Row, ranksOpenMax, rowAt, stickyRow, toggled } from './rows.ts';
import { zeroOfRun } from './ruler.ts';
import { type Part, TileCache } from './tile-cache.ts';
import { clamped, followed, lengthOf, panned, type TimeWindow, timeAt, wholeWindow, windowOf, zoomed } from './viewport.ts';

/** The item under the pointer. */
export interface Hover {
  /** CSS pixels in the drawing. */
  readonly x: number;
  readonly y: number;
  readonly time: number;
  readonly row: Row | undefined;
  readonly item: Item | undefined;
}

/** The names that match a search. */
export interface Matches {
  readonly text: string;
  readonly result: SearchResult;
  readonly names: ReadonlySet<number>;
}

/** Times, and CSS pixels of the drawing. */
export interface Marking {
  readonly from: number;
  readonly until: number;
  readonly top: number;
  readonly bottom: number;
}

export type Panel = 'details' | 'area' | 'path';

/** Number of ranks to unfold for a finding about all ranks. */
const unfoldedMax = 12;
/** Length of a live run's first window, if it has run longer. */
const followNs = 20e9;
const shortNamesMax = 20_000;
const noticeMs = 3000;
/** Keys that wait for the answer to an earlier one. */
const findsWaitingMax = 32;
/** Length of the window of a run without events. */
const emptyNs = 1e9;

export class TimelineSession {
  readonly client: RunClient;
  readonly state: ViewState;
  readonly cache: TileCache;
  readonly overview: FollowedOverview;
  readonly colours: NameColourTable;
  /** Size of the drawing, CSS pixels. */
  readonly size = signal({ width: 0, height: 0 });
  readonly scrollTop = signal(0);
  /** Scroll target of the component. */
  readonly scrollGoal: Signal<number | undefined> = signal(undefined);
  readonly hover: Signal<Hover | undefined> = signal(undefined);
  readonly details: Signal<EventDetails | undefined> = signal(undefined);
  readonly detailsProblem: Signal<string | undefined> = signal(undefined);
  /** Place of the selected event, as soon as it is known. */
  readonly place: Signal<Omit<EventPlace, 'name'> | undefined> = signal(undefined);
  /** An event that a link leads to: shown as soon as the lanes are there. */
  readonly toReveal: Signal<Omit<EventPlace, 'name' | 'event'> | undefined> = signal(undefined);
  /** Enter was pressed before the names of the search were known. */
  wantedMatch: 'next' | 'previous' | undefined;
  /** The critical path while it is shown; null where the run has none. */
  readonly path: Signal<ViewPath | null | undefined> = signal(undefined);
  /** Number of the path's segment that was looked at last. */
  readonly pathAt: Signal<number | undefined> = signal(undefined);
  /** Number of events in the clicked item. */
  readonly mergedCount = signal(1);
  readonly links: Signal<Links | undefined> = signal(undefined);
  readonly matches: Signal<Matches | undefined> = signal(undefined);
  /** An area while it is being drawn. */
  readonly marking: Signal<Marking | undefined> = signal(undefined);
  /** Whether it is on the page: invisible parts are not requested. */
  readonly isShown = signal(false);
  /** The panel below the lanes: the selected event or the marked area, whichever was chosen last. */
  readonly panel: ReadonlySignal<Panel | undefined>;
  readonly openPanels: ReadonlySignal<readonly Panel[]>;
  /** Counts tiles that came: drawing depends on it. */
  readonly tilesCame = signal(0);
  readonly isLoading = signal(false);
  /** One line for a person, shown for a while. */
  readonly notice: Signal<string | undefined> = signal(undefined);

  readonly extent: ReadonlySignal<TimeWindow>;
  /** The time that is shown as 0: the first step's begin, where there are steps. */
  readonly zero: ReadonlySignal<number>;
  readonly window: ReadonlySignal<TimeWindow>;
  readonly layout: ReadonlySignal<Layout>;
  readonly processes: ReadonlySignal<ReadonlyMap<number, ViewProcess>>;
  /** By index of the process. */
  readonly states: ReadonlySignal<ReadonlyMap<number, ProcessState>>;
  readonly tracks: ReadonlySignal<ReadonlyMap<number, ViewTrack>>;
  readonly keys: ReadonlySignal<TrackKeys | undefined>;
  /** The marked area, with the tracks' numbers; undefined while none of its tracks is known. */
  readonly area: ReadonlySignal<Area | undefined>;
  readonly clockMarks: ReadonlySignal<ClockMarks>;
  readonly alertMarks: ReadonlySignal<readonly AlertMark[]>;
  readonly #stops: (() => void)[];
  readonly #chosenPanel = signal<Panel>('area');
  #noticeTimer: ReturnType<typeof setTimeout> | undefined;
  #wasLive = false;
  #height = 0;
  readonly #shortNames = new Map<number, string>();
  #finds: Promise<void> = Promise.resolve();
  #findsWaiting = 0;
  #isDisposed = false;

  constructor(client: RunClient, state: ViewState) {
    const { model } = client;
    this.client = client;
    this.state = state;
    this.overview = new FollowedOverview(client);
    this.colours = new NameColourTable(() => model.peek()?.names ?? []);
    this.cache = new TileCache(client, () => {
      this.isLoading.value = this.cache.isLoading;
      this.tilesCame.value++;
    });
    this.extent = computed(() => {
      const { from = 0, until = 0, processes = [] } = model.value ?? {};
      return { from, until: processes.length === 0 || !(until > from) ? from + emptyNs : until };
    });
    this.zero = computed(() => (model.value === undefined ? 0 : zeroOfRun(model.value)));
    this.window = computed(() => windowOf(state.from.value, state.until.value) ?? wholeWindow(this.extent.value));
    this.processes = computed(() => new Map((model.value?.processes ?? []).map((process) => [process.index, process])));
    this.states = computed(() => (model.value === undefined ? new Map() : processStates(model.value)));
    this.tracks = computed(() => new Map((model.value?.tracks ?? []).map((track) => [track.track, track])));
    this.keys = computed(() => (model.value === undefined ? undefined : new TrackKeys(model.value)));
    this.area = computed(() => {
      const marked = state.area.value;
      if (marked === undefined || marked.tracks.length === 0) return marked && { ...marked, tracks: [] };
      const tracks = this.keys.value?.numbers(marked.tracks) ?? [];
      return tracks.length === 0 ? undefined : { ...marked, tracks };
    });
    this.alertMarks = computed(() => alertMarks(this.overview.now.value, this.extent.value.from));
    this.clockMarks = computed(() => (model.value === undefined ? noClockMarks : clockMarks(model.value)));
    this.layout = computed(() => {
      const now = this.#laidOut() ?? { processes: [], tracks: [], groups: [] };
      const ranks = now.processes.map(({ rank }) => rank);
      return layOut({
        model: now,
        grouping: knownGrouping(state.grouping.value, now),
        folded: state.folded.value,
        unfolded: state.unfolded.value,
        pinned: state.pinned.value,
        order: state.order.value,
        hidden: state.hidden.value,
        highlighted: new Set([...state.highlighted.value].slice(0, unfoldedMax)),
        representatives: representativesOf(this.overview.now.value, ranks, ranksOpenMax),
      });
    });
    this.openPanels = computed(() => {
      const isOpen = { details: state.selected.value !== undefined, area: this.area.value !== undefined, path: state.path.value };
      return (['details', 'area', 'path'] as const).filter((panel) => isOpen[panel]);
    });
    this.panel = computed(() => {
      const open = this.openPanels.value;
      const chosen = this.#chosenPanel.value;
      return open.includes(chosen) ? chosen : open[0];
    });
    this.#stops = [
      effect(() => {
        if (state.selected.value !== undefined) this.#chosenPanel.value = 'details';
      }),
      effect(() => {
        if (state.area.value !== undefined) this.#chosenPanel.value = 'area';
      }),
      effect(() => {
        if (state.path.value) this.#chosenPanel.value = 'path';
      }),
      client.onReset(() => this.#reset()),
      effect(() => this.#followModel()),
      effect(() => this.#followTarget()),
      effect(() => this.#followReveal()),
      effect(() => this.#followHeight()),
      followSelection(this),
      followLinkedEvent(this),
      followLinks(this),
      followSearch(this),
      followPath(this),
    ];
  }

  dispose(): void {
    this.#isDisposed = true;
    for (const stop of this.#stops) stop();
    clearTimeout(this.#noticeTimer);
    this.overview.dispose();
    this.cache.clear();
  }

  get isDisposed(): boolean {
    return this.#isDisposed;
  }

  get model(): RunModel | undefined {
    return this.client.model.peek();
  }

  nameOf(name: number): string {
    return nameText(this.model?.names ?? [], name) ?? '';
  }

  /** The name as lanes show it. */
  shortNameOf(name: number): string {
    let short = this.#shortNames.get(name);
    if (short === undefined) {
      const text = this.nameOf(name);
      // A name that has not arrived yet is not kept.
      if (text === '') return '';
      if (this.#shortNames.size >= shortNamesMax) this.#shortNames.clear();
      short = shortName(text);
      this.#shortNames.set(name, short);
    }
    return short;
  }

  // ——— moving ———

  /** Shows a window; a person's action ends following. */
  show(window: TimeWindow, isByPerson = true): void {
    const { from, until } = clamped(window, this.extent.peek());
    batch(() => {
      if (isByPerson) this.state.follow.value = false;
      this.state.from.value = from;
      this.state.until.value = until;
    });
  }

  showWhole(): void {
    batch(() => {
      this.state.follow.value = false;
      this.state.from.value = undefined;
      this.state.until.value = undefined;
    });
  }

  /** Wider (`factor` > 1) or narrower around a pixel of the drawing. */
  zoomAt(factor: number, x: number): void {
    const window = this.window.peek();
    this.show(zoomed(window, factor, timeAt(window, this.size.peek().width, x)));
  }

  panBy(px: number): void {
    const window = this.window.peek();
    this.show(panned(window, (px / Math.max(1, this.size.peek().width)) * lengthOf(window)));
  }

  setFollow(isOn: boolean): void {
    const window = this.window.peek();
    const extent = this.extent.peek();
    batch(() => {
      this.state.follow.value = isOn;
      if (!isOn) return;
      // As long as a run is short, all of it is shown.
      const isWhole = this.state.from.peek() === undefined;
      if (isWhole && lengthOf(extent) <= followNs) return;
      const length = isWhole ? followNs : Math.min(lengthOf(window), lengthOf(wholeWindow(extent)));
      const { from, until } = followed({ from: 0, until: length }, extent);
      this.state.from.value = from;
      this.state.until.value = until;
    });
  }

  // ——— looking ———

  /** The item under a pixel of the drawing. */
  at(x: number, y: number): Hover {
    const { width, height } = this.size.peek();
    const window = this.window.peek();
    const time = timeAt(window, width, x);
    const layout = this.layout.peek();
    const split = pinnedBottom(layout, height);
    if (y < rulerHeight) return { x, y, time, row: undefined, item: undefined };
    const isPinned = y < split;
    const scrollTop = this.scrollTop.peek();
    const rows = isPinned ? layout.pinned : layout.rows;
    const sticky = isPinned || y >= lanesTop(layout, height, scrollTop) ? undefined : stickyRow(rows, scrollTop);
    const inList = isPinned ? y - rulerHeight : y - split + scrollTop;
    const row = sticky ?? rows[rowAt(rows, inList)];
    if (row?.process === undefined || row.kind === 'counter') return { x, y, time, row, item: undefined };
    const inRow = sticky === undefined ? inList - row.top : y - split;
    const reach = (lengthOf(window) / Math.max(1, width)) * 3;
    return { x, y, time, row, item: this.#itemIn(row, inRow, time, reach) };
  }

  #itemIn(row: Row, inRow: number, time: number, reach: number): Item | undefined {
    if (row.kind !== 'rank') {
      const line = Math.floor((inRow - 1) / lineHeight);
      return row.track === undefined ? undefined : itemAt(this.partsOf(row.track), row.firstLine + line, time, reach);
    }
    if (row.lanes.length === 0 || inRow < lanesPlace.top) return row.track && itemAt(this.partsOf(row.track), 0, time, reach);
    // As painted: what lies on top comes first, and communication lies below all other work.
    let below: Item | undefined;
    for (const track of row.lanes.toReversed()) {
      const parts = this.partsOf(track);
      for (let depth = lanesDepthMax(track); depth >= 0; depth--) {
        const item = itemAt(parts, depth, time, 0) ?? (depth === 0 ? itemAt(parts, depth, time, reach) : undefined);
        if (item === undefined) continue;
        if (this.colours.span(item.name) !== communicationColour) return item;
        below ??= item;
      }
    }
    return below;
  }

  /** Tiles of a track that are drawn now, and their neighbours. */
  partsOf(track: ViewTrack): Part[] {
    const process = this.processes.peek().get(track.process);
    const parts: Part[] = [];
    if (process === undefined) return parts;
    const window = this.window.peek();
    const level = levelOf(lengthOf(window) / Math.max(1, this.size.peek().width * devicePixelRatio));
    const wide = tileWidth(level);
    for (let index = Math.floor(window.from / wide) - 1; index <= Math.floor(window.until / wide) + 1; index++) {
      this.cache.parts(stateOf(track, process), level, index, 0, parts);
    }
    return parts;
  }

  // ——— choosing ———

  select(item: Item | undefined): void {
    batch(() => {
      this.place.value = item;
      this.mergedCount.value = item?.count ?? 1;
      select(this.state, item && { track: item.track, event: item.event });
    });
  }

  /** Runs searches for the next event one after another: each begins where the last one ended. */
  queueFind(find: () => Promise<void>): Promise<void> {
    if (this.#findsWaiting >= findsWaitingMax) return this.#finds;
    this.#findsWaiting++;
    this.#finds = this.#finds.then(async () => {
      this.#findsWaiting--;
      if (!this.#isDisposed) await find();
    });
    return this.#finds;
  }

  showPanel(panel: Panel): void {
    this.#chosenPanel.value = panel;
  }

  /** Clears the last choice: area, selection, path, search, marked ranks. */
  clear(): void {
    if (this.state.area.peek() !== undefined) this.state.area.value = undefined;
    else if (this.state.selected.peek() !== undefined) this.select(undefined);
    else if (this.state.path.peek()) this.state.path.value = false;
    else if (this.state.search.peek() !== '') this.state.search.value = '';
    else this.state.highlighted.value = new Set();
  }

  toggle(row: Row): void {
    const { folded, unfolded } = toggled(row, this.state.folded.peek(), this.state.unfolded.peek());
    batch(() => {
      this.state.folded.value = folded;
      this.state.unfolded.value = unfolded;
    });
  }

  togglePin(key: string): void {
    const pinned = this.state.pinned.peek();
    this.state.pinned.value = pinned.includes(key) ? pinned.filter((each) => each !== key) : [...pinned, key];
  }

  say(text: string): void {
    if (this.#isDisposed) return;
    this.notice.value = text;
    clearTimeout(this.#noticeTimer);
    this.#noticeTimer = setTimeout(() => {
      this.notice.value = undefined;
    }, noticeMs);
  }

  #reset(): void {
    this.cache.clear();
    this.colours.clear();
    this.#shortNames.clear();
    this.overview.clear();
    batch(() => {
      this.details.value = undefined;
      this.place.value = undefined;
      this.links.value = undefined;
      this.path.value = undefined;
      this.matches.value = undefined;
      // Another epoch has other numbers; `link` leads to the event again.
      this.state.selected.value = undefined;
      this.tilesCame.value++;
    });
  }

  #followModel(): void {
    const model = this.client.model.value;
    if (this.isShown.value) this.overview.follow(model);
    if (model === undefined) return;
    const isWhole = this.state.from.peek() === undefined;
    const isFirst = !this.#wasLive && this.state.target.peek() === undefined;
    if (model.live && isWhole && (isFirst || this.state.follow.peek())) this.setFollow(true);
    if (!model.live && this.#wasLive) this.state.follow.value = false;
    this.#wasLive = model.live;
  }

  // For many ranks, the overview determines the visible ones: rows that would vanish in a moment are neither laid out nor requested.
  #laidOut(): RunModel | undefined {
    const model = this.client.model.value;
    return model !== undefined && model.processes.length > ranksOpenMax && !this.overview.isSettled.value ? undefined : model;
  }

  #followReveal(): void {
    const place = this.toReveal.value;
    const hasLanes = this.size.value.height > 0 && this.client.model.value !== undefined;
    const isPlaced = this.overview.isSettled.value || (this.model?.processes.length ?? 0) <= ranksOpenMax;
    if (place === undefined || !hasLanes || !isPlaced) return;
    this.toReveal.value = undefined;
    reveal(this, place);
  }

  // The panel opens over the lanes: a selection there moves up.
  #followHeight(): void {
    const { height } = this.size.value;
    const isLower = height < this.#height;
    this.#height = height;
    if (isLower && height > 0) keepInView(this);
  }

  #followTarget(): void {
    const target = this.state.target.value;
    // The target's place depends on these.
    void this.client.model.value;
    void this.size.value;
    void this.overview.isSettled.value;
    if (target !== undefined && goToTarget(this, target)) this.state.target.value = undefined;
  }
}

// An axis that the run does not have (yet) groups nothing.
const knownGrouping = (grouping: Grouping, { groups }: Pick<RunModel, 'groups'>): Grouping =>
  grouping === 'host' || groups.some(({ axis }) => axis === grouping) ? grouping : 'rank';
