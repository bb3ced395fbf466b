// The page of a live run, in a real Chromium: from the first rank's first batch to the last one's end, with a rank that comes late and
// a service that is killed and comes back under the open page.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { type StartedBrowser, startBrowser } from './setup/browser.ts';
import { startRanks } from './setup/rank-programs.ts';
import { startCommand } from './setup/ranktrace-command.ts';
import { freePort } from './setup/server-process.ts';
import { servedBy } from './setup/viewed-runs.ts';
import { ViewerPage } from './setup/viewer-page.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-live-'));
let browser: StartedBrowser;
beforeAll(async () => {
  browser = await startBrowser();
});
afterAll(async () => {
  await browser?.[Symbol.asyncDispose]();
  rmSync(directory, { recursive: true });
});

async function open(address: string): Promise<ViewerPage & AsyncDisposable> {
  const tab = await browser.open(address);
  return Object.assign(new ViewerPage(tab), { [Symbol.asyncDispose]: () => tab[Symbol.asyncDispose]() });
}

const wait = (page: ViewerPage, text: string): Promise<unknown> =>
  page.tab.page.waitForFunction((wanted) => document.querySelector('header.top')?.textContent?.includes(wanted), text, {
    timeout: 4 * 60_000,
  });

const stepsShown = async (page: ViewerPage): Promise<number> => Number((await page.text(page.figure('steps'))).replaceAll(/\D/g, ''));

async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 60_000;
  while (!(await isSo())) {
    if (performance.now() > deadline) throw new Error(`It must come to this within a minute: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

it('the demo, live from start to end: ranks appear, steps grow, the window moves on, and in the end everything is there', async () => {
  const steps = 1500;
  const train = [process.execPath, 'examples/mnist-data-parallel/dist/train.js', '--epochs', '25', '--max-steps', String(steps)];
  const command = startCommand(['run', '--ranks', '2', '--view', '--name', 'demo', '--out', directory, '--', ...train]);
  await using view = await servedBy(command);
  await using page = await open(view.address);
  await wait(page, 'live');
  await until('the first steps are shown', async () => (await page.sentence.count()) > 0 && (await stepsShown(page)) > 0);
  const early = await stepsShown(page);
  await until('there are more steps', async () => (await stepsShown(page)) > early);
  await page.show('Timeline');
  await until('both ranks have lanes', async () => (await page.rows.allTextContents()).filter((row) => /^Rank \d$/.test(row)).length === 2);
  const corner = page.tab.page.locator('.corner');
  const before = await corner.textContent();
  await until('the window moves on', async () => (await corner.textContent()) !== before);
  await page.tab.picture('live');
  await command.said('view: still at');
  await until('it is over', async () => !(await page.text(page.tab.page.locator('header.top'))).includes('live'));
  await page.show('Overview');
  await until('all steps are shown', async () => (await stepsShown(page)) === steps);
  await page.tab.page.getByText('Looking for causes').waitFor({ state: 'detached' });
  expect(await page.text(page.figure('ranks'))).toBe('2');
  await page.show('Timeline');
  await page.settled();
  expect(await page.search('backward')).toBeGreaterThanOrEqual(2 * steps);
  expect(page.tab.problems).toEqual([]);
  expect((await view.end()).code).toBe(0);
});

it('a rank that comes late is missing, then there', async () => {
  await using service = await servedBy(startCommand(['serve', '--listen', '127.0.0.1:0', '--out', join(directory, 'late')]));
  const url = service.address.replace('http', 'ws').replace(/\/$/, '');
  const environment = { RANKTRACE_URL: url, RANKTRACE_RUN: 'late', WORLD_SIZE: '2' };
  await using page = await open(service.address);
  await page.tab.page.getByText('No runs yet').waitFor();
  await using linked = await open(`${service.address}#/timeline?run=late`);
  await linked.tab.page.getByText('There is no run "late"').waitFor();
  const program = ['test/programs/steps.mjs', '1000', '10'];
  const [first] = await startRanks(1, program, { ...environment, RANK: '0' });
  // The page that was open before the run opens it by itself.
  await wait(page, 'live');
  // So does a page that was opened by a link to the run.
  await wait(linked, 'live');
  await until('the link shows the lanes', async () => (await linked.rows.allTextContents()).includes('Rank 0'));
  await until('it says who is missing', async () => /1 ranks? missing/.test(await page.text(page.tab.page.locator('header.top'))));
  const [second] = await startRanks(1, program, { ...environment, RANK: '1' });
  await page.show('Timeline');
  await until('its lanes are there', async () => (await page.rows.allTextContents()).includes('Rank 1'));
  expect(await page.text(page.tab.page.locator('header.top'))).not.toContain('missing');
  // A page that follows the run leaves that for a step which is searched for.
  await linked.tab.page.getByRole('button', { name: 'Following' }).waitFor();
  await linked.search('step 3');
  await linked.tab.page.keyboard.press('Enter');
  await until('the step is shown', async () => /[?&]from=\d+.*until=\d+/.test(linked.tab.page.url()));
  expect(await linked.tab.page.getByRole('button', { name: 'Following' }).count()).toBe(0);
  for (const rank of [first, second]) rank?.child.kill('SIGKILL');
  expect(page.tab.problems).toEqual([]);
});

