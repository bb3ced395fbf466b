// What a piece of device work is for: the one table of names.
//
//   compute         every kernel that is not communication
//   communication   kernels of NCCL, RCCL, HCCL, NVSHMEM and of all-reduces written for one product
//   memory          copies and sets
//   other           waits on streams and events: they are no work
//
// Names are those that CUPTI, roctracer and Ascend's profiler report: a demangled signature, so it may begin with its return type.

/** By number: columns keep the index. */
export const workClasses = ['compute', 'communication', 'memory', 'other'] as const;
export type WorkClass = (typeof workClasses)[number];

/** Numbers of the classes. */
export const classOf = { compute: 0, communication: 1, memory: 2, other: 3 } as const satisfies Record<WorkClass, number>;

/** Kinds of device work, by number. */
export const kindOf = { kernel: 0, copy: 1, set: 2, sync: 3 } as const;

/** Kind of work by the category of its event; undefined: the event is no work, or its kind shows in its name alone. */
export const kindOfCategory: ReadonlyMap<string, number> = new Map([
  ...['kernel', 'concurrent_kernel', 'Kernel', 'collective'].map((name) => [name, kindOf.kernel] as const),
  ...['gpu_memcpy', 'Memcpy'].map((name) => [name, kindOf.copy] as const),
  ...['gpu_memset', 'Memset'].map((name) => [name, kindOf.set] as const),
  ...['cuda_sync', 'cuda_event'].map((name) => [name, kindOf.sync] as const),
]);

const communication: readonly RegExp[] = [
  // NCCL and RCCL: ncclDevKernel_…, ncclKernel_…, ncclSymDevKernel_…, ncclDevKernel_Generic_…; MSCCL's own.
  /^nccl/,
  /\bnccl\w*Kernel/,
  /^msccl/,
  // Ascend and oneCCL.
  /^hccl/i,
  /^oneccl/i,
  // NVSHMEM, and DeepEP's kernels on it.
  /nvshmem/i,
  /\bdeep_ep::/,
  // All-reduces over peer memory: torch's symmetric memory, vLLM, TensorRT-LLM, FlashInfer.
  /\b(?:one|two)_shot_all_reduce/,
  /\bmultimem_(?:one_shot_)?(?:all_reduce|all_gather|reduce_scatter)/,
  /\bcross_device_reduce/,
  /\b(?:trtllm_)?all_?reduce_fusion/i,
  /\b(?:one|two)ShotAllReduceKernel/i,
];

const memory = /^(?:(?:hip)?Mem(?:cpy|set)|dma)/;

/** Waits that a trace shows on a stream, though nothing runs. */
const waits = /^(?:Stream|Event|Context|Device) (?:Sync|Wait)|^(?:cuda|hip)(?:Stream|Event|Device)(?:Synchronize|WaitEvent)$/;

const returnType = /^(?:void|static void|__global__ void) /;

/** Class of device work of a kind and a name; `name` as the profiler reported it. */
export function workClass(kind: number, name: string): number {
  if (kind === kindOf.copy || kind === kindOf.set) return classOf.memory;
  if (kind === kindOf.sync || waits.test(name)) return classOf.other;
  if (memory.test(name)) return classOf.memory;
  const plain = name.replace(returnType, '');
  return communication.some((pattern) => pattern.test(plain)) ? classOf.communication : classOf.compute;
}

/** Copies as AMD's tracer names them. */
const amdCopy = /^Copy(Host|Device)To(Host|Device)(?:2D)?$/;

