// The ruler's ticks and labels: steps of 1, 2 or 5 in ns up to seconds, then of minutes and hours as on a clock.
//
// Times are shown since the run's zero: trace time 0, or the trace's begin where that lies far from it (a recording whose clock began at boot).

import type { RunModel } from '@ranktrace/protocol';
import { formatTime } from '../controls/format.ts';
import type { TimeWindow } from './viewport.ts';

export interface Tick {
  readonly time: number;
  /** Undefined for ticks between. */
  readonly label: string | undefined;
}

const second = 1e9;
const minute = 60 * second;
const clockSteps = [5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400].map((seconds) => seconds * second);
const ticksMax = 500;

/** The least step, ns, that leaves `pxMin` pixels between ticks. */
export function stepFor(nsPerPx: number, pxMin: number): number {
  const least = Math.max(nsPerPx * pxMin, 1);
  if (least > 2 * second) {
    const step = clockSteps.find((each) => each >= least);
    return step ?? Math.ceil(least / (86400 * second)) * 86400 * second;
  }
  const power = 10 ** Math.floor(Math.log10(least) + 1e-9);
  const part = least / power;
  return power * (part <= 1.000001 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
}

/** Ticks of a window that is `width` pixels wide: labelled ones ≥ 100 px apart, four or five unlabelled between. */
export function ticksOf(window: TimeWindow, width: number, zero: number): Tick[] {
  const nsPerPx = (window.until - window.from) / Math.max(width, 1);
  const step = stepFor(nsPerPx, 100);
  const parts = step % 5 === 0 || step < 5 ? (Math.round(step / 10 ** Math.floor(Math.log10(step))) === 2 ? 4 : 5) : 4;
  const small = step / parts;
  const ticks: Tick[] = [];
  const first = Math.ceil((window.from - zero) / small);
  for (let at = first; at * small + zero <= window.until && ticks.length < ticksMax; at++) {
    ticks.push({ time: at * small + zero, label: at % parts === 0 ? tickLabel(at * small, step) : undefined });
  }
  return ticks;
}

// In the unit of the time itself, with enough decimals to distinguish adjacent ticks; from a minute on as on a clock.
function tickLabel(since: number, step: number): string {
  const size = Math.abs(since);
  if (size < step / 2) return '0';
  if (size >= second) return formatTime(since, step);
  const [unit, name] = size >= 1e6 ? [1e6, 'ms'] : size >= 1e3 ? [1e3, 'µs'] : [1, 'ns'];
  const decimals = Math.max(0, Math.ceil(Math.log10(unit / step) - 1e-9));
  return `${(since / unit).toFixed(decimals).replace('-', '−')}\u2009${name}`;
}

/** The time that a run's page shows as 0: the first step's begin, where there are steps. */
export const zeroOfRun = ({ firstStep, from, until }: Pick<RunModel, 'firstStep' | 'from' | 'until'>): number =>
  firstStep ?? zeroOf({ from, until });

/** The same without steps. */
export function zeroOf(extent: TimeWindow): number {
  return Math.abs(extent.from) > 10 * (extent.until - extent.from) + minute ? extent.from : 0;
}
