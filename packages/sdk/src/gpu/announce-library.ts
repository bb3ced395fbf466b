// CUDA's driver tells CUPTI of its calls only if it learns of a tool when it starts (seen on an H200: kernels came, and none of the calls that launched them). So
// it must be named before the program's first work on a GPU; what the library then does without a folder for rings is nothing, until recording starts.

import { libraryPath } from '@ranktrace/gpu';

/** Names the library to CUDA's driver, unless the program named one. On the main thread: other threads have an environment of their own. */
export function announceLibrary(): void {
  if ((process.env.CUDA_INJECTION64_PATH ?? '') !== '' || process.env.RANKTRACE_GPU === '0') return;
  const path = libraryPath('ranktrace-gpu.node');
  if (path !== undefined) process.env.CUDA_INJECTION64_PATH = path;
}
