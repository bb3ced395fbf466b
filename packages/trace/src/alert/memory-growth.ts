// Whether one counter of memory grows step by step and continuously: a leak.
//
//   steps   │ 25 │ 25 │ 25 │ … │ 25 │      eighths of a window; each by its lowest value, after garbage collection
//   lowest    a  <  b  <  c  < … <  h      a continuous rise, by (h − a) per step
//   twice   │   50    │   50    │ … │      two eighths are one of the next window, of twice the length
//
// An eighth is long enough to hold a value, so that a counter read once a second suits steps of a millisecond. Garbage that is collected less often
// than once in an eighth hides a leak in short windows, and looks like one: long windows find it, and growth counts only from the highest value that
// has left the window on.

import { alertLimits as limits } from './alert-limits.ts';

const parts = 8;
/** Each part rises by more than this share of their mean rise: what has grown, and stands still but for noise, does not grow. */
const leastShare = 0.15;

interface Lowest {
  readonly step: number;
  readonly value: number;
}

/** A window of `parts` parts. */
interface Window {
  /** Lowest value of each closed part, and its step. */
  readonly lowest: Lowest[];
  /** A part that waits for its neighbour, to be one part of the next window with it. */
  waiting: Lowest | undefined;
  /** The highest of the parts that left the window. */
  left: number;
}

export class MemoryGrowth {
  readonly #stepsMin: number;
  readonly #least: number;
  /** From short to long, each of twice the length of the one before. */
  #windows: Window[] = [];
  #partFrom = -1;
  #open: Lowest | undefined = undefined;
  /** The shortest window that saw growth: as long as it does, the others are not asked. */
  #growing: Window | undefined = undefined;
  /** Where growth ended. */
  #ended: Lowest | undefined = undefined;
  #growth: number | undefined = undefined;

  /** `stepsMin`: length of the shortest window; `least`: the least growth that counts, bytes per step. */
  constructor(stepsMin: number, least: number) {
    this.#stepsMin = stepsMin;
    this.#least = least;
  }

  /** Bytes per step while it rises throughout a window, 0 if it does not, undefined before there is a window. */
  get growth(): number | undefined {
    return this.#growth;
  }

  /** The first step of that window. */
  get fromStep(): number {
    return (this.#growing ?? this.#windows[0])?.lowest[0]?.step ?? 0;
  }

  /** Steps of that window. */
  get steps(): number {
    return this.#stepsMin * 2 ** (this.#growing === undefined ? 0 : this.#windows.indexOf(this.#growing));
  }

  /** Takes a value; returns whether `growth` was judged anew. */
  add(step: number, value: number): boolean {
    if (!(step >= limits.alertMemoryWarmUpSteps) || !Number.isFinite(value)) return false;
    if (step < this.#partFrom) this.#reset();
    if (this.#partFrom < 0) this.#partFrom = step;
    let isClosed = false;
    if (this.#open !== undefined && step - this.#partFrom >= this.#stepsMin / parts) {
      isClosed = this.#close(this.#open);
      this.#open = undefined;
      this.#partFrom = step;
    }
    if (this.#open === undefined || value < this.#open.value) this.#open = { step, value };
    return isClosed;
  }

  /** Closes a part of the shortest window, and of those that end with it; returns whether one of them was judged. */
  #close(part: Lowest): boolean {
    let isJudged = false;
    let closed: Lowest | undefined = part;
    for (let at = 0; closed !== undefined && at < limits.alertMemoryWindowsMax; at++) {
      this.#windows[at] ??= { lowest: [], waiting: undefined, left: Number.NEGATIVE_INFINITY };
      const window = this.#windows[at] as Window;
      window.lowest.push(closed);
      if (window.lowest.length > parts) window.left = Math.max(window.left, (window.lowest.shift() as Lowest).value);
      if (window.lowest.length === parts) {
        isJudged = true;
        this.#judge(window);
      }
      const { waiting } = window;
      window.waiting = waiting === undefined ? closed : undefined;
      closed = waiting !== undefined && closed.value < waiting.value ? closed : waiting;
    }
    return isJudged;
  }

  #judge(window: Window): void {
    if (this.#growing !== undefined && this.#growing !== window) return;
    const growth = this.#goesOn(window) ? growthIn(window) : 0;
    if (this.#growing !== undefined && growth < this.#least) this.#ended = window.lowest.at(-1);
    this.#growth = growth;
    this.#growing = growth >= this.#least ? window : undefined;
  }

  /** Whether the window rises since growth ended, if it did within the window. */
  #goesOn({ lowest }: Window): boolean {
    const [first, last] = [lowest[0] as Lowest, lowest.at(-1) as Lowest];
    if (this.#ended === undefined || first.step > this.#ended.step) return true;
    const { step, value } = this.#ended;
    return last.step > step && last.value - value >= this.#least * (last.step - step);
  }

  /** Resets when step numbers begin anew. */
  #reset(): void {
    this.#windows = [];
    this.#open = undefined;
    this.#partFrom = -1;
    this.#growing = undefined;
    this.#ended = undefined;
    this.#growth = undefined;
  }
}

function growthIn({ lowest, left }: Window): number {
  const [first, last] = [lowest[0] as Lowest, lowest[parts - 1] as Lowest];
  const least = Math.max(0, (leastShare * (last.value - first.value)) / (parts - 1));
  for (let at = 1; at < parts; at++) if ((lowest[at] as Lowest).value - (lowest[at - 1] as Lowest).value <= least) return 0;
  return Math.max(0, last.value - Math.max(first.value, left)) / (last.step - first.step);
}
