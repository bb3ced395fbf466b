// `ranktrace view INPUT…`: the page of recorded runs in the browser, until Ctrl-C.
//
//   open the inputs → serve the page → print the address, open the browser → index, while the page is already open → wait for Ctrl-C

import { type AccessTokens, type ListenOptions, startViewer } from '@ranktrace/aggregator';
import { type InputOptions, openRuns } from '../inputs/open-inputs.ts';
import { hostPort } from '../options/host-port.ts';
import { pageDirectory } from '../ranks/page-directory.ts';
import { abortOnInterrupt } from '../terminal/interrupt.ts';
import { openBrowser, pageAddress } from '../terminal/open-browser.ts';
import { print, say } from '../terminal/output.ts';
import { showProgress } from '../terminal/progress.ts';

export interface ViewOptions extends InputOptions {
  readonly listen: string;
  readonly token?: Exclude<AccessTokens, string> | undefined;
  readonly tls?: ListenOptions['tls'];
  /** Whether to open the browser, on a terminal. */
  readonly open: boolean;
  /** Environment, in which a desktop announces itself. */
  readonly environment: NodeJS.ProcessEnv;
}

export async function view(paths: readonly string[], options: ViewOptions): Promise<number> {
  const page = pageDirectory();
  const listen = { ...hostPort('--listen', options.listen), tls: options.tls };
  using opened = await openRuns(paths, options);
  using interrupt = abortOnInterrupt();
  const progress = showProgress('indexing');
  await using viewer = await startViewer({
    inputs: opened.inputs,
    listen,
    token: options.token,
    page,
    onNotice: say,
    onProgress: (done, total) => progress.update(done, total),
  });
  const [first, second, ...others] = opened.inputs;
  const areCompared = paths.length > 1 && second !== undefined && others.length === 0;
  const address = pageAddress(
    viewer.address,
    options.token?.read ?? options.token?.all ?? options.token?.capture,
    areCompared ? `#/compare?run=${first?.run}&other=${second.run}` : '',
  );
  const isTerminal = process.stdout.isTTY === true;
  say(`view: ${address} (Ctrl-C ends it)`);
  if (!isTerminal) print(address);
  else if (options.open) openBrowser(address, options.environment);
  const started = performance.now();
  try {
    await Promise.race([viewer.indexed, interrupt.asked]);
  } finally {
    progress.stop();
  }
  if (!interrupt.signal.aborted) say(`indexed in ${((performance.now() - started) / 1000).toFixed(1)} s`);
  await interrupt.asked;
  return 0;
}
