// Finds the cause of slower steps, and their place on the timeline: merges only the steps around the onset, out of the store.
//
//   │ before: 64 steps │ onset … the step with which it was certain │
//     levels ────────────► blameOfRise ◄─────────────────── levels
//
// Where the series rose again, the steps now are those since its latest rise; of a slow rise, the last ones. Soon after ranks were started again, the
// steps before are those of the lives before.

import { type Alert, isBeside, nanosPerMs, traceTime } from '@ranktrace/protocol';
import {
  type BatchSource,
  lengthText,
  mergeSteps,
  rankNumbersText,
  type StepsSource,
  type TraceEvent,
  type TraceHeader,
  type TraceSink,
  teeSink,
} from '@ranktrace/trace';
import type { EngineAlert } from '@ranktrace/trace/alert';
import { type BlameChange, type BlameWindow, blameOfRise, blameOfWindow, StepBlameSink, slowOps } from '@ranktrace/trace/blame';
import { lastStepOf, type StepRange, stepsOf } from '../capture/step-windows.ts';
import { driveSteps } from '../model/drive-steps.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';
import { readableSource, type StoredSource } from '../store/write-trace.ts';

/** Place of an alert: times of the run's axis, ns, and of the wall clock. */
export interface AlertPlace {
  readonly from: number;
  readonly until: number;
  readonly onsetAt: string | null;
}

export interface Explained {
  readonly cause: Alert['cause'];
  readonly place: AlertPlace | undefined;
}

/** One incarnation of a rank in the store; `life` counts those of the run, in order. */
type StoredLife = StoredSource & { readonly life: number; readonly isLatest: boolean };

/** Reads the steps around the onset of `alert`. Rejects with the signal's reason when it is aborted. */
export async function explainAlert(alert: EngineAlert, stored: readonly StoredLife[], signal: AbortSignal): Promise<Explained> {
  const { onsetStep, step } = alert;
  if (onsetStep === null) return { cause: causeOfHint(alert), place: undefined };
  const certain = Math.max(onsetStep, step ?? onsetStep);
  const ranges = rangesOf(alert, onsetStep, certain);
  const sources: StepsSource[] = [];
  for (const source of stored.filter(({ isLatest }) => isLatest)) sources.push(...(await stepsIn(source, ranges, signal)));
  if (sources.length === 0) return { cause: causeOfHint(alert), place: undefined };
  const places = new PlaceSink(onsetStep, certain);
  const steps = await blameIn(sources, places, signal);
  const isOfUsual = alert.unit === 'ns' && alert.hint?.stated === undefined;
  const cause = isOfUsual ? await causeIn(steps, alert, onsetStep, stored, signal) : causeOfHint(alert);
  return { cause: cause && { ...cause, hosts: places.hostsOf(cause.ranks) }, place: places.place };
}

/** The batches of a life that have these steps, or none. */
async function stepsIn(source: StoredLife, ranges: readonly StepRange[], signal: AbortSignal): Promise<StepsSource[]> {
  const found = await driveSteps(stepsOf(source, ranges), { signal });
  return found === undefined ? [] : [withMetadata(found, readableSource(source, undefined))];
}

async function blameIn(sources: readonly StepsSource[], beside: TraceSink | undefined, signal: AbortSignal): Promise<StepBlameSink> {
  const blame = new StepBlameSink({ stepsMax: 2 * limits.alertBlameSteps + 2 });
  await driveSteps(mergeSteps(sources, beside === undefined ? blame : teeSink(blame, beside)), { signal });
  return blame;
}

/**
 * The last steps of the lives before, whatever their numbers: a program may count from 0 again. Of ranks that were not started again, those before the
 * onset.
 */
async function earlierSteps(stored: readonly StoredLife[], onsetStep: number, signal: AbortSignal): Promise<BlameWindow | undefined> {
  const count = limits.alertBlameSteps;
  const sources = new Map<number, StepsSource[]>();
  const over = stored.filter(({ isLatest, incarnation }) => !isLatest && !isBeside(incarnation)).sort((a, b) => b.life - a.life);
  for (const source of over) {
    const last = sources.has(source.rank) ? -1 : await driveSteps(lastStepOf(source), { signal });
    if (last >= 0) sources.set(source.rank, await stepsIn(source, [{ fromStep: Math.max(0, last + 1 - count), toStep: last }], signal));
  }
  if (sources.size === 0) return undefined;
  const ranges = [{ fromStep: Math.max(0, onsetStep - count), toStep: onsetStep - 1 }];
  for (const source of stored.filter(({ isLatest, rank }) => isLatest && !sources.has(rank)))
    sources.set(source.rank, await stepsIn(source, ranges, signal));
  return await driveSteps((await blameIn([...sources.values()].flat(), undefined, signal)).cutting(), { signal });
}

