import type { Alert, Overview, OverviewRank, RankStatus } from '@ranktrace/protocol';
import { describe, expect, test } from 'vitest';
import { stepsShown, type TopScreen, topLine, topLines } from './top-screen.ts';
import type { TopState } from './top-source.ts';

const ms = 1e6;
const plain: TopScreen = {
  ...{ columns: 100, rows: 30, colour: false, blocks: false, scroll: 0, clock: '12:03:44', problem: undefined },
};

const status = (rank: number, more: Partial<RankStatus> = {}): RankStatus => ({
  ...{
    rank,
    incarnation: '1',
    host: 'h',
    hostName: `host-${rank >> 2}`,
    batches: 10,
    missing: 0,
    events: 100,
    step: 1204,
    ended: false,
    inside: 'forward',
    insideMs: 80,
  },
  dropped: { events: 0, arguments: 0, names: 0, batches: 0 },
  ...more,
});

/** A rank that works so long, and waits for the rest of 231 ms. */
const steps = (rank: number, backward: number): OverviewRank => ({
  ...{ rank, process: rank, steps: 100, mean: 231 * ms, p50: 231 * ms, p95: 240 * ms, longest: 300 * ms },
  ...{ phases: [60 * ms, backward * ms, (171 - backward) * ms], cells: [], peaks: [] },
});

const overview = (backwards: readonly number[]): Overview => ({
  ...{
    allRead: true,
    fromStep: 1105,
    toStep: 1204,
    steps: 8,
    bins: [],
    times: [],
    median: [],
    fastest: [],
    waiting: [],
    analysed: true,
    analysedSince: null,
  },
  slowest: [205, 205, 206, null, 205, 231, 231, 2000].map((length) => (length === null ? null : length * ms)),
  percentiles: { p50: 231 * ms, p90: 231 * ms, p95: 240 * ms, p99: 1990 * ms },
  ranks: backwards.map((backward, rank) => steps(rank, backward)),
  phases: ['forward', 'backward', 'all_reduce'],
  findings: [{ severity: 'note', kind: 'clocks', text: 'aligned\nwithin ± 3 µs', ranks: [] }],
});

const alert: Alert = {
  ...{
    id: 'a',
    run: 'night',
    rule: 'step_time',
    state: 'firing',
    severity: 'critical',
    summary: 'steps take 12.7 % longer since step 1180',
  },
  ...{ series: { kind: 'cluster' }, firedAt: '2026-01-01T00:00:00Z', resolvedAt: null, resolution: null, step: 1200, onsetStep: 1180 },
  ...{
    onsetAt: null,
    unit: 'ns',
    before: 205 * ms,
    after: 231 * ms,
    change: 0.127,
    confidence: null,
    ranks: [2],
    link: null,
    capture: null,
  },
  cause: { kind: 'straggler', ranks: [2], hosts: [], phase: 'backward', share: 1, text: 'rank 2 works 26.0 ms more in backward' },
};

const state = (more: Partial<TopState> = {}): TopState => ({
  ...{ run: 'night', runs: ['night'], worldSize: 4, ranks: [0, 1, 2, 3].map((rank) => status(rank)) },
  ...{ overview: overview([100, 101, 126, 99]), alerts: undefined },
  ...more,
});

