import type { Blame, BlameFinding, RankBreakdown, RunBlame, RunFinding } from '@ranktrace/trace/blame';
import { expect, it } from 'vitest';
import { blameData, formatBlame } from './print-blame.ts';

const straggler: BlameFinding = {
  ...{ kind: 'straggler', ranks: [1], phase: 'forward' },
  ...{ costMsPerStep: 9, shareOfStep: 0.25, gainMsPerStep: 9 },
  evidence: ['rank 1 works 9.00 ms longer in forward than the median of its peers (14.00 ms against 5.00 ms)'],
};

const rank = (number: number, forward: number, waits: RankBreakdown['waits'], transfer: number): RankBreakdown => ({
  ...{ rank: number, hostName: 'node', step: 36e6 },
  own: new Map([
    ['data', 4e6],
    ['forward', forward],
  ]),
  ...{ waits, transfer, unmatched: 0, other: 18e6 - transfer },
});

const blame: Blame = {
  verdict: 'straggler',
  findings: [straggler],
  steps: { count: 12, first: 4, last: 15, leftOut: 1 },
  ...{ step: 36e6, basis: 'pieces', hidden: [], long: [] },
  frontier: [
    { phase: 'data', advance: 4e6, leader: undefined, leaderShare: 0.6 },
    { phase: 'forward', advance: 14e6, leader: 1, leaderShare: 1 },
  ],
  visible: [{ phase: 'forward', length: 1_200_000 }],
  excess: [{ rank: 1, peers: '', excess: 9e6, share: 0.8, phase: 'forward' }],
  breakdown: [rank(0, 5e6, [{ rank: 1, name: 'all_reduce world', length: 9e6 }], 2e6), rank(1, 14e6, [], 2e6)],
  whatIf: [{ ranks: [1], stepMs: 27, shorter: 0.25, slowdown: 36 / 27 }],
  alignment: { bound: 30_000, unaligned: [], uncertainty: 60_000 },
  change: undefined,
};

/** The finding, in this many of this many steps. */
const within = (finding: BlameFinding, steps: RunFinding['steps'], affectedSteps = 12, comparedSteps = 12): RunFinding => {
  const [costMsPerAffectedStep, part] = [finding.costMsPerStep, affectedSteps / comparedSteps];
  const cost = { costMsPerAffectedStep, costMsPerStep: part * costMsPerAffectedStep, shareOfStep: part * finding.shareOfStep };
  return { ...finding, steps, stretches: 1, affectedSteps, comparedSteps, ...cost };
};

/** A run of only these steps. */
const ofRun = (last: Blame): RunBlame => {
  const steps = { first: last.steps.first ?? 0, last: last.steps.last ?? 0 };
  const findings = last.findings.map((finding) => within(finding, steps));
  return { verdict: last.verdict, verdictSteps: steps, findings, last, steps: { ...steps, count: 13, windows: 1 } };
};

it('says of a run that did not end well that the verdict is about the steps before that', () => {
  const line = '  it is about the steps that ended, not about the end of the run, which "in short" tells';
  expect(formatBlame(ofRun(blame), undefined, true).split('\n')[1]).toBe(line);
  expect(formatBlame(ofRun(blame))).not.toContain(line);
});

it('says the verdict, what each fault costs, and where steps go', () => {
  expect(formatBlame(ofRun(blame))).toBe(`\
verdict: straggler: few ranks work longer than their peers, and the others wait for them (12 of steps 4 to 15, 36.0 ms each, without 1 over 2.5 times the median)
  straggler: rank 1 in forward: 9.00 ms per step, 25.0 % of the mean step
    in all steps, 4 to 15
    rank 1 works 9.00 ms longer in forward than the median of its peers (14.00 ms against 5.00 ms)
  what if rank 1 at the median of its peers: step −25.0 %, to 27.0 ms (1.33 times as fast)

own work per step     step  forward     data    waits  transfer    other  waits for
rank 0             36.0 ms  5.00 ms  4.00 ms  9.00 ms   2.00 ms  16.0 ms  rank 1 in all_reduce world
rank 1             36.0 ms  14.0 ms  4.00 ms     0 ns   2.00 ms  16.0 ms  -

slowest rank by phase: data 4.00 ms, forward 14.0 ms (rank 1)
a rank slower than its peers in each step would be seen from 1.20 ms in forward on; less is hidden by noise
rests on clocks known to ± 30.0 µs, waits and transfers to ± 60.0 µs per step; own work needs no clocks`);
});

