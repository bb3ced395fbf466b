// Files of GPU jobs on disk, and their content.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { type GpuJob, type GpuJobOptions, gpuJob } from '../../packages/trace/src/testing/gpu-job.ts';

export interface KinetoFileEvent {
  readonly ph: string;
  readonly cat?: string;
  readonly name: string;
  readonly pid: number | string;
  readonly args?: Readonly<Record<string, unknown>>;
}

/** Simulates a job and writes its files, zipped, into `folder`, which is made. Returns the job and the files' paths by rank. */
export function writeGpuJob(folder: string, options: GpuJobOptions): GpuJob & { readonly paths: readonly string[] } {
  mkdirSync(folder, { recursive: true });
  const job = gpuJob(options);
  const paths = job.files.map(({ name, text }) => {
    const path = join(folder, `${name}.gz`);
    writeFileSync(path, gzipSync(text));
    return path;
  });
  return { ...job, paths };
}

/** The events of a file about its process, without the profiler's own marks (their pid is a word). */
export const kinetoFileEvents = (path: string): KinetoFileEvent[] =>
  JSON.parse(gunzipSync(readFileSync(path)).toString()).traceEvents.filter(({ pid }: KinetoFileEvent) => typeof pid === 'number');

export const isSpan = ({ ph }: KinetoFileEvent): boolean => ph === 'X';
export const isInstant = ({ ph }: KinetoFileEvent): boolean => ph === 'i';
export const isStep = ({ cat, name }: KinetoFileEvent): boolean => cat === 'user_annotation' && name.startsWith('ProfilerStep#');
export const isNcclKernel = ({ cat, name }: KinetoFileEvent): boolean => cat === 'kernel' && name.startsWith('ncclDevKernel');
