import type { Alert, Overview, OverviewRank, RankStatus } from '@ranktrace/protocol';
import { describe, expect, test } from 'vitest';
import { type TopScreen, topLine, topLines } from './top-screen.ts';
import type { TopState } from './top-source.ts';

const ms = 1e6;
const plain: TopScreen = {
  ...{ columns: 100, rows: 30, colour: false, blocks: false, scroll: 0, now: new Date(2026, 0, 5, 12, 3, 44), problem: undefined },
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
    state: 'live',
    silentMs: 200,
    inside: 'forward',
    insideMs: 80,
  },
  dropped: { events: 0, arguments: 0, names: 0, batches: 0 },
  ...more,
});

/** A rank that works this long, and waits for the rest of 231 ms. */
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
    measures: [],
    waiting: [],
    waitingWhole: 0,
    waitingStepTime: 0,
    analysed: true,
    analysedSince: null,
  },
  slowest: [205, 205, 206, null, 205, 231, 231, 2000].map((length) => (length === null ? null : length * ms)),
  percentiles: { p50: 231 * ms, p90: 231 * ms, p95: 240 * ms, p99: 1990 * ms },
  percentilesOf: 'steps',
  ranks: backwards.map((backward, rank) => steps(rank, backward)),
  phases: ['forward', 'backward', 'all_reduce'],
  phaseRoles: ['work', 'work', 'collective'],
  findings: [{ severity: 'note', kind: 'clocks', text: 'aligned\nwithin ± 3 µs', ranks: [] }],
});

