// Checks that torch.profiler's files are of one job. Files of two jobs in one folder look like one, and a report on both would blame ranks for
// another job's work.

import { basename } from 'node:path';
import { distributedInfo, type KinetoTable, rankInFile, rankInName } from '@ranktrace/trace/torch';

/** The facts of a file that identify its job. */
interface OfJob {
  readonly path: string;
  readonly rank: number;
  /** ns since 1970. */
  readonly first: bigint;
  readonly last: bigint;
  readonly table: Pick<KinetoTable, 'metadata'>;
}

interface Group {
  readonly name: string;
  readonly ranks: readonly number[];
}

const minuteNs = 60_000_000_000n;
/** Ranks of one job record the same steps, so at about the same time: hosts with unset clocks are minutes apart, other jobs hours. */
const apartNsMax = 10n * minuteNs;

/** `files` by rank, in the order in which ranks come first. */
export function byRank<Of extends { readonly rank: number }>(files: readonly Of[]): readonly (readonly Of[])[] {
  const ranks = new Map<number, Of[]>();
  for (const file of files) {
    const ofRank = ranks.get(file.rank);
    if (ofRank === undefined) ranks.set(file.rank, [file]);
    else ofRank.push(file);
  }
  return [...ranks.values()];
}

/** Reason why `files` are not of one job, naming two of them; undefined without evidence. */
export function whyNotOneJob(files: readonly OfJob[]): string | undefined {
  return otherSize(files) ?? tooMany(files) ?? otherGroups(files) ?? sameRank(files) ?? otherTime(files);
}

/** A file whose rank neither it nor its name says, where the others are of a job that has all its ranks without it. */
function tooMany(files: readonly OfJob[]): string | undefined {
  for (const job of files) {
    const { world_size: size } = distributedInfo(job.table.metadata);
    if (typeof size !== 'number' || size < 1 || new Set(files.map(({ rank }) => rank)).size <= size) continue;
    const other = files.find(
      ({ path, rank, table }) => rank >= size && rankInFile(table) === undefined && rankInName(basename(path)) === undefined,
    );
    if (other !== undefined)
      return `"${job.path}" is of a job of ${size} ${size === 1 ? 'rank, which has a file' : 'ranks, all of which have files'} beside "${other.path}", which names no rank`;
  }
  return undefined;
}

function otherSize(files: readonly OfJob[]): string | undefined {
  const sizes = files.flatMap(({ path, table }) => {
    const { world_size: size } = distributedInfo(table.metadata);
    return typeof size === 'number' ? [{ path, size }] : [];
  });
  const other = sizes.find(({ size }) => size !== sizes[0]?.size);
  if (other === undefined || sizes[0] === undefined) return undefined;
  return `"${sizes[0].path}" is of a job of ${sizes[0].size} ${sizes[0].size === 1 ? 'rank' : 'ranks'}, "${other.path}" of one of ${other.size}`;
}

/** A group has the same ranks in each of its files; groups of one name without a common rank are different groups (each pair its own, say). */
function otherGroups(files: readonly OfJob[]): string | undefined {
  const known = new Map<string, Map<string, { readonly path: string; readonly group: Group }>>();
  for (const { path, table } of files) {
    for (const group of groupsOf(table)) {
      const ofName = known.get(group.name) ?? new Map();
      known.set(group.name, ofName);
      const key = group.ranks.join();
      if (ofName.has(key)) continue;
      for (const other of ofName.values()) {
        if (!other.group.ranks.some((rank: number) => group.ranks.includes(rank))) continue;
        return `process group "${group.name}" is of ${listOf(other.group)} in "${other.path}", of ${listOf(group)} in "${path}"`;
      }
      ofName.set(key, { path, group });
    }
  }
  return undefined;
}

function groupsOf({ metadata }: OfJob['table']): readonly Group[] {
  const { pg_config: config } = distributedInfo(metadata);
  const groups: readonly unknown[] = Array.isArray(config) ? config : [];
  return groups.flatMap((group) => {
    if (typeof group !== 'object' || group === null) return [];
    const { pg_name: name, ranks } = group as { readonly pg_name?: unknown; readonly ranks?: unknown };
    if ((typeof name !== 'string' && typeof name !== 'number') || !Array.isArray(ranks)) return [];
    return [{ name: String(name), ranks: (ranks as readonly unknown[]).filter((rank) => typeof rank === 'number').sort((a, b) => a - b) }];
  });
}

const ranksShown = 8;
const listOf = ({ ranks }: Group): string =>
  `ranks ${ranks.slice(0, ranksShown).join(', ')}${ranks.length > ranksShown ? `, … (${ranks.length})` : ''}`;

function sameRank(files: readonly OfJob[]): string | undefined {
  for (const ofRank of byRank(files)) {
    const ordered = inTime(ofRank);
    const at = ordered.findIndex((file, index) => index > 0 && file.first < (ordered[index - 1] as OfJob).last);
    if (at > 0) return `"${ordered[at - 1]?.path}" and "${ordered[at]?.path}" both hold rank ${ordered[at]?.rank} at the same time`;
  }
  return undefined;
}

/** Compares each rank's time from its first file to its last. */
function otherTime(files: readonly OfJob[]): string | undefined {
  const spans = byRank(files).map((ofRank) => {
    const latest = ofRank.toSorted((a, b) => (a.last < b.last ? -1 : 1)).at(-1) as OfJob;
    return { path: latest.path, first: inTime(ofRank)[0]?.first as bigint, last: latest.last };
  });
  let [before, ...others] = inTime(spans);
  for (const span of others) {
    if (before === undefined) return undefined;
    if (span.first - before.last > apartNsMax) {
      return `"${before.path}" ends ${(span.first - before.last) / minuteNs} minutes before "${span.path}" begins`;
    }
    if (span.last > before.last) before = span;
  }
  return undefined;
}

const inTime = <Of extends { readonly first: bigint }>(of: readonly Of[]): Of[] =>
  of.toSorted((a, b) => (a.first < b.first ? -1 : a.first > b.first ? 1 : 0));
