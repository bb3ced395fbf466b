// Spools of dead processes: this rank adopts its own, and sweeps those of any rank once all their batches are acknowledged.

import { type Dirent, opendirSync, rmdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { SdkError } from '../model/errors.ts';
import { limits } from '../model/limits.ts';
import { isAcknowledged } from './spool.ts';
import { checkOwner } from './spool-folders.ts';
import { isWriterDead } from './spool-owner.ts';

/**
 * Spools of earlier lives of this rank whose writers are dead, oldest first. `space`: the `processSpace` of this process. `refused` receives
 * the reason for skipping one that other users could have planted.
 */
export function findLeftovers(
  root: string,
  identity: { run: string; rank: number; incarnation: string },
  space: string,
  refused: (line: string) => void,
): string[] {
  const prefix = `rank-${identity.rank}-`;
  const parent = join(root, identity.run);
  const found: string[] = [];
  for (const { name } of entriesOf(parent)) {
    if (!name.startsWith(prefix) || name === `${prefix}${identity.incarnation}`) continue;
    const directory = join(parent, name);
    try {
      checkOwner(directory);
      if (isWriterDead(directory, space)) found.push(directory);
    } catch (error) {
      // Otherwise it is gone by now.
      if (error instanceof SdkError) refused(`what an earlier process left is not shipped: ${(error as Error).message}`);
    }
  }
  return found.sort();
}

/**
 * Removes spools below `root` whose writers are dead and whose batches are all acknowledged: a killed rank cannot remove its own. Looks at
 * `limits.sweptFoldersMax` folders, and never throws.
 */
export function sweepSpools(root: string, space: string): void {
  let left: number = limits.sweptFoldersMax;
  for (const run of entriesOf(root)) {
    if (left-- <= 0) return;
    if (!run.isDirectory()) continue;
    for (const { name } of entriesOf(join(root, run.name))) {
      if (left-- <= 0) return;
      if (!name.startsWith('rank-')) continue;
      const directory = join(root, run.name, name);
      try {
        checkOwner(directory);
        if (!isWriterDead(directory, space) || !isAcknowledged(directory)) continue;
        rmSync(directory, { recursive: true, force: true });
        rmdirSync(join(root, run.name));
      } catch {
        // Other users' folders stay, and so does the folder of a run with other ranks.
      }
    }
  }
}

/** Entries, read lazily; none for an unreadable folder. */
function* entriesOf(directory: string): Generator<Dirent> {
  try {
    const folder = opendirSync(directory);
    try {
      for (let entry = folder.readSync(); entry !== null; entry = folder.readSync()) yield entry;
    } finally {
      folder.closeSync();
    }
  } catch {
    // It is gone or unreadable.
  }
}
