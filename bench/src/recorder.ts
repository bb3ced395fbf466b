// What recording costs the training thread, per call, against bare clock reads and an OpenTelemetry span in the same run.
//
// The loops take turns, round by round, so that a slow moment of the machine falls on all of them; a figure is the median over rounds of
// the mean over a round's calls. Between rounds the thread rests, as a training thread does, and the ring is drained.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BasicTracerProvider, BatchSpanProcessor, InMemorySpanExporter } from '@opentelemetry/sdk-trace-base';
import { profile, recordFunction } from '@ranktrace/sdk';
import type { Recorder } from '../../packages/sdk/dist/recorder.js';
import { threadRecorder } from '../../packages/sdk/dist/thread-recorder.js';
import { type Figure, figure, median } from './figure.ts';

const rounds = 41;
const calls = 5_000;

/** Makes its call `calls` times. A loop of its own for each, as in a training loop: one shared loop would measure its indirect call. */
type Loop = () => void;

export async function recorder(): Promise<Figure[]> {
  const directory = mkdtempSync(join(tmpdir(), 'ranktrace-bench-'));
  try {
    const [off] = await perCall([recordFunctionLoop]);
    const prof = profile({ run: 'bench', rank: 0, worldSize: 1, directory }).start();
    const recorder = threadRecorder() as Recorder;
    const name = recorder.name('operator');
    const processor = new BatchSpanProcessor(new InMemorySpanExporter(), { maxQueueSize: 2 * calls * rounds });
    const tracer = new BasicTracerProvider({ spanProcessors: [processor] }).getTracer('bench');
    const [clocks, span, recorded, step, counter, openTelemetry] = await perCall([
      () => {
        for (let call = 0; call < calls; call++) {
          performance.now();
          performance.now();
        }
      },
      () => {
        for (let call = 0; call < calls; call++) if (recorder.begin(name)) recorder.end();
      },
      recordFunctionLoop,
      () => {
        for (let call = 0; call < calls; call++) prof.step();
      },
      () => {
        for (let call = 0; call < calls; call++) prof.counter('loss', 0.5);
      },
      () => {
        for (let call = 0; call < calls; call++) tracer.startSpan('operator').end();
      },
    ]);
    await prof.stop();
    await processor.shutdown();
    const bare = { name: 'two bare performance.now()', value: clocks };
    return [
      figure({ name: 'begin + end of a span', value: span, unit: 'ns', baseline: bare, target: { at: 'most', value: 1.5, of: 'ratio' } }),
      figure({ name: 'recordFunction, sync', value: recorded, unit: 'ns', baseline: bare }),
      figure({ name: 'recordFunction, sync', value: recorded, unit: 'ns', baseline: { name: 'OpenTelemetry span', value: openTelemetry } }),
      figure({ name: 'recordFunction without a profile', value: off, unit: 'ns', baseline: bare }),
      figure({ name: 'prof.step()', value: step, unit: 'ns', baseline: bare, target: { at: 'most', value: 300, of: 'value' } }),
      figure({ name: 'prof.counter()', value: counter, unit: 'ns', baseline: bare }),
    ];
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

function nothing(): void {}

function recordFunctionLoop(): void {
  for (let call = 0; call < calls; call++) recordFunction('operator', nothing);
}

/** ns per call of each loop. */
async function perCall<const T extends readonly Loop[]>(loops: T): Promise<{ -readonly [K in keyof T]: number }> {
  const means: number[][] = loops.map(() => []);
  for (let round = 0; round < rounds; round++) {
    for (const [index, loop] of loops.entries()) {
      const started = performance.now();
      loop();
      means[index]?.push(((performance.now() - started) * 1e6) / calls);
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
  }
  return means.map(median) as { -readonly [K in keyof T]: number };
}
