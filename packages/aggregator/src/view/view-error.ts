// The error in place of an answer. It answers one request, and is never a reason to close a connection.

import type { ViewErrorCode } from '@ranktrace/protocol';

/** Message: action, quoted value, actual, expected; one line. docs/errors.md explains every code. */
export class ViewError extends Error {
  override readonly name = 'ViewError';
  readonly code: ViewErrorCode;

  constructor(code: ViewErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
  }
}
