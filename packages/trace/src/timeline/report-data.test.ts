import { printable, type ReportPage, type RunProfile } from '@ranktrace/protocol';
import { describe, expect, it } from 'vitest';
import { mergeRun } from '../merge/merge-run.ts';
import type { BatchSource } from '../model/batch-source.ts';
import { finish } from '../model/finish.ts';
import { median } from '../model/robust.ts';
import { simulatedCluster } from '../simulate/simulated-cluster.ts';
import { CountedStepsSink } from '../steps/counted-steps.ts';
import { gpuJob } from '../testing/gpu-job.ts';
import { sourcesOfKineto, tableOfKineto } from '../testing/merged-kineto.ts';
import { ReportDataSink } from './report-data.ts';

const ms = 1e6;

function dataOf(sources: readonly BatchSource[]): ReportDataSink {
  const sink = new ReportDataSink();
  finish(mergeRun(sources, sink));
  return sink;
}

const quiet = { lane: () => {}, endStretch: () => {}, end: () => {} };

interface FileEvent {
  readonly ph: string;
  readonly cat?: string;
  readonly name: string;
  readonly dur?: number;
  readonly args?: Readonly<Record<string, number>>;
}

const eventsOf = (text: string): FileEvent[] => (JSON.parse(text) as { traceEvents: FileEvent[] }).traceEvents;
const sum = (values: readonly number[]): number => values.reduce((all, value) => all + value, 0);

describe('tables of a GPU job', () => {
  const { files } = gpuJob({ seed: 5, ranks: 4, steps: 3 });
  const data = dataOf(sourcesOfKineto(files.map(({ text }) => tableOfKineto(text)))).data;
  const all = data.profile as RunProfile;
  const events = files.map(({ text }) => eventsOf(text));
  const kernels = events.flat().filter(({ cat }) => cat === 'kernel');

  it('have every kernel of the files, by name, in all and by phase', () => {
    const names = new Map<string, number>();
    for (const { name } of kernels) names.set(printable(name), (names.get(printable(name)) ?? 0) + 1);
    expect(new Map(all.kernels.lines.map(({ name, count }) => [name, count]))).toEqual(names);
    expect(all.kernels.lines.every(({ ranks }) => ranks === 4)).toBe(true);
    const inFiles = 1000 * sum(kernels.map(({ dur = 0 }) => dur));
    for (const { lines, rest } of [all.kernels, all.phases]) {
      expect(sum(lines.map(({ total }) => total)) + rest.total).toBeCloseTo(inFiles, -3);
      expect(sum(lines.map(({ share }) => share))).toBeCloseTo(1, 6);
    }
  });

  it('have every op with its calls, and link each line to its longest event', () => {
    const mm = all.operators.lines.find(({ name }) => name === 'aten::mm');
    const inFiles = events.map((of) => of.filter(({ cat, name }) => cat === 'cpu_op' && name === 'aten::mm'));
    expect(mm?.calls).toBe(inFiles.flat().length);
    const longest = Math.max(...inFiles.flat().map(({ dur = 0 }) => dur));
    const { rank, from, until } = mm?.place ?? { rank: -1, from: 0, until: 0 };
    expect((until - from) / 1000).toBeCloseTo(longest, 0);
    expect(inFiles[rank]?.some(({ dur = 0 }) => Math.abs(dur - longest) < 0.01)).toBe(true);
  });

  it('have the peak of memory of each rank, what allocated, and bars whose parts add up', () => {
    for (const [rank, of] of events.entries()) {
      const instants = of.filter(({ name }) => name === '[memory]');
      const peak = Math.max(...instants.map(({ args }) => args?.['Total Allocated'] ?? 0));
      const memory = all.memory.filter((one) => one.rank === rank);
      expect(Math.max(...memory.map((one) => one.peak))).toBe(peak);
      expect(Math.max(...memory.flatMap(({ curve }) => curve.map(([, bytes]) => bytes)))).toBe(peak);
    }
    const allocated = events.flat().flatMap(({ name, args }) => (name === '[memory]' && (args?.Bytes ?? 0) > 0 ? [args?.Bytes ?? 0] : []));
    expect(sum(all.allocators.lines.map(({ bytes }) => bytes)) + all.allocators.rest.total).toBe(sum(allocated));
    for (const { length, compute, overlapped, exposed, copies, hostLate, launch, dependency, unknown, top } of data.overview.gpus ?? []) {
      expect(compute + overlapped + exposed + copies + hostLate + launch + dependency + unknown).toBeCloseTo(length, 0);
      expect(top.length).toBeGreaterThan(0);
    }
  });

  it('of the ranks add up to those of all', () => {
    const sink = dataOf(sourcesOfKineto(files.map(({ text }) => tableOfKineto(text))));
    const profiles = sink.profiles;
    const ofRanks = all.ranks.map((rank) => profiles.of(rank) as RunProfile);
    for (const { name, count, total } of all.kernels.lines) {
      const lines = ofRanks.flatMap(({ kernels: { lines: own } }) => own.filter((line) => line.name === name));
      expect(sum(lines.map((line) => line.count))).toBe(count);
      expect(sum(lines.map((line) => line.total))).toBeCloseTo(total, 0);
    }
    expect(profiles.of(99)).toBeUndefined();
  });
});

