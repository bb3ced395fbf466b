// The mapping between a process's own times and trace times. It may be replaced while the timeline is shown: the index keeps own times.

/** Both functions are ascending, in ns; `toOwn` inverts `toTrace` up to rounding. */
export interface TimelineClock {
  toTrace(own: number): number;
  toOwn(trace: number): number;
}

/** The clock of a process with times already in trace time. */
export const identityClock: TimelineClock = { toTrace: (own) => own, toOwn: (trace) => trace };
