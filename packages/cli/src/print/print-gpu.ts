// The report's part about GPUs: the shares of each rank's time on its devices, why they idled, communication by group, kernels, launches and copies.

import { pathBoundNames } from '@ranktrace/protocol';
import { percentText, ranksText } from '@ranktrace/trace';
import { evidenceText, type GpuRank, type GpuSummary } from '@ranktrace/trace/gpu';
import { formatBytes, formatCount, formatNanos, formatTable, nameInLine } from '../terminal/format.ts';

const ranksShown = 32;
const kernelsShown = 12;
const sequencesShown = 5;
const devicesShown = 8;
const nameCharsMax = 72;
/** Causes and places with less than this share of a rank's time are not worth a word. */
const shareShown = 0.005;

const causeInWords = { hostLate: 'host late', launch: 'launch', dependency: 'waiting', other: 'unknown' } as const;

/** The part as text, without a final line end; '' without device work. */
export function formatGpu(summary: GpuSummary): string {
  const { ranks, leftOut, htaCompatible } = summary;
  if (ranks.length === 0) return '';
  const blocks = [
    sharesTable(ranks),
    overlapTable(ranks),
    kernelsTable(ranks),
    devicesTable(ranks),
    copiesTable(ranks),
    sequencesTable(ranks),
    annotationsTable(ranks),
    pathLine(summary),
    worthTable(summary),
    adviceLines(summary),
  ];
  const notes: string[] = [];
  if (htaCompatible) notes.push('(by the conventions of Holistic Trace Analysis: docs/gpu.md)');
  const { potentialStragglers: named } = summary;
  if (named !== undefined) notes.push(`(HTA's potential stragglers: ${ranksText(named)}; it names two of any job, and this is no verdict)`);
  if (leftOut > 0) notes.push(`(${formatCount(leftOut)} events of GPUs and hosts are left out here: there were too many)`);
  return [...blocks, notes.join('\n')].filter((block) => block !== '').join('\n\n');
}

/** The part as data: lengths in ns, bandwidths in bytes per second. */
export function gpuData({ segments: _, ...summary }: GpuSummary): unknown {
  return summary;
}

function sharesTable(ranks: readonly GpuRank[]): string {
  const shown = ranks.slice(0, ranksShown);
  const head = ['GPUs', 'time', 'compute', 'hidden comm.', 'exposed comm.', 'copies', 'idle', 'idle because'];
  const rows = shown.map((rank) => {
    const { length, compute, overlapped, exposed, copies, idle } = rank.totals;
    const shares = [compute, overlapped, exposed, copies, idle].map((part) => percentText(length > 0 ? part / length : 0));
    return [nameOf(rank), formatNanos(length), ...shares, idleText(rank)];
  });
  const lines = [formatTable([head, ...rows], [false, true, true, true, true, true, true, false])];
  if (ranks.length > shown.length) lines.push(`(the first ${shown.length} of ${formatCount(ranks.length)} ranks; all of them with --json)`);
  const ofFirst = ranks.filter(({ rank }) => rank === ranks[0]?.rank);
  const steps = ofFirst.reduce((sum, { steps: of, stepsLeftOut }) => sum + of.length + stepsLeftOut, 0);
  const over = steps > 0 ? `over ${formatCount(steps)} steps` : 'from the first work to the end of the last: there are no steps';
  lines.push(`compute = nothing else runs, hidden = communication behind compute, exposed = communication alone; ${over}`);
  return lines.join('\n');
}

/** `rank 3`, or of a rank that was started again `rank 3, life 2`. */
const nameOf = ({ rank, attempt }: GpuRank): string => (attempt > 0 ? `rank ${rank}, life ${attempt + 1}` : `rank ${rank}`);

/** `host late 3.8 %, most in data, aten::copy_; launch 3.2 %`. */
function idleText({ idle, totals: { length } }: GpuRank): string {
  const causes = (Object.entries(idle.byCause) as [keyof typeof causeInWords, number][])
    .filter(([, time]) => time >= shareShown * length)
    .sort(([, a], [, b]) => b - a);
  return causes
    .map(([cause, time]) => {
      const place = idle.places.find((one) => one.cause === cause);
      const of = `${causeInWords[cause]} ${percentText(time / length)}`;
      if (cause === 'launch' || place === undefined || place.time < shareShown * length) return of;
      const where = [place.phase, place.op].filter((name) => name !== '').map(shortName);
      return where.length === 0 ? of : `${of}, most in ${where.join(', ')}`;
    })
    .join('; ');
}

