// Windows of steps found while events come are those that the analyses of all device work find; and a part of a job's steps has the figures that
// these steps have in the whole.

import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it, test } from 'vitest';
import { GpuSink } from '../gpu/gpu-sink.ts';
import { mergeRun } from '../merge/merge-run.ts';
import { finish } from '../model/finish.ts';
import { teeSink } from '../model/tee-sink.ts';
import type { TraceHeader, TraceSink } from '../model/trace-sink.ts';
import { type GpuJobOptions, gpuJob } from '../testing/gpu-job.ts';
import { type KinetoSource, sourcesOfKineto, tableOfKineto } from '../testing/merged-kineto.ts';
import { DeviceWindows } from './device-windows.ts';
import { StepRangeSink, StepTimesSink } from './step-range.ts';

const sourcesOf = (options: GpuJobOptions): readonly KinetoSource[] =>
  sourcesOfKineto(gpuJob(options).files.map(({ text }) => tableOfKineto(text)));
const recordings = new URL('../../../../test/data/kineto/gpu-jobs/', import.meta.url);
const textOf = (name: string): string => gunzipSync(readFileSync(new URL(`${name}.pt.trace.json.gz`, recordings))).toString();
const recorded = (name: string): readonly KinetoSource[] => sourcesOfKineto([tableOfKineto(textOf(name))]);

/** As recorded with a device clock that is early, µs. */
function early(name: string, by: number): readonly KinetoSource[] {
  const file = JSON.parse(textOf(name)) as { readonly traceEvents: { readonly cat?: string; ts: number }[] };
  for (const event of file.traceEvents) if (/^(kernel|gpu_)/.test(event.cat ?? '')) event.ts -= by;
  return sourcesOfKineto([tableOfKineto(JSON.stringify(file))]);
}

function gpusOf(sources: readonly KinetoSource[], through: (sink: TraceSink) => TraceSink = (sink) => sink): GpuSink {
  const gpus = new GpuSink();
  finish(mergeRun(sources, through(gpus)));
  return gpus;
}

const jobs: readonly (readonly [string, () => readonly KinetoSource[]])[] = [
  ['a sync each step', () => sourcesOf({ seed: 3, ranks: 3, steps: 5 })],
  ['hosts ahead', () => sourcesOf({ seed: 3, ranks: 3, steps: 8, synchronizes: 'last', faults: [{ kind: 'slow_kernels', amount: 20 }] })],
  ['copies', () => recorded('copies')],
  ['host_late', () => recorded('host_late')],
  ['graph', () => recorded('graph')],
  ['streams', () => recorded('streams')],
  ['host_late, its device 10 µs early', () => early('host_late', 10)],
  ['host_late, its device 100 µs early', () => early('host_late', 100)],
  ['streams, its device 100 µs early', () => early('streams', 100)],
];

test.each(jobs)('%s: the same windows, without holding the work', (_, sourcesOfJob) => {
  const windows = new DeviceWindows();
  const found: TraceSink = {
    begin: (header: TraceHeader) => windows.begin(header),
    lane: () => {},
    event: (event) => void windows.event(event),
    end: () => {},
  };
  const { record } = gpusOf(sourcesOfJob(), (gpus) => teeSink(gpus, found));
  expect(record.ranks.length).toBeGreaterThan(0);
  for (const { process, work } of record.ranks) {
    work.seal();
    expect(work.windows.length).toBeGreaterThan(2);
    expect(windows.of(process)?.map(({ window }) => window)).toEqual(work.windows);
  }
});

describe('a part of the steps', () => {
  it.each([1, 2, 3])('has the figures of these steps, although hosts ran ahead of their devices (seed %i)', (seed) => {
    const sources = sourcesOf({ seed, ranks: 3, steps: 9, synchronizes: 'last', faults: [{ kind: 'slow_kernels', amount: 20 }] });
    const whole = gpusOf(sources).summary;
    const times = new StepTimesSink(5, 7);
    finish(mergeRun(sources, times));
    const part = gpusOf(sources, (gpus) => new StepRangeSink(times.times, gpus)).summary;
    expect(part.ranks.map(({ rank }) => rank)).toEqual([0, 1, 2]);
    for (const [at, { steps }] of part.ranks.entries()) {
      const same = whole.ranks[at]?.steps.filter(({ step }) => step >= 5 && step <= 7);
      // Each of these steps begins long after its host's.
      expect(same?.[0]?.start).toBeGreaterThan(times.times.get(at + 1)?.until ?? Number.NaN);
      const windowOf = ({ step, start, end, length }: (typeof steps)[number]) => ({ step, start, end, length });
      expect(steps.map(windowOf)).toEqual(same?.map(windowOf));
      // Behind the last communication of step 7, work of step 8 ran.
      expect(steps.slice(0, -1)).toEqual(same?.slice(0, -1));
    }
    // The path is that of a step whose earlier work is there, and no longer than the step.
    expect([6, 7]).toContain(part.path?.step);
    const longest = Math.max(...part.ranks.map(({ steps }) => steps.find(({ step }) => step === part.path?.step)?.length ?? 0));
    expect(part.path?.total).toBeLessThan(1.1 * longest);
  });
});
