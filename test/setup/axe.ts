// axe-core on an open page: what a person with a screen reader, a keyboard or weak eyes would stumble over.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';

const source = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Violations of all of axe's rules, each as `rule: element`; empty where there are none. */
export async function violationsOn(page: Page): Promise<readonly string[]> {
  // As an expression: the page's Content-Security-Policy allows no script elements of others.
  await page.evaluate(`${source};0`);
  return page.evaluate(async () => {
    const { violations } = await window.axe.run();
    return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html.slice(0, 200)}`));
  });
}

declare global {
  var axe: { run(): Promise<{ violations: readonly { readonly id: string; readonly nodes: readonly { readonly html: string }[] }[] }> };
}
