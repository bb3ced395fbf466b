// The page on recorded runs, in a real Chromium: 8 ranks on H100 GPUs, a straggler that was planted, two runs side by side, 1024 ranks. What
// it shows is held against the files themselves, and against the truth that lies beside them.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type StartedBrowser, startBrowser, type TabOptions } from './setup/browser.ts';
import { repository, runCommand } from './setup/ranktrace-command.ts';
import { type ServedPage, startView } from './setup/viewed-runs.ts';
import { ViewerPage } from './setup/viewer-page.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-viewer-'));
const data = join(repository, '../shared/data/kineto');
let browser: StartedBrowser;
beforeAll(async () => {
  browser = await startBrowser();
});
afterAll(async () => {
  await browser?.[Symbol.asyncDispose]();
  rmSync(directory, { recursive: true });
});

interface FileEvent {
  readonly ph: string;
  readonly name: string;
  readonly cat?: string;
  readonly pid: number | string;
}

async function serve(...args: readonly string[]): Promise<ServedPage> {
  const view = await startView(args);
  await view.command.said('indexed');
  return view;
}

async function open(address: string, options?: TabOptions): Promise<ViewerPage & AsyncDisposable> {
  const tab = await browser.open(address, options);
  return Object.assign(new ViewerPage(tab), { [Symbol.asyncDispose]: () => tab[Symbol.asyncDispose]() });
}

