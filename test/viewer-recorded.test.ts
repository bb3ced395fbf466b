// The page on recorded runs, in a real Chromium: 8 ranks on GPUs, a planted straggler, two runs side by side, 1024 ranks. The test
// compares it with the files themselves, and with the truth beside them.

import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { gunzipSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { violationsOn } from './setup/axe.ts';
import { type StartedBrowser, startBrowser, type TabOptions } from './setup/browser.ts';
import { writeGpuJob } from './setup/gpu-job-files.ts';
import { gpuJobPageCases } from './setup/gpu-job-page.ts';
import { repository, runCommand } from './setup/ranktrace-command.ts';
import { type ServedPage, startView } from './setup/viewed-runs.ts';
import { csvOf, ViewerPage } from './setup/viewer-page.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-viewer-'));
const data = join(repository, 'test/data/kineto');
let browser: StartedBrowser;
beforeAll(async () => {
  browser = await startBrowser();
});
afterAll(async () => {
  await browser?.[Symbol.asyncDispose]();
  rmSync(directory, { recursive: true });
});

async function serve(...args: readonly string[]): Promise<ServedPage> {
  const view = await startView(args);
  await view.command.said('indexed');
  return view;
}

async function open(address: string, options?: TabOptions): Promise<ViewerPage & AsyncDisposable> {
  const tab = await browser.open(address, options);
  return Object.assign(new ViewerPage(tab), { [Symbol.asyncDispose]: () => tab[Symbol.asyncDispose]() });
}

describe('8 ranks on GPUs (simulated, seed 1)', () => {
  const folder = join(directory, 'gpu-job');
  let job: ReturnType<typeof writeGpuJob>;
  beforeAll(() => {
    job = writeGpuJob(folder, { seed: 1, steps: 6 });
  });

  gpuJobPageCases(() => ({ browser, folder, files: job.paths }));
});

describe('an op that launches the same kernels again and again', () => {
  const kernels = ['mean_kernel', 'variance_kernel', 'scale_kernel'];
  const folder = join(directory, 'sequences');
  /** By rank: how often the op ran. */
  const times: number[] = [];
  /** Twice in each step of both ranks, on a thread and a stream of its own: three kernels of 5, 6 and 7 µs. */
  beforeAll(() => {
    for (const path of writeGpuJob(folder, { seed: 2, ranks: 2, steps: 6 }).paths) {
      const file = JSON.parse(gunzipSync(readFileSync(path)).toString()) as { traceEvents: Record<string, unknown>[] };
      const { traceEvents } = file;
      const marks = traceEvents.filter(({ name, cat }) => cat === 'user_annotation' && String(name).startsWith('ProfilerStep#'));
      const kernel = traceEvents.find(({ cat }) => cat === 'kernel') as { pid: number; args: { device: number } };
      times.push(2 * marks.length);
      let correlation = 900_000;
      for (const { pid, ts } of marks as { pid: number; ts: number }[]) {
        for (const begin of [ts + 300, ts + 500]) {
          const host = { ph: 'X', pid, tid: 77_777 };
          traceEvents.push({ ...host, cat: 'cpu_op', name: 'custom::norm', ts: begin, dur: 60, args: { 'External id': ++correlation } });
          for (const [at, name] of kernels.entries()) {
            const [call, about] = [begin + 5 + 15 * at, { correlation: ++correlation, 'External id': correlation }];
            traceEvents.push(
              { ...host, cat: 'cuda_runtime', name: 'cudaLaunchKernel', ts: call, dur: 4, args: { ...about, cbid: 211 } },
              {
                ...{ ph: 'X', cat: 'kernel', name, pid: kernel.pid, tid: 99, ts: call + 6, dur: 5 + at },
                args: { ...about, device: kernel.args.device, stream: 99 },
              },
            );
          }
        }
      }
      writeFileSync(path, gzipSync(JSON.stringify(file)));
    }
  });

  it('is a line of the sequences, with their number and time, of all ranks and of one', async () => {
    await using view = await serve(folder);
    await using page = await open(`${view.address}#/profile`);
    const { page: tab } = page.tab;
    await tab.getByRole('tab', { name: 'Kernels' }).click();
    const of = (rows: readonly Record<string, string>[]) => rows.find(({ Operator }) => Operator === 'custom::norm');
    const [first = 0, second = 0] = times;
    const line = (count: number) => ({
      Operator: 'custom::norm',
      Kernels: '3',
      'First kernels': kernels.join(),
      Times: `${count}`,
      'Total (ns)': `${count * 18_000}`,
    });
    const table = 'Frequent sequences of kernels';
    expect(of(await csvOf(tab, table))).toEqual(line(first + second));
    expect(await page.text(tab.getByRole('table', { name: table }).locator('tbody tr').filter({ hasText: 'custom::norm' }))).toContain(
      kernels.join(', '),
    );
    expect(await violationsOn(tab)).toEqual([]);
    await tab.locator('.profile-rank select').selectOption('1');
    await tab.getByRole('table', { name: `${table} of rank 1` }).waitFor();
    expect(of(await csvOf(tab, `${table} of rank 1`))).toEqual(line(second));
    // The address holds the rank and the tables: a page that is opened there shows the same, and Back returns to all ranks.
    await expect.poll(() => tab.url()).toMatch(/[?&]rank=1\b/);
    await tab.reload();
    await tab.getByRole('table', { name: `${table} of rank 1` }).waitFor();
    await tab.goBack();
    await tab.getByRole('table', { name: table, exact: true }).waitFor();
    // An address may name a rank that the run does not have.
    await tab.evaluate(() => {
      location.hash = location.hash.replace(/&rank=\d+|$/, '&rank=99');
    });
    await tab.getByText('Rank 99 has no tables.').waitFor();
    await tab.locator('.profile-rank select').selectOption('1');
    await tab.getByRole('table', { name: `${table} of rank 1` }).waitFor();
    expect(page.tab.problems).toEqual([]);
  });
});

