// The visible window of time, and its movement.
//
//   |· · · · · ·[ from ───────── until ]· · · · ·|        times in ns of the trace, pixels from the left edge of the drawing
//   extent.from                             extent.until
//
// Invariant: the result of `clamped` is at least `windowNsMin` long and overlaps the extent.

export interface TimeWindow {
  readonly from: number;
  readonly until: number;
}

/** The narrowest window: times are doubles of ns, and a narrower window would not move any more. */
export const windowNsMin = 20;
/** Visible margin beside a run, as a part of its length. */
const margin = 0.02;
const beyondMax = 0.1;

export const lengthOf = ({ from, until }: TimeWindow): number => until - from;

/** The whole extent with a little air; never empty. */
export function wholeWindow(extent: TimeWindow): TimeWindow {
  const length = Math.max(lengthOf(extent), 1000);
  return { from: extent.from - length * margin, until: extent.from + length * (1 + margin) };
}

/** The window that an address or another timeline requests, wherever it lies; undefined for an invalid one. */
export function windowOf(from: number | undefined, until: number | undefined): TimeWindow | undefined {
  if (from === undefined || until === undefined || !(until - from >= windowNsMin / 2) || !Number.isFinite(until - from)) return undefined;
  return { from, until };
}

/** The closest allowed window to the wanted one. */
export function clamped(window: TimeWindow, extent: TimeWindow): TimeWindow {
  const whole = wholeWindow(extent);
  const most = lengthOf(whole) * 1.5;
  let length = lengthOf(window);
  if (!Number.isFinite(window.from) || !(length > 0)) return whole;
  const middle = (window.from + window.until) / 2;
  let { from } = window;
  if (length < windowNsMin || length > most) {
    length = Math.min(Math.max(length, windowNsMin), most);
    from = middle - length / 2;
  }
  // A window that is wider than the extent shows all of it; others reach a tenth beyond it.
  const until = Math.max(extent.until, extent.from + 1000);
  const beyond = Math.max(length * beyondMax, length - (until - extent.from));
  from = Math.min(Math.max(from, extent.from - beyond), until + beyond - length);
  return { from, until: from + length };
}

/** Wider (`factor` > 1) or narrower, so that the time `at` stays where it is. */
export const zoomed = ({ from, until }: TimeWindow, factor: number, at: number): TimeWindow => ({
  from: at - (at - from) * factor,
  until: at + (until - at) * factor,
});

/** Moved by `ns` towards later. */
export const panned = ({ from, until }: TimeWindow, ns: number): TimeWindow => ({ from: from + ns, until: until + ns });

export const timeAt = (window: TimeWindow, width: number, x: number): number => window.from + (x / width) * lengthOf(window);

export const xAt = (window: TimeWindow, width: number, time: number): number => ((time - window.from) / lengthOf(window)) * width;

/** The range with a tenth of it on each side, and at least a minimum width. */
export function fitted(from: number, until: number): TimeWindow {
  const length = Math.max(until - from, windowNsMin / 2);
  return { from: from - length * 0.1, until: from + length * 1.1 };
}

/** The window that follows a live run: of the same width, ending just after the newest data. */
export function followed(window: TimeWindow, extent: TimeWindow): TimeWindow {
  const length = lengthOf(window);
  const until = extent.until + length * 0.04;
  return { from: until - length, until };
}

/** Nearer to `goal` by a part of the way; there when less than half a pixel is left. */
export function eased(window: TimeWindow, goal: TimeWindow, part: number, width: number): TimeWindow {
  const from = window.from + (goal.from - window.from) * part;
  const until = window.until + (goal.until - window.until) * part;
  const pixel = lengthOf(goal) / Math.max(width, 1);
  return Math.abs(from - goal.from) < pixel / 2 && Math.abs(until - goal.until) < pixel / 2 ? goal : { from, until };
}
