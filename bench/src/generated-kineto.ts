// A generated torch.profiler recording: one rank of a transformer trained on GPUs, a few hundred milliseconds of it.
//
//   main thread      ProfilerStep │ forward: ops in ops, launches      │ optimizer: views, copies, reduce-scatter
//   autograd thread               └──────────► backward: nodes, ops, launches │
//   stream 7, 23        kernels, copies and sets, each after its launch and after the one before; NCCL
//
// Judged against eight real ranks (nanogpt-8rank, 8 × H100), which `npm run bench -- wire` measures beside it where they are found. The ns times of a
// span hold 3.8 bytes of entropy there (`timeEntropy`) and 3.7 here; varint columns, deflated, take 5.2 bytes a span there and 5.0 here; 319 names
// there and as many here. Work on the GPU begins and ends on its 32 ns ticks, as there.

import { Random } from '@ranktrace/trace/simulate';
import type { KinetoEvent } from './kineto-spans.ts';

export interface GeneratedEvent extends KinetoEvent {
  readonly dur: number;
  readonly pid: number;
  readonly tid: number;
  readonly cat: string;
  readonly args: Readonly<Record<string, unknown>>;
}

type Thread = 'main' | 'autograd';

const process = 75;
const threads: Readonly<Record<Thread, number>> = { main: 75, autograd: 155 };
const streams = { compute: 7, collectives: 23 } as const;
/** ns on the host's clock at which the recording begins. */
const epoch = 6_322_354_292_627_936;
const gpuTick = 32;
const layers = 28;
const viewsPerStep = 1600;
const microsecond = 1e3;

const fusedKernels = 220;
const fusedOps = [
  'add',
  'mul',
  '_to_copy',
  'sigmoid',
  'rms_norm',
  'slice',
  'cat',
  'neg',
  'unsqueeze',
  'pow',
  'sum',
  'div',
  'where',
  'silu',
];

/** The same rank and number of steps give the same recording. Some 16 000 events a step. */
export function generateKineto(rank: number, steps = 1): GeneratedEvent[] {
  return new GpuRank(rank).record(steps);
}

/** The recording as the text of a torch.profiler file. */
export function kinetoText(events: readonly GeneratedEvent[]): string {
  return JSON.stringify({ schemaVersion: 1, displayTimeUnit: 'ms', baseTimeNanoseconds: 1_759_300_074_000_000_000, traceEvents: events });
}

class GpuRank {
  readonly #random: Random;
  /** Names and typical times of kernels are the program's: the same on every rank. */
  readonly #program = new Random(1, 'program');
  readonly #fused = Array.from({ length: fusedKernels }, (_, index) => {
    const ops = Array.from({ length: 3 + this.#program.whole(8) }, () => fusedOps[this.#program.whole(fusedOps.length)]);
    return `triton_${this.#program.chance(0.4) ? 'red' : 'poi'}_fused_${ops.join('_')}_${index}`;
  });
  readonly #kernelTimes = new Map<string, number>();
  readonly #events: GeneratedEvent[] = [];
  /** ns; the position of each thread, and the end of work of each stream. */
  readonly #now: Record<Thread, number> = { main: 0, autograd: 0 };
  readonly #busyUntil = new Map<number, number>();
  #correlation = 45_000;
  #externalId = 0;

  constructor(rank: number) {
    this.#random = new Random(2, 'rank', rank);
  }