it('a service that is killed under an open page: the page says so, comes back by itself, and misses nothing', async () => {
  const port = await freePort();
  const out = join(directory, 'restart');
  const serve = () => servedBy(startCommand(['serve', '--listen', `127.0.0.1:${port}`, '--out', out]));
  const steps = 600;
  const before = await serve();
  const environment = {
    RANKTRACE_URL: `ws://127.0.0.1:${port}`,
    RANKTRACE_RUN: 'restart',
    RANKTRACE_SPOOL_DIRECTORY: join(directory, 'spool'),
  };
  // First the page: a starved browser needs as long to start as the ranks to end.
  await using page = await open(before.address);
  const ranks = await startRanks(2, ['test/programs/steps.mjs', String(steps), '10'], environment);
  const signal = (name: NodeJS.Signals): void => {
    for (const { child } of ranks) child.kill(name);
  };
  onTestFinished(() => signal('SIGKILL'));
  await until('the first steps are shown', async () => (await page.sentence.count()) > 0 && (await stepsShown(page)) > 20);
  // They wait for the page, or would have ended before it on a starved machine.
  signal('SIGSTOP');
  await page.show('Timeline');
  await page.search('inner');
  // Backward from the end: the last rank's.
  await page.tab.page.keyboard.press('Shift+Enter');
  await page.panel.locator('.facts').waitFor();
  const facts = async (): Promise<unknown> => Promise.all(['Where', 'Start'].map((fact) => page.fact(fact).textContent()));
  const selected = await facts();
  await until('the address names it', async () => page.tab.page.url().includes('sel='));
  const link = new URL(page.tab.page.url()).hash;
  await page.show('Overview');
  await page.figure('steps').waitFor();
  before.command.child.kill('SIGKILL');
  await before.command.ended;
  signal('SIGCONT');
  await wait(page, 'trying again');
  const known = await stepsShown(page);
  await using after = await serve();
  await until('the line is back', async () => !(await page.text(page.tab.page.locator('header.top'))).includes('connect'));
  await until('it goes on', async () => (await stepsShown(page)) > known);
  await Promise.all(ranks.map(({ ended }) => ended));
  await until('all steps are shown', async () => (await stepsShown(page)) === steps);
  // The run was read again, its ranks in another order: the event is the same, on this page and where its link is opened.
  await using linked = await open(`${after.address}${link}`);
  await linked.panel.locator('.facts').waitFor();
  await page.show('Timeline');
  await page.settled();
  await page.panel.locator('.facts').waitFor();
  expect(await facts()).toEqual(selected);
  expect(await Promise.all(['Where', 'Start'].map((fact) => linked.fact(fact).textContent()))).toEqual(selected);
  expect(await page.search('inner')).toBe(2 * steps);
  // A step by its number, as torch writes it, and one that does not exist.
  const window = () => new URLSearchParams(new URL(page.tab.page.url()).hash.split('?')[1]);
  expect(await page.search('ProfilerStep#300')).toBe(0);
  await page.tab.page.keyboard.press('Enter');
  await until('the step is shown', async () => {
    const length = Number(window().get('until')) - Number(window().get('from'));
    // One step on a starved machine, and not the whole run, which takes longer.
    return length > 10e6 && length < 3e9;
  });
  await page.search('step 600');
  await page.tab.page.keyboard.press('Enter');
  await page.tab.page.getByText('There is no step 600 in this run', { exact: true }).waitFor();
  expect(await page.text(page.tab.page.locator('header.top'))).not.toMatch(/lost|missing/);
  // The browser itself logs each attempt that failed.
  expect(
    page.tab.problems.filter((problem) => !/WebSocket connection to .* failed|ERR_CONNECTION_(?:REFUSED|RESET)/.test(problem)),
  ).toEqual([]);
});
