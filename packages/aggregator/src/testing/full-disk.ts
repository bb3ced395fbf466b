// A disk that takes no more bytes, from this process's view: it can still create names, writing fails (EFBIG in place of ENOSPC).

import { execFileSync } from 'node:child_process';

/** Lasts until disposed. Linux; nothing else may write to files in this process meanwhile. */
export function fullDisk(): Disposable {
  const limit = (bytes: string): void => {
    execFileSync('prlimit', ['--pid', `${process.pid}`, `--fsize=${bytes}:unlimited`]);
  };
  limit('0');
  return { [Symbol.dispose]: () => limit('unlimited') };
}
