// Finds the runs that the ranks of one command record. They get a name (RANKTRACE_RUN), but a program may name its run itself, and that wins; so the
// arriving batches show which runs there are.
//
//   straight to this process   every run that arrives is the ranks': nobody else knows the port
//   over NATS                  others' runs are there, too: the ranks' are those that they note when they begin (rank-notes.ts)

import { join } from 'node:path';
import type { Aggregator } from '@ranktrace/aggregator';
import type { RankNotes } from './rank-notes.ts';

export interface RecordedRunsOptions {
  /** The name given to the ranks, and whether the user chose it. */
  readonly name: string;
  readonly isChosen: boolean;
  /** Whether the run of that name is new. */
  readonly isNew: boolean;
  readonly out: string;
  readonly notes: RankNotes;
  readonly overNats: boolean;
  readonly report: (line: string) => void;
}

const lookEveryMs = 200;

export class RecordedRuns {
  readonly #aggregator: Aggregator;
  readonly #options: RecordedRunsOptions;
  /** Runs of earlier commands, in the same directory. */
  readonly #before: ReadonlySet<string>;
  readonly #seen = new Set<string>();
  readonly #timer: NodeJS.Timeout;

  constructor(aggregator: Aggregator, options: RecordedRunsOptions) {
    this.#aggregator = aggregator;
    this.#options = options;
    this.#before = new Set(aggregator.runs().filter((run) => run !== options.name || !options.isNew));
    this.#timer = setInterval(() => void this.look(), lookEveryMs).unref();
  }

  /** Names of the runs so far, in order of discovery. */
  get names(): readonly string[] {
    return [...this.#seen];
  }

  /** Looks for new runs, and reports them. */
  async look(): Promise<void> {
    const { name, overNats, notes, report } = this.#options;
    const found = this.#aggregator.status().runs.flatMap(({ run, ranks }) => (ranks.length > 0 ? [run] : []));
    const said = overNats ? notes.read().flatMap(({ run, url }) => (isNats(url) ? [run] : [])) : [];
    for (const run of [...found, ...said]) {
      if (this.#seen.has(run)) continue;
      this.#seen.add(run);
      if (run !== name) this.#reportOwnName(run);
      if (this.#before.has(run)) {
        report(`run "${run}" was in "${this.#options.out}" before: what follows is added to it`);
      }
      if (!overNats) continue;
      await this.#aggregator.takeRun(run).catch((error: Error) => report(`run "${run}" cannot be read from NATS: ${error.message}`));
    }
  }

  /** Ends the periodic looks. */
  stop(): void {
    clearInterval(this.#timer);
  }

  #reportOwnName(run: string): void {
    const { name, isChosen, out, report } = this.#options;
    const itself = `the program names its run "${run}" itself`;
    if (isChosen) report(`${itself}: --name ${name} has no effect on it, and it is stored in "${join(out, run)}"`);
    else report(`${itself}: it is stored in "${join(out, run)}"`);
  }
}

const isNats = (url: string | null): boolean => url !== null && /^(nats|tls):/.test(url);
