// Compares the page of a GPU job's files with the files themselves.

import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { StartedBrowser, TabOptions } from './browser.ts';
import { isInstant, isSpan, type KinetoFileEvent, kinetoFileEvents } from './gpu-job-files.ts';
import { type ServedPage, startView } from './viewed-runs.ts';
import { ViewerPage } from './viewer-page.ts';

export interface GpuJobOnDisk {
  readonly browser: StartedBrowser;
  readonly folder: string;
  /** By rank. */
  readonly files: readonly string[];
}

/** Adds the cases to the calling suite; the job must exist when its `beforeAll` have run. */
export function gpuJobPageCases(jobOf: () => GpuJobOnDisk): void {
  let all: readonly KinetoFileEvent[];
  let ranks: readonly string[];
  let view: ServedPage;
  beforeAll(async () => {
    const { folder, files } = jobOf();
    all = files.flatMap(kinetoFileEvents).filter((event) => isSpan(event) || isInstant(event));
    ranks = files.map((_, rank) => `${rank}`);
    view = await startView([folder]);
    await view.command.said('indexed');
  });
  afterAll(() => view?.end());

  const open = async (address: string, options?: TabOptions): Promise<ViewerPage & AsyncDisposable> => {
    const tab = await jobOf().browser.open(address, options);
    return Object.assign(new ViewerPage(tab), { [Symbol.asyncDispose]: () => tab[Symbol.asyncDispose]() });
  };

  it('begins with what a step takes, of each rank, and of what it is made', async () => {
    await using page = await open(view.address);
    await page.sentence.waitFor();
    const steps = new Set(all.filter(({ name }) => name.startsWith('ProfilerStep#')).map(({ name }) => name));
    expect(await page.text(page.sentence)).toMatch(/^A step takes [\d.]+ ms\. /);
    expect(await page.figure('ranks').textContent()).toBe(String(ranks.length));
    expect(await page.figure('steps').textContent()).toBe(String(steps.size));
    const heat = page.tab.page.locator('.heat-canvas');
    await heat.waitFor();
    await page.frames(10);
    expect((await page.ink(heat)).colours).toBeGreaterThan(8);
    await page.analysed();
    const gpus = page.tab.page.locator('.gpu-bars button.phase-row');
    expect(await gpus.count()).toBe(Math.min(8, ranks.length));
    for (const about of await gpus.evaluateAll((rows) => rows.map((row) => row.getAttribute('aria-label') ?? ''))) {
      expect(about).toMatch(/^Rank \d+: compute [\d.]+\s\S+, .*Show in the timeline$/);
    }
    const shares = (await gpus.locator('.phase-excess').allTextContents()).map((text) => Number(/^([\d.]+) % busy$/.exec(text)?.[1]));
    expect(shares).toEqual([...shares].sort((a, b) => a - b));
    await page.tab.picture('overview');
    expect(page.tab.problems).toEqual([]);
  });

  it('draws every rank, and finds every event by its name', async () => {
    await using page = await open(view.address);
    await page.show('Timeline');
    await page.settled();
    expect(await page.rows.allTextContents()).toContain('Rank 0');
    expect((await page.ink()).part).toBeGreaterThan(0.1);
    await page.tab.picture('timeline');
    for (const text of ['nccl:', 'aten::mm', 'Memcpy']) {
      expect(await page.search(text), text).toBe(all.filter(({ name }) => name.toLowerCase().includes(text.toLowerCase())).length);
    }
    expect(await page.search('no such name')).toBe(0);
    expect(page.tab.problems).toEqual([]);
  });

  it('shows a collective on every rank: who was last, and who waited', async () => {
    await using page = await open(`${view.address}#/timeline?area=-1000000000_1000000000_`);
    const row = page.panel
      .locator('tbody tr')
      .filter({ hasText: /^all_gather/ })
      .first();
    await row.getByTitle('Go to the longest').click();
    await page.tab.page.keyboard.press('Escape');
    await page.panel.locator('.partners tbody tr').first().waitFor();
    expect(await page.panel.locator('h2').textContent()).toBe('all_gather');
    const partners = page.panel.locator('.partners tbody tr');
    expect(await partners.locator('th').allTextContents()).toEqual(ranks);
    expect((await partners.allTextContents()).filter((text) => text.includes('last in'))).toHaveLength(1);
    await page.settled();
    await page.tab.page.waitForTimeout(500);
    await page.tab.picture('collective');
    expect(page.tab.problems).toEqual([]);
  });

  it('sums up a marked area: every event of the files is in the whole run, by name and as a tree', async () => {
    await using page = await open(`${view.address}#/timeline?area=-1000000000_1000000000_`);
    const head = page.tab.page.locator('.area-head');
    await page.tab.page.waitForFunction(() => document.querySelector('.area-head')?.textContent?.includes('events'));
    expect(Number(/([\d\D]*?), ([\d\s.,\u202f\u2009]+) events/.exec((await head.textContent()) ?? '')?.[2]?.replaceAll(/\D/g, ''))).toBe(
      all.length,
    );
    const row = page.panel
      .locator('tbody tr')
      .filter({ hasText: /^aten::mm/ })
      .first();
    expect((await row.locator('td, th').allTextContents())[2]?.replaceAll(/\D/g, '')).toBe(
      String(all.filter(({ name }) => name === 'aten::mm').length),
    );
    await page.tab.picture('area');
    await page.tab.page.getByRole('tab', { name: 'Flame graph' }).click();
    await page.tab.page.locator('[data-node]').nth(3).waitFor();
    await page.tab.picture('flame-graph');
    // Split by device, the second line has the host and the GPUs.
    await page.tab.page.getByLabel('Split by').selectOption('device');
    await page.tab.page.locator('[data-node]', { hasText: /^GPU 0$/ }).waitFor();
    await page.tab.page.locator('[data-node]', { hasText: /^host$/ }).waitFor();
    // The area as a file: all spans of the job, which a Chrome trace names.
    const [download] = await Promise.all([
      page.tab.page.waitForEvent('download'),
      page.tab.page.locator('.area-downloads a', { hasText: '.json' }).click(),
    ]);
    expect(download.suggestedFilename()).toMatch(/\.json$/);
    const { traceEvents } = JSON.parse(readFileSync(await download.path(), 'utf8')) as { traceEvents: { ph: string }[] };
    const spans = traceEvents.filter(({ ph }) => ph === 'X').length;
    expect(spans).toBe(all.filter(isSpan).length);
    expect(page.tab.problems).toEqual([]);
  });

  it('is moved by keys alone, says aloud what is selected, and a link shows the same', async () => {
    await using page = await open(view.address);
    await page.show('Timeline');
    await page.settled();
    const { keyboard } = page.tab.page;
    await page.search('aten::mm');
    await keyboard.press('Enter');
    await page.panel.waitFor();
    await keyboard.press('Escape');
    await page.canvas.focus();
    const aloud = page.tab.page.locator('.only-aloud');
    await page.settled();
    const before = await aloud.textContent();
    await keyboard.press('ArrowRight');
    await page.tab.page.waitForFunction((text) => !['', text].includes(document.querySelector('.only-aloud')?.textContent ?? ''), before);
    expect(await page.text(aloud)).toMatch(/, [\d.]+ (ns|µs|ms), rank \d$/);
    await keyboard.down('w');
    await page.tab.page.waitForTimeout(300);
    await keyboard.up('w');
    await page.tab.page.waitForTimeout(600);
    const address = page.tab.page.url();
    expect(address).toMatch(/#\/timeline\?.*from=.*until=.*sel=/);
    await using other = await open(address);
    await other.settled();
    await other.panel.waitFor();
    expect(await other.tab.page.locator('.only-aloud').textContent()).toBe(await aloud.textContent());
    expect(await other.tab.page.locator('.corner').textContent()).toBe(await page.tab.page.locator('.corner').textContent());
    await keyboard.press('?');
    await page.tab.page.getByRole('dialog').waitFor();
    await page.tab.picture('keys');
    await keyboard.press('Escape');
    expect(await page.tab.page.getByRole('dialog').count()).toBe(0);
    expect(page.tab.problems).toEqual([]);
  });

  it('in the dark', async () => {
    await using page = await open(view.address, { colorScheme: 'dark' });
    await page.show('Timeline');
    await page.settled();
    const [red, green, blue] = await page.canvas.evaluate((element) => [
      ...((element as HTMLCanvasElement).getContext('2d')?.getImageData(2, (element as HTMLCanvasElement).height - 2, 1, 1).data ?? []),
    ]);
    expect(Math.max(red ?? 255, green ?? 255, blue ?? 255)).toBeLessThan(64);
    await page.tab.picture('timeline-dark');
    expect(page.tab.problems).toEqual([]);
  });
}