it('shows time of which it is unknown whether ranks wait or transfer apart from transfers', () => {
  const unknown = (of: RankBreakdown): RankBreakdown => ({ ...of, unmatched: 3e6, other: of.other - 3e6 });
  const text = formatBlame(ofRun({ ...blame, breakdown: blame.breakdown.map(unknown) }));
  const [head, first] = text.split('\n').filter((line) => /^(?:own work|rank 0)/.test(line));
  expect(head?.split(/ {2,}/)).toEqual([
    ...['own work per step', 'step', 'forward', 'data', 'waits', 'transfer', 'unmatched', 'other', 'waits for'],
  ]);
  expect(first?.split(/ {2,}/).slice(4, 8)).toEqual(['9.00 ms', '2.00 ms', '3.00 ms', '13.0 ms']);
});

it('says which steps of a long run a finding covers, and what the verdict is about', () => {
  const balanced: Blame = { ...blame, verdict: 'balanced', findings: [], steps: { count: 256, first: 644, last: 899, leftOut: 0 } };
  const text = formatBlame({
    ...{ verdict: 'straggler', verdictSteps: { first: 320, last: 447 } },
    findings: [within(straggler, { first: 320, last: 447 }, 128, 900)],
    ...{ last: balanced, steps: { first: 0, last: 899, count: 900, windows: 14 } },
  });
  expect(text.split('\n').slice(0, 3)).toEqual([
    'verdict: straggler: few ranks work longer than their peers, and the others wait for them (steps 320 to 447; balanced at the end, 256 of steps 644 to 899, 36.0 ms each; all 900 steps were judged, steps 0 to 899)',
    '  straggler: rank 1 in forward: 9.00 ms in each of 128 affected steps: 1.28 ms per step of the run, 3.6 % of the mean step',
    '    in steps 320 to 447, 14.2 % of the run',
  ]);
});

it('has one line for findings that hardly cost anything, behind the first eight', () => {
  const small = (share: number) => ({ ...within(straggler, { first: 320, last: 447 }, 128, 900), shareOfStep: share });
  const run = ofRun(blame);
  const lines = (shares: readonly number[]) =>
    formatBlame({ ...run, findings: shares.map(small) })
      .split('\n')
      .filter((line) => line.startsWith('  straggler') || line.includes(' more that '));
  expect(lines(new Array(8).fill(0.0002))).toHaveLength(8);
  expect(lines([0.1, 0.05, ...new Array(20).fill(0.0002)]).slice(7)).toEqual([
    expect.stringMatching(/^ {2}straggler/),
    '  14 more that cost less than 0.1 % of the run each; all of them with --json',
  ]);
  expect(lines(new Array(20).fill(0.002))).toHaveLength(20);
});

it('says what it cannot rest on', () => {
  const unaligned = { ...blame, alignment: { bound: undefined, unaligned: [1], uncertainty: undefined } };
  expect(formatBlame(ofRun(unaligned))).toMatch(/rests on clocks that are not all aligned \(rank 1\): waits there come of lengths alone/);
  expect(formatBlame(ofRun({ ...blame, basis: 'phases' }))).toMatch(/rests on lengths of phases alone/);
  const hiding = { ...blame, basis: 'phases', hidden: ['backward'] } as const;
  expect(formatBlame(ofRun(hiding))).toContain('rests on lengths of phases: ranks also meet in backward, where no collective was recorded');
  expect(formatBlame(ofRun({ ...blame, steps: { count: 0, first: undefined, last: undefined, leftOut: 0 } }))).toBe('');
});

it('says how the run changed, and keeps what a trace calls things from the terminal', () => {
  const change = {
    ...({ kind: 'network', change: 5e6, share: 0.16, before: 31e6, now: 36e6, ranks: [], host: undefined } as const),
    ...{ phase: undefined, communicator: 'all_reduce \u001b[31m', shareOfChange: 0.9, evidence: ['transfers take 5.00 ms more per step'] },
  };
  const text = formatBlame(ofRun({ ...blame, change }));
  expect(text).toContain('  change: +16.0 % (31.0 ms when the run began, 36.0 ms at its end): network in all_reduce \\u001b[31m');
  expect(text).not.toContain('\u001b');
});

it('gives the same as data, whose parts add up to the step', () => {
  const data = JSON.parse(JSON.stringify(blameData(ofRun(blame))));
  expect(Object.keys(data)).toEqual([
    'judgedSteps',
    'steps',
    'basis',
    'hidden',
    'whatIf',
    'stepNs',
    'breakdown',
    'frontier',
    'excess',
    'visible',
    'alignment',
  ]);
  expect(data.breakdown[0]).toEqual({
    ...{ rank: 0, hostName: 'node', stepNs: 36e6, ownNs: { data: 4e6, forward: 5e6 }, waitingNs: 9e6 },
    waits: [{ rank: 1, name: 'all_reduce world', lengthNs: 9e6 }],
    ...{ transferNs: 2e6, unmatchedNs: 0, otherNs: 16e6 },
  });
});
