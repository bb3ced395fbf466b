// One run on the timeline: what is computed from its model and the view, what was asked for it (tiles, details, links, overview), and what a
// person does to it. The component (timeline-view.tsx) draws it and passes on what the mouse and the keys say.
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
  type Overview,
  type RunModel,
  type SearchResult,
  stepBit,
  type ViewProcess,
  type ViewTrack,
} from '@ranktrace/protocol';
import type { RunClient } from '../run-client.ts';
import { type Part, TileCache } from '../tile-cache.ts';
import { type Grouping, showRange, type ViewState } from '../view-state.ts';
import { levelOf, type NameColours, pinnedBottom, rulerHeight, stateOf } from './frame-painter.ts';
import { type Item, itemAt, itemBeside, itemOver } from './hit.ts';
import { type Band, bandOf, representativesOf } from './outliers.ts';
import { colourOf } from './palette.ts';
import { type Layout, layOut, lineHeight, type Row, ranksOpenMax, rowAt, toggled } from './rows.ts';
import { clamped, fitted, followed, lengthOf, panned, type TimeWindow, timeAt, wholeWindow, zoomed } from './viewport.ts';

/** What the pointer is over. */
export interface Hover {
  /** CSS pixels in the drawing. */
  readonly x: number;
  readonly y: number;
  readonly time: number;
  readonly row: Row | undefined;
  readonly item: Item | undefined;
}

/** The names that a search means. */
export interface Matches {
  readonly text: string;
  readonly result: SearchResult;
  readonly names: ReadonlySet<number>;
}

const unfoldedMax = 12;
const overviewBins = 512;
const overviewMsMin = 2000;
const linksDelayMs = 180;
/** More arrows than these hide what they are to show. */
export const linksShownMax = 80;
const tracksAskedMax = 512;
const searchDelayMs = 120;
/** What a live run shows at first, when it has run longer. */
const followNs = 20e9;

export class TimelineSession {
  readonly client: RunClient;
  readonly state: ViewState;
  readonly cache: TileCache;
  /** Of the drawing, CSS pixels. */
  readonly size = signal({ width: 0, height: 0 });
  readonly scrollTop = signal(0);
  /** Where the component is to scroll to. */
  readonly scrollGoal: Signal<number | undefined> = signal(undefined);
  readonly hover: Signal<Hover | undefined> = signal(undefined);
  readonly overview: Signal<Overview | undefined> = signal(undefined);
  readonly details: Signal<EventDetails | undefined> = signal(undefined);
  readonly detailsProblem: Signal<string | undefined> = signal(undefined);
  /** Where the selected event is, as soon as anything is known about it. */
  readonly place: Signal<Omit<EventPlace, 'name'> | undefined> = signal(undefined);
  /** How many events the item stood for that was clicked. */
  readonly mergedCount = signal(1);
  readonly links: Signal<Links | undefined> = signal(undefined);
  readonly matches: Signal<Matches | undefined> = signal(undefined);
  /** A marked area while it is being drawn. */
  readonly marking: Signal<{ readonly from: number; readonly until: number; readonly top: number; readonly bottom: number } | undefined> =
    signal(undefined);
  /** Counts tiles that came: whoever draws depends on it. */
  readonly tilesCame = signal(0);
  readonly isLoading = signal(false);
  /** One line for a person, for a while. */
  readonly notice: Signal<string | undefined> = signal(undefined);

  readonly extent: ReadonlySignal<TimeWindow>;
  readonly window: ReadonlySignal<TimeWindow>;
  readonly layout: ReadonlySignal<Layout>;
  readonly processes: ReadonlySignal<ReadonlyMap<number, ViewProcess>>;
  readonly tracks: ReadonlySignal<ReadonlyMap<number, ViewTrack>>;
  readonly colours: NameColours;
  readonly #stops: (() => void)[] = [];
  #colourNumbers = new Uint8Array(0);
  #bands = new Map<string, Band>();
  #overviewAt = Number.NEGATIVE_INFINITY;
  #overviewTimer: ReturnType<typeof setTimeout> | undefined;
  #isAskingOverview = false;
  readonly #isOverviewSettled = signal(false);
  #noticeTimer: ReturnType<typeof setTimeout> | undefined;
  #wasLive = false;
  #isDisposed = false;

