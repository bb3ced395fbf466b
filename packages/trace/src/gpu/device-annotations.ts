// The program's own spans as the device saw them: how long the work that was launched in each took there, from its first to its last.
//
//   host     │ forward ──│ backward ──│
//   device         │ forward ────────────│ backward ─────────│      torch's `gpu_user_annotation`
//
// Device time of a span so includes the pauses between its work, unlike the sums of kernels by phase.

import type { RankWork } from './device-work.ts';
import { gpuLimits as limits } from './gpu-limits.ts';

/** Spans of one name on a rank's devices; lengths in ns. */
export interface DeviceAnnotation {
  readonly name: string;
  readonly count: number;
  readonly total: number;
  readonly mean: number;
  readonly min: number;
  readonly max: number;
  /** Standard deviation of a sample; 0 for one. */
  readonly deviation: number;
}

const stepName = /^ProfilerStep#\d+$/;

/** By name, most time first; steps are one name, except by HTA's conventions. */
export function deviceAnnotations({ annotations, names, htaCompatible }: RankWork): readonly DeviceAnnotation[] {
  const { columns, length } = annotations;
  const lengths = new Map<string, number[]>();
  for (let row = 0; row < length; row++) {
    const text = names.text(columns.name[row] as number);
    const name = !htaCompatible && stepName.test(text) ? 'ProfilerStep' : text;
    const of = lengths.get(name);
    const time = (columns.end[row] as number) - (columns.start[row] as number);
    if (of === undefined) lengths.set(name, [time]);
    else of.push(time);
  }
  const lines = [...lengths].map(([name, of]): DeviceAnnotation => {
    const total = of.reduce((sum, time) => sum + time, 0);
    const mean = total / of.length;
    const squares = of.reduce((sum, time) => sum + (time - mean) ** 2, 0);
    const [min, max] = [of.reduce((a, b) => Math.min(a, b)), of.reduce((a, b) => Math.max(a, b))];
    return { name, count: of.length, total, mean, min, max, deviation: of.length > 1 ? Math.sqrt(squares / (of.length - 1)) : 0 };
  });
  return lines.sort((a, b) => b.total - a.total).slice(0, limits.gpuLinesMax);
}
