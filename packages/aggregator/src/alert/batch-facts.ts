// Feeds a stored batch to the alert engine of its run.
//
//   header         live ranks, losses
//   metadata       the context, which determines the length of steps, from this batch's steps on; stated roles of phases
//   steps, phases  step times; a step with a phase of evaluation or of saving is no ordinary one
//   counters       memory
//   collectives    open ones, and the progress of each rank
//   metadata       open work of the rank at the end of the batch, and how far it came in its collectives by other sources
//
// Metadata that sets the context: `batch_size`, `sequence_length`, … (`contextNames`, in any spelling), and every name that begins with `context.`.

import {
  type Batch,
  type BatchHeader,
  capturedKey,
  collectivesKey,
  type Dropped,
  endedByKey,
  exitKey,
  failedKey,
  isBeside,
  mostDropped,
  noneDropped,
  type PhaseRole,
  phaseRoleKey,
  readCollectiveReport,
  readRunning,
  runningKey,
  spanState,
} from '@ranktrace/protocol';
import { type PhaseRoles, phasesOfSteps } from '@ranktrace/trace';
import { type AlertEngine, alertLimits, type RankFact } from '@ranktrace/trace/alert';
import { contextKeyOf, type StepTag } from '@ranktrace/trace/detect';
import { metadataOf } from '../live/batch-metadata.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';

/** Letters and digits of metadata names that determine the length of a step. */
const contextNames: ReadonlySet<string> = new Set([
  ...['batchsize', 'globalbatchsize', 'localbatchsize', 'microbatchsize', 'microbatches', 'nummicrobatches'],
  ...['gradientaccumulation', 'gradientaccumulationsteps', 'accumulationsteps', 'sequencelength', 'seqlength', 'seqlen', 'contextlength'],
  ...['tensorparallel', 'tensorparallelsize', 'pipelineparallel', 'pipelineparallelsize', 'dataparallel', 'dataparallelsize'],
  ...['precision', 'dtype', 'imagesize', 'build'],
]);

/** Counters of memory, as the SDK calls them. */
const memoryCounters: ReadonlySet<string> = new Set(['rss', 'memory used']);

/** The sequence numbers of one incarnation's batches in the store; each call reads their current state. */
export interface Sequences {
  /** Number of absent sequences from 0 to the largest. */
  readonly missing: number;
  /** Whether no later incarnation of its rank has come. */
  readonly isLatest: boolean;
  /** The missing ones below `sequence`. */
  missingBelow(sequence: number): number;
}

/** Facts about a rank that its next batch may not repeat, in JSON's types: a rank sends them once, and each life counts its own losses. */
export interface SavedRankFacts {
  readonly rank: number;
  readonly worldSize: number;
  /** Names and values of its context, each as its `contextKeyOf`. */
  readonly context: readonly (readonly [name: number, value: number])[];
  /** Those of its lives that lost something. */
  readonly lives: readonly (Omit<Life, 'sequences'> & { readonly incarnation: string })[];
}

/** The sequences of a life that is stored; undefined for another one. */
export type StoredSequences = (life: Pick<BatchHeader, 'rank' | 'incarnation'>) => Sequences | undefined;

interface Life {
  dropped: Dropped;
  sequences: Sequences;
  /** The highest sequence received, and its value at the last check for losses. */
  sequence: number;
  checked: number;
  /** Batches below the previous `checked` that are still missing. */
  lost: number;
}

interface RankFacts {
  readonly lives: Map<string, Life>;
  /** Time in which the rank was heard since the last check for losses, ms; time when it was last heard. */
  heardMs: number;
  lastMs: number;
  /** Values by names, as `contextKeyOf`: as numbers they take little room in a saved state. */
  readonly context: Map<number, number>;
  worldSize: number;
  key: number;
}

type Losses = Pick<RankFact, 'dropped' | 'missing' | 'lost'>;

/** Feeds one engine. Bounded: incarnations and metadata of a rank. */
export class BatchFacts {
  readonly #ranks = new Map<number, RankFacts>();

  /** Continues from the facts that an earlier life of the service saved. */
  constructor(saved: readonly SavedRankFacts[] = [], stored: StoredSequences = () => undefined) {
    for (const { rank, worldSize, context, lives } of saved) {
      const facts = this.#factsOf(rank);
      facts.worldSize = worldSize;
      for (const [name, value] of context.slice(0, limits.alertContextFactsMax)) facts.context.set(name, value);
      facts.key = keyOf(facts);
      for (const { incarnation, ...life } of lives.slice(-limits.alertLivesPerRankMax)) {
        const sequences = stored({ rank, incarnation });
        if (sequences !== undefined) facts.lives.set(incarnation, { ...life, sequences });
      }
    }
  }

