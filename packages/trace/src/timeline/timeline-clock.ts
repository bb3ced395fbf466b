// How a process's own times become times of the trace, and back. It may be replaced while the timeline is looked at: the index keeps own times.

/** Both directions ascend; `toOwn` undoes `toTrace` to within rounding. ns. */
export interface TimelineClock {
  toTrace(own: number): number;
  toOwn(trace: number): number;
}

/** The clock of a process whose times are those of the trace. */
export const identityClock: TimelineClock = { toTrace: (own) => own, toOwn: (trace) => trace };
