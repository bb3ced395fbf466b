// Commands as a person types them: bash, in a folder of the test, without any environment of this repository or of the test's own process.

import { delimiter, dirname } from 'node:path';
import { type CommandResult, type StartedCommand, startProgram } from './ranktrace-command.ts';

/** Variables of the test's own launchers: options of ranktrace, npm's scripts, vitest. A person's shell has none of them. */
const ours =
  /^(RANKTRACE_|RANK$|WORLD_SIZE$|LOCAL_RANK$|MASTER_|VITEST|NODE_ENV$|NODE_OPTIONS$|INIT_CWD$|npm_(package|lifecycle|command|execpath|node_execpath)|npm_config_(local|global)_prefix$)/;

export interface TypedOptions {
  readonly cwd: string;
  /** The folder of the `node` to run; default: the test's own. */
  readonly nodeFolder?: string;
  readonly environment?: Record<string, string>;
}

/** Starts a line of bash, in a process group of its own. */
export function startTyped(line: string, { cwd, nodeFolder = dirname(process.execPath), environment = {} }: TypedOptions): StartedCommand {
  const own = Object.entries(process.env).filter(([name]) => !ours.test(name));
  const folders = (process.env.PATH ?? '').split(delimiter).filter((folder) => !folder.includes('node_modules'));
  const env = { ...Object.fromEntries(own), PATH: [nodeFolder, ...folders].join(delimiter), ...environment };
  const started = startProgram('bash', ['-e', '-o', 'pipefail', '-c', line], { cwd, env, ownGroup: true });
  // A test that is given up must not leave a job behind.
  const endWithTest = (): void => signal(started, 'SIGKILL');
  process.once('exit', endWithTest);
  started.child.once('close', () => process.off('exit', endWithTest));
  return started;
}

/** Runs a line of bash to its end. */
export const runTyped = (line: string, options: TypedOptions): Promise<CommandResult> => startTyped(line, options).ended;

/** The stdout of a line. Throws, with all output, if it did not end with 0. */
export async function printedBy(line: string, options: TypedOptions): Promise<string> {
  const { code, signal, stdout, stderr } = await runTyped(line, options);
  if (code === 0) return stdout;
  throw new Error(`"${line}" ended with ${code ?? signal}:\n${stdout}\n${stderr}`);
}

/** Presses Ctrl-C. */
export const interrupt = (started: StartedCommand): void => signal(started, 'SIGINT');

/** Sends the signal to the whole process group; does nothing if it has ended. */
function signal({ child }: StartedCommand, name: NodeJS.Signals): void {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  process.kill(-child.pid, name);
}
