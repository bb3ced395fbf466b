import { lowerMedian, type Overview, type OverviewRank, phaseMedians, type ViewFinding } from '@ranktrace/protocol';
import { describe, expect, it } from 'vitest';
import { seedCount } from '../../../../test/setup/seeds.ts';
import { headlineOf, rankPhases } from './slow-ranks.ts';

const ms = 1e6;
const rank = (number: number, phases: readonly number[], steps = 10): OverviewRank => {
  const mean = phases.reduce((sum, phase) => sum + phase, 0) * ms;
  const of = { mean, p50: mean, p95: mean, longest: mean, cells: [], peaks: [] };
  return { rank: number, process: number, steps, ...of, phases: phases.map((phase) => phase * ms) };
};
const phases = ['forward', 'backward', 'all_reduce', 'other'];
const phaseRoles: Overview['phaseRoles'] = ['work', 'work', 'collective', 'work'];

/** Normal numbers of a seed: sums of twelve uniform ones (a generator of Park and Miller), less six. */
function normals(seed: number): () => number {
  let state = 1 + seed;
  const uniform = (): number => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
  for (let skipped = 0; skipped < 10; skipped++) uniform();
  return () => Array.from({ length: 12 }, uniform).reduce((sum, value) => sum + value, -6);
}

describe('rankPhases', () => {
  it('puts the rank on top that makes the others wait, though all steps are equally long', () => {
    const overview = {
      phases,
      phaseRoles,
      ranks: [rank(0, [100, 200, 90, 0]), rank(1, [101, 199, 90, 0]), rank(2, [100, 280, 10, 0]), rank(3, [99, 201, 90, 0])],
    };
    const [first, ...others] = rankPhases(overview);
    expect([first?.rank.rank, first?.worst, first?.score, first?.standsOut]).toEqual([2, 1, 80 * ms, true]);
    expect(others.map(({ standsOut }) => standsOut)).toEqual([false, false, false]);
  });

  it('names a rank that was started again once, for the life in which it was slow', () => {
    const lives = [rank(0, [100, 200, 0, 0]), rank(1, [100, 200, 0, 0]), rank(0, [100, 200, 80, 0]), rank(1, [100, 280, 0, 0])];
    const ranks = lives.map((one, process) => ({ ...one, process }));
    const cost = { fromStep: 0, toStep: 9, affectedSteps: 10, comparedSteps: 20, nsPerAffectedStep: 8e7, nsPerStep: 4e7, shareOfStep: 0.2 };
    const finding: ViewFinding = { severity: 'warning', kind: 'straggler', text: 'rank 1', ranks: [1], phase: 'backward', cost };
    const overview = { phases, phaseRoles, ranks, findings: [finding], analysed: true };
    expect(headlineOf(overview).ranks.map(({ rank: { rank, process } }) => [rank, process])).toEqual([[1, 3]]);
  });

  it('has no rank that others wait for where there are no others', () => {
    const cause: ViewFinding = { severity: 'warning', kind: 'communication_bound', text: 'GPUs wait for communication', ranks: [0] };
    const rows = rankPhases({ phases, phaseRoles, ranks: [rank(0, [100, 200, 80, 0])], findings: [cause], analysed: true });
    expect(rows.map(({ standsOut }) => standsOut)).toEqual([false]);
  });

  it('blames the slower of two', () => {
    const rows = rankPhases({ phases, phaseRoles, ranks: [rank(0, [100, 200, 80, 0]), rank(1, [100, 280, 0, 0])] });
    expect(rows.map(({ rank, standsOut }) => [rank.rank, standsOut])).toEqual([
      [1, true],
      [0, false],
    ]);
  });

  it('compares whole steps where no phase is known', () => {
    const rows = rankPhases({
      phases: [],
      phaseRoles: [],
      ranks: [0, 1, 2].map((at) => ({ ...rank(at, []), mean: at === 1 ? 150 * ms : 100 * ms })),
    });
    expect(rows.map(({ rank, worst, score }) => [rank.rank, worst, score])).toEqual([
      [1, undefined, 50 * ms],
      [0, undefined, 0],
      [2, undefined, 0],
    ]);
  });

  it('lets nobody stand out by what ranks differ by anyway, by little, or alone', () => {
    const noisy = [0, 20, 40, 60, 80, 100].map((more, at) => rank(at, [100 + more, 200, 0, 0]));
    expect(rankPhases({ phases, phaseRoles, ranks: noisy }).some(({ standsOut }) => standsOut)).toBe(false);
    expect(
      rankPhases({ phases, phaseRoles, ranks: [rank(0, [100, 0, 0, 0]), rank(1, [102, 0, 0, 0])] }).some(({ standsOut }) => standsOut),
    ).toBe(false);
    expect(rankPhases({ phases, phaseRoles, ranks: [rank(0, [100, 0, 0, 0])] }).some(({ standsOut }) => standsOut)).toBe(false);
  });

  it('names nobody while two may wait for each other inside a phase, or before the first steps are over', () => {
    const named = (...ranks: readonly OverviewRank[]) =>
      rankPhases({ phases, phaseRoles, ranks })
        .filter(({ standsOut }) => standsOut)
        .map(({ rank }) => rank.rank);
    const [sound, slow] = [
      [100, 200, 90, 0],
      [100, 280, 10, 0],
    ] as const;
    expect(named(rank(0, sound), rank(1, sound), rank(2, slow))).toEqual([2]);
    expect(named(rank(0, sound), rank(1, [100, 260, 30, 0]), rank(2, slow), rank(3, sound))).toEqual([]);
    expect(named(rank(0, sound, 7), rank(1, sound, 7), rank(2, slow, 7))).toEqual([]);
  });

  it('is about a typical step: one long step is no slow rank, and does not hide one', () => {
    const of = (at: number, mean: readonly number[], typical: readonly number[]): OverviewRank => ({
      ...rank(at, mean),
      typical: typical.map((time) => time * ms),
    });
    const usual = [100, 200, 90, 0];
    const ranks = [of(0, usual, usual), of(1, [160, 200, 30, 0], usual), of(2, [150, 240, 0, 0], [100, 240, 50, 0]), of(3, usual, usual)];
    const [first] = rankPhases({ phases, phaseRoles, ranks });
    expect([first?.rank.rank, first?.standsOut, first?.worst, first?.score]).toEqual([2, true, 1, 40 * ms]);
  });

  const seeds = seedCount(200);
  it.each([4, 64, 1024])(`lets hardly anybody of %i sound ranks stand out, and the planted one always (${seeds} seeds)`, (count) => {
    const deviation = 2;
    let named = 0;
    for (let seed = 0; seed < seeds; seed++) {
      const normal = normals(seed);
      const sound = Array.from({ length: count }, (_, at) =>
        rank(at, [100 + deviation * normal(), 200 + deviation * normal(), 5 + deviation * normal(), 5]),
      );
      const outliers = rankPhases({ phases, phaseRoles, ranks: sound }).filter(({ standsOut }) => standsOut);
      if (outliers.length > 0) named++;
      const planted = sound.map((one, at) => (at === count >> 1 ? rank(at, [100, 240, 5, 5]) : one));
      expect(rankPhases({ phases, phaseRoles, ranks: planted })[0]).toMatchObject({ standsOut: true, rank: { rank: count >> 1 } });
    }
    // The spread of four ranks is hardly known itself.
    expect(named / seeds).toBeLessThan(count === 4 ? 0.15 : 0.05);
  });

  it('leaves out ranks without steps', () => {
    const overview = { phases, phaseRoles, ranks: [rank(0, [100, 0, 0, 0]), rank(1, [0, 0, 0, 0], 0)] };
    expect(rankPhases(overview).map(({ rank }) => rank.rank)).toEqual([0]);
    expect(phaseMedians(overview)).toEqual([100 * ms, 0, 0, 0]);
  });
});

