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
  expect(alertFindings([resolved(old), slow, hang], [])).toEqual([
    { severity: 'alert', kind: 'hang', text: 'it hangs', ranks: [3] },
    { severity: 'alert', kind: 'step_time', text: slow.summary, ranks: [3], from: 1, until: 2 },
    { severity: 'note', kind: 'step_time', text: `${old.summary} (over: steps are as fast as before)`, ranks: [3], from: 1, until: 2 },
  ]);
});

test('there are no more than a page can show', () => {
  expect(
    alertFindings(
      Array.from({ length: 500 }, (_, at) => makeAlert({ id: `${at}` })),
      [],
    ).length,
  ).toBeLessThanOrEqual(16);
});

test('steps that became faster are notes, newest first, after what is to be worried about', () => {
  const faster = (onsetStep: number) => ({
    ...({ kind: 'improvement', step: onsetStep + 40, onsetStep, change: -0.05, before: 200e6, after: 190e6 } as const),
    confidence: { t: 9, low: -0.06, high: -0.04 },
  });
  const findings = alertFindings([makeAlert({ id: 'one' })], [faster(100), faster(900)]);
  expect(findings.slice(1).map(({ severity, kind, text }) => [severity, kind, text])).toEqual([
    ['note', 'improvement', 'steps are 5.0 % faster since step 900: 200 ms → 190 ms'],
    ['note', 'improvement', 'steps are 5.0 % faster since step 100: 200 ms → 190 ms'],
  ]);
});
