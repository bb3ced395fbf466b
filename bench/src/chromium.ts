// A headless Chromium, and the measurements of a page in it: frames on the main thread, from frame to frame, and memory.
//
//   requestAnimationFrame ─► the page's work ─► style, layout, paint ─► next task
//   |◄──────────────── frame ──────────────────────────────────────►|

import { type Browser, type BrowserContext, type CDPSession, chromium, type Page } from 'playwright-core';

const flags = ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run', '--disable-background-networking'];

export interface MeasuredTab extends AsyncDisposable {
  readonly page: Page;
  readonly tools: CDPSession;
}

/** `executablePath`: of the browser. */
export function launchChromium(executablePath: string): Promise<Browser> {
  return chromium.launch({ executablePath, headless: true, args: flags });
}

/** A new tab; `watch` runs in it before anything else of each document. */
export async function openTab(browser: Browser, watch?: string): Promise<MeasuredTab> {
  const context: BrowserContext = await browser.newContext({ viewport: { width: 1280, height: 720 } });
  const page = await context.newPage();
  if (watch !== undefined) await page.addInitScript(watch);
  const tools = await context.newCDPSession(page);
  return { page, tools, [Symbol.asyncDispose]: () => context.close() };
}

/** Frame times during an action, ms each. */
export interface Frames {
  /** From the frame's beginning to the first task after it: script, style, layout and paint. */
  readonly work: readonly number[];
  /** From one frame's beginning to the next one's. */
  readonly interval: readonly number[];
}

/** Measures every frame until `act` resolves. */
export async function framesWhile(page: Page, act: () => Promise<void>): Promise<Frames> {
  await page.evaluate(startMeasuring);
  await act();
  return (await page.evaluate('window.benchFrames.stop()')) as Frames;
}

/** A string, for it runs in the page. First of the frame's callbacks, as it asks for the next frame before the page does. */
const startMeasuring = `(() => {
  const work = [];
  const interval = [];
  const channel = new MessageChannel();
  let began = 0;
  let running = true;
  channel.port1.onmessage = () => work.push(performance.now() - began);
  const frame = () => {
    const now = performance.now();
    if (began > 0) interval.push(now - began);
    began = now;
    if (!running) return;
    requestAnimationFrame(frame);
    channel.port2.postMessage(0);
  };
  requestAnimationFrame(frame);
  window.benchFrames = { stop: () => ((running = false), { work, interval }) };
})()`;

/** ms from the navigation's start to the first frame of a page with nothing but an empty canvas, in a tab of its own. */
export async function blankPageMs(browser: Browser): Promise<number> {
  await using tab = await openTab(browser);
  await tab.page.goto(`data:text/html,${blankPage}`);
  return (await tab.page.evaluate(
    'new Promise((drawn) => requestAnimationFrame(() => drawn(performance.getEntriesByType("paint")[0]?.startTime ?? performance.now())))',
  )) as number;
}

/** Frames of a page that does nothing but fill as many pixels as a window has, and shows them. */
export async function bareFillFrames(browser: Browser, ms: number): Promise<Frames> {
  await using tab = await openTab(browser);
  await tab.page.goto(`data:text/html,${blankPage}`);
  await tab.page.evaluate(fillEachFrame);
  return await framesWhile(tab.page, () => tab.page.waitForTimeout(ms));
}

const blankPage = '<!doctype html><body style="margin:0"><canvas width=1280 height=720></canvas>';

/** A string, for it runs in the page. */
const fillEachFrame = `(() => {
  const context = document.querySelector('canvas').getContext('2d', { alpha: false });
  const image = context.createImageData(1280, 720);
  const pixels = new Uint32Array(image.data.buffer);
  let frame = 0;
  const draw = () => {
    pixels.fill(0xff000000 + frame++);
    context.putImageData(image, 0, 0);
    requestAnimationFrame(draw);
  };
  requestAnimationFrame(draw);
})()`;

/** Bytes of JavaScript objects and of the buffers behind them, after garbage was collected. */
export async function heapBytes(tools: CDPSession): Promise<number> {
  await tools.send('HeapProfiler.collectGarbage');
  const usage = (await tools.send('Runtime.getHeapUsage')) as { usedSize: number; backingStorageSize?: number };
  return usage.usedSize + (usage.backingStorageSize ?? 0);
}

/** The value below which a share of the values lies. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
}
