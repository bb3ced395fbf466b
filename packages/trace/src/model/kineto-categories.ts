// Meaning of Kineto's categories, by today's names and those of 2021.
//
//   today                                        2021
//   cpu_op, user_annotation, python_function     Operator        on the host
//   cuda_runtime, cuda_driver, …                 Runtime         calls of the host to a device's driver
//   kernel, gpu_memcpy, gpu_memset, …            Kernel, …       on a device

import type { StringTable } from './string-table.ts';

/** Kernels. */
export const kernelCategories: readonly string[] = ['kernel', 'concurrent_kernel', 'Kernel'];

/** Categories of device work. */
export const deviceCategories: readonly string[] = [
  ...kernelCategories,
  ...['gpu_memcpy', 'gpu_memset', 'gpu_user_annotation', 'cuda_sync', 'cuda_event', 'mtia_ccp_events'],
  ...['Memcpy', 'Memset'],
];

/** Categories of the program's own annotations, on the host and mirrored on a device. */
export const annotationCategories: readonly string[] = ['user_annotation', 'gpu_user_annotation'];

/** Host calls that start device work. */
export const runtimeCategories: readonly string[] = [
  ...['cuda_runtime', 'cuda_driver', 'xpu_runtime', 'xpu_driver'],
  ...['privateuse1_runtime', 'privateuse1_driver', 'mtia_runtime', 'glow_runtime'],
  'Runtime',
];

/** Host categories that are not work of their own: they lie beside or around ops, but never launch anything. */
export const besideCategories: readonly string[] = ['python_function', 'overhead', 'gc'];

/** String indexes of the `categories` that a table has. */
export const indexesOf = (strings: StringTable, categories: Iterable<string>): ReadonlySet<number> =>
  new Set([...categories].map((name) => strings.find(name)).filter((index) => index !== undefined));
