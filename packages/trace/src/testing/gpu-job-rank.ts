// One rank of the job of gpu-job.ts: the work of its threads in a step, their launches, and the end of each stream's work.

import { Random } from '../simulate/random.ts';
import type { DrawnEvent, KinetoVintage } from './kineto-text.ts';

type Arguments = Readonly<Record<string, unknown>>;

export interface LaunchedCollective {
  readonly op: 'reduce_scatter' | 'all_gather' | 'all_reduce' | 'send' | 'recv';
  /** torch's name of the op. */
  readonly torchName: string;
  readonly group: string;
  /** Of a send or receive: both sides, ascending. */
  readonly members: readonly number[];
  /** The other side of a send or receive. */
  readonly peer?: number | undefined;
  readonly elements: number;
  readonly dtype: 'BFloat16' | 'Float';
  readonly bytes: number;
  readonly seq: number;
}

/**
 * What goes wrong, on one rank or on all, and by how much.
 *
 *   slow_kernels     kernels that compute take `amount` times as long
 *   late_data        the host spends `amount` ns more in the phase `data`
 *   late_log         the host spends `amount` ns in a phase `log` after its last launch
 *   slow_host        the host spends `amount` ns more before each launch of the phase `forward`
 *   stalled          the first kernel of `forward` waits `amount` ns for an event after its launch
 *   slow_copies      copies to the device take `amount` times as long
 *   slow_transfers   data of collectives take `amount` times as long; on all ranks
 */
export interface GpuFault {
  readonly kind: 'slow_kernels' | 'late_data' | 'late_log' | 'slow_host' | 'stalled' | 'slow_copies' | 'slow_transfers';
  /** Default: all ranks. */
  readonly rank?: number;
  readonly amount: number;
  /** Default: all steps. */
  readonly inStep?: (step: number) => boolean;
}

/** Ranks in stages, `size / stages` of each: every stage computes its layers for one microbatch after the other, first all forward, then all backward. */
export interface GpuPipeline {
  readonly stages: number;
  readonly microbatches: number;
}

export interface RankLaunch {
  /** Time of the thread's call. */
  readonly call: number;
  readonly stream: number;
  readonly category: 'kernel' | 'gpu_memcpy' | 'gpu_memset';
  readonly kernel: string;
  /** ns on the GPU; for a collective all ranks determine it. */
  readonly length: number;
  readonly correlation: number;
  readonly externalId: number;
  readonly args: Arguments;
  readonly collective: LaunchedCollective | undefined;
  /** ns that it waits for an event after all else is ready. */
  readonly stalled: number;
  /** Streams whose work so far it waits for. */
  readonly after: readonly number[];
}

export interface GpuJobRankOptions {
  readonly seed: number;
  readonly rank: number;
  readonly size: number;
  readonly layers: number;
  readonly hasSeq: boolean;
  readonly vintage: KinetoVintage;
  readonly faults?: readonly GpuFault[];
  /** Deviation of the lengths of kernels, and of the host's calls, in logarithms; default 0.1 and 0.15. */
  readonly spread?: number | undefined;
  /** Deviation of the logarithm of a rank's batch, drawn for each step: its kernels that compute take so much longer; default 0. */
  readonly uneven?: number | undefined;
  /** Streams that compute, layer by layer in turn; default 1. */
  readonly streams?: number | undefined;
  readonly pipeline?: GpuPipeline | undefined;
  readonly synchronizes?: 'each' | 'last' | undefined;
}

const us = 1000;
const [computeStream, worldStream, groupStream] = [7, 23, 24] as const;
/** Sends to the stage before and receives from it; and of the stage behind. */
const [beforeStream, behindStream] = [25, 26] as const;
/** From the call to the kernel's earliest start. */
const launchLatency = 6 * us;

