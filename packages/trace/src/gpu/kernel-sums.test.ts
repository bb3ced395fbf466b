// Kernels by name, op, module and phase, their sequences, and copies, of a small trace with figures worked out by hand.

import { expect, test } from 'vitest';
import { mergeRun } from '../merge/merge-run.ts';
import { finish } from '../model/finish.ts';
import { sourcesOfKineto, tableOfKineto } from '../testing/merged-kineto.ts';
import { GpuSink } from './gpu-sink.ts';
import type { GpuRank } from './gpu-summary.ts';

const us = 1000;

/** Two layers of three kernels each, and a copy, launched inside of ops, modules and phases; backward on a thread of its own. */
function traceEvents(): object[] {
  const events: object[] = [];
  const span = (cat: string, name: string, ts: number, dur: number, tid: number, args: object = {}, pid = 9): void => {
    events.push({ ph: 'X', cat, name, ts, dur, pid, tid, args });
  };
  let correlation = 100;
  const launch = (call: number, tid: number, cat: string, name: string, ts: number, dur: number, args: object = {}): void => {
    correlation++;
    span('cuda_runtime', cat === 'kernel' ? 'cudaLaunchKernel' : 'cudaMemcpyAsync', call, 1, tid, { correlation });
    span(cat, name, ts, dur, 7, { correlation, device: 0, stream: 7, ...args }, 0);
  };
  span('user_annotation', 'ProfilerStep#5', 0, 1000, 1);
  span('user_annotation', 'forward', 10, 290, 1);
  span('user_annotation', 'backward', 300, 300, 1);
  for (const [layer, at] of [20, 120].entries()) {
    span('python_function', `nn.Module: Linear_${layer}`, at, 90, 1);
    span('cpu_op', 'aten::linear', at + 1, 80, 1);
    span('cpu_op', 'aten::addmm', at + 2, 70, 1);
    launch(at + 3, 1, 'kernel', 'volta_h884gemm_64x64', at + 10, 10);
    launch(at + 5, 1, 'kernel', 'splitKreduce', at + 21, 4);
    launch(at + 7, 1, 'kernel', 'bias', at + 26, 2);
  }
  span('cpu_op', 'autograd::engine::evaluate_function: AddmmBackward0', 310, 100, 2);
  span('cpu_op', 'aten::mm', 320, 50, 2);
  launch(330, 2, 'kernel', 'sgemm', 340, 40);
  launch(450, 1, 'gpu_memcpy', 'Memcpy DtoH (Device -> Pageable)', 460, 20, { bytes: 4000 });
  return events;
}

const rankOf = (events: readonly object[]): GpuRank => {
  const sink = new GpuSink();
  finish(mergeRun(sourcesOfKineto([tableOfKineto(JSON.stringify({ traceEvents: events }))]), sink));
  return sink.summary.ranks[0] as GpuRank;
};

test('kernels are charged to the op, the module and the phase around their launch', () => {
  const { kernels } = rankOf(traceEvents());
  expect([kernels.count, kernels.total / us]).toEqual([7, 72]);
  const lines = (table: typeof kernels.byOp) => table.lines.map(({ name, kernels: count, total }) => [name, count, total / us]);
  expect(lines(kernels.byOp)).toEqual([
    ['aten::mm', 1, 40],
    ['aten::addmm', 6, 32],
  ]);
  // The backward's thread has no phase of its own: the main thread's counts.
  expect(lines(kernels.byPhase)).toEqual([
    ['backward', 1, 40],
    ['forward', 6, 32],
  ]);
  expect(lines(kernels.byModule).sort()).toEqual([
    ['', 1, 40],
    ['nn.Module: Linear_0', 3, 16],
    ['nn.Module: Linear_1', 3, 16],
  ]);
  expect(kernels.byName.lines[1]).toMatchObject({ name: 'volta_h884gemm_64x64', count: 2, total: 20 * us, tensorCores: true });
  expect([kernels.tensorCores / us, kernels.tensorCoreOps / us]).toEqual([20, 72]);
});

test('blocks and occupancy are means over the kernels that state them', () => {
  const kernel = (ts: number, args: object) => ({ ph: 'X', cat: 'kernel', name: 'gemm', pid: 0, tid: 7, ts, dur: 10, args });
  const stated = { 'blocks per SM': 2, 'est. achieved occupancy %': 40 };
  const { kernels } = rankOf([kernel(0, stated), kernel(10, {}), kernel(20, { 'blocks per SM': 4 })]);
  expect(kernels.byName.lines[0]).toMatchObject({ count: 3, blocksPerSm: 3, occupancy: 0.4 });
});

test('a sequence of kernels that an op launches twice is found; copies have a bandwidth', () => {
  const { sequences, copies } = rankOf(traceEvents());
  expect(sequences).toEqual([{ op: 'aten::linear', kernels: ['volta_h884gemm_64x64', 'splitKreduce', 'bias'], count: 2, total: 32 * us }]);
  expect(copies).toEqual([{ kind: 'Memcpy DtoH', count: 1, total: 20 * us, bytes: 4000, bandwidth: 2e8 }]);
});

test('work counts for the step that launched it, wherever it runs', () => {
  const events = traceEvents();
  const span = { ph: 'X', pid: 9, tid: 1 };
  events.push({ ...span, cat: 'user_annotation', name: 'ProfilerStep#6', ts: 1000, dur: 500 });
  events.push({ ...span, cat: 'cuda_runtime', name: 'cudaLaunchKernel', ts: 990, dur: 1, args: { correlation: 900 } });
  const late = { device: 0, stream: 7, correlation: 900 };
  events.push({ ph: 'X', cat: 'kernel', name: 'late', pid: 0, tid: 7, ts: 1100, dur: 100, args: late });
  const { steps } = rankOf(events);
  expect(steps.map(({ step, length }) => [step, length / us])).toEqual([
    [5, 1200],
    [6, 300],
  ]);
});
