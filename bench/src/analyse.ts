// Analyse: all analyses of a run in one pass over its merged events, against the merge of the same events into nothing.
//
// Both take turns on batches in memory and count CPU time, so on one core. The jobs: 64 generated ranks without devices, 8 generated ranks of a GPU
// job, and where it is found nanogpt-8rank, 8 × H100.
//
// Holistic Trace Analysis reads 98 k events/s: a figure stated elsewhere, not measured here.

import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { analysisSink, mergeRun, type TraceSink } from '@ranktrace/trace';
import { kinetoSources, readKineto } from '@ranktrace/trace/torch';
import { type Figure, figure, type NotMeasured } from './figure.ts';
import { generateRank } from './generated-cluster.ts';
import { generateKineto, kinetoText } from './generated-kineto.ts';
import { overRecordings } from './recordings.ts';
import { inTurns, progress } from './turns.ts';

type Sources = Parameters<typeof mergeRun>[0];

const rounds = 5;
/** Turns of each way before those that count: then all of it is compiled. */
const warmUpRounds = 4;
const hostRanks = 64;
const hostSteps = 120;
const gpuRanks = 8;
const gpuSteps = 3;

export async function analyse(): Promise<(Figure | NotMeasured)[]> {
  return [
    await speed('64 ranks without devices', hostSources()),
    await speed(
      '8 ranks of a GPU job',
      gpuSources(Array.from({ length: gpuRanks }, (_, rank) => kinetoText(generateKineto(rank, gpuSteps)))),
    ),
    ...(await overRecordings('kineto/nanogpt-8rank', async (data) => {
      const texts = Array.from({ length: 8 }, (_, rank) =>
        gunzipSync(readFileSync(`${data}/kineto/nanogpt-8rank/rank${rank}.chrome-trace.json.gz`)),
      );
      return [await speed('nanogpt-8rank', gpuSources(texts))];
    })),
  ];
}

async function speed(name: string, sources: Sources): Promise<Figure> {
  progress(`analyse: ${name}`);
  const events = mergeInto(sources, nothing());
  for (let round = 0; round < warmUpRounds; round++) {
    mergeInto(sources, nothing());
    analyseAll(sources);
  }
  const seconds = await inTurns(rounds, {
    merge: () => cpuSeconds(() => mergeInto(sources, nothing())),
    analyses: () => cpuSeconds(() => analyseAll(sources)),
  });
  return figure({
    name: `merge and all analyses, per core (${name}, ${Math.round(events / 1000)} k events; HTA states 0.098 for reading)`,
    value: events / seconds.analyses / 1e6,
    unit: 'M events/s',
    baseline: { name: 'the merge alone', value: events / seconds.merge / 1e6 },
    // 2 M events/s, where the merge alone does 4.
    target: { at: 'least', value: 0.5, of: 'ratio' },
  });
}

function nothing(): TraceSink & { events: number } {
  const sink = {
    events: 0,
    begin: () => {},
    lane: () => {},
    event: () => {
      sink.events++;
    },
    end: () => {},
  };
  return sink;
}

function mergeInto(sources: Sources, sink: TraceSink & { events: number }): number {
  for (const _ of mergeRun(sources, sink));
  return sink.events;
}

function analyseAll(sources: Sources): number {
  const sink = analysisSink();
  for (const _ of mergeRun(sources, sink));
  return sink.analysis.findings.length;
}

function hostSources(): Sources {
  return Array.from({ length: hostRanks }, (_, rank) => {
    const batches = [...generateRank(rank, hostRanks, hostSteps)];
    // Whole batches, as a store has them.
    const about = { rank, incarnation: `bench-${rank}`, count: batches.length, missing: 0, tellsTracks: true };
    return { ...about, batch: (index: number) => batches[index] };
  });
}

function gpuSources(files: readonly (string | Uint8Array)[]): Sources {
  return kinetoSources(
    files.map((file, rank) => {
      const table = readKineto(typeof file === 'string' ? Buffer.from(file) : file, { keep: 'all' });
      return { run: 'bench', rank, worldSize: files.length, files: [{ name: `rank${rank}.json`, table }] };
    }),
  );
}

/**
 * CPU time of the work, which excludes other work of a busy machine. Garbage is not collected before: V8 would discard compiled code with the classes of
 * dead objects, and two thirds of the time of a turn would be that of compiling it again.
 */
function cpuSeconds(work: () => void): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e6;
}