/** The steps before the onset, and the clearest ones after it: for a slow rise the last ones, for one that rose again those since then. */
function rangesOf(alert: EngineAlert, onsetStep: number, certain: number): StepRange[] {
  const count = limits.alertBlameSteps;
  const fromStep = Math.max(0, onsetStep - count);
  const since = slowSince(alert, onsetStep, certain);
  const toStep = Math.min(certain, since + count);
  if (since <= onsetStep) return [{ fromStep, toStep }];
  return [
    { fromStep, toStep: onsetStep },
    { fromStep: since, toStep },
  ];
}

/** The first of the steps that show all of the rise. */
function slowSince({ rule, latestOnsetStep = 0 }: EngineAlert, onsetStep: number, certain: number): number {
  const latest = rule === 'step_time_drift' ? Math.max(latestOnsetStep, certain - limits.alertBlameSteps) : latestOnsetStep;
  return Math.max(onsetStep, Math.min(latest, certain));
}

async function causeIn(
  steps: StepBlameSink,
  alert: EngineAlert,
  onsetStep: number,
  stored: readonly StoredLife[],
  signal: AbortSignal,
): Promise<Alert['cause']> {
  const { series, before: level, after, step } = alert;
  const since = slowSince(alert, onsetStep, Math.max(onsetStep, step ?? onsetStep));
  // Each window has its own waits for a CPU.
  let before = await driveSteps(
    steps.cutting((one) => one < onsetStep),
    { signal },
  );
  if (before.steps.length < limits.alertBlameStepsMin) {
    const earlier = await earlierSteps(stored, onsetStep, signal);
    if (earlier !== undefined && earlier.steps.length > before.steps.length) before = earlier;
  }
  const now = await driveSteps(
    steps.cutting((one) => one >= since),
    { signal },
  );
  // The task is to explain the alert's own change: these steps may show others besides.
  const change = blameOfRise(before, now, { series, change: level === null || after === null ? undefined : after - level });
  if (change.kind !== 'inconclusive') return causeOf(change, costIn(now, change));
  const hinted = causeOfHint(alert);
  // A hint from series of single ranks is better than nothing, but on a busy host one rank or another is slow by chance.
  const { stragglers } = change;
  const isByChance = hinted?.kind === 'straggler' && stragglers !== undefined && !hinted.ranks.some((rank) => stragglers.includes(rank));
  if (hinted !== null && hinted.kind !== 'inconclusive' && !isByChance) return hinted;
  return { ...causeOf(change), phase: isByChance ? null : (hinted?.phase ?? null) };
}

/** The cost of the fault, as a report words it, or of each where ranks are slow in different phases; and its ops. */
function costIn(now: BlameWindow, { kind, ranks, phase }: BlameChange): string[] {
  const isThis = (of: readonly number[]): boolean => ranks.length === 0 || of.some((rank) => ranks.includes(rank));
  const found = blameOfWindow(now).findings.filter((one) => one.kind === kind && isThis(one.ranks));
  const ops = slowOps(now, ranks, phase);
  const lengthOf = ({ costMsPerStep }: (typeof found)[number]): string => lengthText(costMsPerStep * nanosPerMs);
  if (phase !== undefined || found.length < 2) {
    const whole = found.find((one) => one.phase === phase) ?? found[0];
    return [...(whole === undefined ? [] : [`it costs ${lengthOf(whole)} per affected step`]), ...ops];
  }
  const costs = found.map(
    (one) => `${lengthOf(one)} for rank${one.ranks.length === 1 ? '' : 's'} ${rankNumbersText(one.ranks, ranksCosted)}`,
  );
  return [`they cost per affected step, each with the others mended: ${costs.slice(0, ranksCosted).join(', ')}`, ...ops];
}

/** Ranks whose cost a cause gives. */
const ranksCosted = 5;