  /** Facts to continue from; of ranks that stated no context and lost nothing there are none. */
  saved(): SavedRankFacts[] {
    return [...this.#ranks].flatMap(([rank, { worldSize, context, lives }]) => {
      const losing = [...lives].filter(([, life]) => life.dropped.events + life.dropped.batches + life.lost + life.sequences.missing > 0);
      if (context.size + losing.length === 0) return [];
      const kept = losing.map(([incarnation, { sequences: _, ...life }]) => ({ incarnation, ...life }));
      return [{ rank, worldSize, context: [...context], lives: kept }];
    });
  }

  /** `sequences`: of the batch's incarnation in the store. */
  feed(engine: AlertEngine, batch: Batch, sequences: Sequences, nowMs: number): void {
    const { header, tables } = batch;
    const { rank, incarnation } = header;
    const facts = this.#factsOf(rank);
    const losses = lossesOf(facts, batch, sequences, nowMs);
    const clockSamples = tables.clockSamples.length;
    const { worldSize, host, pid, last: ended } = header;
    // From the command that started the rank, after its end.
    const [exit] = metadataOf(batch, exitKey);
    const whose = { incarnation, isLatest: sequences.isLatest, isBeside: isBeside(incarnation) || exit !== undefined };
    engine.rank(rank, { worldSize, host, pid, ...whose, ended, ...losses, clockSamples }, nowMs);
    readContext(facts, batch, engine.roles);
    feedSteps(engine, batch, facts.key);
    const [signal] = metadataOf(batch, endedByKey);
    if (signal !== undefined) engine.endedBy(rank, incarnation, signal);
    const [error] = metadataOf(batch, failedKey);
    if (error !== undefined) engine.fail(rank, incarnation, error);
    feedCounters(engine, batch);
    feedCollectives(engine, batch);
    if (facts.lives.get(incarnation)?.sequence === header.sequence) feedPlace(engine, batch);
  }

  #factsOf(rank: number): RankFacts {
    let facts = this.#ranks.get(rank);
    if (facts === undefined) {
      facts = { lives: new Map(), heardMs: 0, lastMs: Number.POSITIVE_INFINITY, context: new Map(), worldSize: 0, key: 0 };
      this.#ranks.set(rank, facts);
    }
    return facts;
  }
}

/** Sums over all incarnations of the rank; the oldest are evicted together with their losses, so the sum is never reported twice. */
function lossesOf(facts: RankFacts, { header }: Batch, sequences: Sequences, nowMs: number): Losses {
  const { lives } = facts;
  const life = lives.get(header.incarnation) ?? { dropped: noneDropped, sequences, sequence: -1, checked: 0, lost: 0 };
  life.dropped = mostDropped(life.dropped, header.dropped);
  life.sequence = Math.max(life.sequence, header.sequence);
  life.sequences = sequences;
  lives.set(header.incarnation, life);
  const [oldest] = lives.keys();
  if (lives.size > limits.alertLivesPerRankMax && oldest !== undefined) lives.delete(oldest);
  lookForLosses(facts, nowMs);
  const sum = { dropped: 0, missing: 0, lost: 0 };
  for (const { dropped, sequences, lost } of lives.values()) {
    sum.dropped += dropped.events + dropped.batches;
    sum.missing += sequences.missing;
    sum.lost += lost;
  }
  return sum;
}

/**
 * A batch is lost when later ones arrived and the rank was heard for `alertMissingMs` since. Time without any word from the rank, such as while the
 * broker is away, brings no batch back and does not count. So each check counts the batches that are still missing since the previous check.
 */
function lookForLosses(facts: RankFacts, nowMs: number): void {
  facts.heardMs += Math.max(0, Math.min(nowMs - facts.lastMs, alertLimits.alertSilentMs));
  facts.lastMs = nowMs;
  if (facts.heardMs < alertLimits.alertMissingMs) return;
  facts.heardMs = 0;
  for (const life of facts.lives.values()) {
    life.lost = life.sequences.missingBelow(life.checked);
    life.checked = life.sequence;
  }
}

