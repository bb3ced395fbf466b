import { describe, expect, it } from 'vitest';
import { workedWindow } from '../testing/worked-window.ts';
import { type Blame, blameOfWindow } from './blame.ts';
import type { BlameWindow } from './blame-window.ts';

const even = 'data 4, forward 10, backward 20, all_reduce 1, optimizer 3';
const slowForward = 'data 4, forward 16, backward 20, all_reduce 1, optimizer 3';
const slowData = 'data 8, forward 10, backward 20, all_reduce 1, optimizer 3';

/** Kind, ranks, phase, cost and share of each finding, after the verdict. */
function said({ verdict, findings }: Blame): string[] {
  return [
    verdict,
    ...findings.map(
      ({ kind, ranks, phase, costMsPerStep, shareOfStep }) =>
        `${kind} ${ranks.join('+')} ${phase}: ${costMsPerStep.toFixed(2)} ms, ${(100 * shareOfStep).toFixed(1)} %`,
    ),
  ];
}

const check = (window: BlameWindow, expected: readonly string[]): void => expect(said(blameOfWindow(window))).toEqual(expected);

describe('the verdict', () => {
  it('is balanced where no rank is slower', () => {
    check(workedWindow([even, even, even, even]), ['balanced']);
  });

  it('names the straggler, its phase and what it costs', () => {
    const blame = blameOfWindow(workedWindow([even, slowForward, even, even]));
    expect(said(blame)).toEqual(['straggler', 'straggler 1 forward: 6.00 ms, 13.6 %']);
    expect(blame.findings[0]?.evidence).toEqual([
      'rank 1 works 6.00 ms longer in forward than the median of its peers (16.00 ms against 10.00 ms)',
    ]);
    expect(blame.whatIf).toEqual([{ ranks: [1], stepMs: 38, shorter: 6 / 44, slowdown: 44 / 38 }]);
  });

  it('reports the slower of two', () => {
    check(workedWindow([even, slowForward]), ['straggler', 'straggler 1 forward: 6.00 ms, 13.6 %']);
  });

  it('reports a fault that hides behind a larger one, and what it will cost', () => {
    const blame = blameOfWindow(workedWindow([even, slowForward, slowData, even]));
    expect(said(blame)).toEqual(['straggler', 'straggler 1 forward: 6.00 ms, 13.6 %', 'straggler 2 data: 4.00 ms, 9.1 %']);
    expect(blame.findings.map(({ gainMsPerStep }) => gainMsPerStep)).toEqual([2, 0]);
    expect(blame.findings[1]?.evidence.at(-1)).toBe('hidden behind another fault: mending it alone gives 0.000 ms per step now');
  });

  it('does not blame a rank for what others wait for anyway', () => {
    // Rank 1 shifts work between phases: longer in forward, shorter in backward, with the same total.
    check(workedWindow([even, 'data 4, forward 16, backward 14, all_reduce 1, optimizer 3', even, even]), ['balanced']);
  });

  it('names a host whose ranks are all slow', () => {
    const about = (rank: number) => ({ host: `h${rank >> 1}`, hostName: `node-${rank >> 1}` });
    const blame = blameOfWindow(workedWindow([even, even, slowForward, slowForward, even, even, even, even], { about }));
    expect(said(blame)).toEqual(['straggler', 'straggler 2+3 forward: 6.00 ms, 13.6 %']);
    expect(blame.findings[0]?.evidence[0]).toBe('all ranks of host node-1 are slow');
  });

  it('distinguishes a slow stage from slow ranks', () => {
    const about = (rank: number) => ({ peers: `stage ${rank >> 1}` });
    check(workedWindow([even, even, slowForward, slowForward], { about }), [
      'stage_imbalance',
      'stage_imbalance 2+3 forward: 6.00 ms, 13.6 %',
    ]);
  });

  it('names one of two ranks of a stage in three steps, for the other stages show how uneven work is', () => {
    const of = (stages: number): string[] => {
      const about = (rank: number) => ({ peers: `stage ${rank >> 1}` });
      const lines = Array.from({ length: 2 * stages }, () => even);
      const length = (ms: number, rank: number, phase: string, step: number): number =>
        phase === 'backward' ? ms + ((rank * 5 + step * 3) % 4) + (rank === 1 ? 20 : 0) : ms;
      return said(blameOfWindow(workedWindow(lines, { about, length, steps: 3 })));
    };
    expect(of(1)[0]).toBe('rotating_imbalance');
    expect(of(3)).toEqual(['straggler', expect.stringMatching(/^straggler 1 backward: 18\./)]);
  });

  it('calls no stage slow of which one of two ranks may be', () => {
    const about = (rank: number) => ({ peers: `stage ${rank >> 1}` });
    // One rank of a stage works as much more in a step as the other works less.
    const length = (ms: number, rank: number, phase: string, step: number): number =>
      phase === 'backward' ? ms + ((rank + step) % 2 === 0 ? 10 : -10) + (rank === 3 ? 25 : 0) : ms;
    const [verdict] = said(blameOfWindow(workedWindow([even, even, even, even, even, even], { about, length, steps: 4 })));
    expect(verdict).toBe('rotating_imbalance');
  });

  it('is rotating where in each step another rank is slow', () => {
    const length = (ms: number, rank: number, phase: string, step: number): number =>
      phase === 'backward' && step % 4 === rank ? ms + 8 : ms;
    check(workedWindow([even, even, even, even], { length, steps: 12 }), [
      'rotating_imbalance',
      'rotating_imbalance  backward: 8.00 ms, 17.4 %',
    ]);
  });

  it('is not rotating where meetings cut the same work of stages at different places', () => {
    const about = (rank: number) => ({ peers: `stage ${rank}` });
    const first = 'forward 4, all_reduce 0.1, forward 0.1, all_reduce 0.1, forward 0.1, optimizer 1';
    const second = 'forward 0.1, all_reduce 0.1, forward 4, all_reduce 0.1, forward 0.1, optimizer 1';
    check(workedWindow([first, second], { about }), ['balanced']);
  });

  it('is data loading where that takes a large part of the step', () => {
    const line = even.replace('data 4', 'data 24');
    check(workedWindow([line, line]), ['data_loading', 'data_loading  data: 24.00 ms, 41.4 %']);
  });

  it('is the network where transfers do', () => {
    const line = even.replace('all_reduce 1', 'all_reduce 30');
    check(workedWindow([line, line]), ['network', 'network  undefined: 30.00 ms, 44.8 %']);
  });

  it('is the busy host, not the network, where threads that transfer wait for a CPU', () => {
    const of = (transferMs: number, cpuWait: number): BlameWindow => {
      const line = even.replace('all_reduce 1', `all_reduce ${transferMs}`);
      return workedWindow([line, line], { about: () => ({ cpuWait }) });
    };
    check(of(30, 0.6), ['cpu_contention', 'cpu_contention  undefined: 30.00 ms, 44.8 %']);
    check(of(30, 0.1), ['network', 'network  undefined: 30.00 ms, 44.8 %']);
    // As much as in many jobs: no verdict, and the evidence explains why.
    const blame = blameOfWindow(of(15, 0.6));
    expect(said(blame)).toEqual(['balanced', 'network  undefined: 15.00 ms, 28.8 %']);
    expect(blame.findings[0]?.evidence[0]).toMatch(/^in 60 % of the time that threads wanted a CPU they had none/);
  });

  it('counts uneven work and slow transfers on a busy host once, together', () => {
    const line = even.replace('all_reduce 1', 'all_reduce 30');
    const length = (ms: number, rank: number, phase: string, step: number): number =>
      phase === 'backward' && step % 4 === rank ? ms + 8 : ms;
    const window = workedWindow([line, line, line, line], { length, steps: 12, about: () => ({ cpuWait: 0.5 }) });
    check(window, ['cpu_contention', 'cpu_contention  undefined: 38.00 ms, 50.7 %']);
  });
});

