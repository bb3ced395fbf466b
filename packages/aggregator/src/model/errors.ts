// The one error class of this package, for errors that an operator can act on. Bad batches are never errors: they are results of `ingest`.

/** Reasons why the aggregator or its store cannot go on. Closed: docs/errors.md explains every code. */
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

/** Message: action, quoted value, actual, expected; one line. `cause` keeps the system's own error. */
export class AggregatorError extends Error {
  override readonly name = 'AggregatorError';
  readonly code: AggregatorErrorCode;

  constructor(code: AggregatorErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
  }
}

/** The system's code of an error (`ENOENT`, `EADDRINUSE`, NATS's `503`), or '' where there is none. */
export function systemCode(error: unknown): string {
  if (typeof error !== 'object' || error === null || !('code' in error)) return '';
  return String(error.code);
}

/** The message of any thrown value. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
