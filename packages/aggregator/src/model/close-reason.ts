// The reason in a WebSocket close frame, which has room for 123 bytes.

/** `reason` as plain ASCII that fits a close frame. */
export const closeReason = (reason: string): string =>
  Buffer.from(reason)
    .subarray(0, 120)
    .toString('latin1')
    .replace(/[^ -~]/g, '?');
