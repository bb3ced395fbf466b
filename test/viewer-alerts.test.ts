// Where an alert began, in a real Chromium: on the ruler and the step chart of a live run, and in the report's file of the same run.

import { appendFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { startAggregator } from '@ranktrace/aggregator';
import type { Alert } from '@ranktrace/protocol';
import type { Locator } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { violationsOn } from './setup/axe.ts';
import { type StartedBrowser, startBrowser } from './setup/browser.ts';
import { repository } from './setup/ranktrace-command.ts';
import { slowingRun, stepRulesAlone } from './setup/slowing-run.ts';
import { ViewerPage } from './setup/viewer-page.ts';
import { runLine } from './setup/warm-command.ts';

const out = mkdtempSync(join(tmpdir(), 'ranktrace-alerts-page-'));
let browser: StartedBrowser;
beforeAll(async () => {
  browser = await startBrowser();
});
afterAll(async () => {
  await browser?.[Symbol.asyncDispose]();
  rmSync(out, { recursive: true });
});

/** The columns of a canvas, from the left, that have a pixel of an alert's colour in its first 26 lines: the ruler, or the top of a chart. */
const flagsOn = (canvas: Locator): Promise<number[]> =>
  canvas.evaluate((element) => {
    const { width } = element as HTMLCanvasElement;
    const copy = new OffscreenCanvas(width, 26).getContext('2d', { willReadFrequently: true });
    copy?.drawImage(element as HTMLCanvasElement, 0, 0);
    const { data = [] } = copy?.getImageData(0, 0, width, 26) ?? {};
    const columns = new Set<number>();
    for (let at = 0; at < data.length; at += 4) {
      const [red = 0, green = 0, blue = 0] = data.slice(at, at + 3);
      // --alert of theme.css: #c2293a
      if (red === 0xc2 && green === 0x29 && blue === 0x3a) columns.add((at / 4) % width);
    }
    return [...columns].sort((a, b) => a - b);
  });

/** An alert about something that the analysis of steps does not report, of the same run and firing. */
function growing(like: Alert): Alert {
  const cause = { kind: 'memory', ranks: [0], hosts: [], phase: null, share: null, text: 'heapUsed grows by 2 MiB per step' };
  const about = {
    rule: 'memory_growth',
    severity: 'warning',
    summary: 'memory of rank 0 grows since step 100',
    onsetStep: 100,
  } as const;
  return { ...like, ...about, id: 'night/memory_growth/0/100', ranks: [0], cause };
}

it('an alert of a live run is flagged at its first step on the ruler and the step chart, then in the report of the stored run', async () => {
  const fired = await (async (): Promise<Alert> => {
    const page = join(repository, 'packages/viewer/dist/page');
    await using aggregator = await startAggregator({ out, page, config: stepRulesAlone() });
    await using tab = await browser.open(`${aggregator.address}/#/timeline?run=night`, { colorScheme: 'light' });
    const view = new ViewerPage(tab);
    await tab.page.getByText('There is no run "night"').waitFor();
    const firing = new Promise<Alert>((resolve) => aggregator.alerts.subscribe(resolve));
    const training = slowingRun(aggregator);
    training.next();
    const fired = await firing;
    const { onsetStep, summary } = fired;
    expect(Math.abs((onsetStep ?? 0) - 400)).toBeLessThan(10);
    await view.settled();
    await tab.page.getByRole('button', { name: 'All', exact: true }).click();
    await expect.poll(() => flagsOn(view.canvas)).not.toEqual([]);
    const [column = 0] = await flagsOn(view.canvas);
    // 400 steps of 100 ms, then 290 of 112.
    const width = (await view.canvas.boundingBox())?.width ?? 1;
    expect(Math.abs(column / width - 40 / (40 + 290 * 0.112))).toBeLessThan(0.03);
    await view.canvas.hover({ position: { x: column, y: 6 } });
    await tab.page.locator('.tooltip').getByText(`Since step ${onsetStep}: ${summary}`).waitFor();
    await view.show('Overview');
    const chart = tab.page.locator('.step-chart');
    await chart.getByText('an alert began').waitFor();
    await expect.poll(() => flagsOn(chart.locator('canvas'))).not.toEqual([]);
    // The alert comes first; an analysis of the steps since then may be seconds later.
    await expect.poll(() => view.text(view.findings.first())).toMatch(/steps are 1\d\.\d % slower since step \d+.*rank 1 slow in forward/);
    expect(await violationsOn(tab.page)).toEqual([]);
    expect(tab.problems).toEqual([]);
    training.next();
    return fired;
  })();
  appendFileSync(join(out, 'night/alerts.jsonl'), `${JSON.stringify(growing(fired))}\n`);
  const file = join(out, 'night.html');
  const { code, stderr } = await runLine(['report', join(out, 'night'), '--html', '-o', file]);
  expect(code, stderr).toBe(0);
  await using tab = await browser.open(pathToFileURL(file).href, { colorScheme: 'light' });
  const view = new ViewerPage(tab);
  expect(await view.text(view.findings.first())).toBe(
    '✖Alert: memory of rank 0 grows since step 100 Cause: heapUsed grows by 2 MiB per step',
  );
  // A fault that the analysis found, too, is there once, with the words of both.
  expect((await view.findings.allTextContents()).filter((text) => text.includes('rank 1'))).toEqual([
    expect.stringMatching(/rank 1 .* It was alerted about: steps are 1\d\.\d % slower since step \d+/),
  ]);
  const chart = tab.page.locator('.step-chart');
  await chart.getByText('an alert began').waitFor();
  // Two onsets, at 100 and 400 of 700 steps.
  const width = (await chart.locator('canvas').boundingBox())?.width ?? 1;
  await expect.poll(async () => (await flagsOn(chart.locator('canvas'))).some((column) => column < width / 2)).toBe(true);
  expect((await flagsOn(chart.locator('canvas'))).some((column) => column > width / 2)).toBe(true);
  expect(await violationsOn(tab.page)).toEqual([]);
  expect(tab.problems).toEqual([]);
});
