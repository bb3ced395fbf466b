// The files that an export writes: one for all ranks, or one for each rank, or stdout. A file gets its name when it is whole.

import { TraceFile } from '@ranktrace/aggregator';
import type { WriteBytes } from '@ranktrace/trace';
import { CliError } from '../terminal/errors.ts';
import { writeBytes } from '../terminal/output.ts';

export interface ExportFiles {
  /** Opens a file; `rank` is what its name says where there is one for each. */
  open(rank: number | undefined): WriteBytes;
  /** Resolves when few enough bytes wait for more to come. */
  drained(): Promise<void>;
  /** Finishes all of them; their paths and sizes. */
  commit(): Promise<readonly { readonly path: string; readonly bytes: number }[]>;
  discard(): Promise<void>;
}

/** Files open at one time, each with buffers of up to 2 MiB: a run with more ranks is exported in parts, with `--ranks`. */
const filesMax = 256;

/** Files whose names `pathOf` says. */
export class NamedFiles implements ExportFiles {
  readonly #pathOf: (rank: number | undefined) => string;
  readonly #files = new Map<string, TraceFile>();

  constructor(pathOf: (rank: number | undefined) => string) {
    this.#pathOf = pathOf;
  }

  open(rank: number | undefined): WriteBytes {
    const path = this.#pathOf(rank);
    if (this.#files.has(path)) throw new CliError('bad_usage', `"${path}" is the name of more than one rank's file: put {rank} into it`);
    if (this.#files.size >= filesMax)
      throw new CliError('bad_usage', `One export writes ${filesMax} files at most: choose ranks with --ranks`);
    const file = new TraceFile(path);
    this.#files.set(path, file);
    return file.write;
  }

  async drained(): Promise<void> {
    for (const file of this.#files.values()) await file.drained();
  }

  async commit(): Promise<readonly { readonly path: string; readonly bytes: number }[]> {
    for (const file of this.#files.values()) await file.commit();
    return [...this.#files.values()].map(({ path, bytes }) => ({ path, bytes }));
  }

  async discard(): Promise<void> {
    for (const file of this.#files.values()) await file.discard();
  }
}

/** stdout. */
export class StandardOutput implements ExportFiles {
  #isOpen = false;

  open(): WriteBytes {
    if (this.#isOpen) throw new CliError('bad_usage', 'A file for each rank needs a directory: name one with -o, or one rank with --ranks');
    this.#isOpen = true;
    return writeBytes;
  }

  async drained(): Promise<void> {}

  async commit(): Promise<readonly []> {
    return [];
  }

  async discard(): Promise<void> {}
}