export class GpuJobRank {
  readonly random: Random;
  readonly pid: number;
  readonly events: DrawnEvent[] = [];
  /** By step, the end of its last work. */
  readonly stepEnds: number[] = [];
  /** Its half of the ranks, or those of its stage. */
  readonly group: { readonly name: string; readonly ranks: readonly number[] };
  readonly #options: GpuJobRankOptions;
  /** End of the last kernel, by stream. */
  readonly #free = new Map<number, number>();
  readonly #calls = new Map<string, number>();
  readonly #stepStarts: number[] = [];
  #launches: RankLaunch[] = [];
  #tid: number;
  #now: number;
  #ids = 1024;
  #allocated = 4_000_000;
  /** ns that the next launch waits for. */
  #stall = 0;
  #step = 0;
  /** How long this step's kernels take because of its batch. */
  #batch = 1;
  /** Streams that the next kernel that computes waits for. */
  #after: number[] = [];
  #layer = 0;

  constructor(options: GpuJobRankOptions) {
    const { seed, rank, size } = options;
    this.#options = options;
    this.random = new Random(seed, 'rank', rank);
    this.pid = 4000 + 10 * rank;
    this.#tid = this.pid;
    this.#now = Math.round(this.random.uniform(0, 200 * us));
    const { pipeline } = options;
    const length = pipeline === undefined ? Math.ceil(size / 2) : size / pipeline.stages;
    const first = rank - (rank % length);
    this.group = { name: '1', ranks: Array.from({ length: Math.min(length, size - first) }, (_, index) => first + index) };
  }

  /** Start of this rank's file: with the first step, in the middle of it while its collectives run, or with the second. */
  get windowStart(): number {
    const [first = 0, second = 0] = this.#stepStarts;
    const place = this.#options.rank % 3;
    const { pipeline, synchronizes } = this.#options;
    // A thread far ahead of its device would have no launch in a window that begins with one of its kernels.
    if (place !== 1 || pipeline !== undefined || synchronizes === 'last') return (place === 0 ? first : second) - us;
    const kernels = this.events.filter(({ ph, device, tid }) => ph === 'X' && device !== undefined && tid === worldStream);
    return (kernels[2]?.start ?? first) - 1;
  }

