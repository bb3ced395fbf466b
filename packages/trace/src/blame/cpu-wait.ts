// How long threads of the ranks wait for a CPU: a busy host makes work uneven and transfers slow, without fault of a rank or the network.
//
// The kernel counts it (schedstat); the SDK samples it as the counter `cpu wait`. Ranks without the counter are ignored.

import { median } from '../model/robust.ts';
import type { BlameWindow } from './blame-window.ts';

/** A host is busy if threads wait for a CPU in at least this share of the time they want one; … */
const cpuWaitMin = 0.2;
/** … below this share, it is not. */
const cpuWaitUsual = 0.05;

export interface CpuWait {
  /** At least half of the ranks wait for a CPU. */
  readonly isBusy: boolean;
  /** Share of the time that threads wanted a CPU in which they had none, the median of the ranks; 0 where it is not known. */
  readonly share: number;
  /** Its evidence, in sentences. */
  readonly text: readonly string[];
}

/** CPU waiting of these ranks. */
export function cpuWaitOf(ranks: BlameWindow['ranks']): CpuWait {
  const known = ranks.flatMap(({ hostName, cpuWait }) => (cpuWait === undefined ? [] : [{ hostName, cpuWait }]));
  if (known.length === 0) {
    return { isBusy: false, share: 0, text: ['what threads wait for a CPU was not recorded: a busy host looks the same'] };
  }
  const busy = known.filter(({ cpuWait }) => cpuWait >= cpuWaitMin);
  const usual = median(known.map(({ cpuWait }) => cpuWait));
  const hosts = [...new Set(busy.map(({ hostName }) => hostName))];
  const where = hosts.length === 0 ? '' : `, on ${hosts.length === 1 ? `host ${hosts[0]}` : `${hosts.length} hosts`}`;
  const text = `in ${Math.round(100 * usual)} % of the time that threads wanted a CPU they had none (median of the ranks)${where}`;
  return { isBusy: 2 * busy.length >= known.length, share: usual, text: usual < cpuWaitUsual ? [] : [text] };
}

/** Evidence that slow ranks wait for a CPU, and their peers do not. */
export function waitsForCpu(all: BlameWindow['ranks'], slow: readonly number[]): string[] {
  const shareOf = (is: (index: number) => boolean): number =>
    median(all.flatMap(({ cpuWait }, index) => (cpuWait !== undefined && is(index) ? [cpuWait] : [])));
  const [own, others] = [shareOf((index) => slow.includes(index)), shareOf((index) => !slow.includes(index))];
  if (own < cpuWaitMin || own < 2 * others) return [];
  const percent = (share: number): string => `${Math.round(100 * share)} %`;
  return [`its threads had no CPU in ${percent(own)} of the time that they wanted one, those of the others in ${percent(others)}`];
}
