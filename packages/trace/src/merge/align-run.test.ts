// Whole merges of simulated clusters with known truth: the shown time of every event against its true time.

import type { Batch } from '@ranktrace/protocol';
import { describe, expect, it } from 'vitest';
import { someSeeds } from '../../../../test/setup/seeds.ts';
import type { BatchSource } from '../model/batch-source.ts';
import type { TraceEvent, TraceHeader, TraceSink } from '../model/trace-sink.ts';
import { trueTimeOf } from '../simulate/cluster-truth.ts';
import { simulatedCluster } from '../simulate/simulated-cluster.ts';
import type { ClusterOptions } from '../simulate/simulation-options.ts';
import { type AlignedRun, RunAlignment } from './align-run.ts';
import { mergeRun } from './merge-run.ts';

interface Shown {
  readonly rank: number;
  readonly start: number;
  readonly end: number;
  readonly kind: TraceEvent['kind'];
  readonly name: string;
  readonly key: string;
  readonly side: string;
}

class ShownEvents implements TraceSink {
  header: TraceHeader | undefined;
  readonly events: Shown[] = [];

  begin(header: TraceHeader): void {
    this.header = header;
  }

  lane(): void {}

  event({ lane, kind, start, length, name, group, sequence, side, spanId, parentSpanId, state }: TraceEvent): void {
    if (state === 'open') return;
    const key = kind === 'rpc' ? (side === 'server' ? parentSpanId : spanId) : `${group} ${sequence}`;
    this.events.push({ rank: lane.process.rank, start, end: start + length, kind, name, key, side });
  }

  end(): void {}
}

function merged(options: ClusterOptions) {
  const { sources, truth } = simulatedCluster(options);
  const sink = new ShownEvents();
  for (const _ of mergeRun(sources, sink));
  return { sources, truth, events: sink.events, processes: (sink.header as TraceHeader).processes, header: sink.header as TraceHeader };
}

/** By rank: trace time less true time, ns, of the events that began at each of a rank's steps. */
function stepErrors({ sources, truth, events }: ReturnType<typeof merged>): number[][] {
  return sources.map((source, rank) => {
    const host = truth.hosts.find(({ ranks }) => ranks.includes(rank));
    const starts: number[] = [];
    for (let index = 0; index < source.count; index++) {
      const { header, tables } = source.batch(index, ['steps']) as Batch;
      for (let row = 0; row < tables.steps.length; row++) {
        starts.push(trueTimeOf(host as NonNullable<typeof host>, BigInt(header.epoch), tables.steps.columns.start[row] as number));
      }
    }
    const shown = events.filter((event) => event.kind === 'step' && event.rank === rank).map(({ start }) => start);
    expect(shown.length).toBe(starts.length);
    return shown.map((start, step) => start - (starts[step] as number));
  });
}

/** The largest difference between two ranks' errors at one step, ns. */
function worstCrossRank(errors: readonly number[][]): number {
  let worst = 0;
  for (let step = 0; step < (errors[0] as number[]).length; step++) {
    const at = errors.map((of) => of[step] as number);
    worst = Math.max(worst, Math.max(...at) - Math.min(...at));
  }
  return worst;
}

/** Collectives that a rank left before another entered, and calls that arrive before they were sent, on other ranks. */
function reversed(events: readonly Shown[]): { collectives: number; calls: number; seen: number } {
  const barrierLike = /all_reduce|all_gather|reduce_scatter|barrier/;
  const collectives = byKey(events.filter(({ kind, name }) => kind === 'collective' && barrierLike.test(name)));
  let [early, late] = [0, 0];
  for (const parts of collectives.values()) {
    if (Math.max(...parts.map(({ start }) => start)) > Math.min(...parts.map(({ end }) => end))) early++;
  }
  const calls = byKey(events.filter(({ kind }) => kind === 'rpc'));
  for (const halves of calls.values()) {
    const [client, server] = [halves.find(({ side }) => side === 'client'), halves.find(({ side }) => side === 'server')];
    if (client !== undefined && server !== undefined && (server.start < client.start || server.end > client.end)) late++;
  }
  return { collectives: early, calls: late, seen: collectives.size + calls.size };
}

function byKey(events: readonly Shown[]): Map<string, Shown[]> {
  const found = new Map<string, Shown[]>();
  for (const event of events) {
    const held = found.get(event.key);
    if (held === undefined) found.set(event.key, [event]);
    else held.push(event);
  }
  return found;
}