  constructor(client: RunClient, state: ViewState) {
    this.client = client;
    this.state = state;
    this.cache = new TileCache(client, () => {
      this.isLoading.value = this.cache.isLoading;
      this.tilesCame.value++;
    });
    const { model } = client;
    this.extent = computed(
      () => ({ from: model.value?.from ?? 0, until: Math.max(model.value?.until ?? 1e9, (model.value?.from ?? 0) + 1) }),
      {
        name: 'extent',
      },
    );
    this.window = computed(() => {
      const [from, until] = [state.from.value, state.until.value];
      return from === undefined || until === undefined ? wholeWindow(this.extent.value) : clamped({ from, until }, this.extent.value);
    });
    this.processes = computed(() => new Map((model.value?.processes ?? []).map((process) => [process.index, process])));
    this.tracks = computed(() => new Map((model.value?.tracks ?? []).map((track) => [track.track, track])));
    const representatives = computed(() =>
      representativesOf(
        this.overview.value,
        (model.value?.processes ?? []).map(({ rank }) => rank),
        ranksOpenMax,
      ),
    );
    this.layout = computed(() =>
      layOut({
        model: model.value ?? { processes: [], tracks: [], groups: [] },
        grouping: this.#knownGrouping(model.value),
        folded: state.folded.value,
        unfolded: state.unfolded.value,
        pinned: state.pinned.value,
        order: state.order.value,
        // Of a finding about all ranks, not all can be unfolded.
        highlighted: new Set([...state.highlighted.value].slice(0, unfoldedMax)),
        representatives: representatives.value,
      }),
    );
    this.colours = {
      span: (name) => this.#colour(name) & 31,
      step: (name) => this.#colour(name) >>> 7,
    };
    this.#stops.push(
      client.onReset(() => this.#reset()),
      effect(() => this.#followSelection()),
      effect(() => this.#followModel()),
      effect(() => this.#followLinks()),
      effect(() => this.#followSearch()),
      effect(() => this.#followTarget()),
    );
  }

  dispose(): void {
    this.#isDisposed = true;
    for (const stop of this.#stops) stop();
    clearTimeout(this.#overviewTimer);
    clearTimeout(this.#noticeTimer);
    this.cache.clear();
  }

  get model(): RunModel | undefined {
    return this.client.model.peek();
  }

  nameOf(name: number): string {
    return this.model?.names[name] ?? '';
  }

  /** The band of step times of a row that stands for several ranks. */
  bandOf(row: Row): Band | undefined {
    const overview = this.overview.peek();
    if (overview === undefined) return undefined;
    const key = `${row.key} ${row.ranks.length}`;
    let band = this.#bands.get(key);
    if (band === undefined) {
      band = bandOf(overview, row.ranks);
      this.#bands.set(key, band);
    }
    return band;
  }

  // ——— moving ———

  /** Shows a window; what a person does ends following. */
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

  /** What lies under a pixel of the drawing. */
  at(x: number, y: number): Hover {
    const { width, height } = this.size.peek();
    const window = this.window.peek();
    const time = timeAt(window, width, x);
    const layout = this.layout.peek();
    const split = pinnedBottom(layout, height);
    if (y < rulerHeight) return { x, y, time, row: undefined, item: undefined };
    const isPinned = y < split;
    const rows = isPinned ? layout.pinned : layout.rows;
    const inList = isPinned ? y - rulerHeight : y - split + this.scrollTop.peek();
    const row = rows[rowAt(rows, inList)];
    if (row?.track === undefined || row.process === undefined || row.kind === 'counter') return { x, y, time, row, item: undefined };
    const depth = row.kind === 'rank' ? 0 : Math.floor((inList - row.top - 1) / lineHeight);
    const reach = (lengthOf(window) / Math.max(1, width)) * 3;
    return { x, y, time, row, item: itemAt(this.partsOf(row.track), depth, time, reach) };
  }

  /** Tiles of a track that are drawn now. */
  partsOf(track: ViewTrack): Part[] {
    const process = this.processes.peek().get(track.process);
    const parts: Part[] = [];
    if (process === undefined) return parts;
    const window = this.window.peek();
    const level = levelOf(lengthOf(window) / Math.max(1, this.size.peek().width * (globalThis.devicePixelRatio ?? 1)));
    const wide = 2 ** level * 1024;
    for (let index = Math.floor(window.from / wide) - 1; index <= Math.floor(window.until / wide) + 1; index++) {
      this.cache.parts(stateOf(track, process), level, index, 0, parts);
    }
    return parts;
  }

  // ——— selecting ———

  select(item: Item | undefined): void {
    batch(() => {
      this.place.value = item;
      this.mergedCount.value = item?.count ?? 1;
      this.state.selected.value = item === undefined ? undefined : { track: item.track, event: item.event };
      if (item !== undefined) this.state.area.value = undefined;
    });
  }

  /** Selects an event that the service told, and shows it. */
  goTo(place: Pick<EventPlace, 'track' | 'event' | 'start' | 'length' | 'depth'>): void {
    const { track, event, start, length, depth } = place;
    batch(() => {
      this.place.value = { track, event, start, length, depth };
      this.mergedCount.value = 1;
      this.state.area.value = undefined;
      this.state.selected.value = { track, event };
    });
    this.reveal(place);
  }

  /** Brings an event into view: unfolds its row, scrolls there, and moves the window if it must. */
  reveal({ track, start, length, depth }: Pick<EventPlace, 'track' | 'start' | 'length' | 'depth'>): void {
    const window = this.window.peek();
    if (
      start + length < window.from ||
      start > window.until ||
      (length < lengthOf(window) && (start < window.from || start + length > window.until))
    ) {
      if (length > lengthOf(window)) this.show(fitted(start, start + length));
      else this.show(panned(window, start + length / 2 - (window.from + window.until) / 2));
    }
    this.revealRow(track, depth);
  }

  revealRow(track: number, depth = 0): void {
    const row = this.#openRow(track);
    if (row !== undefined) this.#scrollTo(row, depth);
  }

  /** The selected event's neighbour, where the tiles that are drawn know of it. */
  step(direction: 'next' | 'previous' | 'up' | 'down'): void {
    const place = this.place.peek();
    if (place === undefined) {
      this.#selectFirst();
      return;
    }
    const track = this.tracks.peek().get(place.track);
    if (track === undefined) return;
    if (direction === 'next' || direction === 'previous') {
      const found = itemBeside(this.partsOf(track), place.depth, place.start, place.event, direction);
      if (found === undefined) this.say(direction === 'next' ? 'Nothing after it near here' : 'Nothing before it near here');
      else this.#selectAndShow(found);
      return;
    }
    const rows = this.layout.peek().rows;
    let at = rows.findIndex((row) => row.track?.track === place.track);
    let depth = place.depth + (direction === 'down' ? 1 : -1);
    for (; at >= 0 && at < rows.length; at += direction === 'down' ? 1 : -1) {
      const row = rows[at] as Row;
      if (row.track === undefined || row.kind === 'counter') continue;
      const lines = row.kind === 'rank' ? 1 : Math.max(1, row.track.depth);
      if (row.track.track !== place.track) depth = direction === 'down' ? 0 : lines - 1;
      const parts = this.partsOf(row.track);
      for (; depth >= 0 && depth < lines; depth += direction === 'down' ? 1 : -1) {
        const found = itemOver(parts, depth, place.start, place.start + place.length);
        const isNear = found !== undefined && (row.track.track !== place.track || overlaps(found, place));
        if (!isNear) continue;
        this.#selectAndShow(found);
        return;
      }
    }
  }

  /** The next or previous event of the same name, on the same track. */
  async sameName(direction: 'next' | 'previous'): Promise<void> {
    const place = this.place.peek();
    const details = this.details.peek();
    const model = this.model;
    if (place === undefined || details === undefined || model === undefined) return;
    const name = model.names.indexOf(details.name);
    if (name < 0) return;
    await this.find([name], [place.track], place.start, direction);
  }

  /** The next or previous event that the search means, anywhere. */
  async nextMatch(direction: 'next' | 'previous', only?: number): Promise<void> {
    const matches = this.matches.peek();
    if (matches === undefined) return;
    const names = only === undefined ? matches.result.names.slice(0, 1024).map(({ name }) => name) : [only];
    if (names.length === 0) return;
    const window = this.window.peek();
    const place = this.place.peek();
    const isSeen = place !== undefined && place.start + place.length > window.from && place.start < window.until;
    await this.find(names, [], isSeen ? place.start : direction === 'next' ? window.from : window.until, direction);
  }

  async find(names: readonly number[], tracks: readonly number[], time: number, direction: 'next' | 'previous'): Promise<void> {
    try {
      const place = await this.client.find(names, tracks, time, direction);
      if (this.#isDisposed) return;
      if (place === null) this.say(direction === 'next' ? 'None later' : 'None earlier');
      else this.goTo(place);
    } catch (error) {
      this.say((error as Error).message);
    }
  }

  fitSelection(): void {
    const area = this.state.area.peek();
    const place = this.place.peek();
    if (area !== undefined) this.show(fitted(area.from, area.until));
    else if (place !== undefined) this.show(fitted(place.start, place.start + place.length));
    else this.showWhole();
  }

  /** The time of the selected span on all tracks of its process, as an area. */
  areaOfSelection(): void {
    const place = this.place.peek();
    if (place === undefined) return;
    const process = this.tracks.peek().get(place.track)?.process;
    const tracks = (this.model?.tracks ?? []).filter((track) => track.process === process).map(({ track }) => track);
    this.state.area.value = { from: place.start, until: place.start + Math.max(place.length, 1), tracks };
  }

  clear(): void {
    batch(() => {
      if (this.state.area.peek() !== undefined) this.state.area.value = undefined;
      else if (this.state.selected.peek() !== undefined) this.select(undefined);
      else if (this.state.search.peek() !== '') this.state.search.value = '';
      else this.state.highlighted.value = new Set();
    });
  }

  // ——— rows ———

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
    this.notice.value = text;
    clearTimeout(this.#noticeTimer);
    this.#noticeTimer = setTimeout(() => {
      this.notice.value = undefined;
    }, 3000);
  }

  #selectAndShow(item: Item): void {
    this.select(item);
    this.reveal(item);
  }

  #selectFirst(): void {
    for (const row of this.layout.peek().rows) {
      if (row.track === undefined || row.kind === 'counter') continue;
      const window = this.window.peek();
      const found = itemOver(this.partsOf(row.track), 0, window.from, window.until);
      if (found === undefined) continue;
      this.#selectAndShow(found);
      return;
    }
  }

  // The row of a track, after its rank and group were unfolded.
  #openRow(track: number): Row | undefined {
    const found = this.tracks.peek().get(track);
    const process = found === undefined ? undefined : this.processes.peek().get(found.process);
    if (process === undefined) return undefined;
    for (let attempt = 0; attempt < 4; attempt++) {
      const { rows } = this.layout.peek();
      const row = rows.find((each) => each.track?.track === track);
      if (row !== undefined) return row;
      const closed =
        rows.find((each) => each.kind === 'rank' && each.process?.index === process.index && each.isFolded) ??
        rows.find(
          (each) => each.kind === 'counters' && each.process?.index === process.index && each.isFolded && found?.kind === 'counter',
        ) ??
        rows.find((each) => each.isFolded && (each.kind === 'group' || each.kind === 'rest') && each.ranks.includes(process.rank));
      if (closed === undefined) return undefined;
      if (closed.kind === 'rest') this.state.highlighted.value = new Set([...this.state.highlighted.peek(), process.rank]);
      else this.toggle(closed);
    }
    return undefined;
  }

  #scrollTo(row: Row, depth: number): void {
    const { height } = this.size.peek();
    const visible = height - pinnedBottom(this.layout.peek(), height);
    const top = row.top + (row.kind === 'track' ? depth * lineHeight : 0);
    const at = this.scrollTop.peek();
    if (top < at + 8) this.scrollGoal.value = Math.max(0, row.top - 40);
    else if (top + 3 * lineHeight > at + visible) this.scrollGoal.value = Math.max(0, top - visible / 2);
  }

  #colour(name: number): number {
    if (name >= stepBit) return (colourOf('ProfilerStep#') | (name & 1 ? 0x80 : 0)) & 0b1001_1111;
    if (name >= this.#colourNumbers.length) {
      const grown = new Uint8Array(Math.max(1024, 2 * (name + 1)));
      grown.set(this.#colourNumbers);
      this.#colourNumbers = grown;
    }
    const known = this.#colourNumbers[name] as number;
    if (known !== 0) return known & 0b1001_1111;
    const text = this.client.model.peek()?.names[name];
    // Bit 6 says that it is known; of a name that is not told yet, nothing is kept.
    if (text === undefined) return 0;
    const isOdd = /[13579]$/.test(text);
    const number = colourOf(text) | (isOdd ? 0x80 : 0);
    this.#colourNumbers[name] = number | 0x40;
    return number;
  }

  #reset(): void {
    this.cache.clear();
    this.#colourNumbers = new Uint8Array(0);
    this.#bands.clear();
    batch(() => {
      this.overview.value = undefined;
      this.details.value = undefined;
      this.place.value = undefined;
      this.links.value = undefined;
      this.matches.value = undefined;
      this.state.selected.value = undefined;
      this.tilesCame.value++;
    });
    this.#overviewAt = Number.NEGATIVE_INFINITY;
  }

  // An axis that the run does not have (yet) groups nothing.
  #knownGrouping(model: RunModel | undefined): Grouping {
    const grouping = this.state.grouping.value;
    return grouping === 'host' || model?.groups.some(({ axis }) => axis === grouping) === true ? grouping : 'rank';
  }

  #followSelection(): void {
    const selected = this.state.selected.value;
    // Asked again when the run has grown only while it is open.
    const isOpen = this.details.peek()?.open === true;
    if (isOpen || this.client.model.peek() === undefined) void this.client.model.value;
    if (this.client.model.peek() === undefined) return;
    const before = this.details.peek();
    if (selected === undefined) {
      batch(() => {
        this.details.value = undefined;
        this.detailsProblem.value = undefined;
        this.place.value = undefined;
      });
      return;
    }
    if (before !== undefined && (before.track !== selected.track || before.event !== selected.event)) this.details.value = undefined;
    const isStill = (): boolean => !this.#isDisposed && this.state.selected.peek() === selected;
    this.client.event(selected.track, selected.event).then(
      (details) => {
        if (!isStill()) return;
        batch(() => {
          this.details.value = details;
          this.detailsProblem.value = undefined;
          this.place.value = details;
        });
      },
      (error: Error) => {
        if (isStill()) this.detailsProblem.value = error.message;
      },
    );
  }

