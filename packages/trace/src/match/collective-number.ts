// The shown number of a collective in its group.
//
//   our recorder's, or torch's `Seq`     7                          #7
//   a call that launched several         2^40 · n + 7               #7, part n + 1
//   a torch.profiler file without `Seq`  2^52 − w · 2^32 − k        k-th from the end of the w-th file before the last
//   a window of time without `Seq`       2^52 − w · 2^32 − 2^31 − k  k-th before the cut that its ranks agreed on; k ≤ 0: after it
//
// Numbers are kept whole everywhere else: ranks are matched by them.

/**
 * The last collective of a window has this number less 1, of the window before it this less 2^32 less 1. Above any `Seq` and its
 * repetitions, below 2^53.
 */
export const fromEnd = 2 ** 52;
export const windowStep = 2 ** 32;
/** Whether the number was counted, not recorded: no `Seq` or repetition of one comes near, and no job has 2^19 windows. */
export const isCounted = (sequence: number): boolean => sequence >= fromEnd / 2;
/** Added per earlier collective of the same `Seq`: one call may launch several kernels. `Seq` itself is below. */
export const repetition = 2 ** 40;
export const repetitionsMax = 1023;

/** Half of a window: the last collective before a cut has the number of the window's end less this less 1. */
export const beforeCut = 2 ** 31;

/** Most collectives in a window, and largest number of a group, recognised as such: beyond, a program chose a number that only looks like one. */
const countMax = 2 ** 30;
const windowsMax = 2 ** 16;

/**
 * A collective's number as text: `#7`, or `, 10th from the end`. It goes behind the name of its group.
 *
 * @example `all_reduce ${group}${collectiveNumber(sequence)}` // 'all_reduce dp#7'
 */
export function collectiveNumber(sequence: number): string {
  const cut = placeAtCut(sequence);
  if (cut !== undefined) return cut > 0 ? `, ${ordinal(cut)} before the cut` : `, ${ordinal(1 - cut)} after the cut`;
  const counted = countedPlace(sequence);
  if (counted !== undefined) {
    const { window, place } = counted;
    const file = window === 0 ? '' : window === 1 ? ' of the file before the last' : ` of the ${ordinal(window + 1)} last file`;
    return place === 1 ? `, the last${file}` : `, ${ordinal(place)} from the end${file}`;
  }
  const part = partOf(sequence);
  return part > 1 ? `#${sequence % repetition}, part ${part}` : `#${sequence}`;
}

/** A collective's number as data. Without a number of its own, `sequence` is null, and the others are its place as `collectiveNumber` words it. */
export interface CollectiveNumber {
  readonly sequence: number | null;
  /** 2 for the second collective of one call. */
  readonly part?: number;
  /** 1 for the last collective of the file. */
  readonly fromEnd?: number;
  /** 1 for the last collective before the cut, 0 for the first after it. */
  readonly beforeCut?: number;
  /** Where a place stands: 0 in the last file of the rank, 1 in the one before it. */
  readonly window?: number;
}

export function collectiveNumberData(sequence: number): CollectiveNumber {
  const cut = placeAtCut(sequence);
  if (cut !== undefined) return { sequence: null, beforeCut: cut, window: Math.floor((fromEnd - sequence) / windowStep) };
  const counted = countedPlace(sequence);
  if (counted !== undefined) return { sequence: null, fromEnd: counted.place, window: counted.window };
  const part = partOf(sequence);
  return part > 1 ? { sequence: sequence % repetition, part } : { sequence };
}

/** A collective in words: `all_reduce 7 of group dp`, or `all_reduce of group dp, 10th from the end`. */
export const collectiveText = (op: string, group: string, sequence: number): string =>
  placeAtCut(sequence) === undefined && countedPlace(sequence) === undefined
    ? `${op} ${sequence} of group ${group}`
    : `${op} of group ${group}${collectiveNumber(sequence)}`;

/** The place of a collective counted from the end of a window: 1 for the last one of the window, window 0 for the last one; undefined for any other. */
export function countedPlace(sequence: number): { readonly window: number; readonly place: number } | undefined {
  const back = fromEnd - sequence;
  if (!Number.isInteger(back) || back <= 0 || back > windowsMax * windowStep) return undefined;
  const [window, place] = [Math.floor((back - 1) / windowStep), 1 + ((back - 1) % windowStep)];
  return place <= countMax ? { window, place } : undefined;
}

/** Which of the collectives of one call it is, from 1. */
function partOf(sequence: number): number {
  const before = Math.floor(sequence / repetition);
  return before >= 1 && before <= repetitionsMax && sequence % repetition <= countMax ? before + 1 : 1;
}

/** The place of a collective counted from a cut: 1 for the last before it, 0 for the first after it. */
function placeAtCut(sequence: number): number | undefined {
  const back = fromEnd - sequence;
  if (!Number.isInteger(back) || back <= 0 || back > windowsMax * windowStep) return undefined;
  const place = (back % windowStep) - beforeCut;
  return Math.abs(place) < beforeCut - countMax ? place : undefined;
}

function ordinal(count: number): string {
  const isTeen = count % 100 >= 11 && count % 100 <= 13;
  const ending = isTeen ? 'th' : (['th', 'st', 'nd', 'rd'][count % 10] ?? 'th');
  return `${count}${ending}`;
}