describe('a verdict that the recording does not carry', () => {
  const slowNetwork = even.replace('all_reduce 1', 'all_reduce 30');

  it('is not the network where clocks cannot distinguish it from waiting', () => {
    for (const epsilon of [25e6, undefined]) {
      const blame = blameOfWindow(workedWindow([slowNetwork, slowNetwork], { epsilon }));
      expect(said(blame)).toEqual(['inconclusive', 'inconclusive  undefined: 30.00 ms, 44.8 %']);
      expect(blame.findings[0]?.evidence.at(-1)).toMatch(/waiting for a late rank and the network cannot be distinguished$/);
    }
  });

  it('is still the straggler with clocks that nobody aligned: own work needs none', () => {
    const window = workedWindow([even, slowForward, even], { epsilon: undefined });
    expect(said(blameOfWindow(window))).toEqual(['straggler', 'straggler 1 forward: 6.00 ms, 13.6 %']);
  });

  it('needs some steps, two ranks, and all ranks', () => {
    const texts = (blame: Blame): readonly string[] => [blame.verdict, ...blame.findings.flatMap(({ evidence }) => evidence)];
    expect(texts(blameOfWindow(workedWindow([even, even], { steps: 2 })))).toEqual([
      'inconclusive',
      'only 2 steps were reported by all ranks: at least 3 are needed',
    ]);
    expect(texts(blameOfWindow(workedWindow([])))).toEqual(['inconclusive']);
    expect(texts(blameOfWindow(workedWindow([even])))).toEqual(['inconclusive', 'there are no two ranks to compare']);
    expect(texts(blameOfWindow(workedWindow([even, even]), { missing: [2] }))).toEqual([
      'inconclusive',
      'nothing was heard of rank 2: what others waited for may be its doing',
    ]);
  });

  it('charges no transfer to the network where a rank is missing that others may have waited for', () => {
    const line = 'forward 5, all_reduce 40, optimizer 2';
    for (const [missing, verdict] of [[[], 'network'] as const, [[2], 'inconclusive'] as const, [[2, 3], 'inconclusive'] as const]) {
      const blame = blameOfWindow(workedWindow([line, line]), { missing });
      expect([blame.verdict, blame.findings[0]?.kind]).toEqual([verdict, verdict]);
    }
    const slow = workedWindow([line, 'forward 25, all_reduce 40, optimizer 2', line]);
    expect(blameOfWindow(slow, { missing: [3] }).findings.find(({ kind }) => kind === 'straggler')?.ranks).toEqual([1]);
  });
});
