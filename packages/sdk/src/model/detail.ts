// What is recorded in detail right now, as bits of one word that all threads of the process share: the schedule, toggles and the overhead
// budget change it, and every op reads it once.

/** Bits of `Recorder.detail`. */
export const detail = {
  /** Ops and data copies of tfjs. */
  ops: 1,
  /** Shapes and types of their inputs and outputs. */
  shapes: 2,
  /** Allocations and frees. */
  memory: 4,
  /** Where in the user's code an op was called. */
  stacks: 8,
  /** Inside which layers. */
  modules: 16,
  /** Floating point operations. */
  flops: 32,
  /** `recordFunction` and other spans of the program. */
  spans: 64,
  /** Those inside of others. */
  nestedSpans: 128,
} as const;

/** Everything. */
export const allDetail = Object.values(detail).reduce((all, bit) => all | bit, 0);