describe('a planted straggler', () => {
  it.each(['rank1_forward', 'rank2_data_load'])('%s is found in three clicks, and it is the one of truth.json', async (name) => {
    const [fault] = JSON.parse(readFileSync(join(data, 'ddp-4rank', name, 'truth.json'), 'utf8')).fault;
    await using view = await serve(join(data, 'ddp-4rank', name));
    await using page = await open(view.address);
    // Without a click: the rank, the phase and the cost.
    await page.sentence.waitFor();
    expect(await page.text(page.sentence)).toContain(`Rank ${fault.rank} is slow in ${fault.phase}`);
    await page.analysed();
    if (name === 'rank1_forward') await page.tab.picture('straggler');
    // To its lane, to one of its steps, to the slow part of it.
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
    // A click on the rank's name folds and unfolds it, as that on the arrow does.
    const arrow = header.locator('.row-fold');
    const before = await arrow.getAttribute('aria-expanded');
    await header.locator('.row-label').click();
    await expect.poll(() => arrow.getAttribute('aria-expanded')).not.toBe(before);
    expect(page.tab.problems).toEqual([]);
  });

  it('nobody is blamed in a run without one', async () => {
    await using view = await serve(join(data, 'ddp-4rank/balanced'));
    await using page = await open(view.address);
    await page.sentence.waitFor();
    await page.analysed();
    expect(await page.text(page.sentence)).toContain('No rank holds the others up');
    // Lost batches and events are no sum.
    const [line = {}] = await csvOf(page.tab.page, 'Ranks');
    expect([line['Missing batches'], line['Dropped events'], line.Lost]).toEqual(['0', '0', undefined]);
    await page.tab.page.keyboard.press('?');
    // Its text is there before it opens.
    await page.tab.page.locator('dialog.help').waitFor();
    expect(await page.text(page.tab.page.locator('dialog.help'))).toContain('1234Overview, Timeline, Compare, Profile');
    await page.tab.page.keyboard.press('Escape');
    // With Alt, Ctrl or Meta a key is the browser's: back, a larger page.
    const takes = (at: string, key: string, about: object): Promise<boolean> =>
      page.tab.page
        .locator(at)
        .first()
        .evaluate((of, init) => !of.dispatchEvent(new KeyboardEvent('keydown', init)), {
          ...{ key, bubbles: true, cancelable: true },
          ...about,
        });
    for (const at of ['.step-chart-plot', '.heat-scroll']) {
      expect([await takes(at, 'ArrowLeft', { altKey: true }), await takes(at, 'ArrowLeft', {})]).toEqual([false, true]);
    }
    expect(await takes('.step-chart-plot', '+', { ctrlKey: true })).toBe(false);
    await page.show('Profile');
    expect(await takes('.profile [role=tab]', 'ArrowRight', { altKey: true })).toBe(false);
  });
});

