// The only error class of this example: wrong usage, and failures between ranks.

/** Kind of failure. `bad_usage` ends the process with exit code 2, everything else with 1. */
export type TrainingErrorCode =
  | 'bad_usage' // an option or environment variable cannot be used
  | 'cannot_meet' // the ranks did not all find each other
  | 'peer_lost' // another rank's connection broke or was closed
  | 'peer_silent' // another rank kept its connection but sent nothing for too long
  | 'bad_message' // another rank sent something that is not the protocol
  | 'weights_differ'; // the ranks ended with different weights

/** Thrown by everything in this folder; the message gives the action, the state found and the state expected. */
export class TrainingError extends Error {
  override readonly name = 'TrainingError';
  readonly code: TrainingErrorCode;

  constructor(code: TrainingErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
  }
}
