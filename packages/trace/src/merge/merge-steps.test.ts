// Steps of a simulated cluster alone, against the merge of the whole run.

import { type Batch, rankTime } from '@ranktrace/protocol';
import { expect, it } from 'vitest';
import type { BatchSource } from '../model/batch-source.ts';
import type { TraceEvent, TraceHeader, TraceLane, TraceSink } from '../model/trace-sink.ts';
import { simulatedCluster } from '../simulate/simulated-cluster.ts';
import { gpuJob } from '../testing/gpu-job.ts';
import { sourcesOfKineto, tableOfKineto } from '../testing/merged-kineto.ts';
import { mergeRun } from './merge-run.ts';
import { mergeSteps, type StepsSource } from './merge-steps.ts';

/** Every call to the sink, one line each. */
class Lines implements TraceSink {
  readonly events: { readonly rank: number; readonly step: number | undefined; readonly start: number; readonly line: string }[] = [];
  /** Calls of a device's driver, and what they launched. */
  readonly launches: { readonly rank: number; readonly isCall: boolean; readonly correlation: unknown; readonly start: number }[] = [];
  readonly lanes: TraceLane[] = [];
  ranks = 0;
  ended = false;

  begin({ processes }: TraceHeader): void {
    this.ranks = processes.length;
  }

  lane(lane: TraceLane): void {
    expect(this.lanes).not.toContain(lane);
    this.lanes.push(lane);
  }

  event({ lane, kind, state, name, start, length, step, category, arguments: given }: TraceEvent): void {
    expect(this.lanes).toContain(lane);
    const { rank } = lane.process;
    const line = `${rank} ${lane.name} ${state} ${kind} ${name} ${start} +${length}`;
    const correlation = given?.get('correlation');
    const isCall = category === 'cuda_runtime';
    if (isCall || (correlation !== undefined && /^(?:kernel|gpu_)/.test(category)))
      this.launches.push({ rank, isCall, correlation, start });
    this.events.push({ rank, step: kind === 'step' ? step : undefined, start, line });
  }

  end(): void {
    this.ended = true;
  }
}

/** The source with its steps from `fromStep` to `toStep` wanted; a scan finds their place in it. */
function wanted(source: BatchSource, fromStep: number, toStep: number): StepsSource {
  let [from, until] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (let index = 0; index < source.count; index++) {
    const { columns, length } = (source.batch(index, ['steps']) as Batch).tables.steps;
    for (let row = 0; row < length; row++) {
      const step = columns.step[row] as number;
      if (step < fromStep || step > toStep) continue;
      from = Math.min(from, columns.start[row] as number);
      until = Math.max(until, (columns.start[row] as number) + (columns.length[row] as number));
    }
  }
  const windows = [{ fromStep, toStep, from: rankTime(from), until: rankTime(until) }];
  const { rank, incarnation, count, missing } = source;
  return { rank, incarnation, count, missing, batch: (index, only) => source.batch(index, only), windows };
}

it('gives each rank its own steps, as the whole run has them, and nothing else', () => {
  const { sources } = simulatedCluster({ ranks: 8, hosts: 4, steps: 60, seed: 7, driftPpm: 40, lost: 0 });
  const whole = new Lines();
  for (const _ of mergeRun(sources, whole));
  const part = new Lines();
  for (const _ of mergeSteps(
    sources.map((source) => wanted(source, 20, 23)),
    part,
  ));
  const edges = Array.from({ length: 8 }, (_, rank) => {
    const start = (step: number) => whole.events.find((event) => event.rank === rank && event.step === step)?.start ?? Number.NaN;
    return { from: start(20), until: start(24) };
  });
  const inside = whole.events.filter(({ rank, step, start }) => {
    const { from, until } = edges[rank] as (typeof edges)[number];
    return step === undefined ? start >= from && start < until : step >= 20 && step <= 23;
  });
  expect(part.events.map(({ line }) => line)).toEqual(inside.map(({ line }) => line));
  expect(part.events.length).toBeGreaterThan(8 * 4 * 3);
  expect([part.ranks, part.ended]).toEqual([8, true]);
});

it('has all work of devices that these steps launched, however late it runs, and none that others launched', () => {
  const { files } = gpuJob({ ranks: 2, steps: 8, seed: 3, faults: [{ kind: 'slow_kernels', rank: 0, amount: 40 }] });
  const sources = sourcesOfKineto(files.map(({ text }) => tableOfKineto(text)));
  const whole = new Lines();
  for (const _ of mergeRun(sources, whole));
  const part = new Lines();
  // As if the host's steps began and ended in the midst of its device's work.
  const halves = sources.map((source) => {
    const steps = wanted(source, 3, 4);
    const [{ from = 0, until = 0 } = {}] = steps.windows;
    const cut = { from: rankTime(Math.round(from + (until - from) / 3)), until: rankTime(Math.round(from + (until - from) / 2)) };
    return { ...steps, began: from, windows: steps.windows.map((one) => ({ ...one, ...cut })) };
  });
  for (const _ of mergeSteps(halves, part));
  let early = 0;
  for (const [rank, { windows, began }] of halves.entries()) {
    const ahead = (whole.events.find((event) => event.rank === rank && event.step === 3)?.start ?? Number.NaN) - began;
    const [from, until] = [windows[0]?.from ?? 0, windows[0]?.until ?? 0].map((time) => time + ahead) as [number, number];
    const ofRank = ({ launches }: Lines) => launches.filter((one) => one.rank === rank);
    const called = new Map(ofRank(whole).flatMap(({ isCall, correlation, start }) => (isCall ? [[correlation, start] as const] : [])));
    const isWithin = (time = Number.NaN): boolean => time >= from && time < until;
    const launched = ofRank(whole).filter(({ isCall, correlation }) => !isCall && isWithin(called.get(correlation)));
    const work = ofRank(part).filter(({ isCall }) => !isCall);
    expect(work).toEqual(launched);
    expect(work.some(({ start }) => start >= until)).toBe(true);
    const isEarly = ({ isCall, correlation, start }: Lines['launches'][number]): boolean =>
      !isCall && isWithin(start) && !isWithin(called.get(correlation));
    early += ofRank(whole).filter(isEarly).length;
  }
  expect(early).toBeGreaterThan(0);
});

it('leaves a rank out that has none of the steps, and shows what runs where a window has no end', () => {
  const { sources } = simulatedCluster({ ranks: 2, steps: 20, seed: 1 });
  const [one, other] = sources.map((source) => wanted(source, 5, 30)) as [StepsSource, StepsSource];
  const lines = new Lines();
  const open = one.windows.map((window) => ({ ...window, until: rankTime(Number.POSITIVE_INFINITY) }));
  for (const _ of mergeSteps(
    [
      { ...one, windows: open },
      { ...other, windows: [] },
    ],
    lines,
  ));
  expect(new Set(lines.events.map(({ rank }) => rank))).toEqual(new Set([0]));
  expect(lines.events.flatMap(({ step }) => step ?? [])).toEqual(Array.from({ length: 15 }, (_, index) => 5 + index));
});
