// How long threads of the ranks wait for a CPU: a busy host makes work uneven and transfers slow, without fault of a rank or the network.
//
// The kernel counts it (schedstat); the SDK samples it as the counters `cpu wait`, of the time that threads wanted a CPU, and `cpu wait time`, of all
// time. Ranks without the first are ignored. Threads that sleep all the time may have no CPU in half of what little they want: that delays nobody.

import { median } from '../model/robust.ts';
import type { BlameWindow } from './blame-window.ts';

/** A host is busy if threads wait for a CPU in at least this share of the time they want one; … */
const cpuWaitMin = 0.2;
/** … and of this share of all time; … */
const cpuWaitTimeMin = 0.02;
/** … below this share of the time they want one, it is not. */
const cpuWaitUsual = 0.05;
/** Waits explain a cost if they can be at least this share of it. */
const explainsMin = 0.5;

export interface CpuWait {
  /** At least half of the ranks wait for a CPU. */
  readonly isBusy: boolean;
  /** Share of the time that threads wanted a CPU in which they had none, the median of the ranks; 0 where it is not known. */
  readonly share: number;
  /** The time that waiting may add to a step of `step`, ns: the others wait for the rank that waits longest. Infinity where it is not known. */
  readonly delay: (step: number) => number;
  /** Whether what the ranks waited can be the cause of `cost` of a step of `step`, ns. */
  readonly explains: (cost: number, step: number) => boolean;
  /** Its evidence, in sentences. */
  readonly text: readonly string[];
}

/** CPU waiting of these ranks. */
export function cpuWaitOf(ranks: BlameWindow['ranks']): CpuWait {
  const known = ranks.flatMap(({ hostName, cpuWait, cpuWaitTime }) => (cpuWait === undefined ? [] : [{ hostName, cpuWait, cpuWaitTime }]));
  if (known.length === 0) {
    const text = ['what threads wait for a CPU was not recorded: a busy host looks the same'];
    return { isBusy: false, share: 0, delay: () => 0, explains: () => false, text };
  }
  const busy = known.filter(({ cpuWait, cpuWaitTime = 1 }) => cpuWait >= cpuWaitMin && cpuWaitTime >= cpuWaitTimeMin);
  const usual = median(known.map(({ cpuWait }) => cpuWait));
  const hosts = [...new Set(busy.map(({ hostName }) => hostName))];
  const where = hosts.length === 0 ? '' : `, on ${hosts.length === 1 ? `host ${hosts[0]}` : `${hosts.length} hosts`}`;
  const times = known.flatMap(({ cpuWaitTime = [] }) => cpuWaitTime);
  const time = times.length === 0 ? undefined : median(times);
  const ofAll = time === undefined ? '' : `, ${(100 * time).toFixed(1)} % of all time`;
  const text = `in ${Math.round(100 * usual)} % of the time that threads wanted a CPU they had none${ofAll} (median of the ranks)${where}`;
  const isBusy = 2 * busy.length >= known.length;
  // In a step, the others wait for the rank that waits longest: of n random waits, the longest is about ln n means longer than the median.
  const longest = time === undefined ? Number.POSITIVE_INFINITY : time * Math.max(1, Math.log(known.length));
  const delay = (step: number): number => longest * step;
  const explains = (cost: number, step: number): boolean => isBusy && delay(step) >= explainsMin * cost;
  return { isBusy, share: usual, delay, explains, text: usual < cpuWaitUsual ? [] : [text] };
}

/** Evidence that slow ranks wait for a CPU, and their peers do not. */
export function waitsForCpu(all: BlameWindow['ranks'], slow: readonly number[]): string[] {
  const shareOf = (is: (index: number) => boolean): number =>
    median(all.flatMap(({ cpuWait }, index) => (cpuWait !== undefined && is(index) ? [cpuWait] : [])));
  const [own, others] = [shareOf((index) => slow.includes(index)), shareOf((index) => !slow.includes(index))];
  const isShort = all.some(({ cpuWaitTime = 1 }, index) => slow.includes(index) && cpuWaitTime < cpuWaitTimeMin);
  if (own < cpuWaitMin || own < 2 * others || isShort) return [];
  const percent = (share: number): string => `${Math.round(100 * share)} %`;
  return [`its threads had no CPU in ${percent(own)} of the time that they wanted one, those of the others in ${percent(others)}`];
}
