import { expect, test } from 'vitest';
import { deliveryLimits as limits } from './delivery-limits.ts';

test('limits fit each other', () => {
  // A burst waits in the queue before it is sent.
  expect(limits.outputQueueMax).toBeGreaterThan(limits.outputBurst);
  // An output remembers what it sent for longer than an alert waits in its queue.
  expect(limits.outputIncidentsMax).toBeGreaterThan(limits.outputQueueMax + limits.outputOpenMax);
  expect(limits.outputRetryMs).toBeLessThan(limits.outputRetryMsMax);
  // A receiver that recovers gets a try before its waiting alerts are too old.
  expect(limits.outputRetryForMs).toBeGreaterThan(5 * limits.outputRetryMsMax);
  // A resend that waits for the next try still comes before Alertmanager forgets.
  expect(limits.alertmanagerMissedMax * limits.alertmanagerResendMs).toBeGreaterThan(limits.alertmanagerResendMs + limits.outputRetryMsMax);
});
