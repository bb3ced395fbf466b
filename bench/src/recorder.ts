// The cost of recording for the training thread, per call, against bare clock reads and an OpenTelemetry span in the same run.
//
// The loops take turns, round by round, so that a slow moment of the machine falls on all of them; a figure is the median over all loops of the
// mean over a loop's calls. A loop is so short that it is rarely interrupted, even on a busy machine. Between rounds the thread rests, as a training
// thread does, and the ring is drained.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BasicTracerProvider, BatchSpanProcessor, InMemorySpanExporter } from '@opentelemetry/sdk-trace-base';
import { type ProfileOptions, profile, recordFunction } from '@ranktrace/sdk';
import * as tf from '@tensorflow/tfjs';
import { threadRecorder } from '../../packages/sdk/dist/profile/thread-recorder.js';
import type { Recorder } from '../../packages/sdk/dist/record/recorder.js';
import { type Baseline, type Figure, figure, median } from './figure.ts';

/** Calls that a loop makes, and loops of each kind in a round. */
const calls = 1_000;
const loopsPerRound = 5;

/** Makes its call `calls` times. A loop of its own for each, as in a training loop: one shared loop would measure its indirect call. */
type Loop = () => void;

export async function recorder(): Promise<Figure[]> {
  const directory = mkdtempSync(join(tmpdir(), 'ranktrace-bench-'));
  try {
    const [off] = await perCall([recordFunctionLoop]);
    // Empty steps are over any budget. The benchmark `overhead` measures sampled ops, which come and go with hooks.
    const prof = profile({ run: 'bench', rank: 0, worldSize: 1, directory, overheadBudget: 1 }).start();
    const recorder = threadRecorder() as Recorder;
    const name = recorder.name('operator');
    const processor = new BatchSpanProcessor(new InMemorySpanExporter(), { maxQueueSize: 2 * calls * loopsPerRound * 41 });
    const tracer = new BasicTracerProvider({ spanProcessors: [processor] }).getTracer('bench');
    const [clocks, span, recorded, step, counter, openTelemetry] = await perCall([
      clocksLoop,
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
    const ops = await opHooks(directory);
    const bare = { name: 'two bare performance.now()', value: clocks };
    return [
      figure({ name: 'begin + end of a span', value: span, unit: 'ns', baseline: bare, target: { at: 'most', value: 1.5, of: 'ratio' } }),
      figure({ name: 'recordFunction, sync', value: recorded, unit: 'ns', baseline: bare }),
      figure({ name: 'recordFunction, sync', value: recorded, unit: 'ns', baseline: { name: 'OpenTelemetry span', value: openTelemetry } }),
      figure({ name: 'recordFunction without a profile', value: off, unit: 'ns', baseline: bare }),
      // 4 ×: 300 ns, where two readings take 75.
      figure({ name: 'prof.step()', value: step, unit: 'ns', baseline: bare, target: { at: 'most', value: 4, of: 'ratio' } }),
      figure({ name: 'prof.counter()', value: counter, unit: 'ns', baseline: bare }),
      // 1.4 ×: 300 ns, where the op takes 210. Not clock readings: filled caches slow ops and hooks alike, and readings of the clock not at all.
      figure({
        name: 'op hook of tfjs',
        value: ops.plain,
        unit: 'ns',
        baseline: ops.bare,
        target: { at: 'most', value: 1.4, of: 'ratio' },
      }),
      figure({ name: 'op hook with shapes', value: ops.shapes, unit: 'ns', baseline: ops.bare }),
      figure({ name: 'op hook with shapes and memory', value: ops.memory, unit: 'ns', baseline: ops.bare }),
    ];
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

interface OpHooks {
  readonly bare: Baseline;
  readonly plain: number;
  readonly shapes: number;
  readonly memory: number;
}

/**
 * The cost of recording an op, ns: a kernel that gives back its input, run by a real engine, with and without the hooks. Blocks with a
 * profile lie between blocks without, as in `overhead`.
 */
async function opHooks(directory: string): Promise<OpHooks> {
  await tf.setBackend('cpu');
  // As `Identity` does: a new tensor on the same data.
  const kernelFunc = ({ inputs }: { inputs: tf.NamedTensorInfoMap }) => {
    const x = inputs.x as tf.TensorInfo;
    (tf.backend() as unknown as { incRef(dataId: object): void }).incRef(x.dataId);
    return { dataId: x.dataId, shape: x.shape, dtype: x.dtype };
  };
  tf.registerKernel({ kernelName: 'Nothing', backendName: 'cpu', kernelFunc: kernelFunc as unknown as tf.KernelFunc });
  const x = tf.ones([2, 2]);
  const engine = tf.engine();
  const loop: Loop = () => {
    for (let call = 0; call < calls; call++) (engine.runKernel('Nothing', { x }) as tf.Tensor).dispose();
  };
  const bare: number[] = [];
  const added = async (options: ProfileOptions): Promise<number> => {
    const differences: number[] = [];
    for (let round = 0; round < 5; round++) {
      const [before] = await perCall([loop], 15);
      const prof = profile({ run: 'bench', rank: 0, worldSize: 1, directory, overheadBudget: 1, sampleIntervalMs: 0, ...options }).start();
      const [hooked] = await perCall([loop], 15);
      await prof.stop();
      const [after] = await perCall([loop], 15);
      bare.push(before, after);
      differences.push(hooked - (before + after) / 2);
    }
    return median(differences);
  };
  const plain = await added({});
  const shapes = await added({ recordShapes: true });
  const memory = await added({ recordShapes: true, profileMemory: true });
  x.dispose();
  tf.unregisterKernel('Nothing', 'cpu');
  return { bare: { name: 'the op without hooks', value: median(bare) }, plain, shapes, memory };
}

function nothing(): void {}

function clocksLoop(): void {
  for (let call = 0; call < calls; call++) {
    performance.now();
    performance.now();
  }
}

function recordFunctionLoop(): void {
  for (let call = 0; call < calls; call++) recordFunction('operator', nothing);
}

/** ns per call of each loop. */
async function perCall<const T extends readonly Loop[]>(loops: T, rounds = 41): Promise<{ -readonly [K in keyof T]: number }> {
  const means: number[][] = loops.map(() => []);
  for (let round = 0; round < rounds; round++) {
    for (const [index, loop] of loops.entries()) {
      for (let time = 0; time < loopsPerRound; time++) {
        const started = performance.now();
        loop();
        means[index]?.push(((performance.now() - started) * 1e6) / calls);
      }
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
  }
  return means.map(median) as { -readonly [K in keyof T]: number };
}
