// Step times of real runs (steptime) and the series of the Turing change-point data set (changepoint), out of the recordings of others.

import { readdirSync, readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import type { Annotations } from './change-scores.ts';
import type { MarkedSeries, StepCorpus, StepSeries } from './step-series.ts';

/** `data`: the folder of the recordings. */
export function readRecordedCorpus(data: string): StepCorpus {
  const nanogpt = readNanogptSteps(data);
  return {
    names: { stationary: 'class S', withEvaluations: 'MLPerf', growth: 'class B', slightGrowth: 'class D', marked: 'TCPD' },
    stationary: nanogpt.get('S') ?? [],
    withEvaluations: readMlperfSteps(data),
    growth: nanogpt.get('B') ?? [],
    slightGrowth: nanogpt.get('D') ?? [],
    marked: readMarkedSeries(data),
  };
}

/** modded-nanogpt by class: S stationary, B planned growth, D growth of 2 to 3 %. Times are whole milliseconds. */
function readNanogptSteps(data: string): Map<string, StepSeries[]> {
  const classes = new Map(rowsOf(`${data}/steptime/nanogpt_runs.csv.gz`).map((row) => [row[0] as string, row.at(-1) as string]));
  const byClass = new Map<string, StepSeries[]>();
  for (const [name, rows] of runsOf(`${data}/steptime/nanogpt_steps.csv.gz`)) {
    const steps = { times: Float64Array.from(rows, (row) => Number(row[2])), isEval: rows.map(() => false) };
    const about = classes.get(name) ?? '?';
    byClass.set(about, [...(byClass.get(about) ?? []), steps]);
  }
  return byClass;
}

/** MLPerf GPT-3 and Llama 3.1 405B. Three runs hold evaluations that are not marked: a third of a training step. They are marked here. */
function readMlperfSteps(data: string): StepSeries[] {
  return runsOf(`${data}/steptime/mlperf_steps.csv.gz`).map(([, rows]) => {
    const times = Float64Array.from(rows, (row) => Number(row[3]));
    const middle = Float64Array.from(times).sort()[times.length >> 1] as number;
    return { times, isEval: rows.map((row, index) => row[4] === '1' || (times[index] as number) < middle / 2) };
  });
}

/** Each series of the data set, where one has several its first, with the changes that people marked in it. */
function readMarkedSeries(data: string): MarkedSeries[] {
  const directory = `${data}/changepoint/tcpd/`;
  const marks = JSON.parse(readFileSync(`${directory}annotations.json`, 'utf8')) as Record<string, Annotations>;
  return readdirSync(directory)
    .filter((file) => file.endsWith('.json') && file !== 'annotations.json')
    .sort()
    .map((file) => {
      const name = file.slice(0, -'.json'.length);
      const { series } = JSON.parse(readFileSync(directory + file, 'utf8')) as { series: { raw: (number | null)[] }[] };
      const raw = series[0]?.raw ?? [];
      return { values: raw.map((value, index) => value ?? lastBefore(raw, index)), annotations: marks[name] ?? {} };
    });
}

function lastBefore(raw: readonly (number | null)[], index: number): number {
  for (let at = index - 1; at >= 0; at--) if (typeof raw[at] === 'number') return raw[at] as number;
  return raw.find((value): value is number => value !== null) ?? 0;
}

function runsOf(file: string): [name: string, rows: string[][]][] {
  const runs = new Map<string, string[][]>();
  for (const row of rowsOf(file)) {
    const name = row[0] as string;
    const rows = runs.get(name);
    if (rows === undefined) runs.set(name, [row]);
    else rows.push(row);
  }
  return [...runs];
}

function rowsOf(file: string): string[][] {
  const text = gunzipSync(readFileSync(file)).toString();
  const lines = text.trim().split(/\r?\n/);
  return lines.slice(1).map((line) => line.split(','));
}
