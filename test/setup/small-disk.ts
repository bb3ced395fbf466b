// A disk of a few KiB, so that it is full soon: a tmpfs of its own. Needs root.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface SmallDisk extends Disposable {
  readonly directory: string;
}

/** Mounts a disk of so many KiB, or gives the reason why that is impossible here. */
export function mountSmallDisk(kibibytes: number): SmallDisk | { readonly reason: string } {
  const directory = mkdtempSync(join(tmpdir(), 'ranktrace-small-disk-'));
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${kibibytes}k,mode=0700`, 'ranktrace-test', directory], { stdio: 'pipe' });
  } catch (error) {
    rmSync(directory, { recursive: true });
    return { reason: `a small disk cannot be mounted (${(error as Error).message.split('\n')[0]})` };
  }
  return {
    directory,
    [Symbol.dispose]: () => {
      execFileSync('umount', ['--lazy', directory]);
      rmSync(directory, { recursive: true });
    },
  };
}
