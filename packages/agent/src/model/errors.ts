// The only error class of this package: something without which the agent, or a part of it, cannot work.

/** Closed: docs/errors.md explains every code. */
export type AgentErrorCode =
  /** This system cannot open datagram sockets through koffi: another system than Linux, or koffi is not installed. */
  | 'sockets_unavailable'
  /** Another process, such as dynolog, holds the name of Kineto's interface. */
  | 'name_taken'
  /** The socket of Kineto's interface cannot be opened. */
  | 'socket_failed'
  /** A file of a trace is refused: it lies elsewhere, is a link, is somebody else's, or is too large. */
  | 'file_refused'
  /** A rank's Flight Recorder gives no dump: nobody reads its pipe, or no complete file came in time. */
  | 'dump_unavailable'
  /** NCCL's RAS does not answer, or not in JSON. */
  | 'ras_unavailable'
  /** A journal of shipped files, or the folder of traces, cannot be written. */
  | 'file_unwritable'
  /** An option has an unusable value. */
  | 'bad_option';

/** The message names what was wanted, what was found, and the remedy. */
export class AgentError extends Error {
  override readonly name = 'AgentError';
  readonly code: AgentErrorCode;

  constructor(code: AgentErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
  }
}