describe('the screen', () => {
  test('has the run, its steps, its ranks and what is wrong', () => {
    const ranks = [status(0), status(1), status(2, { step: 1203 }), status(3, { ended: true, missing: 2 })];
    const lines = topLines(state({ ranks, alerts: [alert, { ...alert, state: 'resolved' }] }), plain);
    expect(lines).toEqual([
      'ranktrace top - run night - live                                                            12:03:44',
      'ranks 4 of 4, 1 ended   lost 2   step 1 203   step time p50 231 ms  p95 240 ms  p99 1.99 s   events ',
      '___ _..#',
      'steps 1 105 to 1 204, each as long as its slowest rank: 205 ms to 2.00 s',
      '',
      'rank  host     step    mean     p95    excess  forward  backward  all_reduce',
      '   0  host-0  1 204  231 ms  240 ms     +0 ns  60.0 ms    100 ms     71.0 ms',
      '   1  host-0  1 204  231 ms  240 ms  +1.00 ms  60.0 ms    101 ms     70.0 ms',
      '   2  host-0  1 203  231 ms  240 ms  +26.0 ms  60.0 ms    126 ms     45.0 ms  slow in backward',
      '   3  host-0  1 204  231 ms  240 ms  -1.00 ms  60.0 ms   99.0 ms     72.0 ms  ended, lost 2',
      '',
      'alert critical  steps take 12.7 % longer since step 1180 (rank 2 works 26.0 ms more in backward)',
      '1 alerts resolved: ranktrace alerts',
      'note  clocks: aligned·within ± 3 µs',
    ]);
  });

  test('says what a rank has been in the middle of for long', () => {
    const ranks = [
      { inside: 'all_reduce', insideMs: 252_000 },
      { inside: 'load data', insideMs: 255_000 },
      { insideMs: 2900 },
      { inside: null },
    ];
    const lines = topLines(state({ ranks: ranks.map((about, rank) => status(rank, about)) }), plain).slice(6, 10);
    expect(lines.map((line) => / {2}([a-z\d].*? in .*)$/.exec(line.slice(76))?.[1])).toEqual([
      '252 s in all_reduce',
      '255 s in load data',
      'slow in backward',
      undefined,
    ]);
  });

  test('never is wider or higher than the terminal, and shows no part of a number', () => {
    for (const columns of [1, 20, 33, 60, 79, 200]) {
      for (const rows of [1, 3, 8, 12, 50]) {
        const ranks = Array.from({ length: 64 }, (_, rank) => status(rank));
        const wide = overview(ranks.map(({ rank }) => 90 + ((rank * 37) % 64)));
        const lines = topLines(state({ ranks, overview: wide, worldSize: 64 }), { ...plain, columns, rows });
        expect(lines.length).toBeLessThanOrEqual(rows);
        expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(columns);
        // Of the columns of numbers, each has as many cells as lines below its head.
        if (columns === 60) for (const line of lines.slice(6, 8)) expect(line).not.toMatch(/\d m$|\d\.$/);
      }
    }
  });

  test('lists those that work longest first where not all have room, and scrolls', () => {
    const ranks = Array.from({ length: 64 }, (_, rank) => status(rank));
    const many = state({ ranks, overview: overview(ranks.map(({ rank }) => (rank === 41 ? 130 : 100))), worldSize: 64 });
    const rowsOf = (scroll: number): string[] =>
      topLines(many, { ...plain, rows: 20, scroll }).filter((line) => /^ *\d+ {2}host-/.test(line));
    expect(rowsOf(0)[0]).toMatch(/^ {2}41 .*slow in backward$/);
    expect(rowsOf(1)[0]).toMatch(/^ {3}0 /);
    expect(rowsOf(1000).at(-1)).toMatch(/^ {2}63 /);
    expect(rowsOf(0).length).toBe(rowsOf(1000).length);
    expect(topLines(many, { ...plain, rows: 20 }).some((line) => line.includes('of 64, those that work longest first'))).toBe(true);
  });

  test('has colours where there are some, and block characters', () => {
    const lines = topLines(state(), { ...plain, colour: true, blocks: true });
    expect(lines[0]).toContain('\u001b[1mranktrace top');
    expect(lines[2]).toBe('\u001b[32m▁▁▁ ▁▂▂█\u001b[0m');
    expect(lines[8]?.startsWith('\u001b[33m   2  ')).toBe(true);
    expect(lines[8]?.endsWith('slow in backward\u001b[0m')).toBe(true);
  });

  test('says that there is nothing yet, and why nothing new comes', () => {
    const text = topLines(undefined, { ...plain, problem: 'No service answers' });
    expect(text).toEqual([expect.stringMatching(/^ranktrace top - no run yet +12:03:44$/), 'No service answers']);
    expect(topLines(state({ overview: undefined, ranks: [] }), plain)[2]).toBe('no steps yet');
  });

  test('what a trace is named cannot move the cursor', () => {
    const named = overview([100, 100]);
    const evil = { ...named, phases: ['\u001b[2J', 'b\r\n', 'all_reduce'] };
    const ranks = [status(0, { hostName: '\u001b]0;x\u0007' }), status(1)];
    for (const line of topLines(state({ ranks, overview: evil }), plain)) expect([...line].filter((mark) => mark < ' ')).toEqual([]);
  });
});

test('one line says the same for a log', () => {
  expect(topLine(state({ alerts: [alert], worldSize: 8 }))).toBe(
    'run night: ranks 4/8, step 1 204, 231 ms a step, rank 2 works 26.0 ms more in backward, ' +
      '1 firing: steps take 12.7 % longer since step 1180',
  );
});

test('steps have the width, up to a limit', () => {
  expect([40, 100, 1000].map(stepsShown)).toEqual([38, 98, 240]);
});
