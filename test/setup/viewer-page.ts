// The page for a person: its content, and the effects of mouse and keys. One place that knows the page's roles and names.

import { readFileSync } from 'node:fs';
import type { Locator, Page } from 'playwright-core';
import { expect } from 'vitest';
import type { Tab } from './browser.ts';

/** The content of a canvas, from its pixels. */
export interface Ink {
  /** Part of the pixels that are not of the most frequent colour. */
  readonly part: number;
  readonly colours: number;
}

export class ViewerPage {
  readonly tab: Tab;
  /** Clicks that a person has made so far. */
  clicks = 0;

  constructor(tab: Tab) {
    this.tab = tab;
  }

  /** One click of the mouse, where a person would aim: in the middle. */
  async click(target: Locator, position?: { readonly x: number; readonly y: number }): Promise<void> {
    this.clicks++;
    await target.click(position === undefined ? {} : { position });
  }

  /** The text that a person reads there: every kind of space is one. */
  async text(of: Locator): Promise<string> {
    return ((await of.textContent()) ?? '').replaceAll(/\s+/g, ' ').trim();
  }

  async show(view: 'Overview' | 'Timeline' | 'Compare' | 'Profile'): Promise<void> {
    await this.tab.page.getByRole('navigation', { name: 'Views' }).getByRole('button', { name: view }).click();
  }

  /** Goes where an address leads, as a link does: `#/timeline?run=…`. */
  async goTo(hash: string): Promise<void> {
    await this.tab.page.evaluate((to) => {
      location.hash = to;
    }, hash);
  }

  get sentence(): Locator {
    return this.tab.page.locator('.overview-sentence');
  }

  /** A figure of the overview's head by its name. */
  figure(name: string): Locator {
    return this.tab.page
      .locator('.overview-figures > div')
      .filter({ has: this.tab.page.locator('dt', { hasText: name }) })
      .locator('dd');
  }

  get findings(): Locator {
    return this.tab.page.locator('.findings li');
  }

  get canvas(): Locator {
    return this.tab.page.locator('.timeline-canvas').first();
  }

  /** Labels of the rows in view, from the top. */
  get rows(): Locator {
    return this.tab.page.locator('.row-label');
  }

  get panel(): Locator {
    return this.tab.page.locator('.panel');
  }

  /** A line of the details by its name. */
  fact(name: string): Locator {
    return this.panel
      .locator('.facts tr')
      .filter({ has: this.tab.page.locator('th', { hasText: new RegExp(`^${name}$`) }) })
      .locator('td');
  }

  /** Resolves when everything is read, and what is visible is drawn. */
  async settled(): Promise<void> {
    const state = () =>
      this.tab.page.evaluate(() => ({
        // Lanes without rows are drawn before the page has anything of its runs.
        isOpen:
          document.querySelector('.run-status') !== null &&
          ![...document.querySelectorAll('.empty')].some(({ textContent }) => textContent?.startsWith('Opening')),
        isReading:
          document.querySelector('.reading') !== null || document.querySelector('.run-status')?.textContent?.includes('Reading') === true,
        isDrawn: (window.ranktraceFrames?.length ?? 0) > 0,
      }));
    await expect.poll(state, { timeout: 4 * 60_000 }).toEqual({ isOpen: true, isReading: false, isDrawn: true });
    await this.frames(3);
  }

  /** Resolves when the overview shows its findings, or that there are none. */
  async analysed(): Promise<void> {
    for (const text of ['Looking for causes', 'Still looking']) {
      await this.tab.page.getByText(text).waitFor({ state: 'detached', timeout: 8 * 60_000 });
    }
    await this.frames(2);
  }

  /** Resolves after so many frames. */
  async frames(count: number): Promise<void> {
    await this.tab.page.evaluate(async (left) => {
      for (; left > 0; left--) await new Promise(requestAnimationFrame);
    }, count);
  }

  ink(canvas: Locator = this.canvas): Promise<Ink> {
    return canvas.evaluate((element) => {
      // Read from a copy: reading from the page's own canvas would change its drawing.
      const { width, height } = element as HTMLCanvasElement;
      const copy = new OffscreenCanvas(Math.max(1, width), Math.max(1, height)).getContext('2d', { willReadFrequently: true });
      if (copy === null) throw new Error('There must be a canvas');
      copy.drawImage(element as HTMLCanvasElement, 0, 0);
      const { data } = copy.getImageData(0, 0, copy.canvas.width, copy.canvas.height);
      const pixels = new Uint32Array(data.buffer);
      const counts = new Map<number, number>();
      for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
      return { part: 1 - Math.max(0, ...counts.values()) / Math.max(1, pixels.length), colours: counts.size };
    });
  }

  /** Types into the search; resolves with the number of matching events. */
  async search(text: string): Promise<number> {
    await this.tab.page.getByRole('searchbox', { name: 'Search names' }).fill(text);
    const count = this.tab.page.locator('.search-count[aria-busy="false"]');
    await count.waitFor();
    // Names that come late count, too.
    let shown = '';
    for (let before: string | undefined; before !== shown; ) {
      before = shown;
      await this.tab.page.waitForTimeout(500);
      shown = (await count.textContent()) ?? '';
    }
    return shown === 'none' ? 0 : Number(shown.replaceAll(/\D/g, ''));
  }
}

/** The rows of a table of the page, by its title, as its `CSV` saves them: cells by the head of their column. */
export async function csvOf(page: Page, title: string): Promise<Record<string, string>[]> {
  const saving = page.waitForEvent('download');
  await page.getByRole('button', { name: `CSV of ${title}`, exact: true }).click();
  const text = readFileSync(await (await saving).path(), 'utf8').trimEnd();
  const [head = [], ...rows] = text
    .split('\r\n')
    .map((line) =>
      [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map(([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain ?? ''),
    );
  return rows.map((cells) => Object.fromEntries(head.map((name, at) => [name, cells[at] ?? ''])));
}

declare global {
  var ranktraceFrames: { readonly at: number; readonly script: number }[] | undefined;
}
