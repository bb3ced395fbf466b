// Waits of streams that no recorded event tells: a job of sharded parameters and one that copies its gradients to the host, against the same jobs with
// faster parts.

import { describe, expect, test } from 'vitest';
import { mergeRun } from '../merge/merge-run.ts';
import { finish } from '../model/finish.ts';
import { sourcesOfKineto, tableOfKineto } from '../testing/merged-kineto.ts';
import { GpuSink } from './gpu-sink.ts';

type Class = 'compute' | 'communication' | 'copy';

interface Work {
  readonly name: string;
  readonly of: Class;
  readonly stream: number;
  readonly end: number;
}

/** One rank's thread and streams. Times in µs; `factor` scales the length of work. */
class Rank {
  readonly #events: object[] = [];
  readonly #factor: (of: Class) => number;
  readonly #free = new Map<number, number>();
  readonly ends: number[] = [];
  #now = 100;
  #ids = 1;

  constructor(factor: (of: Class) => number) {
    this.#factor = factor;
  }

  /** Work on `stream` behind `after`, for each of which the thread calls for a wait first. */
  launch(of: Class, name: string, stream: number, length: number, ...after: readonly (Work | undefined)[]): Work {
    for (const one of after) if (one !== undefined) this.#call('cudaStreamWaitEvent', 2);
    const correlation = this.#ids++;
    this.#call(of === 'copy' ? 'cudaMemcpyAsync' : 'cudaLaunchKernel', 5, correlation);
    const awaited = after.map((one) => (one === undefined ? 0 : one.end + 2));
    const start = Math.max(this.#now + 4, (this.#free.get(stream) ?? 0) + 1, ...awaited);
    const end = start + length * this.#factor(of);
    this.#free.set(stream, end);
    const cat = of === 'copy' ? 'gpu_memcpy' : 'kernel';
    this.#events.push({ ph: 'X', cat, name, pid: 0, tid: stream, ts: start, dur: end - start, args: { device: 0, stream, correlation } });
    return { name, of, stream, end };
  }

  step(number: number, work: () => void): void {
    const start = this.#now;
    this.#now += 50;
    work();
    const end = Math.max(this.#now, ...this.#free.values()) + 3;
    this.#call('cudaDeviceSynchronize', end - this.#now);
    this.ends.push(this.#now);
    this.#event('user_annotation', `ProfilerStep#${number}`, start, this.#now - start);
  }

  get text(): string {
    return JSON.stringify({ traceEvents: this.#events });
  }

  #call(name: string, length: number, correlation = 0): void {
    this.#event('cuda_runtime', name, this.#now, length, { correlation });
    this.#now += length;
  }

  #event(cat: string, name: string, ts: number, dur: number, args: object = {}): void {
    this.#events.push({ ph: 'X', cat, name, pid: 9, tid: 1, ts, dur, args });
  }
}

type Lengths = Readonly<Record<'gather' | 'layer' | 'scatter', number>>;

/** All-gathers run ahead of the layers that wait for them, reduce-scatters behind those of the backward. */
function sharded(rank: Rank, { gather, layer, scatter }: Lengths): void {
  const layers = 6;
  const all = (of: number): Work => rank.launch('communication', `ncclDevKernel_AllGather_${of}`, 24, gather);
  for (const length of [layer, 2 * layer]) {
    let next: Work | undefined = all(0);
    let scattered: Work | undefined;
    for (let at = 0; at < layers; at++) {
      const own: Work | undefined = next;
      next = at + 1 < layers ? all(at + 1) : undefined;
      rank.launch('compute', 'gemm', 7, length / 2, own);
      const last = rank.launch('compute', 'gemm', 7, length / 2);
      if (length > layer) scattered = rank.launch('communication', 'ncclDevKernel_ReduceScatter', 28, scatter, last);
    }
    if (scattered !== undefined) rank.launch('compute', 'adam', 7, 100, scattered);
  }
}

/** Gradients go to the host behind the backward. */
function offloaded(rank: Rank, { layer, scatter }: Lengths): void {
  for (let at = 0; at < 6; at++) {
    const last = rank.launch('compute', 'gemm', 7, layer);
    rank.launch('copy', 'Memcpy DtoH (Device -> Pinned)', 9, scatter, last);
  }
}

function run(program: typeof sharded, lengths: Lengths, factor: (of: Class) => number) {
  const rank = new Rank(factor);
  for (let step = 3; step < 9; step++) rank.step(step, () => program(rank, lengths));
  return { text: rank.text, length: ((rank.ends.at(-1) as number) - (rank.ends[0] as number)) / 5 };
}

describe.each([
  ['sharded, bound by compute', sharded, { gather: 150, layer: 400, scatter: 200 }],
  ['sharded, bound by all-gathers', sharded, { gather: 700, layer: 400, scatter: 200 }],
  ['sharded, bound by reduce-scatters', sharded, { gather: 150, layer: 300, scatter: 900 }],
  ['offloaded, bound by compute', offloaded, { gather: 0, layer: 900, scatter: 500 }],
  ['offloaded, bound by copies', offloaded, { gather: 0, layer: 400, scatter: 900 }],
] as const)('%s', (_, program, lengths) => {
  const recorded = run(program, lengths, () => 1);
  const sink = new GpuSink();
  finish(mergeRun(sourcesOfKineto([tableOfKineto(recorded.text)]), sink));
  const { worth } = sink.summary;

  test.each(['compute', 'communication', 'copy'] as const)('%s saves what the job with less of it does', (bound) => {
    const part = worth.find((one) => one.bound === bound && one.name === undefined);
    const saved = (factor: number): number => recorded.length - run(program, lengths, (of) => (of === bound ? factor : 1)).length;
    for (const [told, factor] of [
      [part?.savesAtHalf ?? 0, 0.5],
      [part?.savesAtZero ?? 0, 0],
    ] as const)
      expect(Math.abs(told / 1000 - saved(factor)), `× ${factor}: ${told / 1000}, ${saved(factor)}`).toBeLessThan(0.02 * recorded.length);
  });
});
