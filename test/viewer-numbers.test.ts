// Numbers and moments of the page against stored runs whose truth is written here: what the page says must be what was recorded.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { rankTime } from '@ranktrace/protocol';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { batchOf, header } from './setup/batches.ts';
import { type StartedBrowser, startBrowser } from './setup/browser.ts';
import { type ServedPage, startView, storeRun } from './setup/viewed-runs.ts';
import { csvOf, ViewerPage } from './setup/viewer-page.ts';
import { runLine } from './setup/warm-command.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-numbers-'));
const stepNs = 10e6;
/** The first step begins an hour after the clock's zero. */
const begin = 3600e9;
const strings = ['', 'thread', 'main', 'forward', 'loss'];
const losses = [1, Number.NaN, Number.POSITIVE_INFINITY, 0.5];
let browser: StartedBrowser;
let view: ServedPage;

/** Both ranks begin each step and its span at one time; most memory is allocated 7 ms into the third step. */
const trainBatches = (run: string) =>
  [0, 1].map((rank) =>
    batchOf(header({ run, rank, worldSize: 2, sequence: 0, last: true, watermark: rankTime(begin + 4 * stepNs) }), strings, {
      tracks: [{ track: 1, kind: 1, name: 2, tid: 1 }],
      steps: [0, 1, 2, 3].map((step) => ({ start: begin + step * stepNs, length: stepNs, track: 1, step })),
      spans: [0, 1, 2, 3].map((step) => {
        return { start: begin + step * stepNs, length: 4e6 + step, track: 1, name: 3, category: 0, id: 0, parent: 0, state: 0 };
      }),
      counters: losses.map((value, step) => ({ time: begin + step * stepNs, track: 1, name: 4, unit: 0, value })),
      memory: [
        { time: begin + 2 * stepNs + 7e6, bytes: 5e6, total: 5e6 },
        { time: begin + 2 * stepNs + 8e6, bytes: -5e6, total: 0 },
      ].map((of) => ({ ...of, track: 1, address: 9, device: 1, category: 0 })),
    }),
  );

const stepless = (run: string) => [
  batchOf(header({ run, rank: 0, worldSize: 1, sequence: 0, last: true, watermark: rankTime(5000) }), strings, {
    tracks: [{ track: 1, kind: 1, name: 2, tid: 1 }],
    spans: [{ start: 4000, length: 1, track: 1, name: 3, category: 0, id: 0, parent: 0, state: 0 }],
  }),
];

beforeAll(async () => {
  await storeRun(directory, 'train', trainBatches('train'));
  await storeRun(directory, 'stepless', stepless('stepless'));
  browser = await startBrowser();
  view = await startView([directory]);
  await view.command.said('indexed');
});
afterAll(async () => {
  await view?.end();
  await browser?.[Symbol.asyncDispose]();
  rmSync(directory, { recursive: true });
});

const peaks = [0, 1].map((rank) => [`${rank}`, '5000000', '27000000']);
const peaksOf = (rows: readonly Record<string, string>[]) =>
  rows.map((row) => [row.Rank, row['Peak (B)'], row['Peak at (ns)']]).sort(([a = ''], [b = '']) => Number(a) - Number(b));

it('memory is at its peak so long after the first step, on the page and in a report', async () => {
  await using tab = await browser.open(`${view.address}#/profile?run=train&tables=memory`);
  await tab.page.getByRole('table', { name: 'Memory', exact: true }).waitFor();
  expect(peaksOf(await csvOf(tab.page, 'Memory'))).toEqual(peaks);
  const file = join(directory, 'train.html');
  const { code, stderr } = await runLine(['report', join(directory, 'train'), '--html', '-o', file]);
  expect(code, stderr).toBe(0);
  await using report = await browser.open(pathToFileURL(file).href);
  expect(peaksOf(await csvOf(report.page, 'Memory'))).toEqual(peaks);
  expect([...tab.problems, ...report.problems]).toEqual([]);
});

it('a search leads to every match, also where those of several ranks begin at one time', async () => {
  await using tab = await browser.open(`${view.address}#/timeline?run=train`);
  const page = new ViewerPage(tab);
  await page.settled();
  expect(await page.search('forward')).toBe(8);
  const found: string[] = [];
  for (let at = 0; at < 8; at++) {
    const before = tab.page.url();
    await tab.page.keyboard.press('Enter');
    await expect.poll(() => tab.page.url()).not.toBe(before);
    await expect.poll(async () => (await page.fact('Start').textContent())?.replaceAll(/\s/g, '')).toBe(`0.0${at >> 1}0000000s`);
    await expect.poll(() => page.fact('Where').textContent()).toContain(`rank ${at % 2} `);
    found.push(`${await page.fact('Start').textContent()} ${await page.fact('Where').textContent()}`);
  }
  expect(new Set(found).size).toBe(8);
  expect(tab.problems).toEqual([]);
});

it('a loss that is no number is none, in an area and its mean', async () => {
  const [from, until] = [begin, begin + 4 * stepNs];
  await using tab = await browser.open(`${view.address}#/timeline?run=train&area=${from}_${until}_`);
  await tab.page.getByRole('tab', { name: /^Counters \(/ }).click();
  const rows = await csvOf(tab.page, 'Counters in the marked area');
  const loss = rows.filter(({ Counter }) => Counter === 'loss').map(({ Least, Mean, Greatest }) => [Least, Mean, Greatest].map(Number));
  expect(loss).toEqual([
    [0.5, 0.75, 1],
    [0.5, 0.75, 1],
  ]);
  expect(tab.problems).toEqual([]);
});

it('two runs of which one has no steps have no verdict', async () => {
  await using tab = await browser.open(`${view.address}#/compare?run=train&other=stepless`);
  await tab.page.getByText('No verdict: it needs 3 steps that all ranks recorded, and B has 0').waitFor();
  expect(tab.problems).toEqual([]);
});
