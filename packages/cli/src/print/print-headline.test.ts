import { CountedStepsSink } from '@ranktrace/trace';
import type { RunBlame, RunFinding, Verdict } from '@ranktrace/trace/blame';
import { expect, it } from 'vitest';
import { HeadlineSinks } from './print-headline.ts';

const steps = { first: 0, last: 99 };

const finding = (kind: RunFinding['kind'], ranks: readonly number[], phase: string | undefined, costMsPerStep: number): RunFinding => ({
  ...{ kind, ranks, phase, costMsPerStep, costMsPerAffectedStep: costMsPerStep, shareOfStep: costMsPerStep / 20, gainMsPerStep: 0 },
  ...{ evidence: [], steps, stretches: 1, affectedSteps: 100, comparedSteps: 100 },
});

const network = finding('network', [], undefined, 8);
const straggler = finding('straggler', [0], 'backward', 1);

function check(verdict: Verdict, findings: readonly RunFinding[], expected: string): void {
  const headline = new HeadlineSinks();
  const blame: RunBlame = { ...headline.blame, verdict, findings, steps: { ...steps, count: 100, windows: 1 } };
  expect(headline.inShort(blame, { findings: [], summary: new CountedStepsSink().summary })).toBe(expected);
}

it('a slow rank comes first, with the verdict where that is about something else', () => {
  const slow = 'in short: straggler: rank 0 in backward: 1.00 ms per step, 5.0 % of the mean step';
  check('straggler', [straggler, network], slow);
  check('network', [network, straggler], `${slow}; verdict: network: 8.00 ms per step, 40.0 % of the mean step`);
  check('network', [network], 'in short: network: 8.00 ms per step, 40.0 % of the mean step');
});

it('a rank that costs the run next to nothing does not come before the verdict', () => {
  const passing = { ...finding('straggler', [1], 'backward', 0.0003), affectedSteps: 58 };
  check('network', [passing, network], 'in short: network: 8.00 ms per step, 40.0 % of the mean step');
});

it('a balanced run of which a part is lost says so', () => {
  const headline = new HeadlineSinks();
  const blame: RunBlame = { ...headline.blame, verdict: 'balanced', findings: [], steps: { ...steps, count: 100, windows: 1 } };
  const summary = new CountedStepsSink().summary;
  const lossOf = (text: string, isOfEvents?: true) =>
    ({ kind: 'data_loss', ranks: [1], text, remedy: '', ...(isOfEvents && { isOfEvents }) }) as const;
  const lost = lossOf('rank 1: 340 batches missing in its sequence', true);
  const cut = lossOf('rank 1: 3 arguments cut by a limit, or left out for an invalid value');
  const inShort = (...findings: ReturnType<typeof lossOf>[]) => headline.inShort(blame, { findings, summary });
  const balanced = 'in short: balanced, no rank is to blame';
  expect(inShort(cut)).toBe(balanced);
  expect(inShort(cut, lost)).toBe(`${balanced}, as far as it was recorded: ${lost.text}`);
  expect(inShort(lost, lost, cut)).toBe(`${balanced}, as far as it was recorded: ${lost.text}, and 1 more like it`);
});

it('a balanced run with long steps is not called balanced alone', () => {
  const long = finding('long_steps', [1], 'forward', 8);
  check('balanced', [], 'in short: balanced, no rank is to blame');
  check('balanced', [finding('long_steps', [], undefined, 1)], 'in short: balanced, no rank is to blame');
  check(
    'balanced',
    [long],
    'in short: balanced, no rank is to blame, but for long_steps: rank 1 in forward: 8.00 ms per step, 40.0 % of the mean step',
  );
});

it('a rank of which nothing was heard comes first where the verdict is inconclusive for it', () => {
  const headline = new HeadlineSinks();
  const blame: RunBlame = { ...headline.blame, verdict: 'inconclusive', findings: [], steps: { ...steps, count: 100, windows: 1 } };
  const summary = new CountedStepsSink().summary;
  const missing = { kind: 'rank_missing', ranks: [1], text: 'nothing was heard of rank 1', remedy: '' } as const;
  expect(headline.inShort(blame, { findings: [missing], summary })).toBe('in short: rank_missing: nothing was heard of rank 1');
  expect(headline.inShort(blame, { findings: [], summary })).toBe('');
});