  #followModel(): void {
    const model = this.client.model.value;
    if (model === undefined) return;
    this.#askOverview();
    const isLive = model.live;
    const isWhole = this.state.from.peek() === undefined;
    if (isLive && !this.#wasLive && isWhole && this.state.target.peek() === undefined) this.setFollow(true);
    else if (isLive && isWhole && this.state.follow.peek()) this.setFollow(true);
    if (!isLive && this.#wasLive) this.state.follow.value = false;
    this.#wasLive = isLive;
  }

  #askOverview(): void {
    if (this.#isDisposed || this.#isAskingOverview || this.#overviewTimer !== undefined) return;
    const wait = this.#overviewAt + overviewMsMin - performance.now();
    if (wait > 0) {
      this.#overviewTimer = setTimeout(() => {
        this.#overviewTimer = undefined;
        this.#askOverview();
      }, wait);
      return;
    }
    this.#isAskingOverview = true;
    this.#overviewAt = performance.now();
    this.client
      .overview(overviewBins)
      .then(
        (overview) => {
          if (this.#isDisposed) return;
          this.#bands.clear();
          this.overview.value = overview;
        },
        () => undefined,
      )
      .finally(() => {
        this.#isAskingOverview = false;
        this.#isOverviewSettled.value = true;
      });
  }