describe('who keeps others waiting', () => {
  const straggler = (...ranks: number[]) => ({ severity: 'warning', kind: 'straggler', text: '', ranks }) as const;
  const waits = (...parts: number[]): Overview['waiting'] =>
    parts.map((part, at) => ({ rank: at, lastIn: 1, waits: 1, waitedFor: part * ms }));
  // Rank 3 is longest outside of all named phases, rank 2 in a phase, and all wait for rank 1.
  const ranks = [rank(0, [100, 200, 80, 20]), rank(1, [120, 200, 0, 80]), rank(2, [100, 260, 20, 20]), rank(3, [100, 200, 0, 100])];
  const waiting = waits(5, 87, 8, 0);
  const blamed = (about: Partial<Overview>) => {
    const headline = headlineOf({ phases, phaseRoles, ranks, findings: [], waiting, analysed: true, ...about });
    const waitedPart = headline.ranks.length > 0 ? headline.waiting?.forRanks : undefined;
    return [headline.ranks.map(({ rank }) => rank.rank), headline.phase, headline.more, waitedPart];
  };

  it('is blamed, and nobody else, in the headline and in the bars', () => {
    expect(blamed({ findings: [straggler(1)] })).toEqual([[1], 'forward', 20 * ms, 0.87]);
    const rows = rankPhases({ phases, phaseRoles, ranks, findings: [straggler(1)], waiting, analysed: true });
    expect(rows.filter(({ standsOut }) => standsOut).map(({ rank }) => rank.rank)).toEqual([1]);
    expect(rows[0]?.rank.rank).toBe(1);
  });

  it('is reported of without a phase when it is long in none, and the one waited for most comes first', () => {
    const even = [0, 1, 2, 3].map((at) => rank(at, [100, 200, 50, 0]));
    expect(blamed({ ranks: even, findings: [straggler(2), straggler(1)] })).toEqual([[1, 2], undefined, undefined, 0.95]);
  });

  it('is nobody alone where steps are charged to something else', () => {
    const findings = [{ severity: 'warning', kind: 'network', text: 'steps wait for the network', ranks: [] }] as const;
    const headline = headlineOf({ phases, phaseRoles, ranks, findings, waiting, analysed: true });
    expect([headline.tone, headline.cause, headline.ranks]).toEqual(['alert', 'steps wait for the network', []]);
    expect(rankPhases({ phases, phaseRoles, ranks, findings, waiting, analysed: true }).some(({ standsOut }) => standsOut)).toBe(false);
    expect(blamed({ findings: [{ ...findings[0], severity: 'note' }] })[0]).toEqual([]);
  });

  it('has a share of all waiting, also of that for no rank that was clearly last', () => {
    expect(blamed({ findings: [straggler(1)], waitingWhole: 200 * ms })[3]).toBe(0.435);
  });

  it('has no say while nothing is analysed; phases have', () => {
    expect(blamed({ waiting: [], analysed: false })[0]).toEqual([2]);
  });

  it('is nobody where the findings charge steps to nobody, whatever phases say', () => {
    expect(blamed({})[0]).toEqual([]);
    expect(blamed({ waiting: waits(20, 20, 50, 10) })[0]).toEqual([]);
  });

  it('costs what the finding says, in the phase that it says', () => {
    const cost = { fromStep: 400, toStep: 999, affectedSteps: 600, comparedSteps: 1500, shareOfStep: 0.278 };
    const finding = { ...straggler(1), phase: 'optimizer', cost: { ...cost, nsPerAffectedStep: 58.5 * ms, nsPerStep: 23.4 * ms } };
    const headline = headlineOf({ phases, phaseRoles, ranks, findings: [finding], waiting, analysed: true, toStep: 1499 });
    expect([headline.phase, headline.more, headline.costs, headline.isOver]).toEqual(['optimizer', undefined, [finding.cost], true]);
    expect(headlineOf({ phases, phaseRoles, ranks, findings: [finding], waiting, analysed: true, toStep: 999 }).isOver).toBe(false);
  });

  it('is not named beside one that costs more than ten times as much, and is beside one that does not', () => {
    const cost = { fromStep: 0, toStep: 899, affectedSteps: 10, comparedSteps: 900, shareOfStep: 0.1, nsPerAffectedStep: 4 * ms };
    const costly = { ...straggler(1), phase: 'forward', cost: { ...cost, nsPerStep: 8 * ms } };
    const other = (nsPerStep: number) => ({ ...straggler(0), phase: 'data', cost: { ...cost, nsPerStep } });
    expect(blamed({ findings: [costly, other(0.7 * ms)] }).slice(0, 2)).toEqual([[1], 'forward']);
    expect(blamed({ findings: [costly, other(0.9 * ms)] }).slice(0, 2)).toEqual([[1, 0], undefined]);
    expect(blamed({ findings: [other(0.1 * ms)] }).slice(0, 2)).toEqual([[0], 'data']);
  });

  it('is the one that an open alert names', () => {
    const alert = { severity: 'alert', kind: 'step_time', cause: 'straggler', text: '', ranks: [1] } as const;
    expect(blamed({ findings: [alert] })[0]).toEqual([1]);
    expect(blamed({ findings: [{ ...alert, severity: 'note' }] })[0]).toEqual([]);
  });

  it('is no good news where a rank is waited for, though nobody is charged', () => {
    const tone = (waitingStepTime: number) =>
      headlineOf({ phases, phaseRoles, ranks, findings: [], waiting, waitingStepTime, analysed: true }).tone;
    expect([tone(1000 * ms), tone(10_000 * ms)]).toEqual(['note', 'good']);
  });

  it('is good news where devices wait behind compute alone', () => {
    const about = { phases, phaseRoles, ranks, findings: [], waiting, waitingStepTime: 1000 * ms, analysed: true };
    const parts = { copies: 0, hostLate: 0, launch: 0, dependency: 0, unknown: 0, hostPlace: '', top: [] };
    const withGpus = (exposed: number) =>
      headlineOf({
        ...about,
        gpus: ranks.map(({ rank }) => ({ rank, length: 100, compute: 90 - exposed, overlapped: 10, exposed, ...parts })),
      });
    expect([withGpus(1).tone, withGpus(50).tone]).toEqual(['good', 'note']);
    expect(withGpus(1).waiting?.ofSteps).toBeCloseTo(0.01);
  });

  it('is an alert also where it has no steps in what is looked at', () => {
    const headline = headlineOf({
      phases,
      phaseRoles,
      ranks: [rank(0, [100, 200, 80, 20]), rank(2, [100, 200, 80, 20])],
      findings: [straggler(1)],
    });
    expect([headline.tone, headline.ranks]).toEqual(['alert', []]);
  });
});

