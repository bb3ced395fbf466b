// Four ranks of real PyTorch under `python -m ranktrace`, with an agent beside them: one becomes slow in the middle. The live page names it, and so does an
// alert, whose trace has the ranks' own steps and what Kineto recorded; the weights are those of a run without ranktrace, bit by bit.

import { isAbsolute, join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { Alert } from '@ranktrace/protocol';
import { expect, test } from 'vitest';
import { AgentJob } from './setup/agent-job.ts';
import { startBrowser } from './setup/browser.ts';
import type { StartedCommand } from './setup/ranktrace-command.ts';
import { findTorch } from './setup/torch-python.ts';
import { ViewerPage } from './setup/viewer-page.ts';
import { runLine } from './setup/warm-command.ts';

const torch = findTorch();
const ranks = [0, 1, 2, 3];
const [steps, slowFrom] = [1000, 400];
/** docs/alerting.md: steps twice as long are reported within so many. */
const foundWithin = 40;
/** Where the middle half of steps lies farther from the median than this, a doubling is not six times the noise. */
const noiseMax = 0.2;

const digestOf = (rank: StartedCommand): string | undefined => /weights (\w+)/.exec(rank.output())?.[1];

if (torch === undefined) {
  test('a rank of real PyTorch that becomes slow', (context) => {
    context.task.meta.impossibleHere = 'no Python here has torch; RANKTRACE_TORCH_PYTHON names one that has';
    context.skip();
  });
} else {
  test(`a rank of torch ${torch.version} that becomes slow: page, alert and trace name it, and it trains as without`, async () => {
    await using job = await AgentJob.start();
    const program = ['test/programs/torch_slow_rank.py', `${steps}`, `${slowFrom}`] as const;
    const bare = ranks.map((rank) => job.rank(rank, 4, [torch.python, ...program], { daemon: false, environment: { HURRY: '1' } }));
    await Promise.all(bare.map(({ ended }) => ended));

    const agent = await job.agent(job.address, 'socket', '0-3');
    const sending = { RANKTRACE_URL: job.address, RANKTRACE_RUN: job.run, RANKTRACE_SPOOL_DIRECTORY: job.at('spool', 'ranks') };
    const environment = { ...sending, PYTHONPATH: 'clients/python' };
    const started = ranks.map((rank) => job.rank(rank, 4, [torch.python, '-m', 'ranktrace', ...program], { environment }));
    await Promise.all(ranks.map((rank) => agent.said(`rank ${rank} of 4 of run "${job.run}"`)));
    await using browser = await startBrowser();
    await using tab = await browser.open(`http://127.0.0.1:${job.port}/#/overview?run=${job.run}`);
    const page = new ViewerPage(tab);
    await page.sentence.filter({ hasText: /Rank 2 is slow in forward/ }).waitFor({ timeout: 2 * 60_000 });

    await Promise.all(started.map(({ ended }) => ended));
    expect(started.map(digestOf)).toEqual(bare.map(digestOf));
    expect(new Set(started.map(digestOf)).size).toBe(1);
    const alert = await untilCaptured(job);
    expect(alert).toMatchObject({ ranks: [2], cause: { phase: 'forward', ranks: [2] }, capture: { ranks } });
    expect(Math.abs((alert.onsetStep ?? 0) - slowFrom)).toBeLessThanOrEqual(16);
    const { scatter } = await lengthsOf(job);
    console.log(
      `found at step ${alert.step} of a fault from step ${slowFrom}; the middle half of steps lies within ${(100 * scatter).toFixed(1)} %`,
    );
    if (scatter < noiseMax) expect((alert.step ?? Number.NaN) - slowFrom).toBeLessThanOrEqual(foundWithin);

    const path = alert.capture?.path ?? '';
    const { stdout } = await runLine(['dump', isAbsolute(path) ? path : join(job.at('out', job.run), path)]);
    expect(stdout).toContain(`ProfilerStep#${slowFrom} `);
  });
}

/** The alert about the fault, once its trace is written. */
async function untilCaptured(job: AgentJob): Promise<Alert> {
  for (;;) {
    const { stdout } = await runLine(['alerts', '--url', `http://127.0.0.1:${job.port}`, '--json']);
    const { alerts } = JSON.parse(stdout) as { alerts: Alert[] };
    const found = alerts.find(({ rule, ranks: of, capture }) => rule === 'step_time' && of.join() === '2' && capture?.state === 'written');
    if (found !== undefined) return found;
    await wait(500);
  }
}

/** How far the middle half of the steps before the fault lies from their median, as a share of it. */
async function lengthsOf(job: AgentJob): Promise<{ readonly scatter: number }> {
  const { stdout } = await runLine(['report', job.at('out'), '--run', job.run, '--steps', `100-${slowFrom - 1}`, '--json']);
  const { steps: all } = JSON.parse(stdout) as { steps: { step: number; longest: number }[] };
  const sorted = all.map(({ longest }) => longest).sort((a, b) => a - b);
  const at = (share: number): number => sorted[Math.floor(share * sorted.length)] ?? Number.NaN;
  return { scatter: (at(0.75) - at(0.25)) / 2 / at(0.5) };
}
