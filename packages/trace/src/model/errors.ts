// The one error class of this package: it reports what is wrong with an input file.

/** Why a trace was rejected. Closed: docs/errors.md explains every code. */
export type TraceErrorCode =
  | 'truncated'
  | 'not_json'
  | 'not_perfetto'
  | 'not_csv'
  | 'not_pickle'
  | 'no_events'
  | 'too_large'
  | 'too_deep'
  | 'memory'
  | 'bad_option';

/** Thrown by the readers and tables of this package: action, expected value, actual value, place. */
export class TraceError extends Error {
  override readonly name = 'TraceError';
  readonly code: TraceErrorCode;

  constructor(code: TraceErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
  }
}
