// The state of the view: the page, the run, the window of time, folded, pinned and selected items. url-state.ts keeps it in the address, so that a
// link shows another person the same; momentary state (highlight, a target of a jump) is not kept.
//
//   overview, compare, findings ──jump()──► target ──timeline, which knows the run──► from, until, revealed, highlighted
//
// Invariant: when `from` and `until` are known, from < until; both undefined is the whole run.

import { batch, type Signal, signal } from '@preact/signals';

export type PageName = 'overview' | 'timeline' | 'compare' | 'profile';

export const pageNames: readonly PageName[] = ['overview', 'timeline', 'compare', 'profile'];

/** One event: a track and its number there, in this reading of the run. */
export interface Selection {
  readonly track: number;
  readonly event: number;
}

/** Target of a jump: any of these fields. Times in ns of the trace. */
export interface JumpTarget {
  readonly ranks?: readonly number[];
  /** Index of the first of these ranks' process, where it has several lives; default: the one at `from`, else the last one. */
  readonly process?: number;
  readonly from?: number;
  readonly until?: number;
  /** A step of the run; used where no time is given. */
  readonly step?: number;
  /** An event to select. */
  readonly event?: Selection;
}

/** An event, as an address names it (track-keys.ts). */
export interface EventLink {
  /** Key of its track. */
  readonly track: string;
  /** Trace time, whole ns. */
  readonly start: number;
  readonly depth: number;
  /** Hash of its name. */
  readonly name: string;
}

/** Times in ns of the trace. */
export interface MarkedArea {
  readonly from: number;
  readonly until: number;
  /** Keys of tracks; none: all. */
  readonly tracks: readonly string[];
}

/** Both ends included. */
export interface StepsShown {
  readonly fromStep: number;
  readonly toStep: number;
}

/** Grouping of the ranks: none, by host, or by a parallel axis of `RunModel.groups`. */
export type Grouping = 'rank' | 'host' | (string & {});

export interface ViewState {
  readonly page: Signal<PageName>;
  readonly run: Signal<string | undefined>;
  /** The run to compare with. */
  readonly other: Signal<string | undefined>;
  /** Compare: ns to add to a time of `run` to get the time of `other` that is shown beside it. */
  readonly otherShift: Signal<number>;
  /** The visible trace time, ns; undefined: all of it. */
  readonly from: Signal<number | undefined>;
  readonly until: Signal<number | undefined>;
  /** Whether the window moves on with the newest data of a live run. */
  readonly follow: Signal<boolean>;
  readonly grouping: Signal<Grouping>;
  /** Keys of rows (timeline/rows.ts) that are folded although they would be open, and open although they would be folded. */
  readonly folded: Signal<ReadonlySet<string>>;
  readonly unfolded: Signal<ReadonlySet<string>>;
  /** Keys of rows kept at the top, in order. */
  readonly pinned: Signal<readonly string[]>;
  /** Layers of the timeline (timeline/layers.ts) that are not shown. */
  readonly hidden: Signal<ReadonlySet<string>>;
  /** Keys of rows that a person has reordered, first to last; others follow in their own order. */
  readonly order: Signal<readonly string[]>;
  readonly selected: Signal<Selection | undefined>;
  /** The selected event by a name that lasts, once its details are known; from an address, the event that is to be selected. */
  readonly link: Signal<EventLink | undefined>;
  /** A marked area of time and tracks, for the table and the flame graph. */
  readonly area: Signal<MarkedArea | undefined>;
  /** Whether the critical path is drawn and listed. */
  readonly path: Signal<boolean>;
  /** The search text; matching spans are shown bright. */
  readonly search: Signal<string>;
  /** Overview and Compare: the steps that they are narrowed to, in step numbers of `run`; undefined: all. */
  readonly steps: Signal<StepsShown | undefined>;
  /** Overview: order of the ranks, and the measure of the cells, of the heat map; undefined, or not one that the run has: the page's own choice. */
  readonly rankOrder: Signal<string | undefined>;
  readonly cells: Signal<string | undefined>;
  /** Profile: the tables shown, and the rank that they are of; undefined: the first tables that have something, and all ranks. */
  readonly tables: Signal<string | undefined>;
  readonly tablesRank: Signal<number | undefined>;
  /** Compare: the tab, and which steps are the same; undefined: the first of each. */
  readonly compareTab: Signal<string | undefined>;
  readonly alignment: Signal<string | undefined>;
  /** Ranks of the last jump: marked, and never folded away. */
  readonly highlighted: Signal<ReadonlySet<number>>;
  /** Target of a jump; the timeline clears it on arrival. */
  readonly target: Signal<JumpTarget | undefined>;
}

