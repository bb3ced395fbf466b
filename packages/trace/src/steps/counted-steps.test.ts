// The steps that count: what a step takes, by the clock of the job, although hosts run ahead of their devices.

import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it, test } from 'vitest';
import { mergeRun } from '../merge/merge-run.ts';
import { finish } from '../model/finish.ts';
import { isDeviceKind } from '../model/lanes.ts';
import { median } from '../model/robust.ts';
import type { TraceEvent } from '../model/trace-sink.ts';
import { simulatedCluster } from '../simulate/simulated-cluster.ts';
import { type GpuJobOptions, gpuJob } from '../testing/gpu-job.ts';
import { sourcesOfKineto, tableOfKineto } from '../testing/merged-kineto.ts';
import { type CountedStepsOptions, CountedStepsSink } from './counted-steps.ts';
import type { RunSummary } from './step-summary.ts';

const ms = 1e6;
const recordings = new URL('../../../../test/data/kineto/gpu-jobs/', import.meta.url);

function summaryOf(
  files: readonly (string | Uint8Array)[],
  isSeen: (event: TraceEvent) => boolean = () => true,
  options?: CountedStepsOptions,
) {
  const sink = new CountedStepsSink(options);
  const seen = {
    begin: (header: Parameters<CountedStepsSink['begin']>[0]) => sink.begin(header),
    lane: () => {},
    event: (event: TraceEvent) => void (isSeen(event) && sink.event(event)),
    end: () => sink.end(),
  };
  finish(mergeRun(sourcesOfKineto(files.map(tableOfKineto)), seen));
  return sink.summary;
}

const textsOf = (options: GpuJobOptions): string[] => gpuJob(options).files.map(({ text }) => text);
const ahead: GpuJobOptions = { seed: 1, ranks: 3, steps: 12, synchronizes: 'last', faults: [{ kind: 'slow_kernels', amount: 20 }] };
const lengthsOf = ({ steps }: RunSummary): number[] => steps.map(({ longest }) => longest);

describe('of a job whose hosts run ahead of their devices', () => {
  it.each([1, 2, 3])('steps are as long as from the end of one on the devices to the next (seed %i)', (seed) => {
    const job = gpuJob({ ...ahead, seed });
    const summary = summaryOf(job.files.map(({ text }) => text));
    expect(summary.takenBy).toBe('devices');
    const truth = job.stepEnds.slice(1).map((end, at) => end - (job.stepEnds[at] as number));
    const middle = median(Float64Array.from(truth));
    expect((summary.median as number) / middle).toBeCloseTo(1, 1);
    expect(summary.hosts?.median as number).toBeLessThan(middle / 5);
    for (const [at, { mean, hostMean }] of summary.ranks.entries()) {
      expect(mean / middle).toBeGreaterThan(0.8);
      expect(hostMean).toBe(summary.hosts?.ranks[at]?.mean);
    }
  });

  it('a part of them is as long as in the whole', () => {
    const files = textsOf(ahead);
    const whole = summaryOf(files);
    const part = summaryOf(files, undefined, { hasStep: (step) => step >= 5 && step <= 8 });
    expect(part.takenBy).toBe('devices');
    expect(part.steps).toEqual(whole.steps.filter(({ step }) => step >= 5 && step <= 8));
    expect(part.stepCount).toBe(4);
  });

  it('they are those of hosts where one rank shows no device work, and of all where only the other ranks count', () => {
    const files = textsOf(ahead);
    const isSeen = ({ lane }: TraceEvent): boolean => lane.process.rank !== 1 || !isDeviceKind(lane.kind);
    const summary = summaryOf(files, isSeen);
    expect(summary.takenBy).toBe('unknown');
    expect(lengthsOf(summary)).toEqual(lengthsOf(summaryOf(files).hosts as RunSummary));
    expect(summaryOf(files, isSeen, { hasRank: (rank) => rank !== 1 }).takenBy).toBe('devices');
    expect(summaryOf(files, isSeen, { hasRank: (rank) => rank === 1 }).takenBy).toBe('hosts');
  });
});

it('steps are those of hosts, to the ns, where they wait for their devices in each', () => {
  const files = textsOf({ seed: 2, ranks: 3, steps: 6 });
  const summary = summaryOf(files);
  const hosts = summaryOf(files, ({ lane }) => !isDeviceKind(lane.kind));
  expect([summary.takenBy, hosts.takenBy]).toEqual(['both', 'hosts']);
  expect({ ...summary, takenBy: 'hosts' }).toEqual(hosts);
});

it('steps are those of hosts in a job without devices', () => {
  const sink = new CountedStepsSink();
  finish(mergeRun(simulatedCluster({ ranks: 3, hosts: 1, steps: 10 }).sources, sink));
  expect([sink.summary.takenBy, sink.summary.stepCount]).toEqual(['hosts', 10]);
});

test.each(['graph', 'balanced', 'copies', 'host_late', 'loader', 'streams', 'small_kernels', 'memory'])(
  '%s, recorded on an H200: steps are as long as a clock in the program said meanwhile',
  (name) => {
    const { stepMs } = JSON.parse(readFileSync(new URL(`${name}.truth.json`, recordings), 'utf8')) as { stepMs: { profiled: number } };
    const summary = summaryOf([gunzipSync(readFileSync(new URL(`${name}.pt.trace.json.gz`, recordings)))]);
    const share = (summary.median as number) / ms / stepMs.profiled;
    expect(share).toBeGreaterThan(0.94);
    expect(share).toBeLessThan(1.06);
  },
);
