// The detail recorded right now, as bits of one word that all threads of the process share: the schedule, toggles and the overhead budget
// change it, and every op reads it once.

/** Bits of `Recorder.detail`. */
export const detail = {
  /** Ops and data copies of tfjs. */
  ops: 1,
  /** Shapes and types of their inputs and outputs. */
  shapes: 2,
  /** Allocations and frees. */
  memory: 4,
  /** The place in the user's code that called an op. */
  stacks: 8,
  /** The layers around an op. */
  modules: 16,
  /** Floating point operations. */
  flops: 32,
  /** `recordFunction` and other spans of the program. */
  spans: 64,
  /** Spans inside other such spans. */
  nestedSpans: 128,
} as const;

/** All bits. */
export const allDetail = Object.values(detail).reduce((all, bit) => all | bit, 0);
