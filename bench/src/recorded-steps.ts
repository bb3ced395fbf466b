// Step times of real runs (../shared/data/steptime) and the series of the Turing change-point data set (../shared/data/changepoint).

import { readdirSync, readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import type { Annotations } from './change-scores.ts';
import { dataDirectory } from './recorded-spans.ts';

/** Steps of one run, in order. Evaluations are there where the file has them, and marked. */
export interface RecordedSteps {
  readonly name: string;
  /** S stationary, B planned growth, D growth of 2 to 3 %; M: MLPerf. */
  readonly kind: string;
  readonly steps: readonly number[];
  readonly times: Float64Array;
  readonly isEval: readonly boolean[];
}

/** modded-nanogpt: classes S, B and D. Times are whole milliseconds. */
export function readNanogptSteps(): RecordedSteps[] {
  const kinds = new Map(rowsOf('steptime/nanogpt_runs.csv.gz').map((row) => [row[0] as string, row.at(-1) as string]));
  return runsOf('steptime/nanogpt_steps.csv.gz').map(([name, rows]) => ({
    name,
    kind: kinds.get(name) ?? '?',
    steps: rows.map((row) => Number(row[1])),
    times: Float64Array.from(rows, (row) => Number(row[2])),
    isEval: rows.map(() => false),
  }));
}

/** MLPerf GPT-3 and Llama 3.1 405B. Three runs hold evaluations that are not marked: a third of a training step. They are marked here. */
export function readMlperfSteps(): RecordedSteps[] {
  return runsOf('steptime/mlperf_steps.csv.gz').map(([name, rows]) => {
    const times = Float64Array.from(rows, (row) => Number(row[3]));
    const middle = Float64Array.from(times).sort()[times.length >> 1] as number;
    return {
      name,
      kind: 'M',
      steps: rows.map((_, index) => index),
      times,
      isEval: rows.map((row, index) => row[4] === '1' || (times[index] as number) < middle / 2),
    };
  });
}

/** A series of the Turing change-point data set, of several its first, with what people marked in it. */
export interface MarkedSeries {
  readonly name: string;
  readonly values: readonly number[];
  readonly annotations: Annotations;
}

export function readMarkedSeries(): MarkedSeries[] {
  const directory = `${dataDirectory}changepoint/tcpd/`;
  const marks = JSON.parse(readFileSync(`${directory}annotations.json`, 'utf8')) as Record<string, Annotations>;
  return readdirSync(directory)
    .filter((file) => file.endsWith('.json') && file !== 'annotations.json')
    .sort()
    .map((file) => {
      const name = file.slice(0, -'.json'.length);
      const { series } = JSON.parse(readFileSync(directory + file, 'utf8')) as { series: { raw: (number | null)[] }[] };
      const raw = series[0]?.raw ?? [];
      return { name, values: raw.map((value, index) => value ?? lastBefore(raw, index)), annotations: marks[name] ?? {} };
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
  const text = gunzipSync(readFileSync(dataDirectory + file)).toString();
  const lines = text.trim().split(/\r?\n/);
  return lines.slice(1).map((line) => line.split(','));
}