describe('two runs', () => {
  it('are compared: what changed most is on top, and both timelines are below each other', async () => {
    await using view = await serve(join(data, 'ddp-4rank/balanced'), join(data, 'ddp-4rank/rank1_forward'));
    await using page = await open(view.address);
    await page.tab.page.locator('.compare-page').waitFor();
    await page.tab.page.waitForTimeout(500);
    // The verdict of `ranktrace check` on top; the planted phase is slower, and nothing that a run lacks counts as faster.
    await page.tab.page.locator('.compare-verdict').waitFor();
    expect(await page.tab.page.locator('.compare-verdict').textContent()).toMatch(/B is slower: \+\d/);
    const slow = page.tab.page.locator('.compare-names tbody tr').filter({ hasText: /^forwardop/ });
    await slow.waitFor();
    expect(await slow.textContent()).toMatch(/slower.*1: \+\d/);
    // The file has what is shown, with signs and in ns, and no column that no program can read.
    const forward = (await csvOf(page.tab.page, 'Time by name in A and B')).find(({ Name }) => Name === 'forward') ?? {};
    expect(Object.keys(forward).slice(2)).toEqual(
      ['A (ns)', 'B (ns)', 'B − A (ns)', 'Is', 'Whole A (ns)', 'Whole B (ns)', 'Count A (1)', 'Count B (1)'].concat('Ranks'),
    );
    expect(Number(forward['B − A (ns)'])).toBeCloseTo(Number(forward['B (ns)']) - Number(forward['A (ns)']), 0);
    expect(await slow.textContent()).toContain(forward.Ranks);
    expect(await violationsOn(page.tab.page)).toEqual([]);
    await page.tab.picture('compare');
    await page.tab.page.getByRole('tab', { name: 'Timelines' }).click();
    await page.settled();
    expect(await page.tab.page.locator('.timeline-canvas').count()).toBe(2);
    for (const at of [0, 1]) expect((await page.ink(page.tab.page.locator('.timeline-canvas').nth(at))).part).toBeGreaterThan(0.05);
    await page.tab.picture('compare-timelines');
    // The other way round, each lies beside the other at the same times.
    const shift = (): number => Number(new URLSearchParams(page.tab.page.url().split('?').at(-1)).get('shift'));
    await expect.poll(shift).not.toBe(0);
    const before = shift();
    // An empty field is no step to put below each other.
    const step = page.tab.page.locator('.compare-at input');
    await step.fill('');
    await page.tab.page.getByRole('button', { name: 'Put below each other' }).click();
    expect(await step.evaluate((field) => (field as HTMLInputElement).validity.valueMissing)).toBe(true);
    expect(shift()).toBe(before);
    await page.tab.page.locator('label.field select').nth(0).selectOption('rank1_forward');
    await page.tab.page.locator('label.field select').nth(1).selectOption('balanced');
    await expect.poll(shift).toBe(-before);
    expect(page.tab.problems).toEqual([]);
  });
});

describe('two runs, one of them without steps', () => {
  const folder = join(directory, 'no-steps');
  beforeAll(() => {
    for (const path of writeGpuJob(folder, { seed: 7, ranks: 2, steps: 4 }).paths) {
      const file = JSON.parse(gunzipSync(readFileSync(path)).toString()) as { traceEvents: { name: string }[] };
      const traceEvents = file.traceEvents.filter(({ name }) => !name.startsWith('ProfilerStep#'));
      writeFileSync(path, gzipSync(JSON.stringify({ ...file, traceEvents })));
    }
  });

  it('are compared with the reservation that its times are of the whole recording; its ranks are not missing', async () => {
    await using view = await serve(join(data, 'ddp-4rank/balanced'), folder);
    await using page = await open(view.address);
    const compared = page.tab.page.locator('.compare-page');
    await compared.getByText('B was not recorded in steps: its times are of the whole recording').waitFor();
    expect(await page.text(compared)).toContain('B: no steps of this rank');
    expect(await page.text(compared.locator('.compare-times'))).toContain('ranks with steps40');
    expect(page.tab.problems).toEqual([]);
  });
});

