// The page of a run while the service still reads it, in a real Chromium: it shows how much is read, compares ranks only over steps that all have
// reported, and calls nothing empty before all is read. The reader is a process that is stopped and continued (SIGSTOP, SIGCONT), so that the page is
// observed in the middle of reading however fast the machine is.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type StartedBrowser, startBrowser, type Tab } from './setup/browser.ts';
import { runCommand, startCommand } from './setup/ranktrace-command.ts';
import { servedBy } from './setup/viewed-runs.ts';
import { ViewerPage } from './setup/viewer-page.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-reading-'));
const steps = 2000;
const slowSteps = 71;
let browser: StartedBrowser;

/** The state that the page shows at one moment. */
interface Shown {
  readonly status: string;
  readonly reading: string;
  readonly sentence: string;
  readonly empty: string;
  readonly body: string;
}

beforeAll(async () => {
  // The first steps take every rank longer: a rank that is read less far seems slow beside the others, and none of them is.
  const begins = Array.from({ length: 4 * slowSteps }, (_, at) => ['--straggler', `${at % 4}:forward:+150@${at >> 2}`]).flat();
  const args = ['simulate', '--out', directory, '--run', 'night', '--ranks', '4', '--steps', String(steps), ...begins];
  const { code, stderr } = await runCommand(args);
  if (code !== 0) throw new Error(stderr);
  browser = await startBrowser();
});
afterAll(async () => {
  await browser?.[Symbol.asyncDispose]();
  rmSync(directory, { recursive: true });
});

/** Stores in the page each new state that a frame shows. */
const record = (tab: Tab): Promise<void> =>
  tab.page.evaluate(() => {
    const said: Shown[] = [];
    const textOf = (selector: string): string => (document.querySelector(selector)?.textContent ?? '').replaceAll(/\s+/g, ' ').trim();
    const look = (): void => {
      const now: Shown = {
        status: textOf('.run-status'),
        reading: textOf('.overview-reading'),
        sentence: textOf('.overview-sentence'),
        empty: textOf('.overview-empty'),
        body: textOf('body'),
      };
      if (JSON.stringify(now) !== JSON.stringify(said.at(-1))) said.push(now);
      requestAnimationFrame(look);
    };
    look();
    Object.assign(window, { ranktraceSaid: said });
  });

/** Overviews that the page requested, and that were answered. */
async function overviewsOf({ tools }: Tab): Promise<{ readonly asked: ReadonlySet<number>; readonly answered: ReadonlySet<number> }> {
  const [asked, answered] = [new Set<number>(), new Set<number>()];
  tools.on('Network.webSocketFrameSent', ({ response: { payloadData } }) => {
    const { id, type } = JSON.parse(payloadData) as { id: number; type: string };
    if (type === 'overview') asked.add(id);
  });
  tools.on('Network.webSocketFrameReceived', ({ response: { opcode, payloadData } }) => {
    if (opcode !== 1) return;
    const { id, type } = JSON.parse(payloadData) as { id?: number; type: string };
    if (type === 'answer' && id !== undefined && asked.has(id)) answered.add(id);
  });
  await tools.send('Network.enable');
  return { asked, answered };
}

it('says how much is read, compares the steps that all ranks have reported, and says nothing is there only once all is read', async () => {
  await using service = await servedBy(startCommand(['serve', '--listen', '127.0.0.1:0', '--out', directory]));
  const { child } = service.command;
  // Nothing is read before a run is opened: the page opens the timeline without a run.
  await using tab = await browser.open(`${service.address}#/overview?run=none`);
  await tab.page.locator('header.top').waitFor();
  const { asked, answered } = await overviewsOf(tab);
  await record(tab);
  const page = new ViewerPage(tab);
  // It reads nothing before this test looks.
  child.kill('SIGSTOP');
  await page.goTo('#/overview?run=night');
  const said = (): Promise<Shown[]> => tab.page.evaluate(() => (window as unknown as { ranktraceSaid: Shown[] }).ranktraceSaid);
  const compared = (all: readonly Shown[]): Shown[] => all.filter(({ reading }) => reading.includes('which all ranks have reported'));
  const isRead = (all: readonly Shown[]): boolean => {
    const { status = '', reading = '', sentence = '' } = all.at(-1) ?? {};
    return sentence !== '' && reading === '' && !status.includes('Reading');
  };
  try {
    while (compared(await said()).length < 3 && !isRead(await said())) {
      child.kill('SIGSTOP');
      // The page requests the steps by itself; the reader is stopped until it does, and continues until it has answered. Where the page waits for a word of
      // the reader first, it gets it.
      const until = performance.now() + 2000;
      while (asked.size <= answered.size && performance.now() < until) await setTimeout(20);
      child.kill('SIGCONT');
      if (asked.size <= answered.size) await setTimeout(20);
      await expect.poll(() => answered.size, { interval: 5 }).toBeGreaterThanOrEqual(asked.size);
    }
  } finally {
    child.kill('SIGCONT');
  }
  await expect.poll(async () => isRead(await said()), { timeout: 2 * 60_000 }).toBe(true);
  await page.analysed();

  const all = await said();
  const meanwhile = all.filter(({ reading, status }) => reading !== '' || status.includes('Reading'));
  const parts = meanwhile.flatMap(({ status }) => [...status.matchAll(/Reading (\d+) %/g)].map(([, part]) => Number(part)));
  expect(parts.length).toBeGreaterThan(3);
  expect(parts).toEqual([...parts].sort((a, b) => a - b));
  expect([(parts[0] as number) < 100, (parts.at(-1) as number) < 100, parts.some((part) => part > 0)]).toEqual([true, true, true]);
  // Meanwhile the page compares ranks over the steps that it names, and none of them is slow.
  expect(compared(all).length).toBeGreaterThan(0);
  for (const { reading, sentence, body } of compared(all)) {
    expect(reading).toMatch(/^Reading \d+ %: this is of steps 0–\d+, which all ranks have reported so far\.$/);
    expect(sentence).toMatch(/No rank stands out so far\.$/);
    expect(body).toMatch(/ranks ?4/);
  }
  for (const { body } of meanwhile)
    expect(body).not.toMatch(/There is nothing in this run|No steps were recorded|\d ranks? missing|No findings/);
  expect((await page.text(page.figure('steps'))).replaceAll(/\D/g, '')).toBe(String(steps));
  expect(await page.text(page.figure('ranks'))).toBe('4');
  expect(tab.problems).toEqual([]);
});