describe('a merge of several hosts', () => {
  it.each(someSeeds([1, 2, 3]))('shows ranks within 20 µs of their mean and nothing before its cause (seed %i)', (seed) => {
    const run = merged({ ranks: 16, hosts: 8, seconds: 60, seed, rpcsPerSecond: 40 });
    expect(run.processes.every(({ alignment }) => alignment.method === 'sampled')).toBe(true);
    expect(worstCrossRank(stepErrors(run))).toBeLessThan(2 * 20_000);
    const { collectives, calls, seen } = reversed(run.events);
    expect([collectives, calls]).toEqual([0, 0]);
    expect(seen).toBeGreaterThan(1000);
    expect(run.header.clockConflicts).toEqual([]);
  });

  it('holds what it publishes, at every step of every rank, up to where the axis begins', () => {
    const run = merged({ ranks: 8, hosts: 4, seconds: 40, seed: 4 });
    const errors = stepErrors(run);
    // The reference has no ranks: the axis begins at some time of its clock, the same for all.
    const bounds = run.processes.map(({ alignment }) => alignment.bound as number);
    for (const [a, ofA] of errors.entries()) {
      for (const [b, ofB] of errors.entries()) {
        for (const [step, error] of ofA.entries()) {
          expect(Math.abs(error - (ofB[step] as number))).toBeLessThanOrEqual((bounds[a] as number) + (bounds[b] as number));
        }
      }
    }
  });

  it('places a host without pings by what it does together with others', () => {
    const run = merged({ ranks: 8, hosts: 4, seconds: 40, seed: 5, noPings: [2] });
    const methods = run.processes.map(({ alignment }) => alignment.method);
    expect(methods).toEqual(['sampled', 'sampled', 'sampled', 'sampled', 'messages', 'messages', 'sampled', 'sampled']);
    expect(worstCrossRank(stepErrors(run))).toBeLessThan(2 * 30_000);
    expect(reversed(run.events)).toMatchObject({ collectives: 0, calls: 0 });
  });

  it('places all by what they do together where none has pings', () => {
    const run = merged({ ranks: 8, hosts: 4, seconds: 40, seed: 6, noPings: [0, 1, 2, 3] });
    const methods = run.processes.map(({ alignment }) => alignment.method);
    expect(methods).toEqual(['exact', 'exact', ...Array(6).fill('messages')]);
    expect(worstCrossRank(stepErrors(run))).toBeLessThan(2 * 40_000);
    expect(reversed(run.events)).toMatchObject({ collectives: 0, calls: 0 });
  });

  it.each([-400, 150, 3000])('shows nothing before its cause where a clock steps by %i µs', (micros) => {
    const run = merged({ ranks: 8, hosts: 4, seconds: 60, seed: 9, rpcsPerSecond: 40, clockSteps: [{ host: 2, seconds: 35, micros }] });
    expect(run.processes[5]?.alignment.clockSteps?.length).toBe(1);
    expect(reversed(run.events)).toMatchObject({ collectives: 0, calls: 0 });
    expect(run.header.clockConflicts?.every(({ isAtStep }) => isAtStep)).toBe(true);
  });

  it('survives that much is lost', () => {
    const run = merged({ ranks: 8, hosts: 4, seconds: 60, seed: 7, lost: 0.2 });
    expect(reversed(run.events)).toMatchObject({ collectives: 0, calls: 0 });
    expect(run.header.clockConflicts).toEqual([]);
  });

  it('of one host reads no more than twice, and moves nothing', () => {
    const { sources } = simulatedCluster({ ranks: 4, hosts: 1, seconds: 5, seed: 8 });
    const sink = new ShownEvents();
    const batches = sources.reduce((sum, { count }) => sum + count, 0);
    let last: { done: number; total: number } | undefined;
    for (const progress of mergeRun(sources, sink)) last = { ...progress };
    expect(last).toEqual({ done: 2 * batches, total: 2 * batches });
  });
});

describe('a run that grows', () => {
  /** `sources` cut to their first `batches` batches each. */
  const until = (sources: readonly BatchSource[], batches: number): BatchSource[] =>
    sources.map((source) => ({ ...source, count: Math.min(source.count, batches) }));

  function drive<Result>(steps: Generator<unknown, Result>): Result {
    for (;;) {
      const step = steps.next();
      if (step.done === true) return step.value;
    }
  }

  /** Trace times of rank times each half second of [0, seconds), by rank. */
  const timesOf = ({ fitted }: AlignedRun, seconds: number): number[][] =>
    fitted.clocks.map(({ clock }) => Array.from({ length: 2 * seconds }, (_, half) => clock.toTrace(half * 0.5e9)));

  it.each(someSeeds([1, 2]))('has the clocks that it has when it is merged from scratch, up to 120 s before its end (seed %i)', (seed) => {
    const { sources } = simulatedCluster({
      ranks: 8,
      hosts: 4,
      seconds: 240,
      seed,
      rpcsPerSecond: 20,
      clockSteps: [{ host: 1, seconds: 90, micros: 200 }],
    });
    const scratch = drive(new RunAlignment().finish(sources, { done: 0, total: 0 }));
    expect(scratch.fitted.clocks[2]?.model.alignment.clockSteps?.length).toBe(1);
    const growing = new RunAlignment();
    for (const batches of [20, 50, 110, 111, 160, 200, 230]) {
      const now = drive(growing.update(until(sources, batches), { done: 0, total: 0 }));
      const final = Math.max(0, batches - 120);
      expect(timesOf(now, final)).toEqual(timesOf(scratch, final));
    }
    const whole = drive(growing.finish(sources, { done: 0, total: 0 }));
    expect(timesOf(whole, 240)).toEqual(timesOf(scratch, 240));
    expect(whole.conflicts).toEqual(scratch.conflicts);
  });

  it('begins again where a host joins', () => {
    const { sources } = simulatedCluster({ ranks: 6, hosts: 3, seconds: 120, seed: 3 });
    const scratch = drive(new RunAlignment().finish(sources, { done: 0, total: 0 }));
    const growing = new RunAlignment();
    drive(growing.update(until(sources.slice(0, 4), 90), { done: 0, total: 0 }));
    drive(growing.update(until(sources, 115), { done: 0, total: 0 }));
    expect(timesOf(drive(growing.finish(sources, { done: 0, total: 0 })), 120)).toEqual(timesOf(scratch, 120));
  });
});
