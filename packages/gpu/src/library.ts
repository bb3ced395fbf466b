// The C library as Node loads it: an addon that records this process's own CUDA work into a ring.

import { createRequire } from 'node:module';

export interface GpuLibrary {
  /** Starts recording into a new ring; '' where it records, else why not. It may take a second: it loads CUPTI. */
  start(path: string, capacity: number): string;
  /** The ring in use, which may have been made before Node loaded the library; '' for none. */
  path(): string;
  /** Brings what is finished into the ring. */
  flush(): void;
  /** Brings all into the ring, and records no more. */
  stop(): void;
}

export type LibraryName = 'ranktrace-gpu.node' | 'libranktrace-nccl-profiler.so';

const platform = `${process.platform}-${process.arch}`;

/** Why there is no library, and the remedy. */
export const missingLibrary: string = `the library that records kernels is missing: ${
  process.platform === 'linux'
    ? `a build with a C compiler makes it, and npm run release packs it as @ranktrace/gpu-${platform} (docs/gpu.md)`
    : 'it is for Linux alone'
}`;

/** Path of a library for this platform: of the package with prebuilt ones, if it is installed, or built here. Undefined where there is none. */
export function libraryPath(name: LibraryName): string | undefined {
  const { resolve } = createRequire(import.meta.url);
  for (const place of [`@ranktrace/gpu-${platform}/${name}`, `@ranktrace/gpu/native/${platform}/${name}`]) {
    try {
      return resolve(place);
    } catch {
      // The next one.
    }
  }
  return undefined;
}

/** Loads the library into this process, or says why it cannot be. */
export function loadGpuLibrary(): GpuLibrary | { readonly missing: string } {
  const path = libraryPath('ranktrace-gpu.node');
  if (path === undefined) return { missing: missingLibrary };
  try {
    return createRequire(import.meta.url)(path) as GpuLibrary;
  } catch (error) {
    return { missing: `the library that records kernels cannot be loaded: ${(error as Error).message}` };
  }
}
