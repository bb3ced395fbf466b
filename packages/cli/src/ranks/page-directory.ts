// Finds the built page in @ranktrace/viewer, beside its manifest.

import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CliError } from '../terminal/errors.ts';

/** The directory of the built page; undefined in a checkout without a build. */
export function findPageDirectory(): string | undefined {
  const index = pageIndex();
  return existsSync(index) ? dirname(index) : undefined;
}

/** The directory where it is required. Throws CliError `bad_input`. */
export function pageDirectory(): string {
  const directory = findPageDirectory();
  if (directory !== undefined) return directory;
  throw new CliError('bad_input', `Cannot show the page: "${pageIndex()}" is missing; build it with "npm run build"`);
}

const pageIndex = (): string => fileURLToPath(import.meta.resolve('@ranktrace/viewer/page/index.html'));
