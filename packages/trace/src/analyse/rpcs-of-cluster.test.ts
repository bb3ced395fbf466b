// The rpc report of simulated clusters against their truth: drifting clocks, asymmetric routes, lost halves, batches that cut calls in two.

import { nanos } from '@ranktrace/protocol';
import { describe, expect, it } from 'vitest';
import { mergeRun } from '../merge/merge-run.ts';
import type { BatchSource } from '../model/batch-source.ts';
import type { TrueRpc } from '../simulate/rpc-traffic.ts';
import { simulatedCluster } from '../simulate/simulated-cluster.ts';
import type { ClusterOptions } from '../simulate/simulation-options.ts';
import { quantile } from '../steps/step-summary.ts';
import { RpcSink, type RpcSummary } from './rpcs.ts';

function reported(options: ClusterOptions): { summary: RpcSummary; truth: readonly TrueRpc[]; sources: readonly BatchSource[] } {
  const truth: TrueRpc[] = [];
  const { sources } = simulatedCluster(options, { rpc: (rpc) => truth.push(rpc) });
  const sink = new RpcSink();
  const run = mergeRun(sources, sink);
  while (run.next().done !== true);
  return { summary: sink.summary, truth, sources };
}

/** Sum over all routes. */
const count = ({ routes }: RpcSummary, what: 'calls' | 'errors' | 'retries' | 'withoutServer' | 'withoutClient'): number =>
  routes.reduce((sum, route) => sum + route[what], 0);

/** Halves in the batches; one may occur twice, at its begin and at its end. */
function* halvesOf(source: BatchSource): Generator<{ side: string; span: string; parent: string }> {
  for (let index = 0; index < source.count; index++) {
    const batch = source.batch(index);
    if (batch === undefined) continue;
    const { columns, length } = batch.tables.rpcs;
    for (let row = 0; row < length; row++) {
      const hex = (ids: Uint8Array): string => Buffer.from(ids.subarray(8 * row, 8 * row + 8)).toString('hex');
      yield { side: batch.strings[columns.side[row] as number] as string, span: hex(columns.span), parent: hex(columns.parentSpan) };
    }
  }
}

describe('rpc report of a simulated cluster', () => {
  it('has every call in its place, its network exact, its legs right within ±', () => {
    const { summary, truth } = reported({ ranks: 8, hosts: 4, seconds: 20, seed: 5, rpcsPerSecond: 200 });
    expect(truth.length).toBeGreaterThan(3000);
    const wanted = new Map<string, TrueRpc[]>();
    for (const rpc of truth) {
      const of = (rank: number): string => `rank ${rank}`;
      const key = `${rpc.method} ${of(rpc.source)} > ${of(rpc.destination)}`;
      wanted.set(key, [...(wanted.get(key) ?? []), rpc]);
    }
    const found = new Map(summary.routes.map((route) => [`${route.method} ${route.source.name} > ${route.destination.name}`, route]));
    expect([...found.keys()].sort()).toEqual([...wanted.keys()].sort());
    for (const [key, rpcs] of wanted) {
      const route = found.get(key);
      expect([key, route?.calls, route?.async, route?.reversed]).toEqual([key, rpcs.length, 0, 0]);
      if (route?.network === undefined) throw new Error(`${key} has no network time`);
      const median = (length: (rpc: TrueRpc) => number): number =>
        quantile(
          rpcs.map((rpc) => nanos(length(rpc))).sort((a, b) => a - b),
          0.5,
        ) as number;
      // Rounding: two ns per half; a call lasts about 1 ms, in which no clock drifts by more.
      expect(Math.abs(route.network.p50 - median((rpc) => rpc.clientEnd - rpc.clientStart - rpc.serverEnd + rpc.serverStart))).toBeLessThan(
        50,
      );
      const epsilon = route.epsilon as number;
      expect(epsilon).toBeGreaterThan(0);
      expect(Math.abs((route.out?.p50 as number) - median((rpc) => rpc.serverStart - rpc.clientStart))).toBeLessThan(epsilon);
      expect(Math.abs((route.back?.p50 as number) - median((rpc) => rpc.clientEnd - rpc.serverEnd))).toBeLessThan(epsilon);
    }
    const { added, reported: shown, givenUp } = summary.halves;
    expect([shown, givenUp]).toEqual([added, 0]);
    expect(added).toBe(2 * truth.length);
    expect(count(summary, 'retries')).toBe(count(summary, 'errors'));
    expect(count(summary, 'errors')).toBeGreaterThan(10);
  });

  it.each([6, 7, 8])('matches all halves that are left when halves and whole batches are lost (seed %i)', (seed) => {
    const { summary, sources } = reported({ ranks: 8, hosts: 4, seconds: 20, seed, rpcsPerSecond: 200, lost: 0.1, flushMs: 200 });
    const [clients, servers] = [new Set<string>(), new Map<string, string>()];
    for (const { side, span, parent } of sources.flatMap((source) => [...halvesOf(source)])) {
      if (side === 'client') clients.add(span);
      else servers.set(span, parent);
    }
    const callers = [...servers.values()].filter((parent) => clients.has(parent));
    expect(count(summary, 'calls')).toBe(clients.size + servers.size - callers.length);
    expect(count(summary, 'withoutServer')).toBe(clients.size - callers.length);
    expect(count(summary, 'withoutClient')).toBe(servers.size - callers.length);
    expect(Math.min(count(summary, 'withoutServer'), count(summary, 'withoutClient'))).toBeGreaterThan(100);
    const { added, reported: shown, givenUp } = summary.halves;
    expect([added, shown, givenUp]).toEqual([clients.size + servers.size, added, 0]);
  });
});
