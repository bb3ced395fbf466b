// Compares `ranktrace merge` of a GPU job's files with the files.

import { readFileSync } from 'node:fs';
import { expect } from 'vitest';
import { openTrace } from '../oracle/trace-processor.ts';
import { isInstant, isNcclKernel, isSpan, isStep, type KinetoFileEvent, kinetoFileEvents } from './gpu-job-files.ts';
import { runLine } from './warm-command.ts';

/** Merges `files`, by rank, into the Chrome trace `trace`: every event of each file, on its rank. No rank may be blamed. */
export async function expectChromeTrace(files: readonly string[], trace: string): Promise<void> {
  const { stdout, stderr, code } = await runLine(['merge', ...files, '-o', trace, '--json']);
  expect(code, stderr).toBe(0);
  expect(stderr).toBe('');
  const report = JSON.parse(stdout);
  expect(report.findings).toEqual([]);
  const merged = JSON.parse(readFileSync(trace, 'utf8')).traceEvents as KinetoFileEvent[];
  for (const [rank, path] of files.entries()) {
    const events = kinetoFileEvents(path);
    const spans = events.filter(isSpan);
    const [step, collective] = [spans.filter(isStep).length, spans.filter(isNcclKernel).length];
    const instant = events.filter(isInstant).length;
    expect(report.ranks[rank].counts).toEqual({ span: spans.length - step - collective, instant, counter: 0, step, collective, rpc: 0 });
    expect(merged.filter(({ ph, pid }) => ph === 'X' && pid === rank + 1)).toHaveLength(spans.length);
  }
}

/** Merges the files of `folder` into the Perfetto trace `trace`, which Perfetto's own processor reads. Returns the number of its arrows. */
export async function expectPerfettoTrace(folder: string, files: readonly string[], trace: string): Promise<number> {
  const { code, stderr } = await runLine(['merge', folder, '-o', trace]);
  expect(code, stderr).toBe(0);
  const all = files.flatMap(kinetoFileEvents);
  using opened = await openTrace(readFileSync(trace));
  const count = async (where: string): Promise<unknown> => (await opened.query(`select count(*) as n from slice where ${where}`))[0]?.n;
  expect(await opened.query("select name, value from stats where severity in ('error', 'data_loss') and value > 0")).toEqual([]);
  for (const category of ['cpu_op', 'cuda_runtime', 'gpu_memcpy', 'gpu_memset', 'gpu_user_annotation']) {
    expect(await count(`category = '${category}'`)).toBe(all.filter(({ cat }) => cat === category).length);
  }
  expect(await count("category = 'kernel'")).toBe(all.filter((event) => event.cat === 'kernel' && !isNcclKernel(event)).length);
  expect(await count("category = 'collective'")).toBe(all.filter(isNcclKernel).length);
  const [links] = await opened.query('select count(distinct slice_out) as n from flow');
  return Number(links?.n);
}
