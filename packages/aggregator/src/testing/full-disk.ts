// A disk that takes no more bytes, from this process's view: it can still create names, writing fails (EFBIG in place of ENOSPC).

import { execFileSync } from 'node:child_process';

/** Lasts until disposed. `bytes`: how large a file may still become. Linux; nothing else may write to files in this process meanwhile. */
export function fullDisk(bytes = 0): Disposable {
  const limit = (bytes: string): void => {
    execFileSync('prlimit', ['--pid', `${process.pid}`, `--fsize=${bytes}:unlimited`]);
  };
  limit(`${bytes}`);
  return { [Symbol.dispose]: () => limit('unlimited') };
}
