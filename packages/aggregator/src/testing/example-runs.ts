// Runs for tests of their viewers: real timelines of a few events, which grow on a test's request.

import type { HeatCells, Overview, RunGrowth, RunLine, RunModel } from '@ranktrace/protocol';
import { nanos, traceTime } from '@ranktrace/protocol';
import type { TraceEvent, TraceLane, TraceProcess, TraceSink } from '@ranktrace/trace';
import { MemoryBlocks, Timeline } from '@ranktrace/trace/timeline';
import type { CaptureFile, GrowthCursor, RunView, ViewRuns } from '../view/run-view.ts';
import { ViewError } from '../view/view-error.ts';

const process: TraceProcess = {
  index: 1,
  rank: 0,
  incarnation: '0001',
  host: 'host-a',
  hostName: 'a.example',
  pid: 4711,
  alignment: { method: 'exact', bound: nanos(0) },
  metadata: new Map(),
};

/** The lane whose track has number 0. */
const lane: TraceLane = { index: 1, process, kind: 'thread', name: 'main', tid: 4711, overflow: 0, unit: '' };

const spanAt = (start: number, length: number, name: string): TraceEvent => ({
  kind: 'span',
  state: 'whole',
  lane,
  start: traceTime(start),
  length: nanos(length),
  name,
  category: '',
  value: 0,
  step: 0,
  overhead: nanos(0),
  isAsync: false,
  phases: undefined,
  group: '',
  sequence: 0,
  bytes: 0,
  peerRank: -1,
  side: '',
  peer: '',
  status: '',
  traceId: '',
  spanId: '',
  parentSpanId: '',
  flow: undefined,
  arguments: undefined,
});

/** One run. Span `n` begins at n µs and takes 900 ns; they are named `even` and `odd`. */
export class ExampleRun implements RunView {
  readonly run: string;
  /** Number of requests for a growth. */
  growthsMade = 0;
  /** Views that were opened and not disposed. */
  views = 0;
  readonly #listeners = new Set<() => void>();
  readonly #names: string[] = [];
  #timeline: Timeline | undefined;
  #spans = 0;

  constructor(run: string) {
    this.run = run;
  }

  get timeline(): Timeline {
    this.#timeline ??= new Timeline({ blocks: new MemoryBlocks() });
    return this.#timeline;
  }

  get listeners(): number {
    return this.#listeners.size;
  }

  addSpans(count: number): void {
    const [process = this.timeline.addProcess(lane.process)] = this.timeline.processes;
    if (this.#spans === 0) process.lane(lane);
    for (const end = this.#spans + count; this.#spans < end; this.#spans++) {
      process.event(spanAt(this.#spans * 1000, 900, this.#spans % 2 === 0 ? 'even' : 'odd'));
    }
    process.advance(this.#spans * 1000);
  }

  /** Grows by names, and pages get them. */
  addNames(...names: readonly string[]): void {
    this.#names.push(...names);
    for (const listener of [...this.#listeners]) listener();
  }

  model(): RunModel {
    return {
      run: this.run,
      epoch: 'example',
      worldSize: 1,
      unixEpoch: null,
      from: 0,
      until: this.#spans * 1000,
      firstStep: null,
      live: true,
      read: this.#names.length,
      total: this.#names.length,
      processes: [],
      tracks: [],
      groups: [],
      clockConflicts: [],
      names: [...this.#names],
    };
  }

  growth(cursor: GrowthCursor | undefined): { growth: RunGrowth; cursor: GrowthCursor } | undefined {
    this.growthsMade++;
    const namesFrom = cursor?.names ?? 0;
    const { names, ...rest } = this.model();
    if (cursor !== undefined && namesFrom === names.length) return undefined;
    return {
      growth: { ...rest, type: 'grown', namesFrom, names: names.slice(namesFrom) },
      cursor: { names: names.length, revision: names.length },
    };
  }

  overview(): Overview {
    throw new Error('there are no steps');
  }

  path(): undefined {
    return undefined;
  }

  /** Ten spans at a time. */
  *merge(sink: TraceSink): Generator<{ readonly done: number; readonly total: number }, void> {
    sink.begin({ run: this.run, worldSize: 1, unixEpoch: undefined, processes: [process] });
    sink.lane(lane);
    for (let span = 0; span < this.#spans; span++) {
      sink.event(spanAt(span * 1000, 900, span % 2 === 0 ? 'even' : 'odd'));
      if (span % 10 === 9) yield { done: span, total: this.#spans };
    }
    sink.end([]);
  }

  heat(): HeatCells {
    return { bins: [], rows: [] };
  }

  profile(): undefined {
    return undefined;
  }

  onGrown(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

export class ExampleRuns implements ViewRuns {
  readonly runs = new Map<string, ExampleRun>();
  /** Captures of every run. */
  captureFiles: readonly CaptureFile[] = [];
  readonly #listeners = new Set<() => void>();

  constructor(...names: readonly string[]) {
    for (const name of names) this.add(name);
  }

  get listeners(): number {
    return this.#listeners.size;
  }

  add(name: string): ExampleRun {
    const run = new ExampleRun(name);
    this.runs.set(name, run);
    for (const listener of [...this.#listeners]) listener();
    return run;
  }

  list(): RunLine[] {
    return [...this.runs.keys()].map((run) => ({ run, worldSize: 1, ranks: 1 }));
  }

  async open(name: string): Promise<RunView & Disposable> {
    await new Promise((resolve) => setImmediate(resolve));
    const run = this.runs.get(name);
    if (run === undefined) throw new ViewError('no_such_run', `Cannot open run "${name}": there is ${[...this.runs.keys()].join(', ')}`);
    run.views++;
    return {
      get timeline() {
        return run.timeline;
      },
      model: () => run.model(),
      growth: (cursor) => run.growth(cursor),
      overview: () => run.overview(),
      path: () => run.path(),
      merge: (sink) => run.merge(sink),
      heat: () => run.heat(),
      profile: () => run.profile(),
      onGrown: (listener) => run.onGrown(listener),
      [Symbol.dispose]: () => {
        run.views--;
      },
    };
  }

  captures(run: string): readonly CaptureFile[] {
    return this.runs.has(run) ? this.captureFiles : [];
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}
