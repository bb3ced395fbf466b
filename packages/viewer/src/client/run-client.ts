// One run as the page follows it: its model, kept up to date, and questions about it.
//
// The client requests the model anew whenever the line comes back; if the epoch is another, everything kept of the run is void (`onReset`).

import { type ReadonlySignal, signal } from '@preact/signals';
import type {
  AreaTable,
  EventDetails,
  EventPlace,
  FlameNode,
  FlameSplit,
  HeatCells,
  Links,
  Overview,
  RunDifference,
  RunGrowth,
  RunModel,
  RunProfile,
  SearchResult,
  Tile,
  TileKey,
  ViewPath,
} from '@ranktrace/protocol';
import { type Connection, type RequestOptions, RequestRefused } from './connection.ts';

export interface Area {
  readonly from: number;
  readonly until: number;
  /** Empty: all. */
  readonly tracks: readonly number[];
}

/** The cells of the heat map. */
export type HeatChoice = { readonly measure: 'own' | 'waiting' | 'busy' } | { readonly measure: 'phase'; readonly phase: string };

export class RunClient {
  readonly run: string;
  readonly #connection: Connection;
  readonly #model = signal<RunModel | undefined>(undefined);
  readonly #problem = signal<string | undefined>(undefined);
  readonly #resets = new Set<() => void>();
  readonly #closes: (() => void)[] = [];
  readonly #stop: (() => void)[];
  /** Resolves when the request to open the run was sent: the service rejects questions about runs that are not open. */
  readonly #opening: Promise<void>;
  #isOpening: () => void = () => undefined;
  /** Whether the service answered that there is no such run. */
  #isMissing = false;
  /** The newest overview of all steps: two views may need the same. */
  #overview: { readonly bins: number; readonly model: RunModel | undefined; readonly answer: Overview } | undefined;

