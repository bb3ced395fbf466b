// The worth of a part of the path: against the longest of all paths of small graphs, and against jobs that were really made with faster parts.

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { seedCount } from '../../../../test/setup/seeds.ts';
import { mergeRun } from '../merge/merge-run.ts';
import { finish } from '../model/finish.ts';
import { type GpuJobOptions, gpuJob } from '../testing/gpu-job.ts';
import type { GpuFault } from '../testing/gpu-job-rank.ts';
import { sourcesOfKineto, tableOfKineto } from '../testing/merged-kineto.ts';
import { GpuSink } from './gpu-sink.ts';
import type { GpuSummary } from './gpu-summary.ts';
import { WhatIf } from './what-if.ts';

interface Edge {
  readonly from: number;
  readonly to: number;
  readonly lag: number;
  readonly part: number;
}

/** The longest of all ways to a node, each walked. */
function longestTo(node: number, edges: readonly Edge[], starts: readonly number[], lagOf: (edge: Edge) => number): number {
  const into = edges.filter(({ to }) => to === node);
  if (into.length === 0) return starts[node] as number;
  return Math.max(...into.map((edge) => longestTo(edge.from, edges, starts, lagOf) + lagOf(edge)));
}

const graphs = fc.integer({ min: 2, max: 7 }).chain((nodes) =>
  fc.record({
    starts: fc.array(fc.nat(50), { minLength: nodes, maxLength: nodes }),
    edges: fc.uniqueArray(
      fc
        .record({ a: fc.nat(nodes - 1), b: fc.nat(nodes - 1), lag: fc.nat(100), part: fc.integer({ min: -1, max: 3 }) })
        .filter(({ a, b }) => a !== b)
        .map(({ a, b, lag, part }): Edge => ({ from: Math.min(a, b), to: Math.max(a, b), lag, part })),
      { maxLength: 14, selector: ({ from, to }) => `${from} ${to}` },
    ),
  }),
);

test('a saving is what the longest of all ways becomes shorter by', () => {
  fc.assert(
    fc.property(graphs, fc.nat(3), fc.constantFrom(0, 0.5), ({ starts, edges }, part, factor) => {
      const endOf = (lagOf: (edge: Edge) => number): number => Math.max(...starts.map((_, node) => longestTo(node, edges, starts, lagOf)));
      const whatIf = new WhatIf({
        times: Float64Array.from(starts, (_, node) => longestTo(node, edges, starts, ({ lag }) => lag)),
        isEnd: new Uint8Array(starts.length).fill(1),
        from: Uint32Array.from(edges, ({ from }) => from),
        to: Uint32Array.from(edges, ({ to }) => to),
        lags: Float64Array.from(edges, ({ lag }) => lag),
        parts: Int32Array.from(edges, (edge) => edge.part),
      });
      const saved = endOf(({ lag }) => lag) - endOf((edge) => (edge.part === part ? factor * edge.lag : edge.lag));
      const isChanged = Uint8Array.from({ length: 4 }, (_, one) => (one === part ? 1 : 0));
      // More changes than one pass takes.
      const changes = Array.from({ length: 11 }, (_, at) => ({ isChanged, factor: at === 10 ? factor : at / 10 }));
      expect(finish(whatIf.savings(changes))[10]).toBeCloseTo(saved, 9);
    }),
    { numRuns: 500 },
  );
});

/** A job, and the true mean length of its steps after the first, ns. */
function runOf(options: GpuJobOptions): { readonly summary: GpuSummary; readonly length: number } {
  const sink = new GpuSink();
  const { files, stepEnds } = gpuJob({ ...options, steps: 9, spread: 0.03, hasSeq: true });
  finish(mergeRun(sourcesOfKineto(files.map(({ text }) => tableOfKineto(text))), sink));
  const [first = 0] = stepEnds;
  return { summary: sink.summary, length: ((stepEnds.at(-1) as number) - first) / (stepEnds.length - 1) };
}

