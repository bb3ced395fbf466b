import { expect, test } from 'vitest';
import { makeAlert, resolved } from '../testing/make-alert.ts';
import { alertFindings } from './alert-findings.ts';

const link = 'http://127.0.0.1:7400/#/timeline?run=night-42&from=1&until=2';

test('what is firing comes first, with its place on the timeline; what is over is a note', () => {
  const [old, slow, hang] = [
    makeAlert({ id: 'old', link }),
    makeAlert({ id: 'slow', link }),
    makeAlert({ id: 'hang', rule: 'hang', summary: 'it hangs', link: null }),
  ];
  expect(alertFindings([resolved(old), slow, hang])).toEqual([
    { severity: 'alert', kind: 'hang', text: 'it hangs', ranks: [3] },
    { severity: 'alert', kind: 'step_time', text: slow.summary, ranks: [3], from: 1, until: 2 },
    { severity: 'note', kind: 'step_time', text: `${old.summary} (over: steps are as fast as before)`, ranks: [3], from: 1, until: 2 },
  ]);
});

test('there are no more than a page can show', () => {
  expect(alertFindings(Array.from({ length: 500 }, (_, at) => makeAlert({ id: `${at}` }))).length).toBeLessThanOrEqual(16);
});
