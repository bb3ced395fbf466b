import type { FindingCost, Overview, OverviewRank, ViewFinding } from '@ranktrace/protocol';
import { expect, it } from 'vitest';
import { costText, nobodyText, scopeText, waitingText } from './headline-text.ts';
import { headlineOf } from './slow-ranks.ts';

const ms = 1e6;
const cost: FindingCost = {
  ...{ fromStep: 400, toStep: 999, affectedSteps: 600, comparedSteps: 1500 },
  ...{ nsPerAffectedStep: 58.5 * ms, nsPerStep: 23.4 * ms, shareOfStep: 0.278 },
};
/** Texts of the page have thin spaces between numbers and units. */
const plain = (text: string): string => text.replaceAll('\u2009', ' ');

it('says of an affected step and of a step of the run what a fault costs', () => {
  expect(plain(costText([cost]))).toBe(
    '58.5 ms in each of 600 affected steps (steps 400–999), 23.4 ms per step of the run, 27.8 % of the mean step (84.2 ms)',
  );
  const all = { ...cost, affectedSteps: 1500, nsPerAffectedStep: 23.4 * ms };
  expect(plain(costText([all]))).toBe('23.4 ms per step, 27.8 % of the mean step (84.2 ms)');
  expect(plain(costText([cost, all]))).toBe('together 46.8 ms per step of the run, 55.6 % of the mean step (84.2 ms)');
  expect(costText([])).toBe('');
});

const ranks = [0, 1, 2, 3].map(
  (rank): OverviewRank => ({
    ...{ rank, process: rank, steps: 10, mean: 100 * ms, p50: 0, p95: 0, longest: 0, phases: [100 * ms], cells: [], peaks: [] },
  }),
);
const waits = (...parts: number[]): Overview['waiting'] => parts.map((part, rank) => ({ rank, lastIn: 1, waits: 1, waitedFor: part * ms }));
const unknown: ViewFinding = { severity: 'warning', kind: 'inconclusive', text: 'which rank waits for which is unknown', ranks: [] };
const straggler = (...of: number[]): ViewFinding => ({ severity: 'warning', kind: 'straggler', text: '', ranks: of });

/** The page's sentence about waiting, from waiting in ms for each rank over 0.25 s of steps of each of the four. */
function reported(waiting: Overview['waiting'], ...findings: ViewFinding[]): string {
  return reportedOf(ranks, waiting, findings);
}

function reportedOf(of: readonly OverviewRank[], waiting: Overview['waiting'], findings: readonly ViewFinding[] = []): string {
  const headline = headlineOf({
    phases: ['forward'],
    phaseRoles: ['work'],
    ranks: of,
    findings,
    waiting,
    waitingStepTime: 1000 * ms,
    analysed: true,
  });
  const isNobody = headline.ranks.length === 0 && headline.cause === undefined;
  return plain(isNobody ? nobodyText(headline, true) : waitingText(headline));
}

it.each([
  ['No rank holds the others up.', waits(), []],
  // The panel shows 86.6 % for rank 1, of a negligible amount of waiting.
  ['No rank holds the others up: they wait for 1 % of a step, 86.6 % of it for rank 1.', waits(1, 8.66, 0.2, 0.14), []],
  ['No rank holds the others up: they wait for 2 % of a step, for one rank after the other.', waits(5, 5, 5, 5), []],
  [
    'No rank works longer than its peers step for step, yet the others wait for rank 1 for 11.5 % of a step, 86.6 % of all waiting: the evidence is split.',
    waits(10, 86.6, 2, 1.4),
    [],
  ],
  ['No rank holds the others up: they wait for 15.6 % of a step, for one rank after the other.', waits(40, 38, 39, 39), []],
  ['Whether a rank holds the others up is unknown.', waits(), [unknown]],
  ['Whether a rank holds the others up is unknown.', waits(5, 5, 5, 5), [unknown]],
  ['Whether a rank holds the others up is unknown.', waits(10, 86.6, 2, 1.4), [unknown]],
  ['86.6 % of all waiting is for it.', waits(10, 86.6, 2, 1.4), [straggler(1)]],
  ['96.6 % of all waiting is for them.', waits(10, 86.6, 2, 1.4), [straggler(1), straggler(0)]],
  ['2 % of all waiting is for it, and 86.6 % for rank 1: the evidence is split.', waits(10, 86.6, 2, 1.4), [straggler(2)]],
  ['But 98 % of all waiting is for rank 1: the evidence is split.', waits(2, 98, 0, 0), [straggler(2)]],
  ['86.6 % of all waiting is for rank 1.', waits(10, 86.6, 2, 1.4), [{ ...straggler(), kind: 'rotating_imbalance', text: 'uneven' }]],
  ['', waits(26, 24, 25, 25), [{ ...straggler(), kind: 'rotating_imbalance', text: 'uneven' }]],
])('says: %s', (text, waiting, findings) => {
  expect(reported(waiting, ...findings)).toBe(text);
});

it('weighs the waiting for a rank by the number of ranks, however often each was started', () => {
  const two = ranks.slice(0, 2);
  const lives = [0, 2, 4].flatMap((first) => two.map((one, at) => ({ ...one, process: first + at })));
  const text = 'No rank holds the others up: they wait for 10 % of a step, for one rank after the other.';
  expect([reportedOf(two, waits(62, 38)), reportedOf(lives, waits(62, 38))]).toEqual([text, text]);
});

it('says whose verdict it is beside figures of some steps, where there is one', () => {
  const one = headlineOf({ phases: ['forward'], phaseRoles: ['work'], ranks: ranks.slice(0, 1), findings: [], analysed: true });
  expect([scopeText(one, false), scopeText(one, true)]).toEqual(['', 'In the whole run: ']);
  expect(scopeText({ ...one, tone: 'alert' }, false)).toBe('In the whole run: ');
  expect(scopeText({ ...one, cause: 'all ranks wait for their data' }, false)).toBe('In the whole run: ');
});

it('promises nothing before all is looked at', () => {
  expect(nobodyText({ tone: 'good', waiting: undefined, isUnknown: false }, false)).toBe('No rank stands out so far.');
});