function overlapTable(ranks: readonly GpuRank[]): string {
  const groups = new Map<string, { kernels: number; total: number; overlapped: number; bandwidth: number; ranks: Set<number> }>();
  for (const { rank, overlap } of ranks) {
    for (const { group, kernels, total, overlapped, busBandwidth = 0 } of overlap.slice(1)) {
      const line = groups.get(group) ?? { kernels: 0, total: 0, overlapped: 0, bandwidth: 0, ranks: new Set() };
      groups.set(group, line);
      line.kernels += kernels;
      line.total += total;
      line.overlapped += overlapped;
      line.bandwidth = Math.max(line.bandwidth, busBandwidth);
      line.ranks.add(rank);
    }
  }
  if (groups.size === 0) return '';
  const head = ['communication of group', 'ranks', 'kernels', 'time a rank', 'hidden', 'best bus bandwidth'];
  const rows = [...groups]
    .sort(([, a], [, b]) => b.total - a.total)
    .slice(0, kernelsShown)
    .map(([group, line]) => {
      const bandwidth = line.bandwidth > 0 ? `${(line.bandwidth / 1e9).toFixed(1)} GB/s` : '-';
      const time = [formatNanos(line.total / line.ranks.size), percentText(line.total > 0 ? line.overlapped / line.total : 0)];
      return [group, formatCount(line.ranks.size), formatCount(line.kernels), ...time, bandwidth];
    });
  return formatTable([head, ...rows], [false, true, true, true, true, true]);
}

function kernelsTable(ranks: readonly GpuRank[]): string {
  const names = new Map<string, { count: number; total: number; tensorCores: boolean; least: number; most: number }>();
  let all = 0;
  let cores = 0;
  for (const { kernels } of ranks) {
    all += kernels.total;
    cores += kernels.tensorCores;
    for (const { name, count, total, tensorCores } of kernels.byName.lines) {
      const line = names.get(name) ?? { count: 0, total: 0, tensorCores, least: Number.POSITIVE_INFINITY, most: 0 };
      names.set(name, line);
      line.count += count;
      line.total += total;
      line.least = Math.min(line.least, total);
      line.most = Math.max(line.most, total);
    }
  }
  if (names.size === 0) return '';
  const isAlone = new Set(ranks.map(({ rank }) => rank)).size === 1;
  const head = ['kernels', 'calls', 'total', 'share', 'mean', ...(isAlone ? [] : ['rank by rank']), 'tensor cores'];
  const rows = [...names]
    .sort(([, a], [, b]) => b.total - a.total)
    .slice(0, kernelsShown)
    .map(([name, { count, total, tensorCores, least, most }]) => {
      const times = [formatNanos(total), percentText(all > 0 ? total / all : 0), formatNanos(total / count)];
      const spread = isAlone ? [] : [`${formatNanos(least)} – ${formatNanos(most)}`];
      return [shortName(name), formatCount(count), ...times, ...spread, tensorCores ? 'yes' : ''];
    });
  const lines = [formatTable([head, ...rows], [false, true, true, true, true, ...(isAlone ? [] : [true]), false])];
  lines.push(`tensor cores: ${percentText(all > 0 ? cores / all : 0)} of the time of all kernels${launchText(ranks)}`);
  return lines.join('\n');
}

const percentOrNone = (share: number | undefined): string => (share === undefined ? '-' : percentText(share));

/** Figures of the TensorBoard plugin, where kernels carry what they need. */
function devicesTable(ranks: readonly GpuRank[]): string {
  const devices = ranks.flatMap((rank) => rank.devices.map((device) => ({ rank, ...device })));
  if (devices.every(({ smEfficiency }) => smEfficiency === undefined)) return '';
  const shown = devices.toSorted((a, b) => a.utilisation - b.utilisation).slice(0, devicesShown);
  const rows = shown.map(({ rank, device, utilisation, smEfficiency, occupancy }) => {
    return [`${nameOf(rank)}, GPU ${device}`, ...[utilisation, smEfficiency, occupancy].map(percentOrNone)];
  });
  const lines = [formatTable([['devices', 'utilisation', 'SM efficiency', 'occupancy'], ...rows], [false, true, true, true])];
  if (devices.length > shown.length)
    lines.push(`(the ${shown.length} least used of ${formatCount(devices.length)}; all of them with --json)`);
  return lines.join('\n');
}

