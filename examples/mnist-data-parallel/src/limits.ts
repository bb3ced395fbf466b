// Every bound of the talk between ranks, with its unit last.

export const limits = {
  /** How long the ranks may take to find each other: loading the digits and starting N processes is part of it. */
  meetingMsMax: 120_000,
  /** Pause between two tries to reach rank 0, which may not listen yet. */
  connectRetryMs: 100,
  /** How long a rank waits for another in the middle of the training. A slow rank is no error, so this is as patient as NCCL's default. */
  peerWaitMsMax: 600_000,
  /** How long a new connection may take to say who it is. */
  greetingMsMax: 5_000,
  /** One JSON message; the longest is the address list, about 50 bytes per rank. */
  messageBytesMax: 64 * 1024,
} as const;
