import { nanos } from '@ranktrace/protocol';
import { CountedStepsSink, type RunSummary } from '@ranktrace/trace';
import { expect, it } from 'vitest';
import { HeadlineSinks } from './print-headline.ts';
import { formatReport, type RunReport } from './print-summary.ts';

const header = { run: 'night-42', worldSize: 2, unixEpoch: undefined, processes: [] };

it('says of a recording without steps that slow ranks are not looked for, and what ends a step', () => {
  const report = { header, totals: [], summary: new CountedStepsSink().summary, findings: [] };
  const { blame } = new HeadlineSinks();
  const stepsLine = (text: string) => text.split('\n').find((line) => line.startsWith('steps: '));
  expect(stepsLine(formatReport(report, blame, ''))).toMatch(
    /^steps: none in this recording, so slow ranks are not looked for; .*prof\.step\(\)/,
  );
  // Work of GPUs is judged in windows of time.
  expect(stepsLine(formatReport(report, { ...blame, cutAt: 'all_reduce' }, ''))).toMatch(
    /^steps: none in this recording, so windows .*judged; /,
  );
});

it('says whose steps are shown where hosts and GPUs do not agree', () => {
  const { blame } = new HeadlineSinks();
  const step = { step: 4, ranks: 1, shortest: nanos(8e6), longest: nanos(8e6), mean: nanos(8e6), slowestRank: 0 };
  const rank = {
    rank: 0,
    steps: 1,
    last: 4,
    from: 0,
    until: 8e6,
    mean: nanos(8e6),
    overhead: 0,
    phases: new Map([['forward', nanos(3e5)]]),
  };
  const hosts = { steps: [], stepCount: 1, firstStart: 0, median: nanos(4e5), p95: nanos(4e5), ranks: [], lives: [], phaseOrder: [] };
  const summary = { ...hosts, steps: [step], median: nanos(8e6), p95: nanos(8e6), ranks: [{ ...rank, hostMean: nanos(4e5) }] };
  const textOf = (more: Partial<RunSummary>) =>
    formatReport({ header, totals: [], summary: { ...summary, ...more }, findings: [] }, blame, '');
  expect(textOf({})).toContain('(each step as long as its slowest rank)');
  expect(textOf({ takenBy: 'both' })).toBe(textOf({}));
  expect(textOf({ takenBy: 'unknown' })).toContain(
    '(steps as the hosts take them, each as long as its slowest rank; those of the GPUs are not known of all ranks and steps)',
  );
  const devices = textOf({ takenBy: 'devices', hosts });
  expect(devices).toContain("(steps as the GPUs take them, each as long as its slowest rank; the hosts' median is 400 µs)");
  expect(devices).toMatch(/mean per step +step +host +forward +other\nrank 0 +8\.00 ms +400 µs +300 µs/);
});

it('does not say that nothing was lost where a life was killed, also one that was started again', () => {
  const { blame } = new HeadlineSinks();
  const summary = new CountedStepsSink().summary;
  const restarted = { kind: 'restarted', ranks: [1], text: 'rank 1 began again', remedy: 'see its output' } as const;
  const linesOf = (isKilled: boolean, findings: RunReport['findings'] = []) => {
    const process = { rank: 1, incarnation: '1', metadata: new Map() };
    const totals = [false, true].map((isLast) => ({ process, ended: isLast || !isKilled, counts: {} })) as never;
    return formatReport({ header, totals, summary, findings }, blame, '').split('\n').slice(-3);
  };
  expect(linesOf(false)).toContain('findings: none; nothing was lost');
  expect(linesOf(true)).toContain('findings: none');
  expect(linesOf(false, [restarted]).at(-1)).toBe('  nothing was lost');
  expect(linesOf(true, [restarted]).at(-1)).toBe('  restarted: rank 1 began again (to do: see its output)');
});

it('says of clocks that nothing aligns no bound, which would be that of the reference alone', () => {
  const { blame } = new HeadlineSinks();
  const clocksOf = (...alignments: readonly (readonly [rank: number, method: string, bound?: number])[]) => {
    const processes = alignments.map(([rank, method, bound]) => ({
      rank,
      incarnation: '1',
      host: '',
      metadata: new Map(),
      alignment: { method, bound },
    }));
    const report = {
      header: { ...header, processes: processes as never },
      totals: [],
      summary: new CountedStepsSink().summary,
      findings: [],
    };
    return /^clocks: (.*)$/m.exec(formatReport(report, blame, ''))?.[1];
  };
  expect(clocksOf([0, 'exact', 0], [1, 'unaligned'])).toBe('not aligned: 1 of 2 ranks have the times of their own wall clocks');
  // Two lives of one rank.
  expect(clocksOf([0, 'exact', 0], [1, 'sampled', 30_000], [2, 'unaligned'], [2, 'unaligned'])).toBe(
    'aligned within ± 30.0 µs, 1 rank unaligned',
  );
  expect(clocksOf([0, 'exact', 0], [1, 'sampled', 30_000])).toBe('aligned within ± 30.0 µs');
  expect(clocksOf([0, 'exact', 0], [1, 'exact', 0])).toBe('all ranks read one clock (exact)');
});
