// Which rank wrote a torch.profiler file, and which steps are in it, as far as the file or its name says.

import { limits } from '@ranktrace/protocol';
import { stepName } from './kineto-source-steps.ts';
import type { KinetoTable } from './kineto-table.ts';

/** The file's metadata about its job; empty where it has none. */
export function distributedInfo(metadata: ReadonlyMap<string, unknown>): Readonly<Record<string, unknown>> {
  const info = metadata.get('distributedInfo');
  return typeof info === 'object' && info !== null ? (info as Record<string, unknown>) : {};
}

/** The rank that the file states. */
export function rankInFile({ metadata }: Pick<KinetoTable, 'metadata'>): number | undefined {
  const { rank } = distributedInfo(metadata);
  return isRank(rank) ? rank : undefined;
}

/** The number of ranks that the file states. */
export function worldSizeInFile({ metadata }: Pick<KinetoTable, 'metadata'>): number | undefined {
  const { world_size: size } = distributedInfo(metadata);
  return isRank(size) && size > 0 ? size : undefined;
}

/**
 * The rank in a file's name, such as `rank3.json` or `worker3.1790000.pt.trace.json`: the last that is called a rank, for hosts are called workers, too.
 * `atEnd`: digits at the end of the name are a rank rather than those of a worker.
 */
export function rankInName(name: string, atEnd = false): number | undefined {
  const digits = [
    name.match(/.*rank[-_.=]?(\d{1,7})(?!\d)/i),
    atEnd ? name.match(/(?<!\d)(\d{1,7})(?:\.(?:json|pickle|pkl|gz))*$/i) : null,
    name.match(/.*worker[-_.=]?(\d{1,7})(?!\d)/i),
  ].find((found) => found !== null)?.[1];
  return digits !== undefined && isRank(Number(digits)) ? Number(digits) : undefined;
}

const isRank = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) <= limits.rankMax;

/** First and last step that the file marks (`ProfilerStep#N`); undefined where it marks none. */
export function stepsInFile({ strings }: KinetoTable): { readonly first: number; readonly last: number } | undefined {
  const steps = strings.strings.flatMap((text) => (text.startsWith('ProfilerStep#') ? Number(stepName.exec(text)?.[1] ?? Number.NaN) : []));
  const numbers = steps.filter((step) => !Number.isNaN(step));
  return numbers.length === 0 ? undefined : { first: Math.min(...numbers), last: Math.max(...numbers) };
}