  record(steps: number): GeneratedEvent[] {
    for (let step = 0; step < steps; step++) {
      this.#op('main', `ProfilerStep#${step}`, 20 * microsecond, () => {
        for (let layer = 0; layer < layers; layer++) this.#forward(layer);
        this.#now.autograd = Math.max(this.#now.autograd, this.#now.main);
        for (let layer = layers - 1; layer >= 0; layer--) this.#backward(layer);
        this.#now.main = this.#now.autograd;
        this.#optimizer();
      });
    }
    return this.#events;
  }

  #forward(layer: number): void {
    this.#op('main', `## Call CompiledFxGraph f${layer % 4}p6gslkv3uwbkhsf7qhhobwgh7c6574rsndaccx7kmlup7cn5jf ##`, 40 * microsecond, () => {
      for (let site = 0; site < 24; site++) {
        if (this.#program.chance(0.25)) this.#matmul('main');
        else this.#fusedKernel('main');
        for (let view = this.#program.whole(3); view > 0; view--) this.#allocation('main');
      }
    });
    this.#op('main', 'aten::scaled_dot_product_attention', 12 * microsecond, () => {
      for (const name of ['aten::transpose', 'aten::view', 'aten::detach'])
        this.#op('main', name, 1.5 * microsecond, () => this.#view('main'));
      this.#launch('main', 'cudaLaunchKernel', 'void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<bfloat16_t>>>');
    });
  }

  #backward(layer: number): void {
    this.#op('autograd', `autograd::engine::evaluate_function: CompiledFunctionBackward${layer}`, 30 * microsecond, () => {
      for (let site = 0; site < 36; site++) {
        if (this.#program.chance(0.3)) this.#matmul('autograd');
        else this.#fusedKernel('autograd');
        if (this.#program.chance(0.3)) this.#allocation('autograd');
      }
    });
    for (let parameter = 0; parameter < 12; parameter++) {
      this.#op('autograd', 'autograd::engine::evaluate_function: torch::autograd::AccumulateGrad', 1.6 * microsecond, () =>
        this.#op('autograd', 'torch::autograd::AccumulateGrad', 1.4 * microsecond, () => {
          if (this.#program.chance(0.6))
            this.#op('autograd', 'aten::detach', 0.6 * microsecond, () => this.#op('autograd', 'detach', 0.5 * microsecond));
          else this.#copy('autograd');
        }),
      );
    }
    this.#collective('autograd', 'allreduce', layer);
  }

  #optimizer(): void {
    for (let view = 0; view < viewsPerStep; view++) {
      this.#op('main', this.#program.chance(0.2) ? 'aten::slice' : 'aten::select', 2.6 * microsecond, () => this.#view('main'));
      if (this.#program.chance(0.4)) this.#copy('main');
      if (this.#program.chance(0.15))
        this.#op('main', 'aten::item', 0.8 * microsecond, () => this.#op('main', 'aten::_local_scalar_dense', 0.2 * microsecond));
      if (this.#program.chance(0.15)) this.#zero();
      if (this.#program.chance(0.1)) this.#fusedKernel('main');
      if (this.#program.chance(0.03))
        this.#collective('main', this.#program.chance(0.5) ? '_reduce_scatter_base' : '_allgather_base', view);
    }
  }

  #matmul(thread: Thread): void {
    const tile = 64 << this.#program.whole(3);
    const name = `nvjet_tst_${tile}x128_64x${4 + this.#program.whole(4)}_1x2_h_bz_coopA_${this.#program.chance(0.5) ? 'NN' : 'TNT'}`;
    this.#op(thread, 'aten::mm', 9 * microsecond, () => {
      this.#calls(thread, ['cudaGetDriverEntryPoint', 'cudaStreamIsCapturing'], this.#program.whole(2));
      this.#launch(thread, 'cuLaunchKernelEx', name);
    });
  }

  #fusedKernel(thread: Thread): void {
    this.#now[thread] += this.#random.lognormal(4 * microsecond, 0.5);
    this.#launch(thread, 'cuLaunchKernel', this.#fused[this.#program.whole(fusedKernels)] as string);
  }

  #allocation(thread: Thread): void {
    if (this.#program.chance(0.5)) this.#op(thread, 'aten::empty_strided', 4 * microsecond);
    else this.#op(thread, 'aten::new_empty', 1.6 * microsecond, () => this.#op(thread, 'aten::empty', 3.6 * microsecond));
  }

  #view(thread: Thread): void {
    this.#op(thread, 'aten::as_strided', 0.45 * microsecond);
  }

  #copy(thread: Thread): void {
    this.#op(thread, 'aten::copy_', 5 * microsecond, () => {
      this.#launch(thread, 'cudaMemcpyAsync', 'Memcpy DtoD (Device -> Device)');
    });
  }

  #zero(): void {
    this.#op('main', 'aten::zero_', 4 * microsecond, () =>
      this.#op('main', 'aten::fill_', 6 * microsecond, () => this.#launch('main', 'cudaMemsetAsync', 'Memset (Device)')),
    );
  }

  #collective(thread: Thread, kind: string, number: number): void {
    this.#op(thread, `c10d::${kind}_`, 20 * microsecond, () =>
      this.#op(thread, 'record_param_comms', 9 * microsecond, () => {
        this.#calls(thread, ['cudaStreamIsCapturing', 'cudaEventRecordWithFlags', 'cudaStreamWaitEvent'], 2);
        this.#op(thread, `nccl:${kind}`, 12 * microsecond, () =>
          this.#launch(thread, 'cuLaunchKernelEx', `ncclDevKernel_${kind}_RING_LL(ncclDevKernelArgsStorage<4096ul>)`, number),
        );
        this.#calls(thread, ['cudaEventRecord', 'cudaStreamWaitEvent'], 1);
      }),
    );
  }

  /** Calls of the CUDA runtime that launch nothing, `times` over. */
  #calls(thread: Thread, names: readonly string[], times: number): void {
    for (let time = 0; time < times; time++) {
      for (const name of names) {
        this.#now[thread] += this.#random.lognormal(0.8 * microsecond, 0.5);
        const start = this.#now[thread];
        this.#now[thread] += this.#random.lognormal(0.5 * microsecond, 0.55);
        this.#emit('cuda_runtime', name, start, this.#now[thread] - start, process, threads[thread], { cbid: 200 });
      }
    }
  }

  /** An operator that itself takes about `own` ns, half of them before what it calls. */
  #op(thread: Thread, name: string, own: number, calls?: () => void): void {
    this.#now[thread] += this.#random.lognormal(2.2 * microsecond, 0.9);
    const start = this.#now[thread];
    const id = ++this.#externalId;
    // An operator takes longer in one place of the program than in another, besides its occasional delays.
    const here = own * this.#program.lognormal(0.5, 0.5);
    this.#now[thread] += this.#random.lognormal(here, 0.4);
    calls?.();
    this.#now[thread] += this.#random.lognormal(here, 0.4);
    const width = 64 << (id % 7);
    const args = { 'External id': id, 'Record function id': 0, 'Ev Idx': id, 'Input Dims': [[width, 768], [768]] };
    this.#emit('cpu_op', name, start, this.#now[thread] - start, process, threads[thread], args);
  }

  /** A call of the driver, and the work it starts on the GPU: after the call, and after the work before it on the stream. */
  #launch(thread: Thread, call: string, kernel: string, collective?: number): void {
    const correlation = this.#correlation++;
    this.#now[thread] += this.#random.lognormal(1.2 * microsecond, 0.6);
    const start = this.#now[thread];
    this.#now[thread] += this.#random.lognormal(5.8 * microsecond, 0.28);
    const about = { 'External id': this.#externalId, cbid: 307, correlation };
    const category = call.startsWith('cuda') ? 'cuda_runtime' : 'cuda_driver';
    this.#emit(category, call, start, this.#now[thread] - start, process, threads[thread], about);
    const stream = collective === undefined ? streams.compute : streams.collectives;
    const free = (this.#busyUntil.get(stream) ?? 0) + this.#random.lognormal(1.1 * microsecond, 0.4);
    const began = onTick(Math.max(start + this.#random.lognormal(6 * microsecond, 0.3), free));
    const took = Math.max(gpuTick, onTick(this.#kernelTime(kernel) * (collective === undefined ? 1 : this.#random.lognormal(1, 0.8))));
    this.#busyUntil.set(stream, began + took);
    const isCopy = kernel.startsWith('Mem');
    const args = {
      device: 0,
      context: 1,
      stream,
      correlation,
      ...(isCopy ? { bytes: 4096 } : { grid: [49_152, 1, 1], block: [64, 1, 1] }),
    };
    this.#emit(isCopy ? `gpu_${kernel.slice(0, 6).toLowerCase()}` : 'kernel', kernel, began, took, 0, stream, args);
  }

  /** ns; a kernel takes nearly as long each time. */
  #kernelTime(name: string): number {
    let typical = this.#kernelTimes.get(name);
    if (typical === undefined) {
      typical = name.startsWith('Mem') ? 2 * microsecond : this.#program.lognormal(14 * microsecond, 1.4);
      this.#kernelTimes.set(name, typical);
    }
    return typical * this.#random.lognormal(1, 0.25);
  }

  #emit(cat: string, name: string, start: number, length: number, pid: number, tid: number, args: GeneratedEvent['args']): void {
    const [ts, dur] = [(epoch + Math.round(start)) / 1000, Math.round(length) / 1000];
    this.#events.push({ ph: 'X', cat, name, pid, tid, ts, dur, args });
  }
}

const onTick = (ns: number): number => gpuTick * Math.round(ns / gpuTick);
