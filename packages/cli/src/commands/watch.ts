// `ranktrace watch DIR…`: torch.profiler's files as they appear, into a running service, until Ctrl-C.

import { statSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { watchFiles } from '@ranktrace/agent';
import { limits } from '@ranktrace/protocol';
import { CliError } from '../terminal/errors.ts';
import { abortOnInterrupt } from '../terminal/interrupt.ts';
import { say } from '../terminal/output.ts';
import { destinationOf } from './agent.ts';

export interface WatchArguments {
  readonly url?: string;
  readonly run?: string;
  readonly environment: NodeJS.ProcessEnv;
}

export async function watch(folders: readonly string[], { url, run, environment }: WatchArguments): Promise<number> {
  using interrupt = abortOnInterrupt();
  const destination = destinationOf('watch', url, environment);
  const paths = folders.map((folder) => resolve(folder));
  for (const path of paths) {
    const about = statSync(path, { throwIfNoEntry: false });
    if (about?.isDirectory() === false) throw new CliError('bad_input', `Cannot watch "${path}": it is a file; name its folder`);
    if (about === undefined) say(`there is no folder "${path}" yet`);
  }
  const name = run ?? runNameOf(paths[0] ?? '');
  say(`watching ${paths.map((path) => `"${path}"`).join(', ')}: files of torch.profiler become ranks of run ${name}; Ctrl-C ends it`);
  await watchFiles({ folders: paths, run: name, environment: { ...environment, ...destination }, notice: say, signal: interrupt.signal });
  return 0;
}

/** The folder's own name, as far as a run may have it. */
const runNameOf = (path: string): string =>
  basename(path)
    .replaceAll(/[^A-Za-z0-9_-]+/g, '-')
    .slice(0, limits.runNameCharsMax)
    .replace(/^-+$/, '') || 'watched';
