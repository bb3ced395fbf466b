// Shows runs from files: serves the page, and accepts no batches.

import { HttpService, type ListenOptions } from './http/http-service.ts';
import type { AccessTokens } from './http/page-access.ts';
import { AggregatorError } from './model/errors.ts';
import { aggregatorLimits as limits } from './model/limits.ts';
import { FileRuns, type ViewInput } from './view/view-runs.ts';

export interface ViewerOptions {
  /** Runs to show, each with a name of its own. */
  readonly inputs: readonly ViewInput[];
  /** Default a free port of 127.0.0.1. */
  readonly listen?: ListenOptions | undefined;
  /** Tokens that pages must send; required to listen anywhere but on loopback. */
  readonly token?: AccessTokens | undefined;
  /** Directory of the built page. */
  readonly page: string;
  readonly onNotice?: ((notice: string) => void) | undefined;
  /** Receives the indexed part of the inputs; unit: batches or bytes, read for their clocks and for their events. */
  readonly onProgress?: ((done: number, total: number) => void) | undefined;
}

export interface Viewer extends AsyncDisposable {
  /** `http://<host>:<port>` */
  readonly address: string;
  /** Resolves when the inputs are indexed, the first `viewRunsMax` of them if there are more. Pages may open before: they fill meanwhile. */
  readonly indexed: Promise<void>;
}

/**
 * Shows runs to pages until it is disposed. Throws AggregatorError `bad_option`, `port_in_use`, `listen_failed`, `token_required`.
 *
 * @example
 * await using viewer = await startViewer({ inputs: [{ run: 'demo', sources: log.run('demo').sources() }], page });
 */
export async function startViewer({
  inputs,
  listen = {},
  token,
  page,
  onNotice = () => undefined,
  onProgress,
}: ViewerOptions): Promise<Viewer> {
  if (new Set(inputs.map(({ run }) => run)).size < inputs.length) {
    throw new AggregatorError('bad_option', `Cannot show ${inputs.length} runs: each must have a name of its own`);
  }
  const runs = new FileRuns(inputs, onNotice);
  let http: HttpService;
  try {
    http = await HttpService.listen({ listen, token, page, view: runs, onNotice });
  } catch (error) {
    await runs[Symbol.asyncDispose]();
    throw error;
  }
  // Opens the runs at the start, so that the first page finds them indexed.
  const first = inputs.slice(0, limits.viewRunsMax).map(({ run }) => run);
  const areHeld = first.length === inputs.length;
  if (!areHeld) onNotice(`${inputs.length} runs: the first ${first.length} are indexed now, each other one when it is opened`);
  const views = await Promise.all(first.map((run) => runs.open(run)));
  const report = (): void => {
    const progress = first.map((run) => runs.progress(run));
    onProgress?.(sumOf(progress.map(({ read }) => read)), sumOf(progress.map(({ total }) => total)));
  };
  for (const view of views) view.onGrown(report);
  return {
    address: http.address,
    indexed: Promise.all(
      first.map(async (run, index) => {
        await runs.read(run);
        // Another run may have its place.
        if (!areHeld) views[index]?.[Symbol.dispose]();
      }),
    ).then(() => undefined),
    async [Symbol.asyncDispose]() {
      await http.close();
      for (const view of views) view[Symbol.dispose]();
      await runs[Symbol.asyncDispose]();
    },
  };
}

const sumOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);
