import type { ViewFinding } from '@ranktrace/protocol';
import { expect, test } from 'vitest';
import { makeAlert, resolved } from '../testing/make-alert.ts';
import { alertFindings, withAlerts } from './alert-findings.ts';

const link = 'http://127.0.0.1:7400/#/timeline?run=night-42&from=1&until=2';

test('what is firing comes first, with its place on the timeline; what is over is a note', () => {
  const [old, slow, hang] = [
    makeAlert({ id: 'old', link }),
    makeAlert({ id: 'slow', link }),
    makeAlert({ id: 'hang', rule: 'hang', summary: 'it hangs', link: null }),
  ];
  const about = { ranks: [3], phase: 'forward', cause: 'straggler', causeText: 'rank 3 on node-b, phase forward', onsetStep: 1200 };
  const over = `${old.summary} (over: steps are as fast as before)`;
  expect(alertFindings([resolved(old), slow, hang], [], 9)).toEqual([
    { severity: 'alert', kind: 'hang', text: 'it hangs', ...about },
    { severity: 'alert', kind: 'step_time', text: slow.summary, ...about, from: 1, until: 2 },
    { severity: 'note', kind: 'step_time', text: over, ...about, from: 1, until: 2 },
  ]);
});

test('an alert names the trace of its steps once that is written', () => {
  const capture = (state: 'pending' | 'written', path: string | null) => ({
    ...{ state, path, fromStep: 1184, toStep: 1248, ranks: [0], ranksMissing: [], text: '' },
  });
  const written = makeAlert({ id: 'one', capture: capture('written', 'captures/steps-1184-1248.pftrace') });
  const pending = makeAlert({ id: 'two', capture: capture('pending', null) });
  expect(alertFindings([written, pending], [], 9).map((finding) => finding.capture)).toEqual([undefined, 'steps-1184-1248.pftrace']);
});

test('there are no more than a page can show', () => {
  expect(
    alertFindings(
      Array.from({ length: 500 }, (_, at) => makeAlert({ id: `${at}` })),
      [],
      9,
    ).length,
  ).toBeLessThanOrEqual(16);
});

test('steps that became faster are notes, newest first, after what is to be worried about', () => {
  const faster = (onsetStep: number) => ({
    ...({ kind: 'improvement', step: onsetStep + 40, onsetStep, change: -0.05, before: 200e6, after: 190e6 } as const),
    confidence: { t: 9, low: -0.06, high: -0.04 },
  });
  const findings = alertFindings([makeAlert({ id: 'one' })], [faster(100), faster(900)], 9);
  expect(findings.slice(1).map(({ severity, kind, text }) => [severity, kind, text])).toEqual([
    ['note', 'improvement', 'steps are 5.0 % faster since step 900: 200 ms → 190 ms'],
    ['note', 'improvement', 'steps are 5.0 % faster since step 100: 200 ms → 190 ms'],
  ]);
});

test('a fault that an alert and the analysis report is one finding, with the words of both', () => {
  const cost = { affectedSteps: 100, comparedSteps: 1400, nsPerAffectedStep: 16e6, nsPerStep: 1.1e6, shareOfStep: 0.005 };
  const straggler = (rank: number, fromStep: number, toStep: number): ViewFinding => ({
    ...{ severity: 'warning', kind: 'straggler', text: `rank ${rank} slow`, ranks: [rank] },
    cost: { ...cost, fromStep, toStep },
  });
  const [open, over] = [makeAlert({ id: 'open' }), resolved(makeAlert({ id: 'over' }))];
  const same = straggler(3, 1190, 1399);
  expect(withAlerts(alertFindings([open], [], 9), [same])).toMatchObject([
    { severity: 'alert', kind: 'step_time', cause: 'straggler', cost: same.cost, text: `${open.summary}. rank 3 slow` },
  ]);
  const text = `rank 3 slow. It was alerted about: ${over.summary} (over: steps are as fast as before)`;
  expect(withAlerts(alertFindings([over], [], 9), [same])).toEqual([{ ...same, onsetStep: 1200, text }]);
  // Another rank, another time, or something else that is wrong.
  const lost: ViewFinding = { severity: 'warning', kind: 'rank_lost', text: 'rank 3 was lost', ranks: [3] };
  for (const other of [straggler(2, 1190, 1399), straggler(3, 100, 900), straggler(3, 1300, 1399), lost]) {
    expect(withAlerts(alertFindings([open], [], 9), [other])).toHaveLength(2);
  }
  const stopped = makeAlert({ id: 'stopped', rule: 'rank_stopped', cause: null });
  expect(withAlerts(alertFindings([stopped], [], 9), [lost])).toHaveLength(1);
});

test('a hang in which the run ended is as bad as one that is open; one after which it went on, or that names nobody, is a note', () => {
  const over = { ...resolved(makeAlert({ id: 'hang', rule: 'hang', step: 1240 })), resolution: 'the run ended' };
  const severityOf = (alert: ReturnType<typeof makeAlert>, lastStep: number) => alertFindings([alert], [], lastStep)[0]?.severity;
  expect(severityOf(over, 1240)).toBe('alert');
  expect(severityOf(over, 1241)).toBe('note');
  expect(severityOf(over, Number.POSITIVE_INFINITY)).toBe('note');
  expect(severityOf({ ...over, ranks: [] }, 1240)).toBe('note');
  expect(severityOf({ ...over, resolution: 'steps go on' }, 1240)).toBe('note');
});
