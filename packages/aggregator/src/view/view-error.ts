// What a page is told instead of an answer. These are answers to one request, never a reason to close a connection.

import type { ViewErrorCode } from '@ranktrace/protocol';

/** Message: action, quoted value, what is, what was wanted; one line. Every code is explained in docs/errors.md. */
export class ViewError extends Error {
  override readonly name = 'ViewError';
  readonly code: ViewErrorCode;

  constructor(code: ViewErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
  }
}
