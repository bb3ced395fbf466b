// The devices of a run's ranks, as far as they report them: packages, libraries, GPUs, and the meaning of their ops' times.

import { gpuKey, printable, tfKeys } from '@ranktrace/protocol';
import { ranksText, type TraceHeader } from '@ranktrace/trace';
import { opTimesText } from '@ranktrace/trace/torch';

type Processes = TraceHeader['processes'];

const linesMax = 8;
const ranksShown = 16;

/** Lines for people; empty where no rank reports anything. */
export function deviceLines(processes: Processes): readonly string[] {
  const groups = new Map<string, { ranks: number[]; gpus: Set<string> }>();
  for (const { rank, metadata } of processes) {
    const text = whereText(metadata);
    const gpus = gpusOf(metadata);
    if (text === '' && gpus.length === 0) continue;
    const names = [...new Set(gpus.map(([, name]) => name))].join(', ');
    const key = `${text}${text !== '' && names !== '' ? ', ' : ''}${names}`;
    const group = groups.get(key) ?? { ranks: [], gpus: new Set() };
    group.ranks.push(rank);
    for (const [index] of gpus) group.gpus.add(index);
    groups.set(key, group);
  }
  if (groups.size === 0) return [];
  const lines = [...groups].slice(0, linesMax).map(([text, { ranks, gpus }]) => {
    const indexes = [...gpus].map(Number).sort((a, b) => a - b);
    const which = indexes.length === 0 ? '' : ` (GPU ${indexes.join(', ')})`;
    return `computed on: ${printable(text)}${which}: ${ranksText(distinctRanks(ranks), ranksShown)}`;
  });
  if (groups.size > linesMax) lines.push(`and ${groups.size - linesMax} more; all of them with --json`);
  const times = new Set(processes.map(({ metadata }) => opTimesText(metadata)).filter((text) => text !== undefined));
  lines.push(...times);
  if (processes.some(({ metadata }) => gpusOf(metadata).length > 0 && metadata.get(tfKeys.library) !== undefined)) {
    lines.push(
      'memory used of a GPU: what processes have reserved. TensorFlow reserves nearly all of it at its start, unless TF_FORCE_GPU_ALLOW_GROWTH=true; tensors take `tf bytes`',
    );
  }
  return lines;
}

/** The devices of one rank, as data; undefined where it reports nothing. */
export function deviceData(metadata: ReadonlyMap<string, string>): Readonly<Record<string, string>> | undefined {
  const reported = new Set<string>(Object.values(tfKeys));
  const facts = [...metadata].filter(([key]) => reported.has(key) || key.startsWith(gpuKey));
  return facts.length === 0 ? undefined : Object.fromEntries(facts);
}

function whereText(metadata: ReadonlyMap<string, string>): string {
  const [library, backend] = [metadata.get(tfKeys.library), metadata.get(tfKeys.backend)];
  const name = metadata.get(tfKeys.package) ?? (metadata.has(tfKeys.version) ? 'TensorFlow.js' : undefined);
  const versioned = name === undefined ? undefined : `${name} ${metadata.get(tfKeys.version) ?? ''}`.trim();
  const of = library ?? (backend === undefined ? undefined : `backend ${backend}`);
  return [versioned, of].filter((part) => part !== undefined).join(', ');
}

const gpusOf = (metadata: ReadonlyMap<string, string>): readonly (readonly [index: string, name: string])[] =>
  [...metadata].flatMap(([key, name]) => {
    const index = key.startsWith(gpuKey) ? key.slice(gpuKey.length) : '';
    return /^\d{1,4}$/.test(index) ? [[index, name] as const] : [];
  });

const distinctRanks = (ranks: readonly number[]): number[] => [...new Set(ranks)].sort((a, b) => a - b);
