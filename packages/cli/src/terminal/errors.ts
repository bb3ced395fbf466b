// Errors that end a command early, and their exit codes: 1 a finding or a failed check, 2 bad usage or input.

export type CliErrorCode = 'bad_usage' | 'bad_input' | 'failed';

export class CliError extends Error {
  override readonly name = 'CliError';
  readonly code: CliErrorCode;

  constructor(code: CliErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
  }
}
