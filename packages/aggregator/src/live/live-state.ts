// The current activity of every run and rank, in bounded memory: counters per rank and the last steps. It is rebuilt from the store when a run is
// opened, so a restarted service reports the same as one that never stopped.
//
// A rank's `batches`, `missing`, `events` and `dropped` are sums over its incarnations (a restart hides no loss); `incarnation`, `host`, `step` and
// `ended` are those of the latest incarnation, the one that came last, whatever its clock shows. A job that was started again with fewer ranks has
// no longer all that came: the others are former ones.

import {
  type Batch,
  type BatchHeader,
  type Captured,
  capturedKey,
  countSum,
  type Dropped,
  isBeside,
  type LiveMessage,
  mostDropped,
  noneDropped,
  type RankStatus,
  readCaptured,
  readRunning,
  readWindowAnswer,
  recorderKey,
  runningKey,
  spanState,
  sumDropped,
  type TableName,
  tableNames,
  type WindowAnswer,
  windowKey,
} from '@ranktrace/protocol';
import { aggregatorLimits as limits } from '../model/limits.ts';
import { metadataOf } from './batch-metadata.ts';
import { type FinishedStep, StepRing } from './step-ring.ts';

/** Tables whose rows are events; the others describe, measure clocks or hold arguments. */
const eventTableNames: readonly TableName[] = ['spans', 'instants', 'counters', 'steps', 'collectives', 'rpcs', 'memory'];

/** The store's counts for the incarnation of a batch. */
export interface StoredCounts {
  readonly batches: number;
  readonly missing: number;
  /** Whether no later incarnation of its rank has come. */
  readonly isLatest: boolean;
}

interface IncarnationState extends Omit<StoredCounts, 'isLatest'> {
  readonly dropped: Dropped;
  readonly sequence: number;
}

/** Progress of a rank. */
export interface RankProgress {
  readonly rank: number;
  readonly incarnation: string;
  /** The last finished step, −1 before the first. */
  readonly step: number;
  readonly ended: boolean;
  /** When its last batch came, ms of `performance.now`. */
  readonly heardAt: number;
  /** The last answers of this life to requests for steps, oldest first. */
  readonly captured: readonly Captured[];
  /** Whether its detail comes from a recorder that knows times instead of steps, on demand. */
  readonly recordsWindows: boolean;
  /** Such a recorder beside the rank's own, and when its last batch came, ms of `performance.now`. */
  readonly beside: BesideRecorder | undefined;
  /** The last answers of this life to requests for windows, oldest first. */
  readonly windows: readonly RankWindow[];
  /** Its latest batch, as far as it says who sent it. */
  readonly sender: Sender;
}

export interface BesideRecorder {
  readonly incarnation: string;
  heardAt: number;
}

/** A recording of a rank, and its clock. */
export type Sender = Pick<BatchHeader, 'incarnation' | 'host' | 'epoch'>;

/** An answer, and the recording whose times it has. */
export interface RankWindow extends WindowAnswer {
  readonly sender: Sender;
}

interface RankState {
  latest: BatchHeader;
  heardAt: number;
  captured: Captured[];
  recordsWindows: boolean;
  beside: BesideRecorder | undefined;
  windows: RankWindow[];
  ended: boolean;
  /** Its connection broke, and nothing came since. */
  isGone: boolean;
  step: number;
  /** The open work of the rank and its start, ms of `performance.now`. */
  inside: { readonly name: string; readonly since: number } | undefined;
  readonly incarnations: Map<string, IncarnationState>;
  readonly rows: Map<TableName, number>;
  readonly steps: StepRing;
}

interface RunState {
  worldSize: number;
  /** When its last batch came, ms. */
  lastBatchAt: number;
  readonly ranks: Map<number, RankState>;
}

export class LiveState {
  readonly #runs = new Map<string, RunState>();
  readonly #listeners = new Set<(run: string) => void>();

