// The one error class of this package: what is wrong with a file that somebody else wrote.

/** Why a trace was refused. Closed: every code is explained in docs/errors.md. */
export type TraceErrorCode =
  | 'truncated'
  | 'not_json'
  | 'not_perfetto'
  | 'not_csv'
  | 'no_events'
  | 'too_large'
  | 'too_deep'
  | 'memory'
  | 'bad_option';

/** Thrown by the readers and tables of this package: action, what was wanted, what is, where. */
export class TraceError extends Error {
  override readonly name = 'TraceError';
  readonly code: TraceErrorCode;

  constructor(code: TraceErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
  }
}
