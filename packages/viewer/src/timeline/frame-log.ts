// The cost of frames, always measured: `ranktraceFrames` on the window is a ring of the last 1024, for benchmarks and for the curious.

export interface FrameCost {
  /** performance.now() at the begin of the frame. */
  readonly at: number;
  /** ms of script: painting, texts, and handing the picture over. */
  readonly script: number;
}

declare global {
  // Benchmarks read this; a declaration in the global scope must be `var`.
  var ranktraceFrames: FrameCost[] | undefined;
}

const kept = 1024;

export class FrameLog {
  readonly #frames: FrameCost[];
  #next = 0;

  constructor() {
    this.#frames = globalThis.ranktraceFrames ?? [];
    globalThis.ranktraceFrames = this.#frames;
  }

  add(at: number, script: number): void {
    this.#frames[this.#next] = { at, script };
    this.#next = (this.#next + 1) % kept;
  }
}