/** `Memcpy HtoD (Pinned -> Device)` and AMD's `CopyHostToDevice` → `Memcpy HtoD`; `Memset (Device)` and its `FillBuffer` → `Memset`. */
export function transferKind(name: string): string {
  if (name.startsWith('Memset') || name === 'FillBuffer') return 'Memset';
  const [, from, to] = amdCopy.exec(name) ?? [];
  if (from !== undefined && to !== undefined) return `Memcpy ${from[0]}to${to[0]}`;
  return /^Memcpy[^ (]*(?: [^ (]+)?/.exec(name)?.[0] ?? 'other copies';
}

/** Parts of the names of kernels that run on tensor cores: those of PyProf, which the TensorBoard plugin took over, … */
const tensorCoreParts: readonly string[] = [
  ...['h884', 's884', 'h1688', 's1688', 'hmma', 'i8816', '16816', 'c1688'],
  ...['dgrad_1x1_stride_2x2', 'first_layer_wgrad_kernel', 'conv1x1', 'conv2d_c1_k1', 'direct_group'],
  ...['xmma_implicit_gemm', 'xmma_sparse_conv', 'xmma_warp_specialized_implicit_gemm', 'xmma_gemm', 'xmma_sparse_gemm'],
  // … and those of later libraries: CUTLASS 3, cuBLAS for Hopper, FlashAttention.
  ...['tensorop', 'wgmma', 'tcgen05', 'nvjet', 'flash_fwd', 'flash_bwd', 'flash::enable_sm90', 'fmha_cutlass', 'fmha_v2'],
];

/** cuDNN's convolutions for Ampere and later, but for those of plain multiply-adds, and AMD's kernels on its matrix cores: Tensile's, CK's and MIOpen's. */
const tensorCoreKernel = /xmma_\w+_implicit_gemm_(?!\w*_ffma)|_tensor\d+x\d+x\d+|_MI\d+x\d+|_xdl|mfma|igemm_\w+_gtcx/;

/** Whether a kernel of this name runs on tensor cores, AMD's matrix cores among them. */
export const usesTensorCores = (name: string): boolean =>
  tensorCoreParts.some((part) => name.includes(part)) || tensorCoreKernel.test(name);

/** Whether a call of this name launches on devices whose kernels tell by their names whether they run on tensor cores: NVIDIA's and AMD's. */
export const launchesNamedCores = (name: string): boolean => /^(?:cuda|cu[A-Z]|hip)/.test(name);

/** Ops whose kernels could run on tensor cores, by the TensorBoard plugin's list. */
const tensorCoreOps: ReadonlySet<string> = new Set([
  ...['_convolution', '_convolution_nogroup', 'conv1d', 'conv2d', 'conv3d', 'conv_tbc', 'conv_transpose1d', 'conv_transpose2d'],
  ...['conv_transpose3d', 'convolution', 'cudnn_convolution', 'cudnn_convolution_transpose', 'prelu', 'addmm', 'addmv', 'addr'],
  ...['matmul', 'mm', 'mv', 'linear', 'addbmm', 'baddbmm', 'bmm', 'chain_matmul', 'linalg_multi_dot', '_thnn_fused_lstm_cell'],
  ...['_thnn_fused_gru_cell', 'lstm_cell', 'gru_cell', 'rnn_tanh_cell', 'rnn_relu_cell', 'cudnn_convolution_transpose_backward'],
  ...['cudnn_convolution_backward_weight', 'addmm_', 'cudnn_convolution_transpose_backward_weight'],
  ...['cudnn_convolution_transpose_backward_input', 'cudnn_convolution_backward_input', 'cudnn_convolution_backward'],
]);
const tensorCoreBackwardOps: ReadonlySet<string> = new Set([
  ...['CudnnConvolutionBackward', 'BmmBackward0', 'CudnnConvolutionTransposeBackward', 'MmBackward', 'AddmvBackward', 'MvBackward'],
  ...['AddmmBackward', 'AddbmmBackward'],
]);

/** Ops of TensorFlow, by the rule of its profiler (tensorflow/core/profiler/utils, IsOpTensorCoreEligible), and TensorFlow.js's names for them. */
const tensorFlowCoreOp =
  /^(?:_?(?:Fused)?(?:Conv2D|Conv3D|DepthwiseConv2dNative|DepthwiseConv2D)|(?:Conv2D|DepthwiseConv2dNative)Backprop(?:Filter|Input)|_?(?:Fused)?(?:Batch)?MatMul(?:V[23])?|CudnnRNN\w*|XlaDot(?:V2)?)$/;

/** Whether an op of this name could use tensor cores, by the rules of the TensorBoard plugin and of TensorFlow's profiler. */
export const isTensorCoreOp = (name: string): boolean =>
  name.startsWith('aten::') ? tensorCoreOps.has(name.slice(6)) : tensorCoreBackwardOps.has(name) || tensorFlowCoreOp.test(name);
