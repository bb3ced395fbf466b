// The temporary file for rows of torch.profiler files that outgrow memory: one for all files of a job, made when it is first needed.

import { statSync } from 'node:fs';
import { BlockFile } from '@ranktrace/aggregator';
import type { SpillOptions } from '@ranktrace/trace/torch';
import type { Input } from './input-kinds.ts';

/** Largest size; the rows of a file are about as many bytes as its text. */
const bytesMax = 256 * 1024 ** 3;
/** The same for small files: gzip shrinks repetitive data to a thousandth, and a trace to a tenth. */
const bytesMin = 1024 ** 3;
const timesMax = 100;

export class SpillFile implements SpillOptions, Disposable {
  readonly rowsMax: number | undefined;
  readonly #bytesMax: number;
  #file: BlockFile | undefined;

  /** `rowsMax`: rows of one file that memory holds, if not the usual number. */
  constructor(inputs: readonly Input[], rowsMax?: number) {
    const size = inputs
      .flatMap(({ files }) => files)
      .reduce((sum, path) => sum + (statSync(path, { throwIfNoEntry: false })?.size ?? 0), 0);
    this.rowsMax = rowsMax;
    this.#bytesMax = Math.min(bytesMax, Math.max(bytesMin, timesMax * size));
  }

  readonly store = (): BlockFile => {
    this.#file ??= new BlockFile('rows of traces', this.#bytesMax);
    return this.#file;
  };

  [Symbol.dispose](): void {
    this.#file?.[Symbol.dispose]();
  }
}