  // Arrows of what is in view are asked for when the view has come to rest.
  #linksTimer: ReturnType<typeof setTimeout> | undefined;
  #linksAbort: AbortController | undefined;
  #followLinks(): void {
    const window = this.window.value;
    const { height, width } = this.size.value;
    const scrollTop = this.scrollTop.value;
    const { rows } = this.layout.value;
    void this.client.model.value;
    clearTimeout(this.#linksTimer);
    this.#linksAbort?.abort(new DOMException('moved on', 'AbortError'));
    this.#linksAbort = undefined;
    if (width === 0 || this.client.model.peek() === undefined) return;
    this.#linksTimer = setTimeout(() => {
      if (this.#isDisposed) return;
      const tracks = rows
        .filter(
          (row) => row.track !== undefined && row.kind === 'track' && row.top < scrollTop + height && row.top + row.height > scrollTop,
        )
        .map((row) => (row.track as ViewTrack).track)
        .slice(0, tracksAskedMax);
      if (tracks.length === 0) {
        this.links.value = undefined;
        return;
      }
      const abort = new AbortController();
      this.#linksAbort = abort;
      this.client.links({ ...window, tracks }, abort.signal).then(
        (links) => {
          if (!abort.signal.aborted && !this.#isDisposed) this.links.value = links;
        },
        () => undefined,
      );
    }, linksDelayMs);
  }

