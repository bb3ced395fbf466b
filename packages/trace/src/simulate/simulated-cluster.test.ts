import { type Batch, encodeBatch, recordedKey, spanState, tableNames } from '@ranktrace/protocol';
import { describe, expect, it } from 'vitest';
import { mergeRun } from '../merge/merge-run.ts';
import type { BatchSource } from '../model/batch-source.ts';
import type { ProcessTotals, TraceEvent, TraceHeader, TraceSink } from '../model/trace-sink.ts';
import { ClusterSimulation } from './cluster-simulation.ts';
import { type ClusterTruth, trueTimeOf, truthLines } from './cluster-truth.ts';
import type { TrueRpc } from './rpc-traffic.ts';
import { simulatedCluster } from './simulated-cluster.ts';
import type { ClusterOptions } from './simulation-options.ts';
import type { TrueCollective } from './training-loop.ts';

const plain = (body: Uint8Array): Uint8Array => body;

function bytesOf(options: ClusterOptions): { bytes: string[]; truth: string } {
  const simulation = new ClusterSimulation(options);
  const bytes: string[] = [];
  for (const batch of simulation.batches()) if (batch !== undefined) bytes.push(Buffer.from(encodeBatch(batch, plain)).toString('base64'));
  return { bytes, truth: [...truthLines(simulation.truth)].join('\n') };
}

function messagesOf(options: ClusterOptions): {
  collectives: TrueCollective[];
  rpcs: TrueRpc[];
  sources: readonly BatchSource[];
  truth: ClusterTruth;
} {
  const [collectives, rpcs]: [TrueCollective[], TrueRpc[]] = [[], []];
  const observer = { collective: (one: TrueCollective) => collectives.push(one), rpc: (one: TrueRpc) => rpcs.push(one) };
  return { collectives, rpcs, ...simulatedCluster(options, observer) };
}

function* batchesOf(source: BatchSource): Generator<Batch> {
  for (let index = 0; index < source.count; index++) yield source.batch(index) as Batch;
}

function merged(
  sources: readonly BatchSource[],
  onEvent: (event: TraceEvent) => void = () => {},
): { totals: readonly ProcessTotals[]; header: TraceHeader } {
  let header: TraceHeader | undefined;
  const sink: TraceSink = { begin: (begun) => (header = begun), lane: () => {}, event: onEvent, end: () => {} } as TraceSink;
  const run = mergeRun(sources, sink);
  let step = run.next();
  while (step.done !== true) step = run.next();
  return { totals: step.value, header: header as TraceHeader };
}

/** Every row of a table that holds an event's end, in true time. */
function trueRows(sources: readonly BatchSource[], truth: ClusterTruth, name: 'collectives' | 'rpcs') {
  return sources.flatMap((source) => {
    const host = truth.hosts.find(({ ranks }) => ranks.includes(source.rank)) as ClusterTruth['hosts'][number];
    return [...batchesOf(source)].flatMap((batch) => {
      const { columns, length } = batch.tables[name];
      return Array.from({ length }, (_, row) => row)
        .filter((row) => columns.state[row] !== spanState.open)
        .map((row) => {
          const [start, long] = [columns.start[row] as number, columns.length[row] as number];
          const epoch = BigInt(batch.header.epoch);
          const text = (column: 'op' | 'group' | 'method' | 'side'): string =>
            batch.strings[(columns as unknown as Record<string, Uint32Array>)[column]?.[row] ?? 0] as string;
          const sequence = name === 'collectives' ? (batch.tables.collectives.columns.sequence[row] as number) : 0;
          return {
            rank: source.rank,
            start: trueTimeOf(host, epoch, start),
            end: trueTimeOf(host, epoch, start + long),
            sequence,
            op: text('op'),
            group: text('group'),
            method: text('method'),
            side: text('side'),
          };
        });
    });
  });
}

const small: ClusterOptions = { ranks: 4, hosts: 2, seconds: 5, seed: 42 };

