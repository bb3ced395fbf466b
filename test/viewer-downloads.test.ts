// Downloads of the page in a real Chromium, over a slow line: a window of a trace and a capture show that they come, can be cancelled, and state why
// they failed.

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { rankTime } from '@ranktrace/protocol';
import type { Locator } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { violationsOn } from './setup/axe.ts';
import { batchOf, header } from './setup/batches.ts';
import { type StartedBrowser, startBrowser } from './setup/browser.ts';
import { type ServedPage, startView, storeRun } from './setup/viewed-runs.ts';
import { ViewerPage } from './setup/viewer-page.ts';
import { runLine } from './setup/warm-command.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-downloads-'));
const forward = { length: 20e6, track: 1, name: 3, category: 0, id: 0, parent: 0, state: 0 };
const captured = Buffer.alloc(2 << 20, 'capture');
let browser: StartedBrowser;
let view: ServedPage;
beforeAll(async () => {
  browser = await startBrowser();
  const { code, stderr } = await runLine(['simulate', '--out', directory, '--run', 'job', '--ranks', '4', '--steps', '60']);
  if (code !== 0) throw new Error(stderr);
  mkdirSync(join(directory, 'job/captures'));
  writeFileSync(join(directory, 'job/captures/steps-3-5.pftrace'), captured);
  view = await startView([join(directory, 'job')]);
  await view.command.said('indexed');
});
afterAll(async () => {
  await browser?.[Symbol.asyncDispose]();
  await view?.end();
  rmSync(directory, { recursive: true });
});

async function open(hash: string): Promise<ViewerPage & AsyncDisposable> {
  const tab = await browser.open(`${view.address}${hash}`);
  await tab.tools.send('Network.enable');
  return Object.assign(new ViewerPage(tab), { [Symbol.asyncDispose]: () => tab[Symbol.asyncDispose]() });
}

/** From now on the page receives so many bytes per second; -1: as many as come. */
const lineOf = ({ tab }: ViewerPage, bytesPerSecond: number): Promise<unknown> =>
  tab.tools.send('Network.emulateNetworkConditions', {
    ...{ offline: false, latency: 0, downloadThroughput: bytesPerSecond, uploadThroughput: -1 },
  });

const whole = '#/timeline?run=job&area=-1000000000_100000000000_';
const linkIn = (page: ViewerPage, name: string): Locator => page.tab.page.getByRole('link', { name, exact: true });

it('a window says that it is prepared, then how much has come; cancelled, it leaves nothing; on a fast line it is the whole file', async () => {
  await using page = await open(whole);
  const { page: tab } = page.tab;
  await tab.locator('.area-head', { hasText: 'events' }).waitFor();
  const files: string[] = [];
  tab.on('download', (file) => files.push(file.suggestedFilename()));
  // So slow that a starved browser sees each state; `lineOf(page, -1)` ends it.
  await lineOf(page, 12_000);
  await linkIn(page, '.json').click();
  await tab.getByText('preparing .json …').waitFor();
  await tab.getByRole('progressbar', { name: 'Download of .json' }).waitFor();
  await expect.poll(() => tab.locator('.download-bytes').textContent()).toMatch(/^[\d.]+\s[KM]i?B$/);
  expect(await violationsOn(tab)).toEqual([]);
  // By keys alone: the button has the link's focus.
  await tab.keyboard.press('Enter');
  await tab.locator('.area-downloads').getByText('cancelled').waitFor();
  await linkIn(page, '.json').waitFor();
  expect(files).toEqual([]);
  await lineOf(page, -1);
  const [download] = await Promise.all([tab.waitForEvent('download'), linkIn(page, '.json').click()]);
  expect(download.suggestedFilename()).toMatch(/^job-.*\.json$/);
  const { traceEvents } = JSON.parse(readFileSync(await download.path(), 'utf8')) as { traceEvents: object[] };
  expect(traceEvents.length).toBeGreaterThan(1000);
  await tab.locator('.area-downloads').getByText('cancelled').waitFor({ state: 'detached' });
  expect(page.tab.problems).toEqual([]);
});

it('of a marked step it has no event that begins with its end, and is named by the times that the page shows', async () => {
  const lengths = [40e6, 40e6, 40e6];
  const of = (rank: number) =>
    batchOf(
      header({ run: 'whole', rank, worldSize: 2, sequence: 0, last: true, watermark: rankTime(1e9) }),
      ['', 'thread', 'main', 'forward'],
      {
        tracks: [{ track: 1, kind: 1, name: 2, tid: 1 }],
        steps: lengths.map((length, step) => ({ start: 5e6 + 40e6 * step, length, track: 1, step })),
        spans: lengths.map((_, step) => ({ ...forward, start: 5e6 + 40e6 * step })),
      },
    );
  await storeRun(directory, 'whole', [of(0), of(1)]);
  await using steps = await startView([join(directory, 'whole')]);
  await using tab = await browser.open(`${steps.address}#/timeline?area=45000000_85000000_`);
  await tab.page.locator('.area-head', { hasText: '4 events' }).waitFor();
  const link = tab.page.getByRole('link', { name: '.json', exact: true });
  const [download] = await Promise.all([tab.page.waitForEvent('download'), link.click()]);
  expect(download.suggestedFilename()).toBe('whole-40ms-80ms.json');
  const { traceEvents } = JSON.parse(readFileSync(await download.path(), 'utf8')) as { traceEvents: { ph: string; name: string }[] };
  const names = traceEvents.filter(({ ph }) => ph === 'X').map(({ name }) => name);
  expect(names.sort()).toEqual(['ProfilerStep#1', 'ProfilerStep#1', 'forward', 'forward']);
  expect(tab.problems).toEqual([]);
});

it('a capture shows how much of it has come, and is saved under its name', async () => {
  await using page = await open('#/overview?run=job');
  const { page: tab } = page.tab;
  await tab.getByText('1 capture').click();
  await lineOf(page, 20_000);
  await linkIn(page, 'steps-3-5.pftrace').click();
  await expect.poll(() => tab.locator('.download-bytes').textContent()).toMatch(/^[\d.]+\s\S+ of 2\sMi?B$/);
  expect(await violationsOn(tab)).toEqual([]);
  const [download] = await Promise.all([tab.waitForEvent('download'), lineOf(page, -1)]);
  expect(download.suggestedFilename()).toBe('steps-3-5.pftrace');
  expect(readFileSync(await download.path()).equals(captured)).toBe(true);
  expect(page.tab.problems).toEqual([]);
});

it('one that fails says why in one line, and can be tried again', async () => {
  await using page = await open('#/overview?run=job');
  const { page: tab } = page.tab;
  await tab.getByText('1 capture').click();
  const link = linkIn(page, 'steps-3-5.pftrace');
  rmSync(join(directory, 'job/captures/steps-3-5.pftrace'));
  await link.click();
  await tab.getByText('Cannot download steps-3-5.pftrace: not found').waitFor();
  // More than the buffers of a connection hold.
  writeFileSync(join(directory, 'job/captures/steps-3-5.pftrace'), Buffer.alloc(64 << 20));
  await lineOf(page, 200_000);
  await link.click();
  await expect.poll(() => tab.locator('.download-bytes').textContent()).toMatch(/ of /);
  view.command.child.kill('SIGKILL');
  await view.command.ended;
  await lineOf(page, -1);
  await tab.getByText(/^Cannot download steps-3-5\.pftrace: the service broke it off after [\d.]+\s\S+$/).waitFor();
  await link.click();
  await tab.getByText('Cannot download steps-3-5.pftrace: the service does not answer').waitFor();
});
