// An alert as the service makes it, with `fields` changed.

import type { Alert } from '@ranktrace/protocol';

export function makeAlert(fields: Partial<Alert> = {}): Alert {
  return {
    id: 'night-42/step_time/cluster/1200',
    run: 'night-42',
    rule: 'step_time',
    state: 'firing',
    severity: 'critical',
    summary: 'steps are 7.4 % slower since step 1200: 212 → 228 ms; rank 3 (node-b), forward',
    series: { kind: 'cluster' },
    firedAt: '2026-02-03T04:05:06.000Z',
    resolvedAt: null,
    resolution: null,
    step: 1232,
    onsetStep: 1200,
    onsetAt: '2026-02-03T04:04:58.000Z',
    unit: 'ns',
    before: 212e6,
    after: 228e6,
    change: 0.0741,
    confidence: { t: 11.5, low: 0.068, high: 0.081 },
    cause: { kind: 'straggler', ranks: [3], hosts: ['node-b'], phase: 'forward', share: 0.97, text: 'rank 3 on node-b, phase forward' },
    ranks: [3],
    link: 'http://127.0.0.1:7400/#/timeline?run=night-42&from=1&to=2',
    capture: null,
    ...fields,
  };
}

/** The same incident at its end. */
export const resolved = (alert: Alert): Alert => ({
  ...alert,
  state: 'resolved',
  resolvedAt: '2026-02-03T04:15:06.000Z',
  resolution: 'steps are as fast as before',
});