describe('8 ranks on GPUs', () => {
  const events = Array.from({ length: 8 }, (_, rank): FileEvent[] =>
    JSON.parse(gunzipSync(readFileSync(join(data, `nanogpt-8rank/rank${rank}.chrome-trace.json.gz`))).toString()).traceEvents.filter(
      ({ ph, pid }: FileEvent) => ph === 'X' && typeof pid === 'number',
    ),
  );
  const all = events.flat();
  let view: ServedPage;
  beforeAll(async () => {
    view = await serve(join(data, 'nanogpt-8rank'));
  });
  afterAll(() => view?.end());

  it('begins with what a step takes, of each rank, and of what it is made', async () => {
    await using page = await open(view.address);
    await page.sentence.waitFor();
    const steps = new Set(all.filter(({ name }) => name.startsWith('ProfilerStep#')).map(({ name }) => name));
    expect(await page.text(page.sentence)).toMatch(/^A step takes [\d.]+ ms\. /);
    expect(await page.figure('ranks').textContent()).toBe('8');
    expect(await page.figure('steps').textContent()).toBe(String(steps.size));
    const heat = page.tab.page.locator('.heat-canvas');
    await heat.waitFor();
    await page.frames(10);
    expect((await page.ink(heat)).colours).toBeGreaterThan(8);
    await page.analysed();
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
    expect(await partners.locator('th').allTextContents()).toEqual(['0', '1', '2', '3', '4', '5', '6', '7']);
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
});

describe('a planted straggler', () => {
  it.each(['rank1_forward', 'rank2_data_load'])('%s is found in three clicks, and it is the one of truth.json', async (name) => {
    const [fault] = JSON.parse(readFileSync(join(data, 'ddp-4rank', name, 'truth.json'), 'utf8')).fault;
    await using view = await serve(join(data, 'ddp-4rank', name));
    await using page = await open(view.address);
    // Without a click: who, in what, and how much.
    await page.sentence.waitFor();
    expect(await page.text(page.sentence)).toContain(`Rank ${fault.rank} is slow in ${fault.phase}`);
    await page.analysed();
    if (name === 'rank1_forward') await page.tab.picture('straggler');
    // To its lane, to one of its steps, to what was slow in it.
    await page.click(page.sentence.getByRole('button', { name: `Rank ${fault.rank}` }));
    await page.settled();
    const header = page.tab.page.locator('.row-header.row-marked');
    expect(await header.locator('.row-label').allTextContents()).toEqual([`Rank ${fault.rank}`]);
    const [lane, drawing] = await Promise.all([header.boundingBox(), page.canvas.boundingBox()]);
    if (lane === null || drawing === null) throw new Error('The rank must be in view');
    await page.click(page.canvas, { x: drawing.width / 2, y: lane.y + lane.height / 2 - drawing.y });
    await page.panel.locator('.facts').waitFor();
    expect(await page.fact('Where').textContent()).toContain(`rank ${fault.rank} `);
    expect(await page.panel.locator('h2').textContent()).toMatch(/^(ProfilerStep#|step )\d+/i);
    await page.click(page.panel.getByRole('button', { name: 'Sum up' }));
    const slow = page.panel
      .locator('tbody tr')
      .filter({ hasText: new RegExp(`^${fault.phase}`) })
      .first();
    await slow.waitFor();
    expect(page.clicks).toBe(3);
    if (name === 'rank1_forward') await page.tab.picture('straggler-step');
    expect(page.tab.problems).toEqual([]);
  });

  it('nobody is blamed in a run without one', async () => {
    await using view = await serve(join(data, 'ddp-4rank/balanced'));
    await using page = await open(view.address);
    await page.sentence.waitFor();
    await page.analysed();
    expect(await page.text(page.sentence)).toContain('No rank holds the others up');
  });
});

describe('two runs', () => {
  it('are compared: what changed most is on top, and both timelines are below each other', async () => {
    await using view = await serve(join(data, 'ddp-4rank/balanced'), join(data, 'ddp-4rank/rank1_forward'));
    await using page = await open(view.address);
    await page.tab.page.locator('.compare-page').waitFor();
    await page.tab.page.waitForTimeout(500);
    await page.tab.picture('compare');
    await page.tab.page.getByRole('tab', { name: 'Timelines' }).click();
    await page.settled();
    expect(await page.tab.page.locator('.timeline-canvas').count()).toBe(2);
    for (const at of [0, 1]) expect((await page.ink(page.tab.page.locator('.timeline-canvas').nth(at))).part).toBeGreaterThan(0.05);
    await page.tab.picture('compare-timelines');
    expect(page.tab.problems).toEqual([]);
  });
});

describe('1024 ranks', () => {
  let view: ServedPage;
  beforeAll(async () => {
    const options = ['--ranks', '1024', '--steps', '40', '--straggler', '700:backward:+60', '--tensor-parallel', '4', '--pipeline', '4'];
    const { code, stderr } = await runCommand(['simulate', '--out', directory, '--run', 'large', ...options]);
    if (code !== 0) throw new Error(stderr);
    view = await serve(join(directory, 'large'));
  });
  afterAll(() => view?.end());

  it('names the one that is slow, and shows all of them at once', async () => {
    await using page = await open(view.address);
    await page.sentence.waitFor();
    expect(await page.text(page.sentence)).toMatch(
      /Rank 700 (is|and \d+ more \(.*\) are) slow in backward: (up to )?[56]\d(\.\d)? ms more/,
    );
    expect(await page.figure('ranks').textContent()).toMatch(/^1.?024$/);
    await page.frames(10);
    await page.analysed();
    await page.tab.picture('overview-1024-ranks');
    await page.sentence.getByRole('button', { name: 'Rank 700' }).click();
    await page.settled();
    expect(await page.tab.page.locator('.row-marked .row-label').allTextContents()).toEqual(['Rank 700']);
    expect(page.tab.problems).toEqual([]);
  });

  it('opens those that stand out, folds the others, and makes elements only of what is in view', async () => {
    await using page = await open(view.address);
    await page.show('Timeline');
    await page.settled();
    await page.tab.page.getByText('slow', { exact: true }).first().waitFor();
    expect(await page.rows.allTextContents()).toContain('Rank 700');
    expect(await page.rows.count()).toBeLessThan(60);
    await page.tab.picture('timeline-1024-ranks');
    await page.tab.page
      .getByRole('button', { name: /^Unfold .*ranks?/ })
      .first()
      .click();
    await page.settled();
    expect(await page.tab.page.locator('.row-header').count()).toBeLessThan(80);
    await page.tab.page.getByLabel('Group by').selectOption('host');
    await page.settled();
    expect((await page.rows.allTextContents()).some((label) => label.startsWith('node-'))).toBe(true);
    await page.tab.picture('timeline-hosts');
    expect(page.tab.problems).toEqual([]);
  });
});