export const createViewState = (): ViewState => ({
  page: signal<PageName>('overview'),
  run: signal<string | undefined>(undefined),
  other: signal<string | undefined>(undefined),
  otherShift: signal(0),
  from: signal<number | undefined>(undefined),
  until: signal<number | undefined>(undefined),
  follow: signal(false),
  grouping: signal<Grouping>('rank'),
  folded: signal<ReadonlySet<string>>(new Set<string>()),
  unfolded: signal<ReadonlySet<string>>(new Set<string>()),
  pinned: signal<readonly string[]>([]),
  hidden: signal<ReadonlySet<string>>(new Set<string>()),
  order: signal<readonly string[]>([]),
  selected: signal<Selection | undefined>(undefined),
  link: signal<EventLink | undefined>(undefined),
  area: signal<MarkedArea | undefined>(undefined),
  path: signal(false),
  search: signal(''),
  steps: signal<StepsShown | undefined>(undefined),
  rankOrder: signal<string | undefined>(undefined),
  cells: signal<string | undefined>(undefined),
  tables: signal<string | undefined>(undefined),
  tablesRank: signal<number | undefined>(undefined),
  compareTab: signal<string | undefined>(undefined),
  alignment: signal<string | undefined>(undefined),
  highlighted: signal<ReadonlySet<number>>(new Set<number>()),
  target: signal<JumpTarget | undefined>(undefined),
});

/**
 * Goes to the timeline, shows and marks those ranks, and zooms to the range with 20 % around it.
 *
 * @example jump(state, { ranks: [3], from: 1e9, until: 1.2e9 })
 */
export function jump(state: ViewState, target: JumpTarget): void {
  batch(() => {
    state.page.value = 'timeline';
    state.follow.value = false;
    state.highlighted.value = new Set(target.ranks ?? []);
    if (target.event !== undefined) select(state, target.event);
    const { from, until } = target;
    if (from !== undefined && until !== undefined) showRange(state, from, until);
    state.target.value = target;
  });
}

/** Selects an event; its details tell the link to it. */
export function select(state: ViewState, event: Selection | undefined): void {
  batch(() => {
    state.selected.value = event;
    state.link.value = undefined;
  });
}

/** Shows a range with 20 % of it on each side. */
export function showRange(state: ViewState, from: number, until: number): void {
  const margin = Math.max((until - from) * 0.2, 500);
  batch(() => {
    state.from.value = from - margin;
    state.until.value = until + margin;
  });
}

/** Chooses another run: folds, selections and marks of the previous one mean nothing in it. */
export function chooseRun(state: ViewState, run: string | undefined): void {
  if (state.run.peek() === run) return;
  batch(() => {
    state.run.value = run;
    state.from.value = undefined;
    state.until.value = undefined;
    state.steps.value = undefined;
    state.tablesRank.value = undefined;
    // The other run lay beside the previous one.
    state.otherShift.value = 0;
    forgetRows(state);
  });
}

/** Chooses another run to compare with, which lies elsewhere in time. */
export function chooseOther(state: ViewState, run: string | undefined): void {
  if (state.other.peek() === run) return;
  batch(() => {
    state.other.value = run;
    state.otherShift.value = 0;
  });
}

/** Chooses the other run, compared with the one that was chosen: the same times stay beside each other. */
export function swapRuns(state: ViewState): void {
  const [run, other, shift] = [state.run.peek(), state.other.peek(), state.otherShift.peek()];
  batch(() => {
    chooseRun(state, other);
    state.other.value = run;
    state.otherShift.value = shift === 0 ? 0 : -shift;
  });
}

/** Drops the state about rows and events of a run. */
export function forgetRows(state: ViewState): void {
  batch(() => {
    state.folded.value = new Set();
    state.unfolded.value = new Set();
    state.pinned.value = [];
    state.order.value = [];
    select(state, undefined);
    state.area.value = undefined;
    state.path.value = false;
    state.highlighted.value = new Set();
    state.target.value = undefined;
  });
}
