import { describe, expect, it } from 'vitest';
import { workedWindow } from '../testing/worked-window.ts';
import { type BlameChange, blameOf } from './blame-change.ts';
import type { BlameWindow } from './blame-window.ts';

const even = 'data 4, forward 10, backward 20, all_reduce 1, optimizer 3';
const four = [even, even, even, even];
const about = (rank: number) => ({ host: `h${rank >> 1}`, hostName: `node-${rank >> 1}` });
const before = workedWindow(four, { about });

/** Kind, ranks, host, phase or communicator, change, share of it. */
function said({ kind, ranks, host, phase, communicator, change, shareOfChange }: BlameChange): string {
  const where = [ranks.join('+'), host, communicator ?? phase].filter((part) => part !== undefined && part !== '');
  return `${kind} ${where.join(' ')}: ${(change / 1e6).toFixed(1)} ms, ${Math.round(100 * shareOfChange)} %`;
}

const check = (now: BlameWindow, expected: string, from = before): void => expect(said(blameOf(from, now))).toBe(expected);

describe('what a change is due to', () => {
  it('is one rank, in one phase, on one host', () => {
    check(
      workedWindow([even, even.replace('forward 10', 'forward 16'), even, even], { about }),
      'straggler 1 node-0 forward: 6.0 ms, 100 %',
    );
  });

  it('is one rank of a job that had fewer before, and not all of those that were there', () => {
    const slow = even.replace('backward 20', 'backward 26');
    const lines = (at: number): readonly string[] => four.map((line, rank) => (rank === at ? slow : line));
    const [one, two] = [1, 2].map((ranks) => workedWindow(four.slice(0, ranks), { about })) as [BlameWindow, BlameWindow];
    check(workedWindow(lines(0), { about }), 'straggler 0 node-0 backward: 6.0 ms, 100 %', one);
    check(workedWindow(lines(3), { about }), 'straggler 3 node-1 backward: 6.0 ms, 100 %', one);
    check(workedWindow(lines(3), { about }), 'straggler 3 node-1 backward: 6.0 ms, 100 %', two);
    expect(blameOf(two, workedWindow(lines(3), { about })).evidence[0]).toBe(
      'rank 3, which is new, works 6.00 ms more per step, 6.00 ms of it in backward',
    );
    check(
      workedWindow(
        four.map(() => slow),
        { about },
      ),
      'cluster_wide backward: 6.0 ms, 100 %',
      one,
    );
  });

  it('is a host', () => {
    const slow = even.replace('backward 20', 'backward 26');
    const six = workedWindow([...four, even, even], { about });
    check(workedWindow([even, even, slow, slow, even, even], { about }), 'straggler 2+3 node-1 backward: 6.0 ms, 100 %', six);
  });

  it('is a stage', () => {
    const staged = (rank: number) => ({ peers: `stage ${rank >> 1}` });
    const slow = even.replace('backward 20', 'backward 26');
    const now = workedWindow([even, even, slow, slow], { about: staged });
    check(now, 'stage_imbalance 2+3 backward: 6.0 ms, 100 %', workedWindow(four, { about: staged }));
  });

  it('is the cluster, its loading of data, or its network', () => {
    const all = (from: string, to: string): BlameWindow =>
      workedWindow(
        four.map((line) => line.replace(from, to)),
        { about },
      );
    check(all('backward 20', 'backward 24'), 'cluster_wide backward: 4.0 ms, 100 %');
    check(all('data 4', 'data 9'), 'data_loading data: 5.0 ms, 100 %');
    check(all('all_reduce 1', 'all_reduce 8'), 'network all_reduce world: 7.0 ms, 100 %');
  });

  it('is a host that became busy, where threads wait for a CPU and did not before', () => {
    const waiting = (cpuWait: number, transferMs: number): BlameWindow =>
      workedWindow(
        four.map((line) => line.replace('all_reduce 1', `all_reduce ${transferMs}`)),
        { about: (rank) => ({ ...about(rank), cpuWait }) },
      );
    check(waiting(0.6, 8), 'cpu_contention all_reduce world: 7.0 ms, 100 %', waiting(0.02, 1));
    check(waiting(0.6, 8), 'network all_reduce world: 7.0 ms, 100 %', waiting(0.6, 1));
    check(waiting(0.02, 8), 'network all_reduce world: 7.0 ms, 100 %', waiting(0.02, 1));
  });

  it('is what rotates', () => {
    const length = (ms: number, rank: number, phase: string, step: number): number =>
      phase === 'backward' && step % 4 === rank ? ms + 8 : ms;
    check(workedWindow(four, { about, length, steps: 12 }), 'rotating_imbalance backward: 8.0 ms, 100 %');
  });

  it('is the rank that the others wait for inside of a phase, where no collective was recorded', () => {
    const hidden = (...lines: string[]): BlameWindow => ({ ...workedWindow(lines, { about }), basis: 'phases' });
    const waits = 'data 4, forward 10, backward 21, optimizer 3';
    const longer = waits.replace('backward 21', 'backward 41');
    const quick = hidden(waits, waits, waits, waits);
    check(hidden(longer, longer, waits.replace('forward 10', 'forward 30'), longer), 'straggler 2 forward: 20.0 ms, 100 %', quick);
    // Backwards in time it is the same rank that became faster.
    check(quick, 'straggler 2 forward: -20.0 ms, 100 %', hidden(longer, longer, waits.replace('forward 10', 'forward 30'), longer));
    // All are longer where they may wait, or work: nothing tells.
    check(hidden(longer, longer, longer, longer), 'inconclusive : 20.0 ms, 0 %', quick);
    // Two became longer, each in a phase of its own, and who waits for whom is not known.
    const [first, second] = [waits.replace('forward 10', 'forward 30'), waits.replace('data 4', 'data 24')];
    check(hidden(longer, first, second, longer), 'inconclusive : 20.0 ms, 0 %', quick);
    // Half of the ranks are no few.
    const slow = waits.replace('forward 10', 'forward 30');
    check(hidden(longer, slow, slow, longer), 'inconclusive : 20.0 ms, 0 %', quick);
  });

  it('is reported of a step that gets shorter, too', () => {
    check(
      workedWindow(
        four.map((line) => line.replace('backward 20', 'backward 15')),
        { about },
      ),
      'cluster_wide backward: -5.0 ms, 100 %',
    );
  });

  it('names a collective that is there no more', () => {
    const without = workedWindow(
      four.map((line) => line.replace('all_reduce 1, ', '')),
      { about },
    );
    const slow = workedWindow(
      four.map((line) => line.replace('all_reduce 1', 'all_reduce 8')),
      { about },
    );
    check(without, 'network all_reduce world: -8.0 ms, 100 %', slow);
    expect(blameOf(slow, without).evidence[0]).toBe('transfers take 8.00 ms less in all_reduce world, per step');
  });

  it('is said with what of it is explained and what is not', () => {
    const texts = (now: BlameWindow, reported?: number): readonly string[] => blameOf(before, now, reported).evidence;
    const slow = workedWindow([even, even.replace('forward 10', 'forward 19').replace('backward 20', 'backward 17'), even, even], {
      about,
    });
    expect(texts(slow)).toEqual([
      'rank 1 works 6.00 ms more per step: 9.00 ms more in forward, 3.00 ms less in other phases',
      'steps are 6.00 ms longer: 6.00 ms by that',
    ]);
    // The alert's change differs from the change of these steps.
    expect(texts(slow, 8e6)[1]).toBe('steps are 8.00 ms longer: 6.00 ms by that, 2.00 ms not explained');
    const far = workedWindow(
      four.map((line) => line.replace('all_reduce 1', 'all_reduce 6.82')),
      { about },
    );
    expect(texts(far)).toEqual([
      'transfers take 5.82 ms more in all_reduce world, per step',
      'steps are 5.82 ms longer: 5.82 ms by transfers',
    ]);
    const most = blameOf(before, far, 49e6);
    expect([most.kind, most.shareOfChange]).toEqual(['inconclusive', 0]);
    expect(most.evidence).toEqual([
      'no rank, phase or communicator accounts for half of the change: steps are 49.00 ms longer: 5.82 ms by transfers, 43.18 ms not explained',
    ]);
  });

  it('is not the network where clocks do not carry it, and nothing where nothing changed', () => {
    const slow = four.map((line) => line.replace('all_reduce 1', 'all_reduce 8'));
    for (const epsilon of [9e6, undefined]) check(workedWindow(slow, { about, epsilon }), 'inconclusive : 7.0 ms, 0 %');
    check(before, 'inconclusive : 0.0 ms, 0 %');
    check(workedWindow(four, { steps: 0 }), 'inconclusive : -38.0 ms, 0 %');
  });
});
