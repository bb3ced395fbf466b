// The one error class of this package: what an operator can act on. Bad batches are never errors: they are results of `ingest`.

/** Why the aggregator or its store cannot go on. Closed: every code is explained in docs/errors.md. */
export type AggregatorErrorCode =
  | 'bad_option'
  | 'bad_config'
  | 'port_in_use'
  | 'listen_failed'
  | 'token_required'
  | 'bad_certificate'
  | 'nats_unreachable'
  | 'nats_refused'
  | 'closed'
  | 'nothing_captured'
  | 'too_many_captures'
  | 'store_missing'
  | 'store_not_a_run'
  | 'store_unreadable'
  | 'store_truncated'
  | 'store_format'
  | 'store_locked'
  | 'store_full'
  | 'store_write_failed';

/** Message: action, quoted value, what is, what was wanted; one line. `cause` keeps the system's own error. */
export class AggregatorError extends Error {
  override readonly name = 'AggregatorError';
  readonly code: AggregatorErrorCode;

  constructor(code: AggregatorErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
  }
}

/** The system's name for what went wrong (`ENOENT`, `EADDRINUSE`, NATS's `503`), or '' where there is none. */
export function systemCode(error: unknown): string {
  if (typeof error !== 'object' || error === null || !('code' in error)) return '';
  return String(error.code);
}

/** The message of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