  #searchTimer: ReturnType<typeof setTimeout> | undefined;
  #searchAbort: AbortController | undefined;
  #searchedNames = 0;
  #followSearch(): void {
    const text = this.state.search.value.trim();
    const model = this.client.model.value;
    const isReady = model !== undefined;
    if (this.matches.peek()?.text === text && this.#searchedNames === model?.names.length) return;
    this.#searchedNames = model?.names.length ?? 0;
    clearTimeout(this.#searchTimer);
    this.#searchAbort?.abort(new DOMException('moved on', 'AbortError'));
    if (text === '' || !isReady) {
      this.matches.value = undefined;
      return;
    }
    this.#searchTimer = setTimeout(() => {
      if (this.#isDisposed) return;
      const abort = new AbortController();
      this.#searchAbort = abort;
      this.client.search(text, abort.signal).then(
        (result) => {
          if (!abort.signal.aborted) this.matches.value = { text, result, names: new Set(result.names.map(({ name }) => name)) };
        },
        () => undefined,
      );
    }, searchDelayMs);
  }

  #followTarget(): void {
    const target = this.state.target.value;
    const model = this.client.model.value;
    if (target === undefined || model === undefined || this.size.value.height === 0) return;
    // Which ranks stand out decides where the rows are.
    if (!this.#isOverviewSettled.value && model.processes.length > ranksOpenMax) return;
    this.state.target.value = undefined;
    const first = target.ranks?.[0];
    const process = first === undefined ? undefined : model.processes.findLast(({ rank }) => rank === first);
    const track = process === undefined ? undefined : model.tracks.find((each) => each.process === process.index);
    if (track !== undefined) this.revealRow(track.track);
    if (target.event !== undefined) this.revealRow(target.event.track);
    if (target.from === undefined && target.step !== undefined) void this.#showStep(target.step);
  }

  async #showStep(step: number): Promise<void> {
    try {
      const overview = await this.client.overview(1, { fromStep: step, toStep: step });
      const [start] = overview.times;
      const length = overview.slowest[0] ?? overview.median[0];
      if (start !== undefined && length !== null && length !== undefined) showRange(this.state, start, start + length);
    } catch (error) {
      this.say((error as Error).message);
    }
  }
}

const overlaps = (
  a: { readonly start: number; readonly length: number },
  b: { readonly start: number; readonly length: number },
): boolean => a.start < b.start + b.length + 1 && b.start < a.start + a.length + 1;