function causeOf({ kind, ranks, phase, shareOfChange, evidence }: BlameChange, cost: readonly string[] = []): NonNullable<Alert['cause']> {
  const text = [...evidence, ...cost].join('; ').slice(0, 1024);
  return { kind, ranks: [...ranks], hosts: [], phase: phase ?? null, share: kind === 'inconclusive' ? null : shareOfChange, text };
}

/** The cause from the ranks and the phase whose own series changed with the cluster's, or from ranks that announced where they are. */
export function causeOfHint({ hint }: EngineAlert): Alert['cause'] {
  if (hint === null) return null;
  const { ranks, isOfAll, phase, stated } = hint;
  if (stated !== undefined) {
    return { kind: stated.kind, ranks: [...ranks], hosts: [], phase: phase ?? null, share: null, text: stated.text.slice(0, 1024) };
  }
  const [kind, who] =
    ranks.length > 0
      ? (['straggler', `the own work of rank${ranks.length === 1 ? '' : 's'} ${ranks.join(', ')} became longer`] as const)
      : isOfAll === true
        ? (['cluster_wide', 'most ranks became slower'] as const)
        : (['inconclusive', 'steps became longer, and no rank by itself'] as const);
  const text = `${who}${phase === undefined ? '' : `, mostly in ${phase}`}`.slice(0, 1024);
  return { kind, ranks: [...ranks], hosts: [], phase: phase ?? null, share: null, text };
}

/** The ranks of an alert: none where the cause is of all of them or of none, or is not known. */
export const ranksOf = (said: readonly number[], cause: Alert['cause']): number[] =>
  !(cause !== null && kindsOfNobody.has(cause.kind)) && said.length > 0 ? [...said] : [...(cause?.ranks ?? [])];
const kindsOfNobody: ReadonlySet<string> = new Set(['cluster_wide', 'cpu_contention', 'inconclusive']);

/** Puts the metadata that a rank sent at its beginning (its stage, its role) in front of the steps to read. */
function withMetadata(steps: StepsSource, whole: BatchSource): StepsSource {
  if (steps.count === whole.count) return steps;
  return {
    ...steps,
    count: steps.count + 1,
    batch: (index, only) => (index === 0 ? whole.batch(0, ['metadata']) : steps.batch(index - 1, only)),
  };
}

/** Finds the begin of the onset and the end of the merged stretch. */
class PlaceSink implements TraceSink {
  #processes: TraceHeader['processes'] = [];
  readonly #onset: number;
  readonly #last: number;
  #unixEpoch: bigint | undefined;
  #from = Number.POSITIVE_INFINITY;
  #until = Number.NEGATIVE_INFINITY;

  constructor(onset: number, last: number) {
    this.#onset = onset;
    this.#last = last;
  }

  begin({ unixEpoch, processes }: TraceHeader): void {
    this.#unixEpoch = unixEpoch;
    this.#processes = processes;
  }

  lane(): void {}

  event({ kind, step, start, length }: TraceEvent): void {
    if (kind !== 'step') return;
    this.#until = Math.max(this.#until, start + length);
    if (step >= this.#onset && step <= this.#last) this.#from = Math.min(this.#from, start);
  }

  end(): void {}

  /** Names of the hosts of these ranks. */
  hostsOf(ranks: readonly number[]): string[] {
    return [...new Set(this.#processes.filter(({ rank }) => ranks.includes(rank)).map(({ hostName }) => hostName))];
  }

  /** A hang, or a rank that stopped, lies after the last step that ended. */
  get place(): AlertPlace | undefined {
    if (!Number.isFinite(this.#until)) return undefined;
    const from = traceTime(Math.round(Number.isFinite(this.#from) ? this.#from : this.#until));
    const onset = this.#unixEpoch === undefined ? undefined : this.#unixEpoch + BigInt(from);
    const onsetAt = onset === undefined ? null : new Date(Number(onset / 1_000_000n)).toISOString();
    return { from, until: Math.round(Math.max(this.#until, from + limits.alertPlaceMsMin * 1e6)), onsetAt };
  }
}

/** The cause with the hosts that are known already: it is updated when more ranks stop. */
export const withHosts = (cause: Alert['cause'], known: Alert['cause']): Alert['cause'] => cause && { ...cause, hosts: known?.hosts ?? [] };
