// Compares the page of a GPU job's files with the files themselves. The cases stay together because all of them look at one page, and at the same sums.

import { readFileSync, statSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { violationsOn } from './axe.ts';
import type { StartedBrowser, TabOptions } from './browser.ts';
import { isInstant, isSpan, type KinetoFileEvent, kinetoFileEvents } from './gpu-job-files.ts';
import { type ServedPage, startView } from './viewed-runs.ts';
import { csvOf, ViewerPage } from './viewer-page.ts';
import { runLine } from './warm-command.ts';

export interface GpuJobOnDisk {
  readonly browser: StartedBrowser;
  readonly folder: string;
  /** By rank. */
  readonly files: readonly string[];
}

/** Allocations on GPUs in one rank's file: bytes (negative: freed), and the sum after it. */
const memoryMarks = (path: string): { readonly bytes: number; readonly total: number }[] =>
  kinetoFileEvents(path).flatMap(({ name, args }) =>
    name === '[memory]' && args?.['Device Type'] === 1 ? [{ bytes: Number(args.Bytes), total: Number(args['Total Allocated']) }] : [],
  );

/** Adds the cases to the calling suite; the job must exist when its `beforeAll` have run. */
export function gpuJobPageCases(jobOf: () => GpuJobOnDisk): void {
  let all: readonly KinetoFileEvent[];
  let hasMemory: boolean;
  let ranks: readonly string[];
  let view: ServedPage;
  beforeAll(async () => {
    const { folder, files } = jobOf();
    const events = files.flatMap(kinetoFileEvents);
    hasMemory = events.some(({ name }) => name === '[memory]');
    all = events.filter((event) => isSpan(event) || (isInstant(event) && event.name !== '[memory]'));
    ranks = files.map((_, rank) => `${rank}`);
    view = await startView([folder]);
    await view.command.said('indexed');
  });
  afterAll(() => view?.end());

  const open = async (address: string, options?: TabOptions): Promise<ViewerPage & AsyncDisposable> => {
    const tab = await jobOf().browser.open(address, options);
    return Object.assign(new ViewerPage(tab), { [Symbol.asyncDispose]: () => tab[Symbol.asyncDispose]() });
  };

  /** A name that kernels alone have: compiled code has the name of its op. */
  const kernelName = (): string => {
    const others = [...new Set(all.filter(({ cat }) => cat !== 'kernel').map(({ name }) => name))];
    const kernel = all.find(
      ({ cat, name }) => cat === 'kernel' && !name.startsWith('nccl') && !others.some((other) => other.includes(name)),
    );
    return kernel?.name ?? '';
  };

  it('begins with what a step takes, of each rank, and of what it is made', async () => {
    await using page = await open(view.address);
    await page.sentence.waitFor();
    const steps = new Set(all.filter(({ name }) => name.startsWith('ProfilerStep#')).map(({ name }) => name));
    // A step is as long as hosts say until the run is analysed; then as GPUs say where they differ from hosts.
    await expect.poll(() => page.text(page.sentence)).toMatch(/^A step takes [\d.]+ ms(?: on the GPUs)?\. /);
    expect(await page.figure('ranks').textContent()).toBe(String(ranks.length));
    expect(await page.figure('steps').textContent()).toBe(String(steps.size));
    const heat = page.tab.page.locator('.heat-canvas');
    await heat.waitFor();
    await page.frames(10);
    expect((await page.ink(heat)).colours).toBeGreaterThan(8);
    await page.analysed();
    const gpus = page.tab.page.locator('.gpu-bars .phase-row');
    expect(await gpus.count()).toBe(Math.min(8, ranks.length));
    for (const about of await gpus.locator('button.is-link').allTextContents()) {
      expect(about).toMatch(/^rank \d+: compute [\d.]+\s\S+, .*Show in the timeline$/);
    }
    // A rank unfolds: its parts with their times, and its kernels.
    await gpus
      .first()
      .getByRole('button', { name: /^Figures of rank/ })
      .click();
    expect(await page.text(page.tab.page.locator('.gpu-figures').first())).toMatch(
      /^compute ?[\d.]+ \S+ \([\d.]+ %\).*kernels ?.+ [\d.]+ (µs|ms)$/,
    );
    const shares = (await gpus.locator('.phase-excess').allTextContents()).map((text) => Number(/^([\d.]+) % busy$/.exec(text)?.[1]));
    expect(shares).toEqual([...shares].sort((a, b) => a - b));
    await page.tab.picture('overview');
    expect(page.tab.problems).toEqual([]);
  });

  it('sums up operators and kernels as the files have them, and leads from a line to its longest event', async () => {
    await using page = await open(`${view.address}#/profile`);
    const { page: tab } = page.tab;
    const rows = tab.locator('.profile .data-table tbody tr');
    await rows.first().waitFor();
    await page.tab.picture('profile');
    await tab.getByRole('tab', { name: 'Operators' }).click();
    const mm = tab.locator('.profile tbody tr').filter({ hasText: /^aten::mm\d/ });
    const cells = await mm.locator('td').allTextContents();
    expect(Number(cells[1]?.replaceAll(/\D/g, ''))).toBe(all.filter(({ name, cat }) => name === 'aten::mm' && cat === 'cpu_op').length);
    await page.tab.picture('operators');
    await tab.getByRole('tab', { name: 'Kernels' }).click();
    const kernels = all.filter(({ cat, ph }) => cat === 'kernel' && ph === 'X');
    const saving = tab.waitForEvent('download');
    await tab.getByRole('button', { name: 'CSV of Kernels', exact: true }).click();
    const download = await saving;
    expect(download.suggestedFilename()).toBe('kernels.csv');
    const [head, ...lines] = readFileSync(await download.path(), 'utf8')
      .trimEnd()
      .split('\r\n');
    expect(head).toMatch(/^Kernel,Kind,Calls,Total \(ns\),/);
    const calls = lines.map((line) => Number(/^(?:"(?:[^"]|"")*"|[^,]*),\w+,(\d+),/.exec(line)?.[1]));
    // The table has the longest ones of each rank, and below it the number of the others.
    const rest = /and ([\d\s,]+) more kernels/.exec((await tab.locator('.profile').textContent()) ?? '')?.[1] ?? '0';
    expect(calls.reduce((sum, count) => sum + count, Number(rest.replaceAll(/\D/g, '')))).toBe(kernels.length);
    // The tables of one rank.
    await tab.locator('.profile-rank select').selectOption('1');
    await tab.getByRole('table', { name: 'Kernels of rank 1', exact: true }).waitFor();
    const name = await tab
      .getByRole('table', { name: 'Kernels of rank 1', exact: true })
      .locator('tbody button')
      .first()
      .getAttribute('title');
    await tab.getByRole('table', { name: 'Kernels of rank 1', exact: true }).locator('tbody button').first().click();
    await page.panel.locator('.facts').waitFor();
    expect(await page.fact('Where').textContent()).toContain('rank 1 ');
    expect(name).toContain('show the longest in the timeline');
    await expect.poll(() => tab.url()).toMatch(/sel=r1-\w+_-?\d+_\d+_\w+/);
    expect(page.tab.problems).toEqual([]);
  });

  it('shows memory as the files have it: the peak of each GPU, its categories that add up to it, and what was allocated', async () => {
    if (!hasMemory) return;
    await using page = await open(`${view.address}#/profile`);
    const { page: tab } = page.tab;
    await tab.getByRole('tab', { name: 'Memory' }).click();
    const [memory, kinds, held, allocators] = [
      await csvOf(tab, 'Memory'),
      await csvOf(tab, 'Memory at its peak by category'),
      await csvOf(tab, 'Memory at its peak by operator'),
      await csvOf(tab, 'Allocations by operator'),
    ];
    const sum = (values: readonly number[]): number => values.reduce((all, value) => all + value, 0);
    const ofRank = (rows: readonly Record<string, string>[], rank: string) =>
      rows.filter((row) => row.Rank === rank && row.Device?.startsWith('GPU'));
    for (const [at, path] of jobOf().files.entries()) {
      const rank = `${at}`;
      const marks = memoryMarks(path);
      const [row, ...others] = ofRank(memory, rank);
      expect(others).toEqual([]);
      const peak = Number(row?.['Peak (B)']);
      expect([peak, Number(row?.Allocations)], rank).toEqual([
        Math.max(...marks.map(({ total }) => total)),
        marks.filter(({ bytes }) => bytes > 0).length,
      ]);
      expect(sum(ofRank(kinds, rank).map((kind) => Number(kind['At the peak (B)']))), rank).toBe(peak);
      // Less than the peak by what was there before the recording.
      expect(sum(ofRank(held, rank).map((one) => Number(one['At the peak (B)']))), rank).toBeLessThanOrEqual(peak);
    }
    const allocated = jobOf().files.flatMap((path) => memoryMarks(path).filter(({ bytes }) => bytes > 0));
    const ofGpus = allocators.filter(({ Device }) => Device?.startsWith('GPU'));
    expect(sum(ofGpus.map((line) => Number(line['Allocated (B)'])))).toBe(sum(allocated.map(({ bytes }) => bytes)));
    // Each GPU's memory over time is drawn, up to a few of them.
    expect(await tab.locator('.profile .card').first().locator('svg, canvas').count()).toBeGreaterThan(0);
    expect(page.tab.problems).toEqual([]);
  });

  it('colours ranks by own work, waiting, busy GPUs or a phase', async () => {
    await using page = await open(view.address);
    await page.sentence.waitFor();
    await page.analysed();
    const { page: tab } = page.tab;
    const cells = tab.locator('.heat-controls').getByLabel('Cells');
    expect(await cells.inputValue()).toBe('own');
    const heat = tab.locator('.heat-map');
    for (const measure of ['own', 'waiting', 'busy', 'mean']) {
      await cells.selectOption(measure);
      await page.frames(5);
      const box = await heat.locator('canvas').boundingBox();
      await tab.mouse.move((box?.x ?? 0) + (box?.width ?? 0) / 2, (box?.y ?? 0) + (box?.height ?? 0) / 2);
      await expect
        .poll(() => heat.locator('.heat-reading').textContent(), { message: measure })
        .toMatch(/^Rank \d+, steps? [\d–]+: .*[\d.]+\s(µs|ms), [+−]?[\d.]+\s%/);
    }
    expect(page.tab.problems).toEqual([]);
  });

  it('is one file that needs nothing else: report --html', async () => {
    const { folder, browser } = jobOf();
    const file = `${folder}-report.html`;
    const { code, stdout, stderr } = await runLine(['report', folder, '--html', '-o', file]);
    expect(code, stderr).toBe(0);
    expect(stdout).toMatch(/^report: .*-report\.html \([\d.]+ [KM]iB; open it in a browser\)\n$/);
    expect(statSync(file).size).toBeLessThan(1 << 20);
    for (const colorScheme of ['light', 'dark'] as const) {
      await using tab = await browser.open(pathToFileURL(file).href, { colorScheme });
      const requests: string[] = [];
      tab.page.on('request', (request) => requests.push(request.url()));
      await tab.page.reload();
      await tab.page.locator('.report h1').waitFor();
      await tab.page.waitForTimeout(300);
      expect(requests).toEqual([pathToFileURL(file).href]);
      const titles = (await tab.page.locator('.card > h2').allTextContents()).join('\n');
      for (const title of [
        'Findings',
        'Step time',
        'Each rank',
        'What the GPUs did',
        'What to change',
        'Critical path',
        'Idle time',
        'Operators',
        'Kernels',
        ...(hasMemory ? ['Memory'] : []),
        'Communication',
        'Ranks',
      ]) {
        expect(titles).toContain(title);
      }
      expect(await tab.page.locator('.report .card button', { hasText: 'rank 0' }).count()).toBe(0);
      expect(await tab.page.locator('.profile-path caption').allTextContents()).toContain('What parts of the critical path are worth');
      expect(await violationsOn(tab.page)).toEqual([]);
      expect(tab.problems).toEqual([]);
      if (colorScheme === 'light') await tab.picture('report');
      // The figures are those of the page.
      if (colorScheme === 'light') {
        await using page = await open(view.address);
        await page.sentence.waitFor();
        await page.analysed();
        const plain = (text: string | null): string => (text ?? '').replaceAll(/\s+/g, ' ').trim();
        expect(plain(await tab.page.locator('.overview-sentence').textContent())).toBe(await page.text(page.sentence));
        expect(await tab.page.locator('.gpu-bars .phase-excess').allTextContents()).toEqual(
          await page.tab.page.locator('.gpu-bars .phase-excess').allTextContents(),
        );
      }
    }
  });

  it('draws every rank, and finds every event by its name', async () => {
    await using page = await open(view.address);
    await page.show('Timeline');
    await page.settled();
    expect(await page.rows.allTextContents()).toContain('Rank 0');
    expect((await page.ink()).part).toBeGreaterThan(0.1);
    await page.frames(10);
    await page.settled();
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

  it('copies an event as text, and an address that opens it for somebody else', async () => {
    await using page = await open(`${view.address}#/timeline?area=-1000000000_1000000000_`);
    const { page: tab } = page.tab;
    await tab.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    const row = page.panel
      .locator('tbody tr')
      .filter({ hasText: /^all_gather/ })
      .first();
    await row.getByTitle('Go to the longest').click();
    await tab.keyboard.press('Escape');
    await page.panel.locator('.partners tbody tr').first().waitFor();
    const copied = async (button: string, begin: RegExp): Promise<string> => {
      const clipboard = () => tab.evaluate(() => navigator.clipboard.readText());
      await tab.getByRole('button', { name: button }).click();
      await expect.poll(clipboard).toMatch(begin);
      return clipboard();
    };
    const text = await copied('Copy details', /^all_gather\n/);
    await page.panel.getByText('copied').waitFor();
    // Every fact of the panel, and each other rank.
    for (const fact of await page.panel.locator('.facts tr').all()) {
      const [name, value] = [await page.text(fact.locator('th')), await page.text(fact.locator('td'))];
      expect(text.replaceAll(/\s+/g, ' ')).toContain(`${name} ${value}`);
    }
    const own = /rank (\d+) on/.exec(text)?.[1];
    for (const rank of ranks.filter((other) => other !== own)) expect(text).toMatch(new RegExp(`^rank ${rank} +Start `, 'm'));
    const address = await copied('Copy link', /^http/);
    expect(address).toMatch(/#\/timeline\?run=[^&]+&from=-?\d+&until=-?\d+&sel=r\d+-\w+_-?\d+_\d+_\w+$/);
    await using other = await open(address);
    await other.settled();
    await other.panel.locator('.facts').waitFor();
    expect(await other.fact('Start').textContent()).toBe(await page.fact('Start').textContent());
    expect(await other.fact('Where').textContent()).toBe(await page.fact('Where').textContent());
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
    // The event has its name in the address once its details are there.
    await expect.poll(() => page.tab.page.url()).toContain('sel=');
    await keyboard.down('w');
    await page.tab.page.waitForTimeout(300);
    await keyboard.up('w');
    // By the page's own clock: it writes its address a while after it has moved, and glides on for a while where frames are slow.
    const later = () => page.tab.page.evaluate(() => new Promise<string>((told) => setTimeout(() => told(location.href), 600)));
    let address = await later();
    for (let before = ''; address !== before; ) [before, address] = [address, await later()];
    expect(address).toMatch(/#\/timeline\?.*from=.*until=.*sel=/);
    await using other = await open(address);
    await other.settled();
    await other.panel.waitFor();
    // The panel opens before it has its event's name.
    await other.tab.page.locator('.only-aloud', { hasText: /\S/ }).waitFor({ state: 'attached' });
    expect(await other.tab.page.locator('.only-aloud').textContent()).toBe(await aloud.textContent());
    expect(await other.tab.page.locator('.corner').textContent()).toBe(await page.tab.page.locator('.corner').textContent());
    await keyboard.press('?');
    await page.tab.page.getByRole('dialog').waitFor();
    await page.tab.picture('keys');
    await keyboard.press('Escape');
    expect(await page.tab.page.getByRole('dialog').count()).toBe(0);
    expect(page.tab.problems).toEqual([]);
  });

  it('has a line for each rank with its GPU, and opens to streams first; layers can be hidden, and a link keeps that', async () => {
    // So low that the rows of one rank do not fit.
    await using page = await open(view.address, { height: 480 });
    await page.show('Timeline');
    await page.settled();
    expect(await page.rows.allTextContents()).toEqual(ranks.map((rank) => `Rank ${rank}`));
    await page.tab.page.getByRole('button', { name: 'Unfold Rank 1' }).click();
    await page.settled();
    expect((await page.rows.allTextContents())[2]).toMatch(/^GPU 1 · stream \d+$/);
    const { mouse } = page.tab.page;
    await page.canvas.hover({ position: { x: 300, y: 200 } });
    await mouse.wheel(0, 110);
    await page.frames(5);
    await page.tab.page.locator('.headers-sticky .row-label', { hasText: 'Rank 1' }).waitFor();
    await page.tab.page.getByRole('button', { name: 'Host', exact: true }).click();
    await page.frames(5);
    const shown = await page.rows.allTextContents();
    expect(shown.filter((label) => /thread|python|main/i.test(label))).toEqual([]);
    await expect.poll(() => page.tab.page.url()).toContain('hide=host');
    await using other = await open(page.tab.page.url());
    await other.settled();
    expect(await other.tab.page.getByRole('button', { name: 'Host', exact: true }).getAttribute('aria-pressed')).toBe('false');
    expect(page.tab.problems).toEqual([]);
  });

  it('leads from a kernel to the call that launched it, and back', async () => {
    await using page = await open(view.address);
    await page.show('Timeline');
    await page.settled();
    await page.search(kernelName());
    // The last one: the first may have been launched before the recording began.
    await page.tab.page.keyboard.press('Shift+Enter');
    const launches = page.panel.locator('.launches');
    await launches.waitFor();
    expect(await launches.locator('h3').textContent()).toBe('Launched by');
    await launches.getByRole('button').first().click();
    await page.tab.page.waitForFunction(() => document.querySelector('.launches h3')?.textContent === 'Launched');
    expect(await page.panel.locator('h2').textContent()).toMatch(/Launch/);
    await launches.getByRole('button').first().click();
    await page.tab.page.waitForFunction(() => document.querySelector('.launches h3')?.textContent === 'Launched by');
    expect(await page.fact('kernel').or(page.panel.locator('h2')).first().textContent()).not.toBe('');
    expect(page.tab.problems).toEqual([]);
  });

  it('finds a collective by the name of its kernel, never loses Enter, and Escape leaves the field', async () => {
    await using page = await open(view.address);
    await page.show('Timeline');
    await page.settled();
    const field = page.tab.page.getByRole('searchbox');
    // Enter comes before the answer to the typed text.
    await field.fill('ncclDevKernel_AllGather');
    await field.press('Enter');
    await page.panel.locator('h2', { hasText: 'all_gather' }).waitFor();
    expect(await page.text(page.fact('sequence'))).toMatch(/^#\d+( of \d+)?/);
    expect(await page.tab.page.locator('.search-list').textContent()).toContain('recorded as ncclDevKernel_All');
    const before = page.tab.page.url();
    for (let press = 0; press < 3; press++) await field.press('Enter');
    await expect.poll(() => page.tab.page.url()).not.toBe(before);
    await field.press('Escape');
    expect(await page.tab.page.evaluate(() => document.activeElement?.className)).toBe('timeline-canvas');
    expect(await field.inputValue()).toBe('ncclDevKernel_AllGather');
    expect(page.tab.problems).toEqual([]);
  });

  it('shows where a link leads, above the panel', async () => {
    await using page = await open(view.address);
    await page.show('Timeline');
    await page.settled();
    await page.search('aten::mm');
    // Backward from the end: the last rank's.
    await page.tab.page.keyboard.press('Shift+Enter');
    await page.panel.locator('.facts').waitFor();
    await page.tab.page.keyboard.press('Escape');
    const rank = /rank (\d+)/.exec((await page.fact('Where').textContent()) ?? '')?.[1];
    const sel = /sel=[\w.-]+/.exec(
      await expect
        .poll(() => page.tab.page.url())
        .toContain('sel=')
        .then(() => page.tab.page.url()),
    )?.[0];
    await using other = await open(`${view.address}#/timeline?${sel}`, { width: 1024, height: 640 });
    await other.settled();
    await other.panel.locator('.facts').waitFor();
    const header = other.tab.page
      .locator('.row-rank, .headers-sticky')
      .filter({ hasText: `Rank ${rank}` })
      .first();
    const [at, panel] = [await header.boundingBox(), await other.panel.boundingBox()];
    expect(at?.y).toBeLessThan(panel?.y ?? 0);
    // Half of a small window is left for lanes.
    const lanes = await other.canvas.boundingBox();
    expect(lanes?.height).toBeGreaterThanOrEqual(320 + 26);
    expect(other.tab.problems).toEqual([]);
  });

  it('draws the critical path, lists its segments, and goes from one to the next', async () => {
    await using page = await open(view.address);
    await page.analysed();
    await page.show('Timeline');
    await page.settled();
    await page.tab.page.getByRole('button', { name: 'Critical path' }).click();
    const path = page.tab.page.locator('.path-panel');
    await path.locator('tbody tr').nth(1).waitFor();
    expect(await page.text(page.panel.locator('h2'))).toMatch(/^Critical path of step \d+, [\d.]+ ms$/);
    await page.tab.page.getByRole('button', { name: 'Zoom to it' }).click();
    await page.settled();
    await page.tab.picture('critical-path');
    await path.locator('tbody button').first().click();
    const chosen = path.locator('tr.is-chosen');
    await chosen.waitFor();
    const first = Number(await chosen.locator('td, th').first().textContent());
    await page.tab.page.getByRole('button', { name: first > 1 ? '← previous' : 'next →' }).click();
    await expect.poll(() => page.tab.page.url()).toContain('path=1');
    await page.settled();
    expect(page.tab.problems).toEqual([]);
  });

  it.each(['light', 'dark'] as const)('has nothing that axe-core finds fault with, %s', async (colorScheme) => {
    await using page = await open(view.address, { colorScheme });
    const { page: tab } = page.tab;
    const found: string[] = [];
    const check = async (what: string): Promise<void> => {
      await page.frames(3);
      found.push(...(await violationsOn(tab)).map((violation) => `${what}: ${violation}`));
    };
    await page.sentence.waitFor();
    await page.analysed();
    await check('overview');
    await page.show('Timeline');
    await page.settled();
    await tab.getByRole('button', { name: 'Legend' }).click();
    await page.search(kernelName());
    await check('search and legend');
    await tab.keyboard.press('Shift+Enter');
    await page.panel.locator('.launches').waitFor();
    await check('details');
    await tab.getByRole('button', { name: 'Sum up' }).click();
    await page.panel.locator('tbody tr').first().waitFor();
    await check('marked area');
    await tab.getByRole('button', { name: 'Critical path' }).click();
    await tab.locator('.path-panel tbody tr').first().waitFor();
    await check('critical path');
    await page.show('Compare');
    await check('compare');
    await page.show('Profile');
    for (const title of ['GPUs', 'Operators', 'Kernels', 'Memory', 'Modules', 'Communication']) {
      await tab.getByRole('tab', { name: title }).click();
      await tab.locator('.profile .card').first().waitFor();
      await check(title);
    }
    expect(found).toEqual([]);
  });

  it('in the dark', async () => {
    await using page = await open(view.address, { colorScheme: 'dark' });
    await page.show('Timeline');
    await page.settled();
    const [red, green, blue] = await page.canvas.evaluate((element) => [
      ...((element as HTMLCanvasElement).getContext('2d')?.getImageData(2, (element as HTMLCanvasElement).height - 2, 1, 1).data ?? []),
    ]);
    expect(Math.max(red ?? 255, green ?? 255, blue ?? 255)).toBeLessThan(64);
    await page.frames(10);
    await page.settled();
    await page.tab.picture('timeline-dark');
    expect(page.tab.problems).toEqual([]);
  });
}
