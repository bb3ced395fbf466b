// Attacks of a trace on the page: it may not run code, hide, or break the page by being empty, tiny, a month long, incomplete or of an unknown clock

import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type StartedBrowser, startBrowser } from './setup/browser.ts';
import {
  emptyBatches,
  hostileBatches,
  hostileKineto,
  incompleteBatches,
  markup,
  monthBatches,
  oneEventBatches,
} from './setup/hostile-runs.ts';
import { type ServedPage, startView, storeRun } from './setup/viewed-runs.ts';
import { ViewerPage } from './setup/viewer-page.ts';
import { runLine } from './setup/warm-command.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-hostile-'));
const kineto = join(directory, 'rank0.json.gz');
let browser: StartedBrowser;
let view: ServedPage;

beforeAll(async () => {
  const runs = { hostile: hostileBatches, empty: emptyBatches, one: oneEventBatches, month: monthBatches, incomplete: incompleteBatches };
  for (const [run, batches] of Object.entries(runs)) await storeRun(join(directory, 'runs'), run, batches(run));
  writeFileSync(kineto, hostileKineto());
  browser = await startBrowser();
  view = await startView([join(directory, 'runs'), kineto]);
  await view.command.said('indexed');
});
afterAll(async () => {
  await view?.end();
  await browser?.[Symbol.asyncDispose]();
  rmSync(directory, { recursive: true });
});

async function open(run: string, look: 'overview' | 'timeline'): Promise<ViewerPage & AsyncDisposable> {
  const tab = await browser.open(`${view.address}#/${look}?run=${run}`);
  await tab.page.addInitScript('window.wasRun = 0');
  return Object.assign(new ViewerPage(tab), { [Symbol.asyncDispose]: () => tab[Symbol.asyncDispose]() });
}

/** Nothing of the trace was run, became an element, or changed how the page reads. */
async function expectUnharmed({ tab }: ViewerPage): Promise<void> {
  expect(tab.problems).toEqual([]);
  expect(await tab.page.evaluate('window.wasRun')).toBeFalsy();
  expect(
    await tab.page.locator('img, script:not([src]), iframe, style:not([data-vite-dev-id]), object, embed, a[href^="javascript"]').count(),
  ).toBe(0);
  expect(await tab.page.evaluate(() => /[\p{Bidi_Control}\p{Cc}]/u.test((document.body.textContent ?? '').replaceAll(/\s/g, '')))).toBe(
    false,
  );
}

describe('names that want to be something else', () => {
  it('two runs with them are compared as text', async () => {
    const tab = await browser.open(`${view.address}#/compare?run=rank0&other=hostile`);
    await using page = Object.assign(new ViewerPage(tab), { [Symbol.asyncDispose]: () => tab[Symbol.asyncDispose]() });
    await tab.page.locator('.compare-names tbody tr').first().waitFor();
    await tab.page.getByLabel('differences within the noise, too').check();
    expect(await tab.page.locator('.compare-names').textContent()).toContain('wasRun');
    await expectUnharmed(page);
  });

  it.each(['rank0', 'hostile'])('%s: they are text in every view', async (run) => {
    await using page = await open(run, 'overview');
    await page.sentence.waitFor();
    await expectUnharmed(page);
    await page.show('Timeline');
    await page.settled();
    expect((await page.ink()).part).toBeGreaterThan(0.005);
    expect(await page.search('wasRun')).toBeGreaterThanOrEqual(markup.length - 1);
    const { page: tab } = page.tab;
    expect(await tab.locator('.search-list').textContent()).toContain('<img src=x onerror="window.wasRun=1">');
    await expectUnharmed(page);
    const selected = (): string | null => new URLSearchParams(new URL(tab.url()).hash.split('?')[1]).get('sel');
    for (let next = 0; next < 8; next++) {
      const before = selected();
      await tab.keyboard.press('Enter');
      await expect.poll(selected).not.toBe(before);
      await page.panel.locator('.facts').waitFor();
      await tab.waitForTimeout(100);
      await expectUnharmed(page);
    }
    const drawing = await page.canvas.boundingBox();
    if (drawing === null) throw new Error('The lanes must be in view');
    // Hovers over everything, so that every tooltip is shown.
    for (let x = 20; x < drawing.width; x += 60) await tab.mouse.move(drawing.x + x, drawing.y + 80);
    await expectUnharmed(page);
    await page.goTo(`#/timeline?run=${run}&area=-1000000000_1000000000_`);
    await page.panel.locator('tbody tr').first().waitFor();
    await expectUnharmed(page);
    await tab.getByRole('tab', { name: 'Flame graph' }).click();
    await tab.locator('[data-node]').nth(1).waitFor();
    await expectUnharmed(page);
  });

  it.each(['rank0', 'hostile'])('%s: they are text in the file of report --html, too', async (run) => {
    const file = join(directory, `${run}.html`);
    const input = run === 'rank0' ? [kineto] : [join(directory, 'runs'), '--run', run];
    const { code, stderr } = await runLine(['report', ...input, '--html', '-o', file]);
    expect(code, stderr).toBe(0);
    expect(statSync(file).size).toBeLessThan(2 << 20);
    await using tab = await browser.open(pathToFileURL(file).href);
    await tab.page.locator('.report h1').waitFor();
    for (const more of await tab.page.getByRole('button', { name: /^(As a table|Next|Figures of)/ }).all()) await more.click();
    // Nothing leads to a timeline, as the file has none.
    expect(await tab.page.locator('.step-chart tbody tr').count()).toBeGreaterThan(0);
    expect(await tab.page.locator('tbody button').count()).toBe(0);
    expect(await tab.page.getByText(/in the timeline/).count()).toBe(0);
    expect(tab.problems).toEqual([]);
    expect(await tab.page.evaluate('window.wasRun')).toBeFalsy();
    // Its own script, its data and its style, and nothing else.
    expect(await tab.page.locator('script').count()).toBe(2);
    expect(await tab.page.locator('style').count()).toBe(1);
    expect(await tab.page.locator('img, iframe, object, embed, link, a[href]').count()).toBe(0);
    const text = await tab.page.evaluate(() => document.getElementById('page')?.textContent ?? '');
    expect(/[\p{Bidi_Control}\p{Cc}]/u.test(text.replaceAll(/\s/g, ''))).toBe(false);
    expect(readFileSync(file, 'utf8')).not.toContain('<img src=x');
    // The policy holds: a script that is not its own does not run.
    await tab.page.evaluate(() => {
      const added = document.createElement('script');
      added.textContent = 'window.wasRun = 1';
      document.body.append(added);
    });
    expect(await tab.page.evaluate('window.wasRun')).toBeFalsy();
  });

  it('a name of a megabyte is cut where it is shown, and costs the page no more than that', async () => {
    await using page = await open('rank0', 'timeline');
    await page.settled();
    expect(await page.search('long MMMM')).toBeGreaterThan(0);
    await page.tab.page.keyboard.press('Enter');
    await page.panel.locator('.facts').waitFor();
    expect((await page.tab.page.evaluate(() => document.body.textContent ?? '')).length).toBeLessThan(100_000);
    await expectUnharmed(page);
  });

  it.each([
    `#/timeline?run=${encodeURIComponent(markup[0])}`,
    '#/timeline?run=rank0&from=NaN&until=1e999&sel=-1.9&area=9_1_a&fold=%E0%A4%A&q=%00',
    '#/<script>window.wasRun=1</script>',
    `#/timeline?run=rank0&sel=4294967295.4294967295&group=${encodeURIComponent(markup[1])}`,
    '#/timeline?run=rank0&from=9000000000000000&until=9000000000000001',
  ])('an address cannot break it: %s', async (hash) => {
    await using page = await open('rank0', 'overview');
    await page.goTo(hash);
    await page.tab.page.reload();
    await page.tab.page.getByRole('navigation', { name: 'Views' }).waitFor();
    await page.tab.page.waitForTimeout(500);
    await expectUnharmed(page);
    await page.show('Overview');
  });
});

