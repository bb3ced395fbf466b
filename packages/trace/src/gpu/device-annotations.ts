// The program's own spans as the device saw them: how long the work that was launched in each took there, from its first to its last.
//
//   host     │ forward ──│ backward ──│
//   device         │ forward ────────────│ backward ─────────│
//
// Device time of a span so includes the pauses between its work, unlike the sums of kernels by phase. Phases count with all that was launched during them,
// on whatever thread: torch's own record of it (`gpu_user_annotation`) has only what the phase's thread launched, of a backward next to nothing. It counts
// for spans that are no phases, and by HTA's conventions for all.

import type { PhaseSpan, RankWork } from './device-work.ts';
import { gpuLimits as limits } from './gpu-limits.ts';
import { kindOf } from './kernel-class.ts';

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

/** By name, most time first; without steps, except by HTA's conventions. */
export function deviceAnnotations(work: RankWork): readonly DeviceAnnotation[] {
  const { annotations, names, htaCompatible } = work;
  const { columns, length } = annotations;
  const lengths = htaCompatible ? new Map<string, number[]>() : phaseLengths(work);
  const isPhase = new Set(lengths.keys());
  for (let row = 0; row < length; row++) {
    const number = columns.name[row] as number;
    const name = names.text(number);
    if (!htaCompatible && (stepName.test(name) || isPhase.has(names.text(names.phase(number))))) continue;
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

/** By name of a phase: the time on the devices of each one that launched work. */
function phaseLengths(work: RankWork): Map<string, number[]> {
  const { phases, names, host } = work;
  const { start, end, kind } = work.work.columns;
  const firsts = new Float64Array(phases.length).fill(Number.POSITIVE_INFINITY);
  const lasts = new Float64Array(phases.length).fill(Number.NEGATIVE_INFINITY);
  for (let row = 0; row < work.work.length; row++) {
    const call = kind[row] === kindOf.sync ? -1 : work.callOf(row);
    const at = call < 0 ? -1 : work.phaseIndexAt(host.columns.start[call] as number);
    if (at < 0) continue;
    firsts[at] = Math.min(firsts[at] as number, start[row] as number);
    lasts[at] = Math.max(lasts[at] as number, end[row] as number);
  }
  const lengths = new Map<string, number[]>();
  for (const [at, first] of firsts.entries()) {
    if (!Number.isFinite(first)) continue;
    const name = names.text((phases[at] as PhaseSpan).name);
    const of = lengths.get(name) ?? [];
    lengths.set(name, of);
    of.push((lasts[at] as number) - first);
  }
  return lengths;
}