it('never blames what nobody knows', () => {
  const overview = { phases, phaseRoles, ranks: [0, 1, 2, 3].map((at) => rank(at, [100, 200, 50, at === 2 ? 90 : 10])) };
  expect(rankPhases(overview).some(({ standsOut }) => standsOut)).toBe(false);
});

describe('headlineOf', () => {
  it('names the phase when it is the same for all', () => {
    const usual = [0, 1, 2, 3, 4].map((at) => rank(at, [100, 200, 100, 0]));
    const findings = [{ severity: 'warning', kind: 'straggler', text: '', ranks: [5, 6] }] as const;
    const same = headlineOf({ findings, phases, phaseRoles, ranks: [...usual, rank(5, [100, 300, 0, 0]), rank(6, [100, 280, 20, 0])] });
    expect([same.tone, same.ranks.map(({ rank }) => rank.rank), same.phase, same.part]).toEqual(['alert', [5, 6], 'backward', 0.25]);
    expect(
      headlineOf({ findings, phases, phaseRoles, ranks: [...usual, rank(5, [100, 300, 0, 0]), rank(6, [180, 200, 20, 0])] }).phase,
    ).toBeUndefined();
  });

  it('leaves it to the findings when no rank stands out', () => {
    const findings = [{ severity: 'alert', kind: 'hang', text: '', ranks: [1] }] as const;
    const headline = headlineOf({ findings, phases, phaseRoles, ranks: [rank(0, [1, 1, 1, 1]), rank(1, [1, 1, 1, 1])] });
    expect([headline.tone, headline.ranks]).toEqual(['alert', []]);
  });

  it('is good when none stands out, and says nothing of one rank', () => {
    expect(headlineOf({ findings: [], phases, phaseRoles, ranks: [rank(0, [1, 1, 1, 1]), rank(1, [1, 1, 1, 1])] }).tone).toBe('good');
    expect(headlineOf({ findings: [], phases, phaseRoles, ranks: [rank(0, [1, 1, 1, 1])] }).tone).toBe('note');
    expect(headlineOf({ findings: [], phases: [], phaseRoles: [], ranks: [] }).tone).toBe('note');
  });
});

