import { limits as batchLimits, frameHeaderBytes } from '@ranktrace/protocol';
import { alertLimits } from '@ranktrace/trace/alert';
import { expect, test } from 'vitest';
import { aggregatorLimits as limits } from './limits.ts';

test('limits fit each other', () => {
  // A killed writer leaves at most one frame; anything longer must not be cut.
  expect(limits.tornBytesMax).toBe(frameHeaderBytes + batchLimits.batchBytesMax);
  expect(limits.segmentBytesMax).toBeGreaterThan(limits.tornBytesMax);
  // A batch that is a little too large is refused by name, not by a broken connection.
  expect(limits.webSocketPayloadBytesMax).toBeGreaterThan(batchLimits.batchBytesMax);
  expect(limits.natsAckPendingMax).toBeGreaterThanOrEqual(limits.natsFetchMessagesMax);
  expect(limits.natsAckWaitMs).toBeGreaterThan(limits.natsFetchExpiresMs);
  // A batch that a broker delivers a second and a third time is not lost.
  expect(alertLimits.alertMissingMs).toBeGreaterThan(2 * (limits.natsAckWaitMs + limits.natsFetchExpiresMs + limits.natsRetryMsMax));
  expect(limits.lockStaleMs).toBeGreaterThan(5 * limits.syncIntervalMs);
  // A page that reads is never mistaken for one that does not: it has several pings' time.
  expect(limits.viewSilenceMsMax).toBeGreaterThan(3 * limits.pingIntervalMs);
  expect(limits.viewSendBufferBytesMax).toBeGreaterThan(2 * limits.viewFrameBytesMax);
  expect(limits.viewSliceMs).toBeLessThan(limits.viewProgressIntervalMs);
  // A summary is a batch.
  expect(limits.prunedRowsMax).toBeLessThanOrEqual(batchLimits.rowsPerTableMax);
  expect(limits.readAheadTotalBytesMax).toBeGreaterThanOrEqual(limits.readAheadBytesMax);
});