function readContext(facts: RankFacts, { header, strings, tables }: Batch, roles: PhaseRoles): void {
  const { columns, length } = tables.metadata;
  let isNew = facts.worldSize !== header.worldSize;
  facts.worldSize = header.worldSize;
  for (let row = 0; row < length; row++) {
    const name = strings[columns.key[row] as number] ?? '';
    if (name.startsWith(phaseRoleKey)) roles.state(name, strings[columns.value[row] as number] ?? '');
    if (name === capturedKey || name === runningKey || !isContext(name)) continue;
    const [key, value] = [contextKeyOf(name), contextKeyOf(strings[columns.value[row] as number] ?? '')];
    if (facts.context.get(key) === value) continue;
    if (!facts.context.has(key) && facts.context.size >= limits.alertContextFactsMax) continue;
    facts.context.set(key, value);
    isNew = true;
  }
  if (isNew) facts.key = keyOf(facts);
}

const keyOf = ({ worldSize, context }: RankFacts): number =>
  contextKeyOf(JSON.stringify([worldSize, [...context].sort(([a], [b]) => a - b)]));

const isContext = (name: string): boolean => name.startsWith('context.') || contextNames.has(name.toLowerCase().replace(/[^a-z0-9]/g, ''));

function feedSteps(engine: AlertEngine, batch: Batch, context: number): void {
  const { columns, length } = batch.tables.steps;
  if (length === 0) return;
  const phasesOf = phasesOfSteps(batch, limits.phaseNamesPerRankMax);
  for (let row = 0; row < length; row++) {
    const step = columns.step[row] as number;
    const named: ReadonlyMap<string, number> = phasesOf.get(step) ?? new Map();
    const [stepLength, overhead] = [columns.length[row] as number, columns.overhead[row] as number];
    engine.step(batch.header.rank, { step, length: stepLength, overhead, phases: named, context, tag: tagOf(named, engine.roles) });
  }
}

const tags: Partial<Record<PhaseRole, StepTag>> = { evaluation: 'eval', checkpoint: 'checkpoint' };

function tagOf(phases: ReadonlyMap<string, number>, roles: PhaseRoles): StepTag | undefined {
  for (const name of phases.keys()) {
    const tag = tags[roles.of(name)];
    if (tag !== undefined) return tag;
  }
  return undefined;
}

function feedCounters(engine: AlertEngine, { header, strings, tables }: Batch): void {
  const { columns, length } = tables.counters;
  for (let row = 0; row < length; row++) {
    const name = strings[columns.name[row] as number] ?? '';
    // Devices of one rank have tracks of their own.
    if (memoryCounters.has(name)) engine.counter(header.rank, `${columns.track[row]} ${name}`, columns.value[row] as number);
  }
  const memory = tables.memory.columns;
  const last = new Map<number, number>();
  for (let row = 0; row < tables.memory.length; row++) last.set(memory.device[row] as number, memory.total[row] as number);
  for (const [device, total] of last) engine.counter(header.rank, `live ${device}`, total);
}

function feedCollectives(engine: AlertEngine, { header, strings, tables }: Batch): void {
  const { columns, length } = tables.collectives;
  /** The last finished collective of each group shows how far the rank came. */
  const lastOf = new Map<number, number>();
  const report = (row: number, state: 'whole' | 'open' | 'close'): void => {
    const [group = '', op = ''] = [strings[columns.group[row] as number], strings[columns.op[row] as number]];
    const ageMs = (header.watermark - (columns.start[row] as number)) / 1e6;
    engine.collective(header.rank, { group, op, sequence: columns.sequence[row] as number, state, ageMs });
  };
  for (let row = 0; row < length; row++) {
    // Sends are numbered by pair.
    if (columns.peer[row] !== 0) continue;
    const state = columns.state[row];
    if (state === spanState.whole) {
      const group = columns.group[row] as number;
      const last = lastOf.get(group);
      if (last === undefined || (columns.sequence[row] as number) > (columns.sequence[last] as number)) lastOf.set(group, row);
    } else report(row, state === spanState.open ? 'open' : 'close');
  }
  for (const row of lastOf.values()) report(row, 'whole');
}

function feedPlace(engine: AlertEngine, batch: Batch): void {
  const { rank, incarnation, watermark } = batch.header;
  for (const text of metadataOf(batch, collectivesKey)) {
    const report = readCollectiveReport(text);
    if (report !== undefined) engine.collectives(rank, report);
  }
  for (const text of metadataOf(batch, runningKey)) {
    const place = readRunning(text);
    if (place !== undefined) engine.isIn(rank, incarnation, place, (watermark - (place.collective?.since ?? watermark)) / 1e6);
  }
}
