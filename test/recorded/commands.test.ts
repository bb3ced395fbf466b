// `ranktrace merge`, `report` and `detect`, and the page, on the files of others: 8 H100 and step times (modded-nanogpt), traces of Zipkin.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type StartedBrowser, startBrowser } from '../setup/browser.ts';
import { gpuJobPageCases } from '../setup/gpu-job-page.ts';
import { expectChromeTrace, expectPerfettoTrace } from '../setup/merged-gpu-files.ts';
import { runCommand } from '../setup/ranktrace-command.ts';
import { expectPyTorchReport, expectZipkinReport } from '../setup/reports.ts';
import { namesAt, startView } from '../setup/viewed-runs.ts';
import { recordingPath, recordingRows } from './recording.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-recorded-'));
afterAll(() => rmSync(directory, { recursive: true }));

const filesOf = (): string[] =>
  Array.from({ length: 8 }, (_, rank) => recordingPath(`kineto/nanogpt-8rank/rank${rank}.chrome-trace.json.gz`));

describe('merge', () => {
  it('makes one trace with all that each file has, as Chrome JSON', () => expectChromeTrace(filesOf(), join(directory, 'cluster.json')));

  it("and a Perfetto trace that Perfetto's own processor reads: rows per rank, kernels with their arguments", async () => {
    const arrows = await expectPerfettoTrace(recordingPath('kineto/nanogpt-8rank'), filesOf(), join(directory, 'cluster.pftrace'));
    // One arrow from rank to rank for each of the 76 that all of them have.
    expect(arrows).toBeGreaterThanOrEqual(76);
  });
});

describe('report', () => {
  it('a PyTorch job: 76 collectives of 8 ranks, their clocks as recorded', () =>
    expectPyTorchReport(recordingPath('kineto/nanogpt-8rank'), { count: 76, exitSpreadNs: 188_000 }));

  it('a Zipkin file: its calls, none before its cause', async () => {
    await expectZipkinReport(recordingPath('clock/zipkin/skew.json'));
  });
});

describe('detect', () => {
  it('says nothing of a stationary run', async () => {
    const path = join(directory, 'run-1.csv');
    const rows = recordingRows('steptime/nanogpt_steps.csv.gz').filter(([run]) => run === '1');
    writeFileSync(path, ['step,time_ms', ...rows.map(([, step, ms]) => `${step},${ms}`)].join('\n'));
    const { code, stdout } = await runCommand(['detect', path, '--fail']);
    expect([code, stdout]).toEqual([0, '6 198 steps; nothing is open\n']);
  });
});

describe('the page', () => {
  let browser: StartedBrowser;
  beforeAll(async () => {
    browser = await startBrowser();
  });
  afterAll(() => browser?.[Symbol.asyncDispose]());

  gpuJobPageCases(() => ({ browser, folder: recordingPath('kineto/nanogpt-8rank'), files: filesOf() }));

  it('shows a file of Zipkin', async () => {
    await using view = await startView([recordingPath('clock/zipkin/yelp.json')]);
    await view.command.said('indexed');
    expect(await namesAt(view.address)).toEqual(['yelp']);
    expect(view.command.output()).not.toMatch(/cannot/i);
  });
});