/** As the analysis reports it for one rank. */
const straggling = (of: Overview, rank: number): Overview => ({
  ...of,
  findings: [...of.findings, { severity: 'warning', kind: 'straggler', text: `rank ${rank} keeps the others waiting`, ranks: [rank] }],
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

test('a rank that has ended no step has no number', () => {
  const ranks = [status(0), status(1, { step: -1 })];
  expect(topLine(state({ ranks }))).toContain(', step -, ');
  expect(topLines(state({ ranks }), plain).join('\n')).toMatch(/ {3}step - {3}/);
});

describe('the screen', () => {
  test('has the run, its steps, its ranks and what is wrong', () => {
    const ranks = [status(0), status(1), status(2, { step: 1203 }), status(3, { ended: true, state: 'ended', missing: 2 })];
    const lines = topLines(state({ ranks, alerts: [alert, { ...alert, state: 'resolved' }] }), plain);
    expect(lines).toEqual([
      'ranktrace top - run night - live                                                            12:03:44',
      'ranks 4 of 4   1 ended   step time p50 231 ms   step 1 203   data lost 2   p95 240 ms   p99 1.99 s',
      'events 400',
      '___ _..#',
      'steps 1 105 to 1 204   205 ms to 2.00 s   each as long as its slowest rank',
      '',
      'rank  host     step    mean     p50     p95    excess  forward  backward',
      '   0  host-0  1 204  231 ms  231 ms  240 ms     +0 ns  60.0 ms    100 ms',
      '   1  host-0  1 204  231 ms  231 ms  240 ms  +1.00 ms  60.0 ms    101 ms',
      '   2  host-0  1 203  231 ms  231 ms  240 ms  +26.0 ms  60.0 ms    126 ms  slow in backward',
      '   3  host-0  1 204  231 ms  231 ms  240 ms  -1.00 ms  60.0 ms   99.0 ms  ended, lost 2',
      '',
      'alert critical  steps take 12.7 % longer since step 1180 (rank 2 works 26.0 ms more in backward)',
      '1 alerts resolved:  ranktrace alerts',
      'note  clocks: aligned\\u000awithin ± 3 µs',
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
    expect(lines.map((line) => /\S.* in .*$/.exec(line.slice(73))?.[0])).toEqual([
      '252 s in all_reduce',
      '255 s in load data',
      undefined,
      undefined,
    ]);
  });

  test('says of ranks that are not heard whether they stopped, were lost or ended, and since when', () => {
    const ranks = [
      status(0),
      status(1, { state: 'stopped', silentMs: 12_000, inside: 'forward', insideMs: 12_500 }),
      status(2, { state: 'lost', silentMs: 61_000, inside: null }),
      status(3, { state: 'ended', ended: true, silentMs: 70_000, inside: null }),
    ];
    for (const [columns, rows] of [
      [200, 50],
      [100, 30],
      [80, 24],
      [60, 14],
    ] as const) {
      const text = topLines(state({ ranks }), { ...plain, columns, rows }).join('\n');
      expect(text).toMatch(/ranks 4 of 4 {3}1 lost {3}1 stopped {3}1 ended/);
      expect(text).toMatch(/^ +1 .* stopped since 12:03:32 \(12\.0 s\)/m);
      expect(text).toMatch(/^ +2 .* lost since 12:02:43 \(61\.0 s\)$/m);
      expect(text).toMatch(/^ +3 .* ended$/m);
      expect(text).toMatch(/^ +0 (?!.*(stopped|lost|ended))/m);
    }
    expect(topLines(state({ ranks }), plain)[0]).toContain('night - live');
    expect(topLines(state({ ranks: ranks.slice(1) }), plain)[0]).toContain('night - silent');
    expect(topLines(state({ ranks: ranks.slice(3) }), plain)[0]).toContain('night - over');
    // With too many ranks for the screen, those are on top.
    const many = [...Array.from({ length: 64 }, (_, rank) => status(rank + 4)), ...ranks];
    const first = topLines(state({ ranks: many, worldSize: 68 }), { ...plain, rows: 12 }).filter((line) => / since /.test(line));
    expect(first.map((line) => Number(line.slice(0, 4)))).toEqual([1, 2]);
  });

  test('says whose steps they are where hosts run ahead of their GPUs, and shares are of the steps that have the phases', () => {
    const of = overview([100, 100]);
    const ahead = { ...of, ranks: of.ranks.map((rank) => ({ ...rank, hostMean: 120 * ms })) };
    const [, figures = '', ...rest] = topLines(state({ overview: { ...ahead, stepsTakenBy: 'devices' } }), { ...plain, columns: 200 });
    expect(figures).toContain('step time p50 231 ms on the GPUs ');
    expect(rest.find((line) => line.startsWith('   0'))).toContain('60.0 ms 50 %');
    expect(topLine(state({ overview: { ...ahead, stepsTakenBy: 'unknown' } }))).toContain('231 ms a step on the hosts');
  });

  test('flags whom findings or alerts charge, not who is a few percent above the median', () => {
    const slow = (about: Partial<TopState>): string[] =>
      topLines(state(about), { ...plain, columns: 200 }).flatMap((line) => /^ *(\d+) .*(slow.*)$/.exec(line)?.slice(1).join(' ') ?? []);
    // 26 ms of 231 ms more, which is within the steps' scatter: no finding charges it.
    expect(slow({})).toEqual([]);
    expect(slow({ overview: straggling(overview([100, 101, 126, 99]), 2) })).toEqual(['2 slow in backward']);
    expect(slow({ alerts: [alert] })).toEqual(['2 slow in backward']);
    // A rank charged without the work: rank 1 works 1 ms more.
    expect(slow({ overview: straggling(overview([100, 101, 126, 99]), 1) })).toEqual([]);
    expect(slow({ alerts: [{ ...alert, cause: { ...(alert.cause as NonNullable<Alert['cause']>), ranks: [3] } }] })).toEqual([]);
    expect(slow({ alerts: [{ ...alert, state: 'resolved' }] })).toEqual([]);
    expect(slow({ alerts: [{ ...alert, cause: { ...(alert.cause as NonNullable<Alert['cause']>), kind: 'cluster_wide' } }] })).toEqual([]);
  });

  test('has the same figures at any size', () => {
    const figuresAt = (columns: number, rows: number): readonly (string | undefined)[] => {
      const text = topLines(
        state({ overview: { ...overview([100, 101, 126, 99]), slowest: Array.from({ length: 480 }, (_, at) => (200 + (at % 50)) * ms) } }),
        { ...plain, columns, rows },
      );
      return [/p50 (\S+ \S+)/, /steps \S+ \S+ to .*? {3}(.*? to \S+ ms)/].map((pattern) => pattern.exec(text.join('\n'))?.[1]);
    };
    for (const columns of [60, 80, 100, 200, 300]) {
      for (const rows of [10, 24, 50]) expect(figuresAt(columns, rows)).toEqual(['231 ms', '200 ms to 249 ms']);
    }
    for (const columns of [20, 40]) expect(figuresAt(columns, 10)[0]).toBe('231 ms');
  });

  test('keeps the cause of an alert in view, on 80 columns and less', () => {
    const long: Alert = {
      ...alert,
      summary:
        'steps take 12.7 % longer since step 1180: 231 ms instead of 205 ms, which is more than the noise of 1.2 % explains (t = 14)',
      cause: {
        ...(alert.cause as NonNullable<Alert['cause']>),
        text: 'rank 2 works 26.0 ms more in backward, all others wait for it in all_reduce',
      },
    };
    const ranks = Array.from({ length: 64 }, (_, rank) => status(rank));
    const many = state({
      ranks,
      worldSize: 64,
      overview: overview(ranks.map(() => 100)),
      alerts: [long, { ...long, id: 'b' }, { ...long, id: 'c' }],
    });
    for (const [columns, rows] of [
      [300, 24],
      [200, 50],
      [80, 24],
      [60, 14],
      [40, 10],
    ] as const) {
      const lines = topLines(many, { ...plain, columns, rows });
      const words = lines.join(' ').replaceAll(/\s+/g, ' ');
      expect([columns, words]).toEqual([
        columns,
        expect.stringContaining('rank 2 works 26.0 ms more in backward, all others wait for it in all_reduce'),
      ]);
      expect(words).toContain('alert critical steps take 12.7 %');
      expect(words).toMatch(/run night - live +12:03:44/);
      expect(lines.length).toBeLessThanOrEqual(rows);
      expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(columns);
      // A line counts the messages that have no room.
      if (rows === 14) expect(words).toContain('and 3 more: ranktrace alerts');
      if (columns >= 80) expect(lines.filter((line) => /^ *\d+ {2}host-/.test(line)).length).toBeGreaterThan(3);
    }
  });

  test("uses a large terminal: more ranks, shares of phases, each rank's last steps, a higher chart over more steps", () => {
    const ranks = Array.from({ length: 64 }, (_, rank) => status(rank));
    const slowest = Array.from({ length: 480 }, (_, at) => (200 + (at % 50)) * ms);
    const wide = overview(ranks.map(({ rank }) => 90 + (rank % 7)));
    const large = { ...wide, slowest, ranks: wide.ranks.map((rank) => ({ ...rank, cells: slowest })) };
    const linesAt = (columns: number, rows: number): string[] =>
      topLines(state({ ranks, overview: large, worldSize: 64 }), { ...plain, columns, rows });
    for (const columns of [200, 300]) {
      const lines = linesAt(columns, 50);
      expect(lines).toHaveLength(50);
      expect(lines.filter((line) => /^[_.=+*%# -]{20,}$/.test(line)).map(({ length }) => length)).toEqual(Array(6).fill(columns));
      const head = lines.find((line) => line.includes('rank  host')) ?? '';
      expect(head).toMatch(/mean +p50 +p95 +excess +forward +backward +all_reduce +last steps$/);
      const rows = lines.filter((line) => /^ *\d+ {2}host-/.test(line));
      expect(rows.length).toBeGreaterThan(30);
      for (const row of rows) expect(row).toMatch(/60\.0 ms 26 % .* {2}[_.=+*%#-]{16,}$/);
    }
    expect(linesAt(80, 24)).toHaveLength(24);
    expect(linesAt(80, 24).some((line) => line.includes('last steps'))).toBe(false);
  });

  test('never is wider or higher than the terminal, and shows no part of a number', () => {
    for (const columns of [1, 20, 33, 40, 60, 79, 80, 200, 300]) {
      for (const rows of [1, 3, 8, 10, 12, 50]) {
        const ranks = Array.from({ length: 64 }, (_, rank) => status(rank));
        const wide = overview(ranks.map(({ rank }) => 90 + ((rank * 37) % 64)));
        const lines = topLines(state({ ranks, overview: wide, worldSize: 64, alerts: [alert] }), { ...plain, columns, rows });
        expect(lines.length).toBeLessThanOrEqual(rows);
        expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(columns);
        // Each column of numbers has as many cells as lines below its head.
        if (columns === 60) for (const line of lines) expect(line).not.toMatch(/\d m$|\d\.$/);
      }
    }
  });

  test('lists those that work longest first where not all have room, and scrolls', () => {
    const ranks = Array.from({ length: 64 }, (_, rank) => status(rank));
    const many = state({ ranks, overview: straggling(overview(ranks.map(({ rank }) => (rank === 41 ? 130 : 100))), 41), worldSize: 64 });
    const rowsOf = (scroll: number): string[] =>
      topLines(many, { ...plain, rows: 20, scroll }).filter((line) => /^ *\d+ {2}host-/.test(line));
    expect(rowsOf(0)[0]).toMatch(/^ {2}41 .*slow in backward$/);
    expect(rowsOf(1)[0]).toMatch(/^ {3}0 /);
    expect(rowsOf(1000).at(-1)).toMatch(/^ {2}63 /);
    expect(rowsOf(0).length).toBe(rowsOf(1000).length);
    expect(topLines(many, { ...plain, rows: 20 }).some((line) => line.includes('of 64, those that work longest first'))).toBe(true);
  });

  test('has colours where there are some, and block characters', () => {
    const slow = straggling(overview([100, 101, 126, 99]), 2);
    const lines = topLines(state({ overview: slow }), { ...plain, colour: true, blocks: true });
    expect(lines[0]).toContain('\u001b[1mranktrace top');
    expect(lines[2]).toBe('\u001b[32m▁▁▁ ▁▂▂█\u001b[0m');
    expect(lines[8]?.startsWith('\u001b[33m   2  ')).toBe(true);
    expect(lines[8]?.endsWith('slow in backward\u001b[0m')).toBe(true);
  });

  test('says that there is nothing yet, and why nothing new comes', () => {
    const text = topLines(undefined, { ...plain, problem: 'No service answers' });
    expect(text).toEqual([expect.stringMatching(/^ranktrace top - no run yet +12:03:44$/), 'No service answers']);
    expect(topLines(state({ overview: undefined, ranks: [] }), plain)[2]).toBe('no steps yet');
    expect(topLines(state({ overview: undefined, ranks: [status(0, { step: -1 })] }), plain)[2]).toBe('no steps yet');
    // A service that was restarted knows how far its ranks are before it has read what they sent.
    const restarted = state({ overview: undefined, ranks: [status(0, { step: 27_061 })] });
    expect(topLines(restarted, plain)[2]).toBe('the last steps are not read yet');
    expect(topLine(restarted)).toContain('step 27 061, the last steps are not read yet');
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

test('what the finding says that a rank costs is said of it, per affected step and per step of the run', () => {
  const cost = { fromStep: 1180, toStep: 1204, affectedSteps: 25, comparedSteps: 1205, shareOfStep: 0.002 };
  const found = straggling(overview([200, 199, 226, 201]), 2);
  const findings = found.findings.map((finding) =>
    finding.kind === 'straggler'
      ? { ...finding, phase: 'backward', cost: { ...cost, nsPerAffectedStep: 24.1 * ms, nsPerStep: 0.5 * ms } }
      : finding,
  );
  const about = state({ overview: { ...found, findings } });
  expect(topLine(about)).toContain(
    'rank 2 is slow in backward: 24.1 ms in each of 25 affected steps: 500 µs per step of the run, 0.2 % of the mean step',
  );
  expect(topLines(about, plain).join('\n')).toContain('slow in backward, costs 24.1 ms a step then');
});