const seeds = Array.from({ length: seedCount(3) }, (_, at) => 5 + 31 * at);

const kernels = (amount: number): GpuFault => ({ kind: 'slow_kernels', amount });
const transfers = (amount: number): GpuFault => ({ kind: 'slow_transfers', amount });
const host = (amount: number): GpuFault => ({ kind: 'slow_host', amount });
const copies = (amount: number): GpuFault => ({ kind: 'slow_copies', amount });

describe.each(seeds)('seed %i: a job that was made so saves as much as its slower recording says', (seed) => {
  describe.each(['each', 'last'] as const)('where threads wait after step: %s', (synchronizes) => {
    test.each([
      ['compute', [kernels(4)], [kernels(2)]],
      ['communication', [transfers(8)], [transfers(4)]],
      ['copy', [copies(80)], [copies(40)]],
      // Nearly all of the compute hides behind transfers, or behind the host.
      ['compute', [kernels(2), transfers(6)], [transfers(6)]],
      ['compute', [kernels(2), host(400_000)], [host(400_000)]],
      // At half, transfers hide behind compute; compute behind transfers, and behind the host.
      ['communication', [kernels(4), transfers(16)], [kernels(4), transfers(8)]],
      ['compute', [kernels(8), transfers(6)], [kernels(4), transfers(6)]],
      ['compute', [kernels(8), host(800_000)], [kernels(4), host(800_000)]],
    ] as const)('%s at half of %j', (bound, slow, fast) => {
      for (const ranks of [2, 4]) {
        const slower = runOf({ seed, ranks, faults: slow, synchronizes });
        const faster = runOf({ seed, ranks, faults: fast, synchronizes });
        const worth = slower.summary.worth.find((one) => one.bound === bound && one.name === undefined);
        const saved = slower.length - faster.length;
        // The path's step is one of several, whose transfers differ.
        expect(Math.abs((worth?.savesAtHalf ?? 0) - saved)).toBeLessThan(0.1 * Math.abs(saved) + 0.04 * slower.length);
      }
    });

    // Before the first launch and after the last one; alone, beside another, and with devices that take half of the step, or nearly all of it.
    test.each([
      ['data', { late_data: 4e6 }],
      ['log', { late_log: 4e6 }],
      ['log', { late_log: 4e6, late_data: 1e6 }],
      ['data', { late_log: 1e6, late_data: 4e6 }],
      ['log', { late_log: 4e6, slow_kernels: 4 }],
      ['data', { late_data: 4e6, slow_kernels: 4 }],
      ['log', { late_log: 4e6, slow_kernels: 6 }],
      ['data', { late_data: 4e6, slow_transfers: 8 }],
      ['log', { late_log: 4e6, slow_transfers: 8 }],
    ] as const)('the phase %s at half of %j', (phase, slow) => {
      const faultsOf = (factor: number): GpuFault[] =>
        Object.entries(slow).map(([kind, amount]) => ({
          kind: kind as GpuFault['kind'],
          amount: kind === `late_${phase}` ? factor * amount : amount,
        }));
      for (const ranks of [1, 4]) {
        const slower = runOf({ seed, ranks, faults: faultsOf(1), synchronizes });
        const faster = runOf({ seed, ranks, faults: faultsOf(0.5), synchronizes });
        const worth = slower.summary.worth.find((one) => one.bound === 'cpu' && one.name === phase);
        const saved = slower.length - faster.length;
        // Where host and devices are nearly as long, other steps than the path's few are bound by the other one.
        expect(Math.abs((worth?.savesAtHalf ?? 0) - saved)).toBeLessThan(0.08 * slower.length);
        const path = (slower.summary.path?.total ?? 0) / slower.length;
        expect(path).toBeGreaterThan(0.9);
        expect(path).toBeLessThan(1.1);
      }
    });
  });
});
