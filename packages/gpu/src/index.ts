// Kernels, copies and collectives of a process, out of the ring that its C library writes.

export { GpuError, type GpuErrorCode } from './errors.ts';
export { GpuRows, rowsMax } from './gpu-rows.ts';
export { type GpuLibrary, libraryPath, loadGpuLibrary, missingLibrary } from './library.ts';
export { type GpuGroup, RingReader, type RingState } from './ring-reader.ts';
export { rowKind } from './row-layout.ts';
