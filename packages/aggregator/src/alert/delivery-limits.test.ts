import { expect, test } from 'vitest';
import { deliveryLimits as limits } from './delivery-limits.ts';

test('limits fit each other', () => {
  // A burst waits in the queue before it is sent.
  expect(limits.outputQueueMax).toBeGreaterThan(limits.outputBurst);
  // What an output was told is remembered longer than it waits.
  expect(limits.outputIncidentsMax).toBeGreaterThan(limits.outputQueueMax + limits.outputOpenMax);
  expect(limits.outputRetryMs).toBeLessThan(limits.outputRetryMsMax);
  // A receiver that is back is found before what waits for it is too old.
  expect(limits.outputRetryForMs).toBeGreaterThan(5 * limits.outputRetryMsMax);
  // A resend that waits for the next try still comes before Alertmanager forgets.
  expect(limits.alertmanagerMissedMax * limits.alertmanagerResendMs).toBeGreaterThan(limits.alertmanagerResendMs + limits.outputRetryMsMax);
});
