// Where the axis of our Perfetto traces begins: their times are unsigned, those of a merge may begin below 0.

/** Perfetto's timestamp (ns) of TraceTime 0: one day, more than the spread of hosts that agree on the date. */
export const perfettoOrigin = 86_400e9;
/** The largest, for a host whose date is wrong: half of the range in which a double counts ns, 52 days. */
const originMax = 2 ** 52;

/** The origin of a trace whose first event is at `first`: a day before it, where that is before the usual one. */
export function originOf(first: number): number {
  const wanted = perfettoOrigin - first;
  return first >= -perfettoOrigin || !(wanted <= originMax) ? perfettoOrigin : wanted;
}
