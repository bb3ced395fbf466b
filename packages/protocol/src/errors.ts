// The only error class of this package: it names the fault in data that crossed a process boundary.

/** Reason for rejecting a message. Closed: docs/errors.md explains every code. */
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

/** The only error that decoders of this package throw; its message gives the action, the value found and the value expected. */
export class ProtocolError extends Error {
  override readonly name = 'ProtocolError';
  readonly code: ProtocolErrorCode;

  constructor(code: ProtocolErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
  }
}
