// The only error class of this package: a misuse by the caller that cannot work. Later problems are a counter and a notice.

/** Reason why the profiler did not start. Closed: docs/errors.md explains every code. */
export type SdkErrorCode =
  /** An option or environment variable has an unusable value, or names an option that does not exist. */
  | 'bad_option'
  /** Another profile is running in this process: stop it first. */
  | 'already_running'
  /** This profile was stopped: `profile()` makes a new one. */
  | 'already_stopped'
  /** The program asked for results too early: they exist after the schedule's active steps, or after `stop`. */
  | 'no_results'
  /** A results file cannot be written. */
  | 'file_unwritable'
  /** A file that an option names (credentials, certificates) cannot be read. */
  | 'file_unreadable'
  /** The spool or output directory cannot be created or written, or others than this user can write into the spool. */
  | 'spool_unusable'
  /** This is not Node: another runtime with its API lacks part of what recording needs. */
  | 'runtime_unsupported'
  /** This process may start no worker thread, and recording needs one. */
  | 'threads_refused'
  /** The file of that thread is not beside the SDK's code: a bundler packed the SDK into the program. */
  | 'worker_missing';

/** Thrown at the start and never while recording: the message names the option or variable, its value and a correct one. */
export class SdkError extends Error {
  override readonly name = 'SdkError';
  readonly code: SdkErrorCode;

  constructor(code: SdkErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
  }
}