  /** A batch was stored; `counts` are those of its incarnation, with it. */
  update(batch: Batch, counts: StoredCounts): void {
    const { header } = batch;
    const run = this.#run(header.run);
    run.lastBatchAt = performance.now();
    if (!run.ranks.has(header.rank)) run.worldSize = Math.max(run.worldSize, header.worldSize);
    const rank = rankOf(run, header);
    if (counts.isLatest && header.incarnation !== rank.latest.incarnation) {
      if (!isBeside(header.incarnation)) run.worldSize = header.worldSize;
      rank.ended = false;
      rank.step = -1;
      rank.steps.restart();
      rank.captured = [];
      if (!isBeside(rank.latest.incarnation)) rank.windows = [];
      else if (rank.recordsWindows) rank.beside = { incarnation: rank.latest.incarnation, heardAt: rank.heardAt };
      rank.recordsWindows = false;
      rank.inside = undefined;
      rank.latest = header;
    }
    const isLatest = header.incarnation === rank.latest.incarnation;
    // A recorder beside the rank is heard, whether the rank goes on or not.
    if (isLatest || !isBeside(header.incarnation)) {
      rank.heardAt = run.lastBatchAt;
      rank.isGone = false;
    } else if (rank.beside?.incarnation === header.incarnation) rank.beside.heardAt = run.lastBatchAt;
    // Batches of one incarnation may come out of order.
    const before = rank.incarnations.get(header.incarnation);
    const isNewer = before === undefined || header.sequence > before.sequence;
    const { batches, missing } = counts;
    const dropped = mostDropped(before?.dropped ?? noneDropped, header.dropped);
    rank.incarnations.set(header.incarnation, { batches, missing, dropped, sequence: Math.max(before?.sequence ?? -1, header.sequence) });
    if (isLatest && header.last) rank.ended = true;
    if (isLatest && isNewer) rank.inside = insideOf(batch, rank.heardAt, rank.inside);
    if (isLatest) rank.captured = [...rank.captured, ...capturedOf(batch)].slice(-limits.answersPerRankMax);
    if (isLatest || isBeside(header.incarnation)) addWindows(rank, batch, !isLatest);
    for (const name of tableNames) {
      const rows = eventRows(batch, name);
      if (rows > 0) rank.rows.set(name, (rank.rows.get(name) ?? 0) + rows);
    }
    addSteps(rank, batch, isLatest);
    for (const listener of this.#listeners) listener(header.run);
  }

  /** Notes that the connection of the batch with this id (`batchId`) broke. */
  left(batch: string): void {
    const [run = '', rank, incarnation] = batch.split('.');
    const state = this.#runs.get(run)?.ranks.get(Number(rank));
    if (state !== undefined && state.latest.incarnation === incarnation) state.isGone = true;
  }

  /** Forgets a run that was closed; its store keeps everything. */
  forget(run: string): void {
    this.#runs.delete(run);
  }

  /** All runs in the live feed's form. `quarantined`: bad batches, `expired`: unread ones, counted elsewhere. */
  status(quarantined = 0, expired = 0): LiveMessage {
    const runs = [...this.#runs].map(([run, { worldSize, ranks }]) => ({
      run,
      worldSize,
      ranks: [...ranks.values()]
        .filter(({ latest }) => !isFormer(latest, worldSize))
        .map(rankStatus)
        .sort((a, b) => a.rank - b.rank),
    }));
    return { type: 'status', runs, quarantined, expired };
  }

  /** Ranks that the job no longer has; what they stored and lost stays. */
  former(run: string): RankStatus[] {
    const { worldSize = 0, ranks } = this.#runs.get(run) ?? {};
    return [...(ranks?.values() ?? [])].filter(({ latest }) => isFormer(latest, worldSize)).map(rankStatus);
  }

  /** When the last batch of a run came, ms of `performance.now`; −Infinity for a run that is not known. */
  lastBatchAt(run: string): number {
    return this.#runs.get(run)?.lastBatchAt ?? Number.NEGATIVE_INFINITY;
  }

  /** The last finished steps of a rank, oldest first; empty for a rank that is not known. */
  steps(run: string, rank: number): FinishedStep[] {
    return [...(this.#runs.get(run)?.ranks.get(rank)?.steps.summaries() ?? [])];
  }

  /** Progress of each rank that the job has, in no order; empty for an unknown run. */
  progress(run: string): RankProgress[] {
    const { worldSize = 0, ranks } = this.#runs.get(run) ?? {};
    return [...(ranks?.values() ?? [])].flatMap(({ latest, incarnations, rows, steps, inside, isGone, ...progress }) =>
      isFormer(latest, worldSize) ? [] : [{ rank: latest.rank, incarnation: latest.incarnation, sender: latest, ...progress }],
    );
  }

  /** Number of ranks of a run, as the rank that was started again last has it. */
  worldSize(run: string): number {
    return this.#runs.get(run)?.worldSize ?? 0;
  }

  /** Rows stored of each table, over all incarnations of a rank. Spans that were announced `open` count once. */
  rows(run: string, rank: number): ReadonlyMap<TableName, number> {
    return this.#runs.get(run)?.ranks.get(rank)?.rows ?? new Map();
  }

  /** Calls `listener` with the run of every batch that was stored, until the returned function is called. */
  subscribe(listener: (run: string) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #run(name: string): RunState {
    let run = this.#runs.get(name);
    if (run === undefined) {
      run = { worldSize: 1, lastBatchAt: Number.NEGATIVE_INFINITY, ranks: new Map() };
      this.#runs.set(name, run);
    }
    return run;
  }
}

/** Whether a job of `worldSize` has no place for a rank whose own life had one. */
const isFormer = ({ rank, worldSize: then }: BatchHeader, worldSize: number): boolean => rank >= worldSize && rank < then;

function rankOf(run: RunState, header: BatchHeader): RankState {
  let rank = run.ranks.get(header.rank);
  if (rank === undefined) {
    rank = {
      latest: header,
      heardAt: run.lastBatchAt,
      captured: [],
      recordsWindows: false,
      beside: undefined,
      windows: [],
      ended: false,
      isGone: false,
      step: -1,
      inside: undefined,
      incarnations: new Map(),
      rows: new Map(),
      steps: new StepRing(),
    };
    run.ranks.set(header.rank, rank);
  }
  return rank;
}

const capturedOf = (batch: Batch): Captured[] => [...metadataOf(batch, capturedKey)].flatMap((text) => readCaptured(text) ?? []);

function addWindows(rank: RankState, batch: Batch, isBesideIt: boolean): void {
  const { incarnation, last } = batch.header;
  for (const recorder of metadataOf(batch, recorderKey)) {
    const records = recorder === 'kineto';
    if (!isBesideIt) rank.recordsWindows = records;
    else if (records) rank.beside = { incarnation, heardAt: performance.now() };
  }
  if (last && rank.beside?.incarnation === incarnation) rank.beside = undefined;
  for (const text of metadataOf(batch, windowKey)) {
    const answer = readWindowAnswer(text);
    if (answer === undefined) continue;
    rank.windows = [...rank.windows.filter(({ id }) => id !== answer.id), { ...answer, sender: batch.header }].slice(
      -limits.answersPerRankMax,
    );
  }
}

/** The open work of a rank at the end of its newest batch; `before`: the previous value, kept where the batch has no news. */
function insideOf(batch: Batch, heardAt: number, before: RankState['inside']): RankState['inside'] {
  let inside = before;
  for (const text of metadataOf(batch, runningKey)) {
    const running = readRunning(text);
    if (running === undefined) continue;
    const { phase, since = 0, collective } = running;
    const [name, from] = collective === undefined ? [phase, since] : [collective.op, collective.since];
    // The newest batch ends about now.
    const already = Math.max(0, (batch.header.watermark - from) / 1e6);
    inside = name === undefined ? undefined : { name: name.slice(0, insideCharsMax), since: heardAt - already };
  }
  return inside;
}

/** Limit of the status message. */
const insideCharsMax = 64;

function eventRows(batch: Batch, name: TableName): number {
  const { length, columns } = batch.tables[name];
  if (length === 0 || !('state' in columns)) return length;
  let rows = length;
  for (let row = 0; row < length; row++) if (columns.state[row] === spanState.close) rows--;
  return rows;
}

function addSteps(rank: RankState, { strings, tables }: Batch, isLatest: boolean): void {
  const steps = tables.steps.columns;
  for (let row = 0; row < tables.steps.length; row++) {
    const step = steps.step[row] as number;
    rank.steps.addStep(step, steps.length[row] as number);
    if (isLatest && step > rank.step) rank.step = step;
  }
  const phases = tables.phases.columns;
  for (let row = 0; row < tables.phases.length; row++) {
    rank.steps.addPhase(phases.step[row] as number, strings[phases.name[row] as number] ?? '', phases.length[row] as number);
  }
}

function rankStatus(known: RankState): RankStatus {
  const { latest, ended, step, inside, incarnations, rows } = known;
  const status = { batches: 0, missing: 0, dropped: noneDropped };
  for (const { batches, missing, dropped } of incarnations.values()) {
    status.batches += batches;
    status.missing = countSum(status.missing, missing);
    status.dropped = sumDropped(status.dropped, dropped);
  }
  let events = 0;
  for (const name of eventTableNames) events += rows.get(name) ?? 0;
  const { rank, incarnation, host, hostName } = latest;
  const where = ended ? undefined : inside;
  const insideMs = where === undefined ? 0 : Math.max(0, Math.round(performance.now() - where.since));
  const silentMs = Math.max(0, Math.round(performance.now() - known.heardAt));
  const state = stateOf(known, silentMs);
  return { rank, incarnation, host, hostName, ...status, events, step, ended, state, silentMs, inside: where?.name ?? null, insideMs };
}

/** A rank whose connection broke may be about to come back over another one. */
function stateOf({ ended, isGone }: RankState, silentMs: number): RankStatus['state'] {
  if (ended) return 'ended';
  if (isGone && silentMs >= limits.rankLostMs) return 'lost';
  return silentMs >= limits.rankStoppedMs ? 'stopped' : 'live';
}
