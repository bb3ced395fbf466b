// Captures of hand-made ranks: their answers, and what happens when they do not answer.

import { mkdirSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { type Captured, type ControlMessage, capturedKey, createEventTables, encodeBatch, rankTime } from '@ranktrace/protocol';
import { analysisSink, type TraceSink } from '@ranktrace/trace';
import { readPerfetto } from '@ranktrace/trace/perfetto';
import { expect, test } from 'vitest';
import { LiveState } from '../live/live-state.ts';
import { AggregatorError } from '../model/errors.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';
import { createPipeline, type Pipeline } from '../pipeline.ts';
import { capturesDirectory } from '../store/capture-files.ts';
import { makeHeader } from '../testing/make-batch.ts';
import { temporaryDirectory } from '../testing/temporary-directory.ts';
import { StepCaptures } from './capture-steps.ts';

/** A rank that ships a step each time it is asked for anything. */
class Rank {
  readonly #pipeline: Pipeline;
  readonly #rank: number;
  #sequence = 0;
  /** Events that it has lost so far. */
  lost = 0;

  constructor(pipeline: Pipeline, rank: number) {
    this.#pipeline = pipeline;
    this.#rank = rank;
    this.step();
  }

  get next(): number {
    return this.#sequence;
  }

  step(answer?: Captured, last = false): void {
    const sequence = this.#sequence++;
    const tables = createEventTables();
    tables.tracks.append({ track: 0, kind: 0, name: 0, tid: 0 });
    tables.steps.append({ start: sequence * 1e6, length: 1e6, track: 0, step: sequence, overhead: 0 });
    if (answer !== undefined) tables.metadata.append({ key: 1, value: 2 });
    const strings = ['', ...(answer === undefined ? [] : [capturedKey, JSON.stringify(answer)])];
    const header = makeHeader({
      rank: this.#rank,
      worldSize: 2,
      sequence,
      watermark: rankTime((sequence + 1) * 1e6),
      last,
      dropped: { events: this.lost, arguments: 0, names: 0, batches: 0 },
    });
    const { result } = this.#pipeline.ingest(encodeBatch({ header, strings, tables }, (body) => body));
    expect(result).toBe('stored');
  }
}

async function withRanks(
  heard: (message: ControlMessage, ranks: readonly [Rank, Rank]) => void,
  use: (captures: StepCaptures, ranks: readonly [Rank, Rank], directory: string) => Promise<void>,
  silenceMsMax = 60_000,
): Promise<void> {
  using directory = temporaryDirectory();
  const pipeline = createPipeline({ out: directory.path, onNotice: () => undefined });
  const ranks = [new Rank(pipeline, 0), new Rank(pipeline, 1)] as const;
  const captures = new StepCaptures({
    live: pipeline.live,
    store: (run) => pipeline.stores.get(run),
    checkRun: () => undefined,
    broadcast: (message) => heard(message, ranks),
    onNotice: () => undefined,
    silenceMsMax,
  });
  await use(captures, ranks, join(directory.path, 'demo'));
  await captures.close();
  pipeline.quarantine.close();
  await pipeline.stores.close();
}

/** Answers at once, as if the steps were over. */
const answering = (message: ControlMessage, rank: Rank): void => {
  if (message.type !== 'record') {
    rank.step();
    return;
  }
  const { fromStep, toStep } = message;
  while (rank.next <= toStep) rank.step();
  rank.step({ fromStep, toStep, firstStep: fromStep, lastStep: toStep });
};

test('a rank is not whole by its answer alone: its steps must be in the trace', () =>
  withRanks(
    (message, [one, other]) => {
      answering(message, one);
      if (message.type !== 'record') other.step();
      else {
        const { fromStep, toStep } = message;
        other.step({ fromStep, toStep, firstStep: fromStep, lastStep: toStep });
      }
    },
    async (captures) => {
      const result = await captures.capture('demo', { fromStep: 20, steps: 3 });
      expect(result).toMatchObject({ ranks: [0], late: [1], dead: [] });
      expect(result.notes).toEqual(['rank 1 says that it has the steps, and 3 of them are not in the trace']);
    },
  ));

test('what ranks lost in the time of the steps is in the notes, and what they lost before is not', () =>
  withRanks(
    (message, [one, other]) => {
      if (message.type === 'record') {
        while (other.next <= 20) other.step();
        other.lost += 3;
      }
      for (const rank of [one, other]) answering(message, rank);
    },
    async (captures, [one, other]) => {
      [one.lost, other.lost] = [50, 60];
      for (let step = 0; step < 10; step++) for (const rank of [one, other]) rank.step();
      const result = await captures.capture('demo', { fromStep: 20, steps: 3 });
      expect(result).toMatchObject({ ranks: [0, 1], notes: ['rank 1 lost 3 events in that time'] });
    },
  ));

test('a client that does not know `record` is late, and is not waited for once it is past the steps', () =>
  withRanks(
    (message, [one, other]) => {
      answering(message, one);
      for (const steps = other.next < 100 ? 100 : 1, end = other.next + steps; other.next < end; ) other.step();
    },
    async (captures) => {
      const result = await captures.capture('demo', { fromStep: 20, steps: 3 });
      expect(result).toMatchObject({
        fromStep: 20,
        toStep: 22,
        ranks: [0],
        late: [1],
        dead: [],
        notes: ['rank 1 does not say what it recorded'],
      });
    },
    // Its hundred steps take seconds on a busy machine.
    8000,
  ));

test('a rank that ends meanwhile, and one that is silent, are dead', () =>
  withRanks(
    (message, [one]) => {
      if (message.type === 'record') one.step(undefined, true);
      else one.step();
    },
    async (captures) => {
      await expect(captures.capture('demo', { fromStep: 1000, steps: 3 })).rejects.toMatchObject({ code: 'nothing_captured' });
    },
    1500,
  ));

test.each([
  ['all go on', false, []],
  ['one says nothing any more', true, [1]],
])('a rank of a part of a run is lost only if nothing comes from it: %s', (_, isSilent, lost) =>
  withRanks(
    (message, [one, other]) => {
      answering(message, one);
      if (!isSilent) answering(message, other);
    },
    async (captures, [one, other]) => {
      for (let step = 0; step < 12; step++) for (const rank of [one, other]) rank.step();
      const { path } = await captures.capture('demo', { fromStep: 5, steps: 2 });
      const sink = analysisSink();
      for (const _ of readPerfetto(() => [readFileSync(path)]).events(sink));
      const found = sink.analysis.findings.filter(({ kind }) => kind === 'rank_lost');
      expect(found.flatMap(({ ranks }) => ranks)).toEqual(lost);
    },
    isSilent ? 8000 : undefined,
  ),
);

test('of ranks that are stuck, one that answers late is waited for', () =>
  withRanks(
    (message, [one, other]) => {
      if (message.type !== 'pull') return;
      one.step();
      setTimeout(() => other.step(), 1000);
    },
    async (captures, ranks) => {
      for (let step = 0; step < 12; step++) for (const rank of ranks) rank.step();
      const steps = new Map([0, 1].map((rank) => [rank, [] as number[]]));
      const { path } = await captures.capture('demo', { fromStep: 12, steps: 5 });
      const sink: TraceSink = {
        begin: () => undefined,
        lane: () => undefined,
        event: (event) => event.kind === 'step' && steps.get(event.lane.process.rank)?.push(event.step),
        end: () => undefined,
      };
      for (const _ of readPerfetto(() => [readFileSync(path)]).events(sink));
      expect([...steps]).toEqual([
        [0, [12, 13]],
        [1, [12, 13]],
      ]);
    },
  ));

test('the same steps captured twice are two files, also at once; more at a time than there may be are refused', () =>
  withRanks(
    (message, ranks) => {
      for (const rank of ranks) answering(message, rank);
    },
    async (captures, _ranks, directory) => {
      const asked = Array.from({ length: limits.capturesAtOnceMax }, () => captures.capture('demo', { fromStep: 5, steps: 2 }));
      await expect(captures.capture('demo', { steps: 2 })).rejects.toMatchObject({ code: 'too_many_captures' });
      await Promise.all(asked);
      const names = ['steps-5-6-2.pftrace', 'steps-5-6-3.pftrace', 'steps-5-6-4.pftrace', 'steps-5-6.pftrace'];
      expect(readdirSync(capturesDirectory(directory)).sort()).toEqual(names);
    },
  ));

test('the oldest capture makes room', () =>
  withRanks(
    (message, ranks) => {
      for (const rank of ranks) answering(message, rank);
    },
    async (captures, _ranks, directory) => {
      const folder = capturesDirectory(directory);
      mkdirSync(folder, { recursive: true });
      for (let file = 0; file < limits.capturesPerRunMax; file++) {
        writeFileSync(join(folder, `steps-${file}.pftrace`), '');
        utimesSync(join(folder, `steps-${file}.pftrace`), 1e9 + file, 1e9 + file);
      }
      await captures.capture('demo', { fromStep: 5, steps: 2 });
      const names = readdirSync(folder);
      expect(names).toHaveLength(limits.capturesPerRunMax);
      expect([names.includes('steps-0.pftrace'), names.includes('steps-1.pftrace'), names.includes('steps-5-6.pftrace')]).toEqual([
        false,
        true,
        true,
      ]);
    },
  ));

test('a capture that is given up leaves no file, nor one of a service that ends', () =>
  withRanks(
    (_message, ranks) => {
      for (const rank of ranks) rank.step();
    },
    async (captures, _ranks, directory) => {
      const abort = new AbortController();
      const one = captures.capture('demo', { fromStep: 100_000, steps: 2 }, abort.signal);
      const other = captures.capture('demo', { fromStep: 100_000, steps: 3 });
      setTimeout(() => abort.abort(new Error('enough')), 50);
      await expect(one).rejects.toThrow('enough');
      const ends = expect(other).rejects.toMatchObject({ code: 'closed' });
      await captures.close();
      await ends;
      await expect(captures.capture('demo', { steps: 2 })).rejects.toMatchObject({ code: 'closed' });
      expect(readdirSync(directory)).not.toContain('captures');
    },
  ));

test('the last steps name the file, and not the one that runs; where no rank has come to them, they are what is missing', () =>
  withRanks(
    (message, ranks) => {
      for (const rank of ranks) answering(message, rank);
    },
    async (captures, ranks) => {
      for (const rank of ranks) while (rank.next < 10) rank.step();
      const { path, fromStep, toStep } = await captures.capture('demo', { steps: 4, last: true });
      expect(basename(path)).toBe(`steps-${fromStep}-${toStep}.pftrace`);
      await expect(captures.capture('demo', { fromStep: 382, steps: 16, last: true })).rejects.toMatchObject({
        code: 'nothing_captured',
        message: 'Cannot capture step 382 of run "demo": no rank has it',
      });
    },
  ));

test('a run that is over is not opened to say so, nor is one that is not there', async () => {
  const opened: string[] = [];
  const captures = new StepCaptures({
    live: new LiveState(),
    store: (run) => {
      opened.push(run);
      throw new AggregatorError('store_locked', 'opened');
    },
    checkRun: (run) => {
      if (run !== 'over') throw new AggregatorError('store_missing', `no ${run}`);
    },
    broadcast: () => undefined,
    onNotice: () => undefined,
  });
  await expect(captures.capture('over', {})).rejects.toMatchObject({ code: 'nothing_captured' });
  await expect(captures.capture('other', {})).rejects.toMatchObject({ code: 'store_missing', message: 'no other' });
  expect(opened).toEqual([]);
});
