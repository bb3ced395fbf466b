// Bytes that are compared and copied four at a time: the engine makes one instruction of a view's unaligned read.

/** Bytes, and a view of the same bytes. */
export interface ViewedBytes {
  readonly bytes: Uint8Array;
  readonly view: DataView;
}

/** Whether `length` bytes from `at` in one are those from `place` in the other; both have as many. */
export function sameBytes(one: DataView, at: number, other: DataView, place: number, length: number): boolean {
  let done = 0;
  for (; done + 4 <= length; done += 4) if (one.getInt32(at + done, true) !== other.getInt32(place + done, true)) return false;
  for (; done < length; done++) if (one.getUint8(at + done) !== other.getUint8(place + done)) return false;
  return true;
}

/** Copies `from[start, until)` to `into` from `place` on; there is room. */
export function copyBytes(from: ViewedBytes, start: number, until: number, into: ViewedBytes, place: number): void {
  let at = start;
  let to = place;
  for (; at + 4 <= until; at += 4, to += 4) into.view.setInt32(to, from.view.getInt32(at, true), true);
  for (; at < until; at++, to++) into.bytes[to] = from.bytes[at] as number;
}
