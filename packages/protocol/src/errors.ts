// The one error class of this package: what is wrong with something that crossed a process boundary.

/** Why a message was refused. Closed: every code is explained in docs/errors.md. */
export type ProtocolErrorCode =
  | 'truncated'
  | 'corrupt'
  | 'oversized'
  | 'wrong_version'
  | 'bad_header'
  | 'bad_table'
  | 'bad_string'
  | 'bad_message'
  | 'bad_subject';

/** Thrown by every decoder of this package, and nothing else is: action, what is, what was wanted. */
export class ProtocolError extends Error {
  override readonly name = 'ProtocolError';
  readonly code: ProtocolErrorCode;

  constructor(code: ProtocolErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
  }
}