function copiesTable(ranks: readonly GpuRank[]): string {
  const kinds = new Map<string, { count: number; total: number; bytes: number; best: number }>();
  for (const { copies } of ranks) {
    for (const { kind, count, total, bytes, bandwidth = 0 } of copies) {
      const line = kinds.get(kind) ?? { count: 0, total: 0, bytes: 0, best: 0 };
      kinds.set(kind, line);
      line.count += count;
      line.total += total;
      line.bytes += bytes;
      line.best = Math.max(line.best, bandwidth);
    }
  }
  if (kinds.size === 0) return '';
  const rows = [...kinds]
    .sort(([, a], [, b]) => b.total - a.total)
    .map(([kind, { count, total, bytes, best }]) => {
      const size = bytes > 0 ? formatBytes(bytes) : '-';
      return [kind, formatCount(count), formatNanos(total), size, best > 0 ? `${(best / 1e9).toFixed(1)} GB/s` : '-'];
    });
  const head = ['copies and sets', 'calls', 'total', 'bytes', 'best bandwidth of a rank'];
  return formatTable([head, ...rows], [false, true, true, true, true]);
}

/** Sequences of kernels that an op launches again and again: what a fused kernel would replace. */
function sequencesTable(ranks: readonly GpuRank[]): string {
  const sequences = new Map<string, { op: string; kernels: readonly string[]; count: number; total: number }>();
  for (const rank of ranks) {
    for (const { op, kernels, count, total } of rank.sequences) {
      const key = JSON.stringify([op, kernels]);
      const line = sequences.get(key) ?? { op, kernels, count: 0, total: 0 };
      sequences.set(key, line);
      line.count += count;
      line.total += total;
    }
  }
  const all = ranks.reduce((sum, { kernels }) => sum + kernels.total, 0);
  const shown = [...sequences.values()].sort((a, b) => b.total - a.total).slice(0, sequencesShown);
  if (shown.length === 0) return '';
  const rows = shown.map(({ op, kernels, count, total }) => {
    const times = [formatCount(count), formatNanos(total), percentText(all > 0 ? total / all : 0), formatCount(kernels.length)];
    return [shortName(op), ...times, `${shortName(kernels[0] ?? '')} …`];
  });
  const head = ['frequent sequences, of op', 'times', 'total', 'share', 'kernels', 'first kernel'];
  return formatTable([head, ...rows], [false, true, true, true, true, false]);
}

function annotationsTable(ranks: readonly GpuRank[]): string {
  const names = new Map<string, { count: number; total: number; min: number; max: number; ranks: Set<number> }>();
  for (const { rank, annotations } of ranks) {
    for (const { name, count, total, min, max } of annotations) {
      const line = names.get(name) ?? { count: 0, total: 0, min, max, ranks: new Set() };
      names.set(name, line);
      line.count += count;
      line.total += total;
      line.min = Math.min(line.min, min);
      line.max = Math.max(line.max, max);
      line.ranks.add(rank);
    }
  }
  const shown = [...names].sort(([, a], [, b]) => b.total - a.total).slice(0, kernelsShown);
  if (shown.length === 0) return '';
  const rows = shown.map(([name, { count, total, min, max, ranks: of }]) => {
    return [shortName(name), formatCount(of.size), formatCount(count), ...[total / count, min, max].map(formatNanos)];
  });
  const head = ['spans as the devices saw them', 'ranks', 'times', 'mean', 'shortest', 'longest'];
  return formatTable([head, ...rows], [false, true, true, true, true, true]);
}

