// Progress of long work on stderr: a bar on a terminal, nothing in a pipe. stdout stays clean for results.
//
// Invariant: the terminal is as it was at any moment, for a signal may end the process without a word: the cursor is shown, and lines wrap.

import { SingleBar } from 'cli-progress';
import { removeBeforeLines } from './output.ts';

export interface Progress {
  update(done: number, total: number): void;
  stop(): void;
}

/** A bar named `label`; shows itself only when stderr is a terminal. */
export function showProgress(label: string): Progress {
  if (!process.stderr.isTTY) return { update: () => {}, stop: () => {} };
  const bar = new SingleBar({
    format: `${label} {bar} {percentage} %  {eta_formatted} left`,
    stream: process.stderr,
    linewrap: true,
    clearOnComplete: true,
    barsize: 30,
  });
  let isShown = false;
  const remove = (): void => {
    if (isShown) bar.stop();
    isShown = false;
  };
  return {
    update: (done, total) => {
      if (isShown) bar.update(done);
      else bar.start(total, done);
      isShown = true;
      // A bar that ends clears the line on which it began: a notice on that line would go with it.
      removeBeforeLines(remove);
    },
    stop: remove,
  };
}
