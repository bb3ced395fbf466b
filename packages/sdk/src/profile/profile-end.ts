// The end of a profile's shipper and of its watch over the process.
//
//   try { … } finally { await prof.stop() }      error ──► stop: all is shipped ──► thrown further ──► the process ends by it
//                                                                            |------ one turn ------|
//
// `finally`, `using` and `await using` hide an error from `stop`: for the rest of the turn in which it has ended, the shipper's thread waits for one.

import { guarded } from '../process/guarded.ts';
import type { ShipperLink } from '../thread/shipper-link.ts';

export interface EndingParts {
  readonly link: ShipperLink;
  /** Ends the watch over handlers of signals. */
  readonly cancelClaims: () => void;
  /** Ends the watch over the end of the process. */
  readonly cancelExit: () => void;
}

/** Ships the rest, at the latest in `deadlineMs`. */
export async function stop(parts: EndingParts, deadlineMs: number): Promise<void> {
  await parts.link.stop(deadlineMs);
  parts.cancelClaims();
  endAfterTurn(parts);
}

/** The same, blocking this thread. */
export function stopBlocking(parts: EndingParts, deadlineMs: number): void {
  parts.cancelClaims();
  parts.link.stopNow(deadlineMs, { waits: true });
  endAfterTurn(parts);
}

/** The same for a profile that another one replaces, or that did not start: the end of the process is no matter of it any more. */
export function stopForGood({ link, cancelClaims, cancelExit }: EndingParts, deadlineMs: number): void {
  cancelClaims();
  cancelExit();
  link.stopNow(deadlineMs);
}

function endAfterTurn({ link, cancelExit }: EndingParts): void {
  const end = guarded('ending the recording', () => {
    cancelExit();
    link.end();
  });
  setImmediate(end);
}