  constructor(connection: Connection, run: string) {
    this.#connection = connection;
    this.run = run;
    this.#opening = new Promise((resolve) => {
      this.#isOpening = resolve;
    });
    this.#stop = [
      connection.listen((message) => {
        if (message.type === 'grown' && message.run === run) this.#grow(message);
        // The page may be opened, by a link for example, before the run begins.
        else if (message.type === 'runs' && this.#isMissing && message.runs.some((line) => line.run === run)) void this.#open();
      }),
      connection.onUp(() => void this.#open()),
    ];
  }

  /** Undefined until the service has sent it. A new object at each change. */
  get model(): ReadonlySignal<RunModel | undefined> {
    return this.#model;
  }

  /** The newest overview of all steps on this page; undefined while there is none of this epoch. */
  get overviewOfAll(): Overview | undefined {
    return this.#overview?.answer;
  }

  /** Reason why there is no model, for a person. */
  get problem(): ReadonlySignal<string | undefined> {
    return this.#problem;
  }

  /** Calls `listener` when the kept data of the run is void. */
  onReset(listener: () => void): () => void {
    this.#resets.add(listener);
    return () => this.#resets.delete(listener);
  }

  /** Calls `listener` when the run is no longer followed. */
  onClose(listener: () => void): void {
    this.#closes.push(listener);
  }

  close(): void {
    for (const stop of this.#stop) stop();
    for (const closed of this.#closes.splice(0)) closed();
    this.#connection.request({ type: 'close', run: this.run }).catch(() => undefined);
  }

  /** The tiles come in one or several parts; the promise is for the last. */
  tiles(tiles: readonly TileKey[], onTiles: (tiles: readonly Tile[]) => void, abort?: AbortSignal): Promise<void> {
    return this.#connection.request(
      { type: 'tiles', run: this.run, tiles: [...tiles] },
      { onTiles, ...(abort === undefined ? {} : { signal: abort }) },
    );
  }

  event(track: number, event: number): Promise<EventDetails> {
    return this.#connection.request({ type: 'event', run: this.run, track, event });
  }

  links(area: Area, abort?: AbortSignal): Promise<Links> {
    return this.#connection.request({ type: 'links', run: this.run, ...mutable(area) }, abort === undefined ? {} : { signal: abort });
  }

  area(area: Area, options?: RequestOptions): Promise<AreaTable> {
    return this.#connection.request({ type: 'area', run: this.run, ...mutable(area) }, options);
  }

  flame(area: Area, split: FlameSplit, options?: RequestOptions): Promise<FlameNode> {
    return this.#connection.request({ type: 'flame', run: this.run, ...mutable(area), ...(split === undefined ? {} : { split }) }, options);
  }

  /** This run compared with `other`, which must be followed, too, in these steps of this run. `offset`: see `viewRequestSchema`. */
  diff(
    other: string,
    range: { readonly fromStep?: number; readonly toStep?: number },
    offset: number,
    failOn: number,
    options?: RequestOptions,
  ): Promise<RunDifference> {
    return this.#connection.request({ type: 'diff', run: this.run, other, offset, failOn, ...range }, options);
  }

  search(text: string, abort?: AbortSignal): Promise<SearchResult> {
    return this.#connection.request({ type: 'search', run: this.run, text }, abort === undefined ? {} : { signal: abort });
  }

  /** Without `names`: any name; of `depth` where there is any; `past`: the event at `time` to go on from (`viewRequestSchema`). */
  find(
    names: readonly number[],
    tracks: readonly number[],
    time: number,
    direction: 'next' | 'previous',
    depth?: number,
    past?: Pick<EventPlace, 'track' | 'event'>,
  ): Promise<EventPlace | null> {
    const more = {
      ...(depth === undefined ? {} : { depth }),
      ...(past === undefined ? {} : { past: { track: past.track, event: past.event } }),
    };
    const of = { names: [...names], tracks: [...tracks], time, direction, ...more };
    return this.#connection.request({ type: 'find', run: this.run, ...of });
  }

  /** Null while the run has none: not analysed yet, or no GPUs. */
  path(abort?: AbortSignal): Promise<ViewPath | null> {
    return this.#connection.request({ type: 'path', run: this.run }, abort === undefined ? {} : { signal: abort });
  }

  /** May be called before there is a model: both requests are then under way together. */
  async overview(bins: number, range: { readonly fromStep?: number; readonly toStep?: number } = {}): Promise<Overview> {
    await this.#opening;
    const isWhole = range.fromStep === undefined && range.toStep === undefined;
    const kept = this.#overview;
    const model = this.#model.peek();
    if (isWhole && kept?.bins === bins && kept.model === model && model !== undefined && kept.answer.analysed) return kept.answer;
    const answer = await this.#connection.request<Overview>({ type: 'overview', run: this.run, bins, ...range });
    // The answer to a request made before the model arrives after it.
    if (isWhole) this.#overview = { bins, model: model ?? this.#model.peek(), answer };
    return answer;
  }

  /** Cells of the heat map, over the bins of an overview of the same range. */
  heat(measure: HeatChoice, bins: number, range: { readonly fromStep?: number; readonly toStep?: number }): Promise<HeatCells> {
    return this.#connection.request({ type: 'heat', run: this.run, ...measure, bins, ...range });
  }

  /** The tables of a rank, or of all; null where there are none (yet). */
  profile(rank: number | undefined, options?: RequestOptions): Promise<RunProfile | null> {
    return this.#connection.request({ type: 'profile', run: this.run, ...(rank === undefined ? {} : { rank }) }, options);
  }

  async #open(): Promise<void> {
    try {
      const opened = this.#connection.request<RunModel>({ type: 'open', run: this.run });
      this.#isOpening();
      const model = await opened;
      const before = this.#model.peek();
      if (before !== undefined && before.epoch !== model.epoch) {
        this.#overview = undefined;
        for (const reset of this.#resets) reset();
      }
      this.#isMissing = false;
      this.#problem.value = undefined;
      this.#model.value = model;
    } catch (error) {
      this.#isMissing = error instanceof RequestRefused && error.code === 'no_such_run';
      this.#problem.value = (error as Error).message;
    }
  }

  #grow(growth: RunGrowth): void {
    const before = this.#model.peek();
    // The growth is of a state that the page lacks: the answer to `open` that is on its way has it.
    if (before === undefined || before.epoch !== growth.epoch || growth.namesFrom > before.names.length) return;
    const { type, namesFrom, ...rest } = growth;
    this.#model.value = {
      ...rest,
      // A run may have a million names, and most growth brings none.
      names:
        growth.names.length === 0 && namesFrom === before.names.length
          ? before.names
          : [...before.names.slice(0, namesFrom), ...growth.names],
      processes: merged(before.processes, growth.processes, ({ index }) => index),
      tracks: merged(before.tracks, growth.tracks, ({ track }) => track),
      groups: merged(before.groups, growth.groups, ({ axis, group }) => `${axis} ${group}`),
    };
  }
}

const mutable = ({ from, until, tracks }: Area) => ({ from, until, tracks: [...tracks] });

function merged<Item, Key>(before: readonly Item[], changed: readonly Item[], keyOf: (item: Item) => Key): readonly Item[] {
  if (changed.length === 0) return before;
  const items = new Map(before.map((item) => [keyOf(item), item]));
  for (const item of changed) items.set(keyOf(item), item);
  return [...items.values()];
}
