// The worth of a part of the path: against the longest of all paths of small graphs, and against jobs that were really made with faster parts.

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { seedCount } from '../../../../test/setup/seeds.ts';
import { mergeRun } from '../merge/merge-run.ts';
import { finish } from '../model/finish.ts';
import { gpuJob } from '../testing/gpu-job.ts';
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

function summaryOf(seed: number, ranks: number, faults: readonly GpuFault[]): GpuSummary {
  const sink = new GpuSink();
  const { files } = gpuJob({ seed, ranks, steps: 5, hasSeq: true, faults });
  finish(mergeRun(sourcesOfKineto(files.map(({ text }) => tableOfKineto(text))), sink));
  return sink.summary;
}

/** Mean length of all windows of a job, ns. */
const lengthOf = ({ segments }: GpuSummary): number => segments?.total as number;

const seeds = Array.from({ length: seedCount(3) }, (_, at) => 5 + 31 * at);

describe.each(seeds)('seed %i: a job that was made so saves as much as its slower recording says', (seed) => {
  test.each([
    ['compute', [{ kind: 'slow_kernels', amount: 4 }], [{ kind: 'slow_kernels', amount: 2 }]],
    ['communication', [{ kind: 'slow_transfers', amount: 8 }], [{ kind: 'slow_transfers', amount: 4 }]],
    // Nearly all of the compute hides behind transfers, or behind the host.
    [
      'compute',
      [
        { kind: 'slow_kernels', amount: 2 },
        { kind: 'slow_transfers', amount: 6 },
      ],
      [{ kind: 'slow_transfers', amount: 6 }],
    ],
    [
      'compute',
      [
        { kind: 'slow_kernels', amount: 2 },
        { kind: 'slow_host', amount: 400_000 },
      ],
      [{ kind: 'slow_host', amount: 400_000 }],
    ],
  ] as const)('%s at half of %j', (bound, slow, fast) => {
    for (const ranks of [2, 4]) {
      const recorded = summaryOf(seed, ranks, slow);
      const worth = recorded.worth.find((one) => one.bound === bound && one.name === undefined);
      const saved = lengthOf(recorded) - lengthOf(summaryOf(seed, ranks, fast));
      expect(Math.abs((worth?.savesAtHalf ?? 0) - saved)).toBeLessThan(Math.max(0.1 * saved, 0.02 * lengthOf(recorded)));
    }
  });
});
