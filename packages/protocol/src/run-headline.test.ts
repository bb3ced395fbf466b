import { expect, test } from 'vitest';
import { type DecidingFinding, runStateOf } from './run-headline.ts';

const of = (kind: string, severity: DecidingFinding['severity'] = 'warning', cause?: string): DecidingFinding => ({
  kind,
  severity,
  ...(cause === undefined ? {} : { cause }),
});

const all = [of('network'), of('cluster_wide'), of('straggler'), of('hang', 'alert'), of('rank_lost', 'alert')] as const;

test('dead or hung before a straggler, before a regression, before another cause, before balanced', () => {
  const states = all.map((_, left) => runStateOf(all.slice(0, all.length - left)).state);
  expect(states).toEqual(['dead', 'hung', 'straggler', 'regression', 'cause']);
  expect(runStateOf([]).state).toBe('balanced');
});

test.each([
  ['balanced', of('network', 'note')],
  ['balanced', of('cluster_wide', 'note')],
  ['balanced', of('rank_lost', 'note')],
  ['balanced', of('data_loss')],
  // Files of some ranks alone: the others may be well.
  ['balanced', of('rank_missing', 'alert')],
  ['balanced', of('step_time', 'note', 'straggler')],
  ['straggler', of('step_time', 'alert', 'straggler')],
  ['regression', of('step_time', 'alert')],
  ['regression', of('step_time_drift', 'alert', 'network')],
  ['dead', of('rank_stopped', 'alert')],
])('%s: %o', (state, finding) => expect(runStateOf([finding]).state).toBe(state));