describe('steps of a job whose hosts run ahead of their GPUs', () => {
  const faults = [{ kind: 'slow_kernels', amount: 20 }] as const;
  const sourcesOf = (steps: number): readonly BatchSource[] =>
    sourcesOfKineto(gpuJob({ seed: 1, ranks: 3, steps, synchronizes: 'last', faults }).files.map(({ text }) => tableOfKineto(text)));

  it('are as long as in the report: as the GPUs take them, with phases of the hosts', () => {
    const { overview, heat } = dataOf(sourcesOf(12)).data;
    const counted = new CountedStepsSink();
    finish(mergeRun(sourcesOf(12), { ...quiet, begin: (header) => counted.begin(header), event: (event) => void counted.event(event) }));
    const { summary } = counted;
    expect(overview).toMatchObject({ stepsTakenBy: 'devices', steps: 12 });
    expect((overview.hostMedian ?? 0) / (summary.hosts?.median ?? 1)).toBeCloseTo(1, 3);
    expect((overview.percentiles?.p50 ?? 0) / (summary.median ?? 1)).toBeCloseTo(1, 3);
    expect(overview.hostMedian).toBeLessThan((overview.percentiles?.p50 ?? 0) / 5);
    const longest = overview.bins.map((_, bin) => Math.max(...overview.ranks.map(({ peaks }) => peaks[bin] ?? 0)));
    // The report's file has four digits.
    for (const [at, step] of summary.steps.entries()) expect((longest[at] as number) / step.longest).toBeCloseTo(1, 3);
    for (const { rank, mean, hostMean = 0, phases } of overview.ranks) {
      expect(mean / (summary.ranks[rank]?.mean as number)).toBeCloseTo(1, 3);
      expect(hostMean / (summary.ranks[rank]?.hostMean as number)).toBeCloseTo(1, 3);
      expect(sum(phases) / hostMean).toBeCloseTo(1, 2);
    }
    for (const { rows } of heat) expect(rows.every(({ cells }) => cells.length === 12)).toBe(true);
  });

  it("are the hosts' where these wait for the GPUs in each step, and nothing more is said", () => {
    const files = gpuJob({ seed: 1, ranks: 3, steps: 12 }).files.map(({ text }) => tableOfKineto(text));
    const { overview } = dataOf(sourcesOfKineto(files)).data;
    expect(overview.steps).toBe(12);
    expect(overview).not.toHaveProperty('stepsTakenBy');
    expect(overview.ranks.some((rank) => 'hostMean' in rank)).toBe(false);
  });
});

/** Cells of a measure by rank: deviation from the median rank in the same bin, as a part of the median step. */
function deviations({ heat, overview }: Pick<ReportPage, 'heat' | 'overview'>, measure: string): Map<number, number[]> {
  const rows = heat.find((one) => one.measure === measure)?.rows ?? [];
  const rankOf = new Map(overview.ranks.map(({ rank, process }) => [process, rank]));
  const medians = overview.bins.map((_, bin) => median(Float64Array.from(rows, ({ cells }) => cells[bin] ?? 0)));
  return new Map(
    rows.map(({ process, cells }) => [
      rankOf.get(process) as number,
      cells.map((cell, bin) => ((cell ?? Number.NaN) - (medians[bin] as number)) / (overview.median[bin] as number)),
    ]),
  );
}

describe('the heat map', () => {
  it('shows the planted one of 1024 ranks in own work, in waiting and in its phase, while all steps are equally long', () => {
    const stragglers = [{ rank: 517, phase: 'backward', ms: 40 }] as const;
    const { data } = dataOf(simulatedCluster({ ranks: 1024, steps: 8, seed: 3, rpcsPerSecond: 0, stragglers }).sources);
    expect(data.overview.ranks).toHaveLength(1024);
    // Lengths of steps hide it: after the first, which ranks begin at different times, it is as long as any.
    const lengths = data.overview.ranks.map(({ rank, cells }) => ({ rank, length: sum(cells.slice(1).map((cell) => cell ?? 0)) }));
    const [shortest, longest] = [Math.min(...lengths.map(({ length }) => length)), Math.max(...lengths.map(({ length }) => length))];
    expect(longest / shortest).toBeLessThan(1.01);
    expect(lengths.filter(({ length }) => length === longest).map(({ rank }) => rank)).not.toContain(517);
    for (const [measure, sign] of [
      ['own', 1],
      ['waiting', -1],
      ['phase backward', 1],
    ] as const) {
      const cells = deviations(data, measure);
      expect(cells.size, measure).toBe(1024);
      const least = Math.min(...(cells.get(517) as number[]).slice(1).map((deviation) => sign * deviation));
      const others = [...cells].flatMap(([rank, of]) => (rank === 517 ? [] : of.slice(1).map((deviation) => sign * deviation)));
      expect(least, measure).toBeGreaterThan(0.1);
      expect(Math.max(...others), measure).toBeLessThan(least / 2);
    }
    // A thousand ranks with all measures still make a small file.
    expect(JSON.stringify(data).length).toBeLessThan(6e6);
  });

  it('shows which GPU idles: busy for less of the step than the others', () => {
    const faults = [{ kind: 'late_data', rank: 2, amount: 4 * ms }] as const;
    const { files } = gpuJob({ seed: 7, ranks: 4, steps: 4, faults });
    const { data } = dataOf(sourcesOfKineto(files.map(({ text }) => tableOfKineto(text))));
    expect(data.overview.measures).toEqual(['own', 'waiting', 'busy']);
    const busy = deviations(data, 'busy');
    const means = [...busy].map(([rank, of]) => ({ rank, mean: sum(of.filter((one) => !Number.isNaN(one))) / of.length }));
    expect(means.sort((a, b) => a.mean - b.mean)[0]?.rank).toBe(2);
  });
});
