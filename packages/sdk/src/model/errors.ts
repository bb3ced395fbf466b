// The one error class of this package: what the caller did that cannot work. Everything that goes wrong later is a counter and a notice.

/** Why the profiler would not start. Closed: every code is explained in docs/errors.md. */
export type SdkErrorCode =
  /** An option or environment variable has a value that cannot be used, or names an option that does not exist. */
  | 'bad_option'
  /** Another profile is running in this process: stop it first. */
  | 'already_running'
  /** This profile was stopped: `profile()` makes another one. */
  | 'already_stopped'
  /** Results were asked for before there are any: they are there after the schedule's active steps, or after `stop`. */
  | 'no_results'
  /** A file that results go to cannot be written. */
  | 'file_unwritable'
  /** A file that an option names (credentials, certificates) cannot be read. */
  | 'file_unreadable'
  /** The spool or output directory cannot be created or written, or others than this user can write into the spool. */
  | 'spool_unusable'
  /** This is not Node: another runtime that speaks its API has not all that recording needs. */
  | 'runtime_unsupported'
  /** This process may start no worker thread, and recording needs one. */
  | 'threads_refused';

/** Thrown at the start and never while recording: the message names the option or variable, what it is and what would be right. */
export class SdkError extends Error {
  override readonly name = 'SdkError';
  readonly code: SdkErrorCode;

  constructor(code: SdkErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
  }
}
