// A real Chromium for one test file: headless, with an empty profile, and no page but the one under test.
//
//   await using browser = await startBrowser();
//   await using tab = await browser.open(address);
//   expect(tab.problems).toEqual([]);
//
// Invariant: disposing ends the browser and removes its profile. What a page logs as an error, throws, or asks of another host is kept.

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { type Browser, type CDPSession, chromium, type Page, type WebSocketRoute } from 'playwright-core';
import { repository } from './ranktrace-command.ts';

/** The same on every machine: the size of the manual's pictures. */
const viewport = { width: 1280, height: 720 };
const flags = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  // Test machines have little of /dev/shm.
  '--disable-dev-shm-usage',
  // Frames continue without a visible window.
  '--disable-renderer-backgrounding',
  '--disable-backgrounding-occluded-windows',
];

export interface TabOptions {
  readonly width?: number;
  readonly height?: number;
  readonly colorScheme?: 'light' | 'dark';
  readonly reducedMotion?: 'reduce' | 'no-preference';
}

export interface StartedBrowser extends AsyncDisposable {
  readonly browser: Browser;
  /** A tab with cookies of its own; resolves when the document has loaded. */
  open(url: string, options?: TabOptions): Promise<Tab>;
}

export interface Tab extends AsyncDisposable {
  readonly page: Page;
  /** The browser's own measurements: heap, frames, the text for screen readers. */
  readonly tools: CDPSession;
  /** Errors that the page logged or threw, and requests to other hosts. */
  readonly problems: string[];
  /** A picture for the manual (docs/images/NAME.png), taken when UPDATE_SCREENSHOTS=1. */
  picture(name: string): Promise<void>;
}

/** Starts `CHROMIUM_BIN` (setup/real-parts.ts finds it). */
export async function startBrowser(moreFlags: readonly string[] = []): Promise<StartedBrowser> {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM_BIN ?? '/usr/bin/chromium',
    headless: true,
    args: [...flags, ...moreFlags],
  });
  return {
    browser,
    open: (url, options = {}) => openTab(browser, url, options),
    [Symbol.asyncDispose]: () => browser.close(),
  };
}

async function openTab(browser: Browser, url: string, options: TabOptions): Promise<Tab> {
  const { width = viewport.width, height = viewport.height, ...media } = options;
  const context = await browser.newContext({
    viewport: { width, height },
    deviceScaleFactor: 1,
    locale: 'en-GB',
    timezoneId: 'UTC',
    ...media,
  });
  const page = await context.newPage();
  const lag = Number(process.env.RANKTRACE_PAGE_LAG ?? 0);
  if (lag > 0) await page.routeWebSocket(/./, (socket) => answerLate(socket, lag));
  const problems: string[] = [];
  const { host } = new URL(url);
  page.on('console', (message) => {
    // The page connects again by itself.
    if (/WebSocket.*ERR_NETWORK_CHANGED/.test(message.text())) return;
    if (message.type() === 'error' || message.type() === 'warning') problems.push(`${message.type()}: ${message.text()}`);
  });
  page.on('pageerror', (error) => problems.push(`thrown: ${error.stack ?? error.message}`));
  page.on('dialog', (dialog) => {
    problems.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on('request', (request) => {
    const to = new URL(request.url());
    if (to.host !== host && to.protocol !== 'data:' && to.protocol !== 'blob:') problems.push(`request: ${request.url()}`);
  });
  const tools = await context.newCDPSession(page);
  await goTo(page, url, problems);
  const picture = async (name: string): Promise<void> => {
    if (process.env.UPDATE_SCREENSHOTS !== '1') return;
    const folder = join(repository, 'docs/images');
    mkdirSync(folder, { recursive: true });
    await page.screenshot({ path: join(folder, `${name}.png`), animations: 'disabled' });
  };
  return { page, tools, problems, picture, [Symbol.asyncDispose]: () => context.close() };
}

/** Opens the page again where a test beside this one has added a network device, or removed one: Chromium then ends what it loads. */
async function goTo(page: Page, url: string, problems: string[]): Promise<void> {
  for (let left = 5; ; left--) {
    try {
      await page.goto(url, { waitUntil: 'domcontentloaded' });
      if (left === 0 || !problems.some((problem) => problem.includes('ERR_NETWORK_CHANGED'))) return;
      problems.length = 0;
    } catch (error) {
      if (left === 0 || !(error as Error).message.includes('ERR_NETWORK_CHANGED')) throw error;
    }
  }
}

/** Every message to the page comes `lag` ms late: with RANKTRACE_PAGE_LAG=1500, a test that reads before the page has its answer fails. */
function answerLate(socket: WebSocketRoute, lag: number): void {
  const service = socket.connectToServer();
  service.onMessage((message) => {
    setTimeout(() => socket.send(message), lag);
  });
}
