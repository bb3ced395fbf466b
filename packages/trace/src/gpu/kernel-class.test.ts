// The class of device work, by names that libraries have used over the years.

import { describe, expect, test } from 'vitest';
import { isTensorCoreOp, kindOf, kindOfCategory, transferKind, usesTensorCores, workClass, workClasses } from './kernel-class.ts';

const classOfKernel = (name: string): string | undefined => workClasses[workClass(kindOf.kernel, name)];

describe('class of a kernel', () => {
  test.each([
    'ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)',
    'ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)',
    'ncclSymkDevKernel_AllGather_LL(ncclSymkDevArgs)',
    'ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)',
    'ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)',
    'void ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclDevComm*)',
    'hcclAllReduce_AicpuKernel',
    'void nvshmemi_proxy_quiet_kernel()',
    'void deep_ep::intranode::dispatch<8, 768>(int4*, float*)',
    'void vllm::cross_device_reduce_1stage<nv_bfloat16, 8>(vllm::RankData*)',
    'void c10d::symmetric_memory::one_shot_all_reduce_kernel<float>(float**)',
    'multimem_all_reduce_kernel(float*)',
  ])('%s is communication', (name) => expect(classOfKernel(name)).toBe('communication'));

  test.each([
    'sm90_xmma_gemm_bf16bf16_tn_n_tilesize128x128x64',
    'void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float> >(at::native::ReduceOp<float>)',
    'triton_red_fused__fused_rms_norm_11',
    'void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int>(float*)',
    'void cub::DeviceReduceSingleTileKernel<float>(float*)',
    'my_nccl_free_elementwise',
  ])('%s is compute', (name) => expect(classOfKernel(name)).toBe('compute'));

  test.each(['Memcpy HtoD (Pinned -> Device)', 'Memset (Device)', 'hipMemcpyDtoD', 'dma_copy_0'])('%s is memory', (name) =>
    expect(classOfKernel(name)).toBe('memory'),
  );

  test('copies and sets are memory whatever they are called; waits are no work', () => {
    expect(workClass(kindOf.copy, 'CopyDeviceToHost')).toBe(workClasses.indexOf('memory'));
    expect(workClass(kindOf.set, 'FillBuffer')).toBe(workClasses.indexOf('memory'));
    for (const name of ['Stream Sync', 'Event Sync', 'Context Sync', 'Stream Wait Event']) {
      expect(workClass(kindOf.sync, name)).toBe(workClasses.indexOf('other'));
      expect(classOfKernel(name)).toBe('other');
    }
  });

  test('categories of every year name the kind', () => {
    expect(
      ['kernel', 'Kernel', 'gpu_memcpy', 'Memcpy', 'gpu_memset', 'Memset', 'cuda_sync'].map((name) => kindOfCategory.get(name)),
    ).toEqual([kindOf.kernel, kindOf.kernel, kindOf.copy, kindOf.copy, kindOf.set, kindOf.set, kindOf.sync]);
    expect(kindOfCategory.get('gpu_user_annotation')).toBeUndefined();
  });
});

test('copies are reported apart by their direction', () => {
  expect(transferKind('Memcpy HtoD (Pinned -> Device)')).toBe('Memcpy HtoD');
  expect(transferKind('Memcpy DtoD')).toBe('Memcpy DtoD');
  expect(transferKind('Memset (Device)')).toBe('Memset');
  expect(transferKind('Memcpy <unknown> (Unknown -> Device)')).toBe('Memcpy <unknown>');
  expect(transferKind('MemcpyH2D')).toBe('MemcpyH2D');
  expect(transferKind('CopyDeviceToHost')).toBe('Memcpy DtoH');
  expect(transferKind('CopyHostToDevice2D')).toBe('Memcpy HtoD');
  expect(transferKind('FillBuffer')).toBe('Memset');
});

test('tensor cores by the name of the kernel, and by that of the op', () => {
  for (const name of [
    'volta_h884gemm_64x64_ldg8_nn',
    'sm90_xmma_gemm_bf16bf16_tn_n_tilesize128x128x64',
    'void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_16x6_nn_align4>(Params)',
    'nvjet_tst_128x256_64x4_2x1_v_bz_NNT',
    'void flash_fwd_kernel<Flash_fwd_kernel_traits<64> >(Flash_fwd_params)',
    'sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x32_stage4_warpsize2x2x1_g1_tensor16x8x16_kernel_cudnn',
    'sm90_xmma_dgrad_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_warpgroupsize1x1x1_g1_kernel__5x_cudnn',
    'Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_MI16x16x16x1_SN_1LDSB0.kd',
    'void ck::kernel_gemm_xdl_cshuffle_v3<float>(float*)',
    'igemm_fwd_gtcx_nhwc_fp16_bx0_ex1_bt256x128x32_wt32x32x4_ws2x1',
  ])
    expect(usesTensorCores(name), name).toBe(true);
  for (const name of [
    ...['volta_sgemm_128x64_nn', 'void cudnn::detail::dgrad_engine<float, 512>(int)', 'Memset (Device)'],
    'sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw_tilesize32x32x8_stage3_warpsize1x2x1_g1_ffma_aligna4_alignc4_kernel_cudnn',
    'Cijk_Ailk_Bljk_SB_MT64x64x8_SE_K1.kd',
  ])
    expect(usesTensorCores(name), name).toBe(false);
  expect(['aten::mm', 'AddmmBackward', 'BmmBackward0', 'aten::linear'].every(isTensorCoreOp)).toBe(true);
  expect(['aten::add', 'AddBackward', 'mm', 'AddmmBackward0'].some(isTensorCoreOp)).toBe(false);
  // TensorFlow's and TensorFlow.js's.
  const native = [
    'Conv2D',
    '_FusedConv2D',
    'FusedConv2D',
    'Conv2DBackpropFilter',
    'DepthwiseConv2dNativeBackpropInput',
    'FusedDepthwiseConv2D',
  ];
  expect(
    [...native, 'MatMul', 'BatchMatMul', 'BatchMatMulV2', '_FusedMatMul', 'CudnnRNNV3'].filter((name) => !isTensorCoreOp(name)),
  ).toEqual([]);
  expect(['Add', 'BiasAdd', 'MaxPoolGrad', 'MatMulTimer', 'my Conv2D', 'Reshape'].filter(isTensorCoreOp)).toEqual([]);
});
