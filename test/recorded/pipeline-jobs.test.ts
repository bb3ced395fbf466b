// Production jobs that ByteDance recorded with NDTimeline, against the published analyses of their faults.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { type Blame, blameOfWindow } from '../../packages/trace/src/blame/blame.ts';
import { expectExactParts, expectSamePieces } from '../../packages/trace/src/testing/expect-blame.ts';
import { ndtimelineWindow } from '../../packages/trace/src/testing/ndtimeline-window.ts';
import { replayed, reportOf } from '../setup/replayed-jobs.ts';
import { recordingPath, recordingText } from './recording.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-recorded-'));
afterAll(() => rmSync(directory, { recursive: true }));

const csvOf = (name: string): string => recordingText(`ndtimeline/${name}/trace-${name}.csv.gz`);
const blameOfTrace = (name: string): Blame => blameOfWindow(ndtimelineWindow(csvOf(name)));

describe('blame of the recording', () => {
  it('AR: worker (stage 0, dp 0), which makes steps 1.97 times as long', () => {
    const blame = blameOfTrace('AR');
    expect(blame.verdict).toBe('straggler');
    expect(blame.findings.filter(({ kind }) => kind === 'straggler')).toMatchObject([{ ranks: [0] }]);
    const [whatIf] = blame.whatIf;
    expect(whatIf?.ranks).toEqual([0]);
    expect(Math.abs((whatIf?.slowdown ?? 0) / 1.97 - 1)).toBeLessThan(0.03);
    // Published: 135 % more own work than its peers, the next one 0.3 %; its phases hold 2 % of the time that is not compute.
    const [first, second] = [...blame.excess].sort((a, b) => b.share - a.share);
    expect(first).toMatchObject({ rank: 0, peers: 'stage 0' });
    expect(first?.share).toBeGreaterThan(1.3);
    expect(first?.share).toBeLessThan(1.4);
    expect(second?.share).toBeLessThan(0.01);
    expectExactParts(blame);
  });

  it('SE: no worker for long, but some worker in each step', () => {
    const blame = blameOfTrace('SE');
    expect(blame.verdict).toBe('rotating_imbalance');
    expect(blame.findings.map(({ kind }) => kind)).not.toContain('straggler');
    expectExactParts(blame);
  });

  it.each(['AR', 'SE'])('%s: batches of its workers, merged, are cut into the same pieces', (name) => expectSamePieces(csvOf(name)));
});

describe('reported from the timeline', () => {
  const timelineReport = (name: string) => reportOf(recordingPath(`ndtimeline/${name}/timeline-${name}.json.gz`));

  it('AR: worker (stage 0, dp 0), which makes steps 1.97 times as long', async () => {
    const { verdict, findings, blame } = await timelineReport('AR');
    expect(verdict).toBe('straggler');
    expect(findings).toMatchObject([{ kind: 'straggler', ranks: [0], phase: 'backward-compute' }]);
    const [whatIf] = blame.whatIf;
    expect(whatIf?.ranks).toEqual([0]);
    // The timeline has a gap of a tenth of a step between steps, which was drawn and not recorded.
    expect(Math.abs((whatIf?.slowdown ?? 0) / 1.97 - 1)).toBeLessThan(0.03);
  });

  it('SE: no worker for long, but some worker in each step', async () => {
    const { verdict, findings } = await timelineReport('SE');
    expect(verdict).toBe('rotating_imbalance');
    expect(findings.map(({ kind }) => kind)).not.toContain('straggler');
    // Published: the last stage's extra work is 0.69 of the possible gain.
    expect(findings.find(({ kind }) => kind === 'stage_imbalance')?.ranks).toEqual(Array.from({ length: 32 }, (_, rank) => 32 + rank));
  });
});

describe('replayed through a service', () => {
  it('AR: worker (stage 0, dp 0), which makes steps 1.97 times as long', async () => {
    const { verdict, findings, blame } = await replayed(directory, 'AR', csvOf('AR'));
    expect(verdict).toBe('straggler');
    expect(findings[0]).toMatchObject({ kind: 'straggler', ranks: [0], phase: 'backward-compute' });
    const [whatIf] = blame.whatIf;
    expect(whatIf?.ranks).toEqual([0]);
    expect(Math.abs((whatIf?.slowdown ?? 0) / 1.97 - 1)).toBeLessThan(0.03);
  });

  it('SE: no worker for long, but some worker in each step', async () => {
    const { verdict, findings } = await replayed(directory, 'SE', csvOf('SE'));
    expect(verdict).toBe('rotating_imbalance');
    expect(findings.map(({ kind }) => kind)).not.toContain('straggler');
  });
});
