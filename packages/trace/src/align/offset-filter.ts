// Tier 1, second half: the offsets of windows → a smooth offset with its drift, by a Kalman filter of two states and a fixed-lag smoother
// (Rauch–Tung–Striebel).
//
//   θ(next) = θ + drift · dt,  drift wanders by 0.1 ppm in 10 s;  a window measures θ ± half the width of its limits beyond the best
//
// Invariant: a smoothed offset depends on the windows up to `lag` after it and on no later one: from then on it is final, in a live run and in a
// merge from scratch alike.

import { nanosPerSecond } from '@ranktrace/protocol';
import { medianOfSorted } from '../model/robust.ts';
import type { WindowOffset } from './offset-windows.ts';

export interface SmoothOffset {
  readonly at: number;
  /** ns. */
  readonly offset: number;
  /** Change of the offset, ns per ns of the host's clock. */
  readonly drift: number;
}

/** Windows that the smoother looks ahead. */
export const smoothingLag = 15;

/** Wander of the drift within `wanderNs`, and of the offset beside it (ns). */
const wanderNs = 10 * nanosPerSecond;
const driftWander = 0.1e-6;
const offsetWander = 150;
/** Initial uncertainty of the offset, ns, and of the drift. */
const offsetOpen = 1e6;
const driftOpen = 20e-6;
const firstWindows = 5;
/** Windows that measure the scatter of windows: the last `scatterMax` ones, and at least the first `scatterMin`. */
const scatterMin = 8;
const scatterMax = 30;
/** ns: least noise assumed for a window, and least step in which widths are compared. */
const noiseMin = 3000;
const widthStep = 2000;

/** State and covariance: offset, drift; variances and covariance. */
interface State {
  readonly offset: number;
  readonly drift: number;
  readonly oo: number;
  readonly od: number;
  readonly dd: number;
}

/** Smooths at least one window, in order of time. */
export function smoothOffsets(windows: readonly WindowOffset[]): SmoothOffset[] {
  const filtered: State[] = [];
  const predicted: State[] = [];
  const bends = bendsOf(windows);
  // The first few windows may all be bad.
  let widthMin = Math.min(...windows.slice(0, firstWindows).map(({ width }) => width));
  for (const [index, { at, offset, width, slope }] of windows.entries()) {
    const before = filtered[index - 1];
    const guess =
      before === undefined
        ? { offset, drift: slope, oo: (offsetOpen + width / 2) ** 2, od: 0, dd: driftOpen ** 2 }
        : predict(before, at - (windows[index - 1] as WindowOffset).at);
    predicted.push(guess);
    widthMin = Math.min(widthMin, width);
    const likely = Math.max(Math.max(width - widthMin, widthStep) / 2 + noiseMin, noiseNear(bends, index));
    // However late other windows' pings were, this one's limits hold.
    const noise = Math.min(likely, width / 2 + noiseMin);
    filtered.push(update(guess, offset, noise ** 2));
  }
  return windows.map(({ at }, index) => {
    let state = filtered[Math.min(index + smoothingLag, windows.length - 1)] as State;
    for (let next = Math.min(index + smoothingLag, windows.length - 1); next > index; next--) {
      const length = (windows[next] as WindowOffset).at - (windows[next - 1] as WindowOffset).at;
      state = smooth(filtered[next - 1] as State, predicted[next] as State, state, length);
    }
    return { at, offset: state.offset, drift: state.drift };
  });
}

/** Noise of the windows near `index`, ns, by the latest of them. */
function noiseNear(bends: Float64Array, index: number): number {
  // A bend is that of three windows, so there are two fewer.
  const end = Math.min(bends.length, Math.max(index, scatterMin) - 1);
  return noiseOf(bends.subarray(Math.max(0, end - scatterMax), end));
}

/**
 * Noise of windows, ns: by their second differences, which are 0 for a steady drift. Where path delays vary by milliseconds, the best ping of a
 * window is off by more than its limits show.
 */
export const scatterOf = (windows: readonly WindowOffset[]): number => noiseOf(bendsOf(windows));

/** How far each window but the first and the last lies off the line through its neighbours, ns. */
function bendsOf(windows: readonly WindowOffset[]): Float64Array {
  const bends = new Float64Array(Math.max(0, windows.length - 2));
  for (let at = 0; at < bends.length; at++) {
    const [a, b, c] = [windows[at], windows[at + 1], windows[at + 2]] as [WindowOffset, WindowOffset, WindowOffset];
    const share = (b.at - a.at) / (c.at - a.at);
    bends[at] = Math.abs(b.offset - a.offset - share * (c.offset - a.offset));
  }
  return bends;
}

/** For normal noise a bend is that of the middle window minus the mean of its neighbours'; its absolute median is 0.6745 deviations. */
const noiseOf = (bends: Float64Array): number => medianOfSorted(bends.slice().sort()) / 0.6745 / Math.sqrt(1.5);

function predict({ offset, drift, oo, od, dd }: State, length: number): State {
  const share = length / wanderNs;
  return {
    offset: offset + drift * length,
    drift,
    oo: oo + 2 * length * od + length * length * dd + share * offsetWander ** 2,
    od: od + length * dd,
    dd: dd + share * driftWander ** 2,
  };
}

function update({ offset, drift, oo, od, dd }: State, measured: number, noise: number): State {
  const toOffset = oo / (oo + noise);
  const toDrift = od / (oo + noise);
  const off = measured - offset;
  return {
    offset: offset + toOffset * off,
    drift: drift + toDrift * off,
    oo: oo * (1 - toOffset),
    od: od * (1 - toOffset),
    dd: dd - toDrift * od,
  };
}

/** The smoothed state of this window, by its filtered state and the next window's smoothed one. */
function smooth(filtered: State, predicted: State, next: State, length: number): State {
  // G = P Fᵀ predicted⁻¹, F = [1 length; 0 1]
  const determinant = predicted.oo * predicted.dd - predicted.od ** 2;
  const [po, pd] = [filtered.oo + length * filtered.od, filtered.od];
  const [qo, qd] = [filtered.od + length * filtered.dd, filtered.dd];
  const g00 = (po * predicted.dd - pd * predicted.od) / determinant;
  const g01 = (pd * predicted.oo - po * predicted.od) / determinant;
  const g10 = (qo * predicted.dd - qd * predicted.od) / determinant;
  const g11 = (qd * predicted.oo - qo * predicted.od) / determinant;
  const [offset, drift] = [next.offset - predicted.offset, next.drift - predicted.drift];
  return {
    ...filtered,
    offset: filtered.offset + g00 * offset + g01 * drift,
    drift: filtered.drift + g10 * offset + g11 * drift,
  };
}
