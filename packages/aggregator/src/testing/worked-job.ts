// Jobs of exact step times through ingest, for tests of alerts: each rank's work by phase, then an all-reduce of all of them, then its optimizer.

import { deflateRawSync } from 'node:zlib';
import { type Alert, cpuWaitCounter, cpuWaitTimeCounter, createEventTables, encodeBatch, rankTime } from '@ranktrace/protocol';
import { Random } from '@ranktrace/trace/simulate';
import { AlertService } from '../alert/alert-service.ts';
import { createPipeline } from '../pipeline.ts';
import { makeHeader } from './make-batch.ts';
import { temporaryDirectory } from './temporary-directory.ts';

export interface WorkedJob {
  readonly ranks: number;
  readonly steps: number;
  readonly seed: number;
  /** Work beyond the usual one, ms. */
  readonly more: (rank: number, phase: string, step: number) => number;
  /** Deviation of the work in a phase, as a share of it; default 0.005. */
  readonly noise?: number;
  /** Time of the all-reduce once all ranks are in, ms; default 1. */
  readonly transfer?: (step: number) => number;
  /** Share of the time that threads want a CPU in which they have none; default: not recorded. */
  readonly cpuWait?: (step: number) => number;
}

/** Usual work, ms. */
const usualWork: Readonly<Record<string, number>> = { data: 10, forward: 40, backward: 80, optimizer: 10 };

const batchSteps = 16;
const deflate = (body: Uint8Array): Uint8Array => deflateRawSync(body, { level: 1 });

export interface WorkedAlerts {
  /** Every report, in order. */
  readonly reported: readonly Alert[];
  /** The last state of each alert before the run ended, in the order in which they fired. */
  readonly open: readonly Alert[];
  /** The same after its end. */
  readonly ended: readonly Alert[];
  readonly notices: readonly string[];
}

/** Alerts of a job as a service raises them. */
export async function alertsOf(job: WorkedJob): Promise<WorkedAlerts> {
  const { ranks, steps, seed, more, noise = 0.005, transfer = () => 1, cpuWait } = job;
  using directory = temporaryDirectory();
  const run = 'worked';
  const random = new Random(seed, 'worked job');
  const [reported, notices]: [Alert[], string[]] = [[], []];
  const began = Date.UTC(2026, 0, 5, 12);
  let nowMs = began;
  const onNotice = (notice: string): void => void notices.push(notice);
  const service = new AlertService({
    store: (name) => pipeline.stores.peek(name),
    page: () => undefined,
    onNotice,
    nowMs: () => nowMs,
  });
  const pipeline = createPipeline({ out: directory.path, alerts: service, onNotice });
  service.subscribe((alert) => reported.push(alert));
  const names = ['', 'world', 'all_reduce', ...Object.keys(usualWork), cpuWaitCounter, cpuWaitTimeCounter];
  const nameOf = (name: string): number => names.indexOf(name);
  const ns = (ms: number): number => Math.round(ms * 1e6);
  const at = Array.from({ length: ranks }, () => 0);
  let tables = at.map(() => createEventTables());
  for (let step = 0; step < steps; step++) {
    const works = at.map((_, rank) =>
      Object.entries(usualWork).map(([phase, ms]) => [phase, ns(ms * (1 + random.normal(0, noise)) + more(rank, phase, step))] as const),
    );
    const entries = works.map((work, rank) =>
      work.reduce((time, [phase, length]) => (phase === 'optimizer' ? time : time + length), at[rank] as number),
    );
    const leave = Math.max(...entries) + ns(transfer(step));
    for (const [rank, work] of works.entries()) {
      const { steps: ofSteps, phases, collectives, counters, tracks } = tables[rank] as ReturnType<typeof createEventTables>;
      const [start, entry] = [at[rank] as number, entries[rank] as number];
      if (ofSteps.length === 0) tracks.append({ track: 1, kind: 0, name: 0, tid: 1 });
      for (const [phase, length] of work) phases.append({ step, name: nameOf(phase), length, calls: 1 });
      phases.append({ step, name: 2, length: leave - entry, calls: 1 });
      const place = { start: entry, length: leave - entry, track: 1 };
      collectives.append({ ...place, op: 2, group: 1, sequence: step, bytes: 4096, id: 0, parent: 0, state: 0, peer: 0 });
      const end = leave + (work.find(([phase]) => phase === 'optimizer')?.[1] ?? 0);
      ofSteps.append({ start, length: end - start, track: 1, step, overhead: 0 });
      if (cpuWait !== undefined && step % batchSteps === 0) {
        counters.append({ time: end, track: 1, name: nameOf(cpuWaitCounter), unit: 0, value: 100 * cpuWait(step) });
        counters.append({ time: end, track: 1, name: nameOf(cpuWaitTimeCounter), unit: 0, value: 100 * cpuWait(step) });
      }
      at[rank] = end;
    }
    if ((step + 1) % batchSteps !== 0 && step !== steps - 1) continue;
    nowMs = began + Math.max(...at) / 1e6;
    for (const [rank, of] of tables.entries()) {
      const sequence = Math.floor(step / batchSteps);
      const header = makeHeader({ run, rank, worldSize: ranks, sequence, pid: 1000 + rank, watermark: rankTime(at[rank] as number) });
      const { result } = pipeline.ingest(encodeBatch({ header, strings: names, tables: of }, deflate));
      if (result !== 'stored') throw new Error(`the batch of rank ${rank} is ${result}`);
    }
    tables = at.map(() => createEventTables());
    service.tick();
    await service.settled();
  }
  const open = inOrder(reported);
  for (const [rank] of at.entries()) {
    const sequence = Math.ceil(steps / batchSteps);
    const header = makeHeader({
      run,
      rank,
      worldSize: ranks,
      sequence,
      pid: 1000 + rank,
      watermark: rankTime(at[rank] as number),
      last: true,
    });
    pipeline.ingest(encodeBatch({ header, strings: [''], tables: createEventTables() }, deflate));
  }
  nowMs += 1000;
  service.tick();
  await service.settled();
  await service[Symbol.asyncDispose]();
  await pipeline.stores.close();
  pipeline.quarantine.close();
  return { reported, open, ended: inOrder(reported), notices };
}

const inOrder = (reported: readonly Alert[]): Alert[] => [...new Map(reported.map((alert) => [alert.id, alert])).values()];

/** `ms` more for `rank` in `phase`, in steps `from` to `until` - 1. */
export const slower =
  (rank: number, phase: string, ms: number, from: number, until = Number.POSITIVE_INFINITY): WorkedJob['more'] =>
  (of, where, step) =>
    of === rank && where === phase && step >= from && step < until ? ms : 0;

/** All of these together. */
export const together =
  (...all: readonly WorkedJob['more'][]): WorkedJob['more'] =>
  (rank, phase, step) =>
    all.reduce((sum, more) => sum + more(rank, phase, step), 0);