describe('simulated cluster', () => {
  it('is the same to the byte for the same seed, and another for any other', () => {
    const options = { ...small, lost: 0.05, clockSteps: [{ host: 1, seconds: 2, micros: -300 }] };
    const first = bytesOf(options);
    expect(bytesOf(options)).toEqual(first);
    const other = bytesOf({ ...options, seed: 43 });
    expect(other.truth).not.toBe(first.truth);
    expect(other.bytes[0]).not.toBe(first.bytes[0]);
  });

  it('keeps cause before effect in true time, for every message', () => {
    const { collectives, rpcs } = messagesOf({ ranks: 16, seconds: 20, tensorParallel: 2, pipeline: 2, rpcsPerSecond: 500, seed: 1 });
    expect(collectives.length).toBeGreaterThan(1000);
    expect(rpcs.length).toBeGreaterThan(9000);
    for (const { op, parts } of collectives) {
      const last = Math.max(...parts.map(({ entry }) => entry));
      const first = Math.min(...parts.map(({ exit }) => exit));
      expect(first, op).toBeGreaterThan(last);
    }
    for (const { clientStart, serverStart, serverEnd, clientEnd } of rpcs) {
      expect(clientStart < serverStart && serverStart <= serverEnd && serverEnd < clientEnd).toBe(true);
    }
    expect(new Set(collectives.map(({ op }) => op))).toEqual(new Set(['all_gather', 'reduce_scatter', 'send', 'all_reduce']));
    expect(new Set(collectives.map(({ group }) => group.replace(/\d+/, '')))).toEqual(new Set(['tensor-', 'data-', 'pipeline-']));
  });

  it('names the other side of each send and recv, one recv for every send', () => {
    const { sources } = simulatedCluster({ ranks: 4, hosts: 2, seconds: 3, pipeline: 4, rpcsPerSecond: 0 });
    const seen = new Map<string, number>();
    for (const source of sources) {
      for (const { strings, tables } of batchesOf(source)) {
        const { op, group, sequence, peer, state } = tables.collectives.columns;
        for (let row = 0; row < tables.collectives.length; row++) {
          if (state[row] === spanState.open) continue;
          const other = (peer[row] as number) - 1;
          expect(Math.abs(other - source.rank)).toBe(1);
          const way = strings[op[row] as number] === 'send' ? `${source.rank} to ${other}` : `${other} to ${source.rank}`;
          const key = `${strings[group[row] as number]} ${way} ${sequence[row]}`;
          seen.set(key, (seen.get(key) ?? 0) + 1);
        }
      }
    }
    expect(seen.size).toBeGreaterThan(6 * 10);
    expect(new Set(seen.values())).toEqual(new Set([2]));
  });

  it('has a truth that maps what each rank says to true time within a rounding', () => {
    const { collectives, rpcs, sources, truth } = messagesOf({
      ...small,
      driftPpm: 50,
      rpcsPerSecond: 300,
      clockSteps: [{ host: 0, seconds: 2.5, micros: 300 }],
    });
    const rows = trueRows(sources, truth, 'collectives');
    const parts = new Map(rows.map((row) => [`${row.group} ${row.sequence} ${row.rank}`, row]));
    expect(rows).toHaveLength(collectives.reduce((sum, one) => sum + one.parts.length, 0));
    for (const { group, sequence, parts: wanted } of collectives) {
      for (const { rank, entry, exit } of wanted) {
        const reported = parts.get(`${group} ${sequence} ${rank}`);
        expect(Math.abs((reported?.start ?? 0) - entry)).toBeLessThan(2);
        expect(Math.abs((reported?.end ?? 0) - exit)).toBeLessThan(2);
      }
    }
    const halves = trueRows(sources, truth, 'rpcs');
    expect(halves).toHaveLength(2 * rpcs.length);
    const reported = halves.map(({ start }) => start).sort((a, b) => a - b);
    const wanted = rpcs.flatMap(({ clientStart, serverStart }) => [clientStart, serverStart]).sort((a, b) => a - b);
    for (const [index, start] of wanted.entries()) expect(Math.abs((reported[index] as number) - start)).toBeLessThan(2);
  });

  it('has pings that bound the true offset, half of each burst with the shorter ways', () => {
    const { sources, truth } = simulatedCluster({ ranks: 16, hosts: 2, seconds: 30, seed: 5, asymmetryUs: 30 });
    for (const host of truth.hosts) {
      let [pings, wrong] = [0, 0];
      let shortest = Number.POSITIVE_INFINITY;
      for (const source of sources.filter(({ rank }) => host.ranks.includes(rank))) {
        for (const { header, strings, tables } of batchesOf(source)) {
          const { columns, length } = tables.clockSamples;
          pings += length;
          for (let row = 0; row < length; row++) {
            expect(strings[columns.host[row] as number]).toBe(truth.reference.host);
            const sent = trueTimeOf(host, BigInt(header.epoch), columns.sent[row] as number);
            const received = trueTimeOf(host, BigInt(header.epoch), columns.received[row] as number);
            const [up, down] = [(columns.remoteReceived[row] as number) - sent, received - (columns.remoteSent[row] as number)];
            if (up < 0 || down < 0) wrong++;
            shortest = Math.min(shortest, up + down);
          }
        }
      }
      // 8 ranks keep 8 of their first 16; then 4 a second.
      expect(pings).toBeGreaterThan(64 + 4 * 28);
      expect(pings).toBeLessThan(64 + 4 * 32);
      expect(wrong).toBe(0);
      expect(shortest).toBeGreaterThan(180_000 - 500);
      expect(shortest).toBeLessThan(230_000);
    }
  });

  it('is merged without loss: as many events of each kind as were recorded', () => {
    const { sources } = simulatedCluster(small);
    const { totals, header } = merged(sources);
    expect(header).toMatchObject({ run: 'simulated', worldSize: 4 });
    expect(header.processes.map(({ alignment }) => alignment.method)).toEqual(['sampled', 'sampled', 'sampled', 'sampled']);
    expect(new Set(header.processes.map(({ host }) => host)).size).toBe(2);
    for (const { counts, recorded, missing, late, ended } of totals) {
      expect(counts).toEqual(recorded);
      expect({ missing, late, ended }).toEqual({ missing: 0, late: 0, ended: true });
      expect(counts.step).toBeGreaterThan(20);
      expect(counts.rpc).toBeGreaterThan(100);
      expect(counts.collective).toBe(counts.step);
    }
  });

  it('is merged without loss where a clock is stepped back by more than a watermark stays behind', () => {
    const clockSteps = [{ host: 1, seconds: 3, micros: -400_000 }];
    const { sources } = simulatedCluster({ ...small, seconds: 8, clockSteps });
    const held = sources.flatMap((source) => [...batchesOf(source)].filter(({ header }) => header.since !== undefined));
    expect(held.length).toBeGreaterThan(0);
    for (const { counts, recorded } of merged(sources).totals) expect(counts).toEqual(recorded);
  });

  it('counts what it loses: parts and halves in the header, batches as gaps', () => {
    const { sources, truth } = simulatedCluster({ ...small, seconds: 20, lost: 0.1 });
    const { totals } = merged(sources);
    for (const [rank, losses] of truth.losses.entries()) {
      const about = totals[rank] as ProcessTotals;
      expect(losses.collectives).toBeGreaterThan(0);
      expect(losses.rpcs).toBeGreaterThan(0);
      expect(about.dropped.events).toBe(losses.collectives + losses.rpcs);
      expect(about.missing).toBe(losses.batches);
      expect(about.recorded?.collective).toBe((about.recorded?.step ?? 0) - losses.collectives);
      expect(about.ended).toBe(true);
    }
    expect(truth.losses.reduce((sum, { batches }) => sum + batches, 0)).toBeGreaterThan(0);
  });

  it('lets a straggler be the last in, and the others wait for it', () => {
    const stragglers = [{ rank: 2, phase: 'backward', ms: 80, step: 7 }] as const;
    const { collectives } = messagesOf({ ...small, stragglers });
    const skew = collectives.map(({ parts }) => {
      const entries = parts.map(({ entry }) => entry);
      const last = Math.max(...entries);
      return { ms: (last - Math.min(...entries)) / 1e6, last: parts[entries.indexOf(last)]?.rank };
    });
    expect(skew[7]?.last).toBe(2);
    expect(skew[7]?.ms).toBeGreaterThan(70);
    expect(
      Math.max(
        ...skew
          .toSpliced(7, 1)
          .slice(1)
          .map(({ ms }) => ms),
      ),
    ).toBeLessThan(40);
  });

  it('leaves a host without pings to its wall clock', () => {
    const { sources, truth } = simulatedCluster({ ...small, noPings: [1] });
    expect([...batchesOf(sources[3] as BatchSource)].reduce((sum, { tables }) => sum + tables.clockSamples.length, 0)).toBe(0);
    const wall = [...batchesOf(sources[3] as BatchSource)].reduce((sum, { tables }) => sum + tables.wallClocks.length, 0);
    expect(wall).toBe(1);
    expect(Math.abs(truth.hosts[1]?.wallClockError ?? 0)).toBeLessThan(10e6);
  });

  it('runs for as many steps as it is asked for, and says how far it is', () => {
    const simulation = new ClusterSimulation({ ranks: 2, steps: 12, stepMs: 20 });
    let [least, most] = [1, 0];
    for (const _ of simulation.batches()) {
      least = Math.min(least, simulation.progress);
      most = Math.max(most, simulation.progress);
    }
    expect(simulation.truth.steps).toBe(12);
    expect(least).toBeLessThan(0.2);
    expect(most).toBe(1);
    expect(JSON.parse([...truthLines(simulation.truth)].join('\n'))).toMatchObject({ format: 1, steps: 12, hosts: [{ ranks: [0, 1] }] });
  });

  it('cuts batches that would be too large, and keeps them in order', () => {
    const { sources } = simulatedCluster({ ranks: 2, hosts: 2, seconds: 1, rpcsPerSecond: 20_000, seed: 3 });
    for (const source of sources) {
      let watermark = 0;
      for (const batch of batchesOf(source)) {
        expect(encodeBatch(batch, plain).length).toBeLessThan(500_000);
        for (const name of tableNames) expect(batch.tables[name].length).toBeLessThan(5000);
        expect(batch.header.watermark).toBeGreaterThanOrEqual(watermark);
        watermark = batch.header.watermark;
      }
    }
    for (const { counts, recorded, late } of merged(sources).totals) {
      expect(counts).toEqual(recorded);
      expect(late).toBe(0);
    }
  });

  it('keeps every part of a run of one rank', () => {
    const { sources } = simulatedCluster({ ranks: 1, seconds: 3 });
    expect(merged(sources).totals[0]?.counts).toMatchObject({ rpc: 0 });
    const last = (sources[0] as BatchSource).batch((sources[0] as BatchSource).count - 1) as Batch;
    expect(last.header.last).toBe(true);
    const { columns, length } = last.tables.metadata;
    const keys = Array.from({ length }, (_, row) => last.strings[columns.key[row] as number]);
    expect(keys).toEqual([recordedKey]);
  });
});