describe('runs at the edge', () => {
  it('without an event: both views say so', async () => {
    await using page = await open('empty', 'overview');
    await page.tab.page.getByText('No steps were recorded').waitFor();
    await page.show('Timeline');
    await page.tab.page.getByText('No events yet').waitFor();
    await expectUnharmed(page);
  });

  it('with one event of 1 ns: it can be seen, found and selected', async () => {
    await using page = await open('one', 'timeline');
    await page.settled();
    expect(await page.search('the only one')).toBe(1);
    await page.tab.page.keyboard.press('Enter');
    await page.panel.locator('.facts').waitFor();
    expect(await page.text(page.fact('Length'))).toBe('1 ns');
    await page.canvas.focus();
    for (const key of ['f', '0', 'ArrowRight', 'ArrowDown', 'm', 'Escape']) await page.tab.page.keyboard.press(key);
    await page.settled();
    await expectUnharmed(page);
  });

  it('of 30 days: from the whole to a single span, and every hour is a step', async () => {
    await using page = await open('month', 'overview');
    await page.sentence.waitFor();
    expect((await page.text(page.figure('steps'))).replaceAll(/\D/g, '')).toBe('720');
    expect(await page.text(page.sentence)).toContain('55 min');
    await page.show('Timeline');
    await page.settled();
    expect((await page.ink()).part).toBeGreaterThan(0.05);
    expect(await page.search('forward')).toBe(2 * 30 * 24 * 100);
    await page.tab.page.keyboard.press('Enter');
    await page.panel.locator('.facts').waitFor();
    expect(await page.text(page.fact('Length'))).toBe('30 s');
    await page.canvas.focus();
    await page.tab.page.keyboard.press('f');
    await page.settled();
    await page.tab.page.keyboard.press(']');
    await page.settled();
    expect((await page.ink()).part).toBeGreaterThan(0.01);
    await expectUnharmed(page);
  });

  it('with a rank missing, a batch lost, events dropped and a clock that nobody knows: all of it is said', async () => {
    await using page = await open('incomplete', 'overview');
    await page.sentence.waitFor();
    expect(await page.text(page.figure('ranks'))).toBe('3 of 4');
    const { page: tab } = page.tab;
    await tab.waitForFunction(() => !(document.body.textContent ?? '').includes('Looking for causes'));
    const findings = (await page.findings.allTextContents()).join('\n');
    expect(findings).toMatch(/rank 3/i);
    expect(findings).toMatch(/rank 1\b.*missing|missing.*rank 1\b|lost/is);
    await page.show('Timeline');
    await page.settled();
    const rank = (number: number) => tab.locator('.row-header').filter({ hasText: new RegExp(`Rank ${number}`) });
    expect(await page.text(rank(1))).toContain('lost');
    expect(await page.text(rank(0))).toContain('lost');
    expect(await page.text(rank(2))).toContain('unaligned');
    expect((await tab.getByText('1 ranks missing').count()) + (await tab.getByText('1 rank missing').count())).toBe(1);
    await page.tab.picture('incomplete');
    await expectUnharmed(page);
  });
});
