// One stage of the walk-through: forward passes without the profiler, because the first ones pay for one-time set-up (memory of the backend,
// compiled code), and one with it.

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { profile } from '@ranktrace/sdk';
import * as tf from '@tensorflow/tfjs';
import { MaskedLinear } from './masked-linear.ts';
import type { Stage } from './stages.ts';
import { readFacts, type SpanFacts } from './trace-facts.ts';
import { uniform } from './uniform.ts';

const rows = 128;
const inputs = 500;
const outputs = 10;
const warmups = 3;
const maskShape: [number, number, number] = [256, 256, 256];

/** Results of a stage's profile. */
export interface StageReport {
  readonly stage: number;
  readonly title: string;
  readonly backend: string;
  /** Values in the mask, and how many of them the search found. */
  readonly values: number;
  readonly found: number;
  readonly maskIndices: SpanFacts;
  readonly linearPass: SpanFacts;
  /** Path of the trace. */
  readonly trace: string;
  /** torch's tables: by time, and by memory. */
  readonly timeTable: string;
  readonly memoryTable: string;
}

/** Profiles the search of `stage`. Writes the trace, and the profile's files without an aggregator, into the folder `out`. */
export async function profileStage({ number, title, search }: Stage, out: string): Promise<StageReport> {
  const module = new MaskedLinear(inputs, outputs, search);
  const input = tf.tensor2d(uniform(rows * inputs, { seed: 2, min: -1, max: 1 }), [rows, inputs]);
  const mask = tf.tensor3d(uniform(tf.util.sizeFromShape(maskShape), { seed: 3, min: 0, max: 1 }), maskShape);
  for (let pass = 0; pass < warmups; pass++) tf.dispose(module.forward(input, mask));

  const prof = profile({ withStack: true, profileMemory: true, recordShapes: true, directory: out }).start();
  const { output, found } = module.forward(input, mask);
  await prof.stop();

  const averages = prof.keyAverages({ groupByStackN: 5 });
  const timeTable = averages.table({ sortBy: 'selfCpuTimeTotal', rowLimit: 5, maxSrcColumnWidth: 48 });
  const memoryTable = averages.table({ sortBy: 'selfCpuMemoryUsage', rowLimit: 5, maxSrcColumnWidth: 48 });

  mkdirSync(out, { recursive: true });
  const trace = join(out, `mask-indices-${number}.json`);
  prof.exportChromeTrace(trace);

  const count = found.dtype === 'bool' ? tf.sum(found).dataSync()[0]! : found.shape[0]!;
  const report: StageReport = {
    stage: number,
    title,
    backend: tf.getBackend(),
    values: mask.size,
    found: count,
    maskIndices: readFacts(trace, 'MASK INDICES', prof.keyAverages()),
    linearPass: readFacts(trace, 'LINEAR PASS', prof.keyAverages()),
    trace,
    timeTable,
    memoryTable,
  };
  module.dispose();
  tf.dispose([input, mask, output, found]);
  return report;
}