it('takes the lower of two medians', () => {
  expect([lowerMedian([]), lowerMedian([3]), lowerMedian([4, 1]), lowerMedian([3, 1, 2]), lowerMedian([Number.NaN, 5])]).toEqual([
    undefined,
    3,
    1,
    2,
    5,
  ]);
});

it('states a rank that is dead or hangs before any slow rank, and a regression before another cause', () => {
  const slow = { severity: 'warning', kind: 'straggler', text: 'rank 1 slow', ranks: [1] } as const;
  const hang = { severity: 'alert', kind: 'hang', text: 'rank 0 is inside of all_reduce', ranks: [0] } as const;
  const lost = { severity: 'alert', kind: 'rank_lost', text: 'rank 0 ended without goodbye', ranks: [0] } as const;
  const network = { severity: 'warning', kind: 'network', text: 'steps wait for the network', ranks: [] } as const;
  const slower = { severity: 'warning', kind: 'cluster_wide', text: 'all ranks became slower', ranks: [] } as const;
  const ranks = [0, 1, 2].map((at) => rank(at, [100, 200, 0, 0]));
  const causeOf = (...findings: readonly ViewFinding[]) => {
    const { tone, cause, ranks: named } = headlineOf({ phases, phaseRoles, ranks, findings, analysed: true });
    return [tone, cause, named.map(({ rank: { rank: number } }) => number)];
  };
  expect(causeOf(slow, hang, lost)).toEqual(['alert', lost.text, []]);
  expect(causeOf(slow, hang)).toEqual(['alert', hang.text, []]);
  expect(causeOf(network, slower, slow)).toEqual(['alert', undefined, [1]]);
  expect(causeOf(network, slower)).toEqual(['alert', slower.text, []]);
  expect(causeOf(network)).toEqual(['alert', network.text, []]);
});