  /** The threads' part of a step; returns their launches, in order. */
  launchStep(step: number): readonly RankLaunch[] {
    this.#launches = [];
    this.#stepStarts.push(this.#now);
    this.#step = step;
    const { seed, rank, uneven = 0, pipeline } = this.#options;
    this.#batch = uneven === 0 ? 1 : new Random(seed, 'batch', rank, step).lognormal(1, uneven);
    if (pipeline !== undefined) return this.#pipelined(pipeline);
    const flowOf = (layer: number): number => step * 100 + layer;
    this.#loadData();
    this.#annotated('forward', () => {
      this.#stall = this.#amount('stalled', 0);
      for (let layer = 0; layer < this.#options.layers; layer++) this.#forward(flowOf(layer));
      this.#op('aten::zero_', () => this.#launch('cudaMemsetAsync', 'gpu_memset', 'Memset (Device)', 2, { bytes: 128 }));
    });
    this.#annotated('backward', () => {
      this.#tid = this.pid + 1;
      for (let layer = this.#options.layers - 1; layer >= 0; layer--) {
        this.#backward(flowOf(layer));
        const elements = layer === 0 ? 38_633_472 : 786_432 * (1 + layer);
        this.#collective('reduce_scatter', '_reduce_scatter_base', '0', elements, 'BFloat16');
      }
      this.#tid = this.pid;
    });
    this.#annotated('Optimizer.step#Adam.step', () => {
      this.#collective('all_reduce', 'allreduce', this.group.name, 1, 'Float');
      for (let layer = 0; layer < this.#options.layers; layer++) {
        const kernel = 'void at::native::multi_tensor_apply_kernel<at::native::TensorListMetadata<4> >(at::native::TensorListMetadata<4>)';
        this.#op('aten::_foreach_add_', () => this.#launch('cudaLaunchKernel', 'kernel', kernel, 12));
        this.#collective('all_gather', '_all_gather_base', '0', 98_304 * (1 + layer), 'BFloat16');
      }
    });
    this.#log();
    return this.#launches;
  }

  /** Start of the kernel: its stream is free, and a collective's data are computed. */
  startOf({ call, stream, stalled, after }: RankLaunch): number {
    const ready = Math.max(...[stream, ...after].map((of) => this.#free.get(of) ?? 0));
    return Math.max(call + launchLatency, ready + us) + stalled;
  }

  finish(launch: RankLaunch, start: number, end: number): void {
    const { call, stream, category, kernel, correlation, externalId, args, collective } = launch;
    const device = this.#options.rank;
    this.#free.set(stream, end);
    const known = { 'External id': externalId, ...this.#communication(collective) };
    const shape = category === 'kernel' ? { queued: 0, grid: [24, 1, 1], block: [544, 1, 1], 'registers per thread': 96 } : {};
    const place = { tid: stream, device, start };
    const given = { ...shape, device, context: 1, stream, correlation, ...args };
    this.events.push({ ph: 'X', cat: category, name: kernel, ...place, end, args: given, launched: { call, args: known } });
    this.events.push({ ph: 'f', cat: 'ac2g', name: 'ac2g', ...place, id: correlation });
    if (collective === undefined || this.#options.vintage !== 'today') return;
    const name = `nccl:${collective.torchName}`;
    this.events.push({ ph: 'X', cat: 'gpu_user_annotation', name, ...place, end, args: { 'External id': externalId + 1 } });
  }

  /** Waits until all launched work is done, where the job does after this step. */
  endStep(step: number, isLast: boolean): void {
    const start = this.#now;
    this.stepEnds.push(Math.max(start, ...this.#free.values()));
    if (isLast || this.#options.synchronizes !== 'last') {
      this.#now = (this.stepEnds.at(-1) as number) + 5 * us;
      this.#draw({ ph: 'X', cat: 'cuda_runtime', name: 'cudaDeviceSynchronize', start, args: { cbid: 165, correlation: this.#ids++ } });
    }
    const args = { 'External id': this.#ids++ };
    this.#draw({ ph: 'X', cat: 'user_annotation', name: `ProfilerStep#${step}`, start: this.#stepStarts.at(-1) as number, args });
    this.#now += 20 * us;
  }

  /** A step of a stage: all microbatches forward, all of them backward, gradients among the stage's ranks, their norm among all. */
  #pipelined({ stages, microbatches }: GpuPipeline): readonly RankLaunch[] {
    const { rank, size, layers } = this.#options;
    const ranks = size / stages;
    const stage = Math.floor(rank / ranks);
    const elements = 1_048_576;
    const before = (op: 'send' | 'recv'): void => this.#message(stage > 0, op, rank - ranks, beforeStream, elements);
    const behind = (op: 'send' | 'recv'): void => this.#message(stage < stages - 1, op, rank + ranks, behindStream, elements);
    this.#loadData();
    this.#annotated('forward', () => {
      for (let batch = 0; batch < microbatches; batch++) {
        before('recv');
        for (let layer = 0; layer < layers; layer++) this.#forward(0);
        behind('send');
      }
    });
    this.#annotated('backward', () => {
      this.#tid = this.pid + 1;
      for (let batch = 0; batch < microbatches; batch++) {
        behind('recv');
        for (let layer = 0; layer < layers; layer++) this.#backward(0);
        before('send');
      }
      this.#tid = this.pid;
    });
    this.#annotated('Optimizer.step#Adam.step', () => {
      if (ranks > 1) this.#collective('all_reduce', 'allreduce', this.group.name, 786_432, 'Float');
      this.#collective('all_reduce', 'allreduce', '0', 1, 'Float');
    });
    return this.#launches;
  }

  #message(isThere: boolean, op: 'send' | 'recv', peer: number, stream: number, elements: number): void {
    if (!isThere) return;
    this.#collective(op, op, '0', elements, 'BFloat16', { peer, stream });
    if (op === 'recv') this.#after = [stream];
  }

  #loadData(): void {
    this.#annotated('data', () => {
      this.#now += this.#amount('late_data', 0);
      const bytes = 393_216;
      this.#op('aten::copy_', () => this.#launch('cudaMemcpyAsync', 'gpu_memcpy', 'Memcpy HtoD (Pinned -> Device)', 30, { bytes }));
    });
  }

  #log(): void {
    const length = this.#amount('late_log', 0);
    if (length > 0) this.#annotated('log', () => (this.#now += length));
  }

  #forward(flow: number): void {
    this.#op('aten::linear', () => {
      this.#now += this.#amount('slow_host', 0);
      if (flow > 0) this.#draw({ ph: 's', cat: 'fwdbwd', name: 'fwdbwd', start: this.#now, id: flow });
      this.#op('aten::addmm', () => this.#matrices('sm90_xmma_gemm_bf16bf16_tn_n_tilesize128x128x64', 60, 1_048_576), flow);
    });
  }

  #backward(flow: number): void {
    this.#op(
      'autograd::engine::evaluate_function: AddmmBackward0',
      () => {
        if (flow > 0) this.#draw({ ph: 'f', cat: 'fwdbwd', name: 'fwdbwd', start: this.#now, id: flow });
        this.#op('aten::mm', () => this.#matrices('sm90_xmma_gemm_bf16bf16_nt_n_tilesize128x128x64', 90, -1_048_576), flow);
      },
      flow,
    );
  }

  /** Draws an event on the running thread; a span ends now. */
  #draw(event: Omit<DrawnEvent, 'tid'>): void {
    this.events.push({ ...event, tid: this.#tid, ...(event.ph === 'X' ? { end: this.#now } : {}) });
  }

  /** What a fault of this rank adds; `without` where it has none. */
  #amount(kind: GpuFault['kind'], without: number): number {
    const { faults = [], rank } = this.#options;
    const isOn = (fault: GpuFault): boolean => fault.kind === kind && (fault.rank ?? rank) === rank && fault.inStep?.(this.#step) !== false;
    return faults.find(isOn)?.amount ?? without;
  }

  #spend(meanUs: number): void {
    this.#now += Math.round(this.random.lognormal(meanUs * us, this.#options.spread ?? 0.15));
  }

  #around(cat: string, name: string, work: () => void, args: Arguments = {}): void {
    const [start, id] = [this.#now, this.#ids++];
    this.#spend(1);
    work();
    this.#spend(1);
    this.#draw({ ph: 'X', cat, name, start, args: { 'External id': id, ...args } });
  }

  #annotated(name: string, work: () => void): void {
    this.#around('user_annotation', name, work);
  }

  /** `sequence`: autograd's number, 0 for an op without one. */
  #op(name: string, work: () => void, sequence = 0): void {
    const [types, numbered] = [['c10::BFloat16', 'c10::BFloat16'], { 'Sequence number': sequence, 'Fwd thread id': 0 }];
    const shapes = {
      'Input Dims': [
        [512, 768],
        [768, 768],
      ],
      'Input type': types,
    };
    this.#around('cpu_op', name, work, sequence === 0 ? shapes : { ...shapes, ...numbered });
  }

  #matrices(kernel: string, meanUs: number, bytes: number): void {
    this.#allocated += bytes;
    const args = { Bytes: bytes, 'Total Allocated': this.#allocated, 'Device Type': 1, Addr: 4096 };
    this.#draw({ ph: 'i', cat: 'cpu_instant_event', name: '[memory]', start: this.#now, args });
    this.#launch('cudaLaunchKernel', 'kernel', kernel, meanUs);
  }

  #launch(
    name: string,
    category: RankLaunch['category'],
    kernel: string,
    meanUs: number,
    args: Arguments = {},
    about: Partial<Pick<RankLaunch, 'stream' | 'externalId' | 'collective'>> = {},
  ): void {
    const [call, correlation] = [this.#now, this.#ids++];
    // In 2022 the External id of launched work was its correlation.
    const { vintage } = this.#options;
    const externalId = vintage === '2022' ? correlation : ((vintage === 'today' ? about.externalId : undefined) ?? correlation - 1);
    this.#spend(8);
    this.#draw({ ph: 'X', cat: 'cuda_runtime', name, start: call, args: { 'External id': externalId, cbid: 211, correlation } });
    this.#draw({ ph: 's', cat: 'ac2g', name: 'ac2g', start: call, id: correlation });
    const { streams = 1 } = this.#options;
    const { collective, stream = computeStream + (category === 'kernel' ? this.#layer++ % streams : 0) } = about;
    const after = collective === undefined ? this.#after : [...this.#after, ...this.#computing()];
    const slower = category === 'kernel' ? this.#batch * this.#amount('slow_kernels', 1) : this.#amount('slow_copies', 1);
    const length = Math.round(slower * this.random.lognormal(meanUs * us, this.#options.spread ?? 0.1));
    const stalled = category === 'kernel' ? this.#stall : 0;
    if (category === 'kernel') this.#stall = 0;
    if (collective === undefined) this.#after = [stream];
    this.#launches.push({ call, stream, category, kernel, length, correlation, externalId, args, collective, stalled, after });
  }

  #computing(): number[] {
    return Array.from({ length: this.#options.streams ?? 1 }, (_, index) => computeStream + index);
  }

  #collective(
    op: LaunchedCollective['op'],
    torchName: string,
    group: string,
    elements: number,
    dtype: 'BFloat16' | 'Float',
    { peer, stream: own }: { readonly peer?: number; readonly stream?: number } = {},
  ): void {
    const { rank, size, vintage } = this.#options;
    const numbered = peer === undefined ? group : `${op} ${peer}`;
    const seq = this.#calls.get(numbered) ?? 0;
    this.#calls.set(numbered, seq + 1);
    const all = group === '0' ? Array.from({ length: size }, (_, member) => member) : this.group.ranks;
    const members = peer === undefined ? all : [rank, peer].sort((a, b) => a - b);
    const bytes = elements * (dtype === 'Float' ? 4 : 2);
    const collective = { op, torchName, group, members, elements, dtype, bytes, seq, peer };
    const launch = (externalId: number): void => {
      this.#annotated(`nccl:${vintage === 'today' ? torchName : op}`, () => {
        const stream = own ?? (group === '0' ? worldStream : groupStream);
        this.#launch('cudaLaunchKernelExC', 'kernel', this.#kernelName(op, dtype), 1, {}, { stream, externalId, collective });
      });
    };
    if (vintage === 'today') {
      this.#around('cpu_op', 'record_param_comms', () => launch(this.#ids - 1), this.#communication(collective));
    } else {
      launch(0);
    }
  }

  /** The kernel's name in that year's NCCL. */
  #kernelName(op: LaunchedCollective['op'], dtype: 'BFloat16' | 'Float'): string {
    if (op === 'send' || op === 'recv') return 'ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)';
    const pascal = { reduce_scatter: 'ReduceScatter', all_gather: 'AllGather', all_reduce: 'AllReduce' }[op];
    const type = dtype === 'Float' ? 'f32' : 'bf16';
    if (this.#options.vintage !== 'today') return `ncclKernel_${pascal}_RING_LL_Sum_${type}(ncclWorkElem)`;
    return `ncclDevKernel_${pascal}_${op === 'all_gather' ? '' : `Sum_${type}_`}RING_LL(ncclDevKernelArgsStorage<4096ul>)`;
  }

  #communication(collective: LaunchedCollective | undefined): Arguments {
    if (collective === undefined || this.#options.vintage !== 'today') return {};
    const { op, torchName, group, members, elements, dtype, seq, peer } = collective;
    const sides = peer === undefined ? {} : { [op === 'send' ? 'Dst Rank' : 'Src Rank']: peer };
    return {
      ...{ 'Collective name': torchName, 'Process Group Name': group, 'Process Group Ranks': `[${members.join(', ')}]` },
      ...{ 'In msg nelems': elements, 'Out msg nelems': elements, 'Group size': members.length, dtype },
      ...sides,
      ...(this.#options.hasSeq ? { Seq: seq } : {}),
    };
  }
}
