// The traces of captures beside a run: <out>/<run>/captures/*.pftrace.

import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { aggregatorLimits as limits } from '../model/limits.ts';

export const capturesDirectory = (directory: string): string => join(directory, 'captures');

const name = /^[A-Za-z0-9_-]{1,128}\.pftrace$/;

/** The captures in a run's directory, in order of name; those that vanish meanwhile are left out. */
export function captureFiles(directory: string): { readonly name: string; readonly path: string; readonly bytes: number }[] {
  const captures = capturesDirectory(directory);
  try {
    const names = readdirSync(captures, { withFileTypes: true }).filter((entry) => entry.isFile() && name.test(entry.name));
    return names
      .map((entry) => entry.name)
      .sort(byNumber)
      .slice(-limits.capturesPerRunMax)
      .flatMap((name) => {
        const path = join(captures, name);
        const about = statSync(path, { throwIfNoEntry: false });
        return about === undefined ? [] : [{ name, path, bytes: about.size }];
      });
  } catch {
    return [];
  }
}

/** steps-9-… comes before steps-10-…. */
const byNumber = new Intl.Collator('en', { numeric: true }).compare;