describe('kernels alone, without steps and launches', () => {
  const folder = join(directory, 'kernels-alone');
  const launched = new Set(['kernel', 'gpu_memcpy', 'gpu_memset']);
  beforeAll(() => {
    for (const path of writeGpuJob(folder, { seed: 7, ranks: 2, steps: 4 }).paths) {
      const file = JSON.parse(gunzipSync(readFileSync(path)).toString()) as { traceEvents: { ph: string; cat?: string }[] };
      const traceEvents = file.traceEvents.filter(({ ph, cat = '' }) => ph !== 'X' || launched.has(cat));
      writeFileSync(path, gzipSync(JSON.stringify({ ...file, traceEvents })));
    }
  });

  it('have advice of the whole recording, and no queues of launches', async () => {
    await using view = await serve(folder);
    await using page = await open(view.address);
    await page.show('Profile');
    const advice = page.tab.page.locator('.profile-advice');
    expect(await page.text(advice)).toMatch(/^Communicate less .* communication alone takes [\d.]+ % of the time, over 10.0 %\.$/);
    const device = page.tab.page.locator('table', { hasText: 'Longest queue' }).locator('tbody tr').first();
    expect((await device.locator('td').allTextContents()).slice(-4)).toEqual(['–', '–', '–', '–']);
    expect(page.tab.problems).toEqual([]);
  });
});

describe('1024 ranks', () => {
  let view: ServedPage;
  beforeAll(async () => {
    // With fewer steps the page is not yet sure of the one rank among so many.
    const options = ['--ranks', '1024', '--steps', '40', '--straggler', '700:backward:+60', '--tensor-parallel', '4', '--pipeline', '4'];
    const { code, stderr } = await runCommand(['simulate', '--out', directory, '--run', 'large', ...options]);
    if (code !== 0) throw new Error(stderr);
    view = await serve(join(directory, 'large'));
  });
  afterAll(() => view?.end());

  it('names the one that is slow, and shows all of them at once', { timeout: 10 * 60_000 }, async () => {
    await using page = await open(view.address);
    await page.sentence.waitFor();
    // Its estimate names it alone, as the analysis does: ranks that wait for it inside of phases are not slow.
    await expect
      .poll(() => page.text(page.sentence), { timeout: 4 * 60_000 })
      .toMatch(/Rank 700 is slow in backward: [56]\d(\.\d)?.ms (more|per step)/);
    expect(await page.figure('ranks').textContent()).toMatch(/^1.?024$/);
    await page.frames(10);
    await page.analysed();
    await page.tab.picture('overview-1024-ranks');
    await page.sentence.getByRole('button', { name: 'Rank 700' }).click();
    await page.settled();
    expect(await page.tab.page.locator('.row-marked .row-label').allTextContents()).toEqual(['Rank 700']);
    expect(page.tab.problems).toEqual([]);
  });

  it('are one file of a few MB with report --html, in which the planted rank is marked', { timeout: 10 * 60_000 }, async () => {
    const file = join(directory, 'large.html');
    const { code, stderr } = await runCommand(['report', join(directory, 'large'), '--html', '-o', file]);
    expect(code, stderr).toBe(0);
    expect(statSync(file).size).toBeLessThan(6 << 20);
    await using tab = await browser.open(pathToFileURL(file).href);
    await tab.page.locator('.heat-canvas').waitFor();
    expect(await tab.page.locator('.heat-controls').getByLabel('Cells').inputValue()).toBe('own');
    // Its row is on top of the map: the cells that stand out most are all of rank 700.
    await tab.page.locator('.heat-map').getByRole('button', { name: 'As a table' }).click();
    const cells = tab.page.getByRole('table', { name: /^The 50 cells of the heat map/ }).locator('tbody tr');
    expect(new Set(await cells.locator('td').nth(0).allTextContents())).toEqual(new Set(['700']));
    expect(tab.problems).toEqual([]);
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
