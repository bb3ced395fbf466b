// The only error class of this package.

/** Closed: docs/errors.md explains every code. */
export type GpuErrorCode =
  /** A file is no ring, is another user's, or was changed by somebody else than its writer and reader. */
  'ring_refused';

/** The message names what was wanted and what was found. */
export class GpuError extends Error {
  override readonly name = 'GpuError';
  readonly code: GpuErrorCode;

  constructor(code: GpuErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
  }
}
