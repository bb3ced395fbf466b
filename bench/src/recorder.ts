// What recording costs the training thread, per call, against bare clock reads and an OpenTelemetry span in the same run.
//
// Each figure is the median over rounds of the mean over many calls: a shared machine's noise falls on some rounds, not on the median.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BasicTracerProvider, BatchSpanProcessor, InMemorySpanExporter } from '@opentelemetry/sdk-trace-base';
import { profile, recordFunction } from '@ranktrace/sdk';
import { type Figure, figure, median } from './figure.ts';

const rounds = 41;
const calls = 5_000;

export async function recorder(): Promise<Figure[]> {
  const directory = mkdtempSync(join(tmpdir(), 'ranktrace-bench-'));
  try {
    const prof = profile({ run: 'bench', rank: 0, worldSize: 1, directory });
    const off = await perCall(() => recordFunction('operator', nothing));
    prof.start();
    const clocks = await perCall(() => {
      performance.now();
      performance.now();
    });
    const span = await perCall(() => recordFunction('operator', nothing));
    const step = await perCall(() => prof.step());
    const counter = await perCall(() => prof.counter('loss', 0.5));
    await prof.stop();
    const openTelemetry = await openTelemetrySpan();
    const bare = { name: 'two bare performance.now()', value: clocks };
    return [
      figure({
        name: 'recordFunction, begin and end of a span',
        value: span,
        unit: 'ns',
        baseline: bare,
        target: { at: 'most', value: 1.5, of: 'ratio' },
      }),
      figure({ name: 'OpenTelemetry span, start and end', value: openTelemetry, unit: 'ns', baseline: { name: 'ours', value: span } }),
      figure({ name: 'prof.step()', value: step, unit: 'ns', target: { at: 'most', value: 300, of: 'value' } }),
      figure({ name: 'prof.counter()', value: counter, unit: 'ns', baseline: bare }),
      figure({ name: 'recordFunction without a profile', value: off, unit: 'ns', baseline: bare }),
    ];
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

function nothing(): void {}

/** ns per call. Between rounds the thread rests, as a training thread does, so that the ring is drained. */
async function perCall(call: () => void): Promise<number> {
  const means: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const started = performance.now();
    for (let index = 0; index < calls; index++) call();
    means.push(((performance.now() - started) * 1e6) / calls);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  return median(means);
}

async function openTelemetrySpan(): Promise<number> {
  const processor = new BatchSpanProcessor(new InMemorySpanExporter(), { maxQueueSize: 2 * calls * rounds });
  const tracer = new BasicTracerProvider({ spanProcessors: [processor] }).getTracer('bench');
  const cost = await perCall(() => tracer.startSpan('operator').end());
  await processor.shutdown();
  return cost;
}