function launchText(ranks: readonly GpuRank[]): string {
  const delays = ranks.flatMap(({ launches }) => (launches.delay === undefined ? [] : [launches.delay.p50]));
  if (delays.length === 0) return '';
  const blocked = ranks.reduce((sum, { queues }) => sum + queues.reduce((total, queue) => total + queue.blocked, 0), 0);
  const longest = Math.max(...ranks.flatMap(({ queues }) => queues.map(({ max }) => max)), 0);
  const full = blocked > 0 ? `, hosts blocked by a full queue for ${formatNanos(blocked)}` : '';
  const [least, most] = [formatNanos(Math.min(...delays)), formatNanos(Math.max(...delays))];
  const delay = least === most ? `${least} (median)` : `${least} to ${most} (medians of ranks)`;
  return `; from launch to start ${delay}, longest queue ${formatCount(longest)}${full}`;
}

/** `recommended: num_workers … (the data loader takes 33.4 % of the time, over 5.0 %; up to 60.1 ms a step)`. */
function adviceLines({ recommendations, ranks: all, attempt }: GpuSummary): string {
  const whose = attempt === undefined ? '' : `, for life ${attempt + 1} of the ranks`;
  const each = all.some(({ steps }) => steps.length > 0) ? ' a step' : '';
  const lines = recommendations.map((recommendation) => {
    const { ranks, saves, advice } = recommendation;
    const gain = saves === undefined || saves <= 0 ? '' : `; up to ${formatNanos(saves)}${each}`;
    return `  ${advice} (${ranksText(ranks)}: ${evidenceText(recommendation)}${gain})`;
  });
  return lines.length === 0 ? '' : [`recommended${whose}:`, ...lines].join('\n');
}

type Bounds = Readonly<Record<keyof typeof pathBoundNames, number>>;

/** The path across ranks, or that of the only one. */
function pathLine({ ranks, path: across }: GpuSummary): string {
  const alone = across === undefined ? ranks.find(({ path }) => path !== undefined) : undefined;
  const path = across ?? alone?.path;
  if (path === undefined) return '';
  const all = Object.values(path.byBound).reduce((sum, time) => sum + time, 0);
  if (all <= 0) return '';
  const isAcross = across !== undefined && ranks.length > 1;
  const whose =
    across === undefined || !isAcross
      ? `on rank ${(alone ?? ranks[0])?.rank}`
      : `across ranks (${across.byRank
          .slice(0, 3)
          .map(({ rank, total }) => `rank ${rank} ${percentText(total / all)}`)
          .join(', ')})`;
  const heaviest = path.lines.slice(0, 3).map((line) => {
    const of = isAcross && 'rank' in line ? ` on rank ${line.rank}` : '';
    return `${shortName(line.name)}${of} ${formatNanos(line.total)}`;
  });
  return `critical path of step ${path.step} ${whose}: ${boundsText(path.byBound, all)}; most in ${heaviest.join(', ')}`;
}

const worthShown = 8;

/** Savings of half of the time of each part of the path: less than its half where something else then holds the step back. */
function worthTable({ worth, segments }: GpuSummary): string {
  const lines = worth.filter(({ savesAtHalf, savesAtZero }) => savesAtHalf > 0 || savesAtZero > 0).slice(0, worthShown);
  if (lines.length === 0 || segments === undefined || segments.total <= 0) return '';
  const head = ['what if it took half of its time', 'on the path', 'the step saves', 'share', 'at no time'];
  const rows = lines.map(({ bound, name, onPath, savesAtHalf, savesAtZero }) => {
    const what = name === undefined ? `all ${wholeInWords[bound]}` : bound === 'cpu' ? `host, ${placeName(name)}` : shortName(name);
    return [what, formatNanos(onPath), formatNanos(savesAtHalf), percentText(savesAtHalf / segments.total), formatNanos(savesAtZero)];
  });
  return formatTable([head, ...rows], [false, true, true, true, true]);
}

const placeName = (phase: string): string => (phase === '' ? 'outside of phases' : shortName(phase));

const wholeInWords = { ...pathBoundNames, cpu: 'work of hosts', communication: 'transfers', compute: 'kernels that compute' };

function boundsText(byBound: Bounds, all: number): string {
  const parts = (Object.entries(byBound) as [keyof Bounds, number][]).filter(([, time]) => time >= shareShown * all);
  return parts
    .sort(([, a], [, b]) => b - a)
    .map(([bound, time]) => `${pathBoundNames[bound]} ${percentText(time / all)}`)
    .join(', ');
}

const shortName = (name: string): string => nameInLine(name, nameCharsMax);
