// The `ranktrace` command for tests: a child process of the built package.

import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export const repository = fileURLToPath(new URL('../..', import.meta.url));
export const commandPath = `${repository}packages/cli/dist/main.js`;

export interface CommandResult {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface StartedCommand {
  readonly child: ChildProcess;
  readonly ended: Promise<CommandResult>;
  /** Resolves when `text` has been seen on stdout or stderr; rejects when the command ends before. */
  said(text: string): Promise<void>;
  /** Its output so far, stdout before stderr. */
  output(): string;
}

/** Starts `ranktrace ARGS…` in the repository's root; with `ownGroup` as a terminal does, in a process group of its own. */
export function startCommand(
  args: readonly string[],
  environment: Record<string, string> = {},
  { ownGroup = false, uid }: { readonly ownGroup?: boolean; readonly uid?: number | undefined } = {},
): StartedCommand {
  return startProgram(process.execPath, [commandPath, ...args], {
    cwd: repository,
    env: { ...process.env, ...environment },
    ownGroup,
    uid,
  });
}

/** Starts any program, as `startCommand` does. */
export function startProgram(
  file: string,
  args: readonly string[],
  {
    cwd,
    env,
    ownGroup,
    uid,
  }: { readonly cwd: string; readonly env: NodeJS.ProcessEnv; readonly ownGroup: boolean; readonly uid?: number | undefined },
): StartedCommand {
  const child = spawn(file, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'], detached: ownGroup, ...(uid !== undefined && { uid }) });
  const said = { stdout: '', stderr: '' };
  const listeners = new Set<() => void>();
  for (const name of ['stdout', 'stderr'] as const) {
    child[name]?.setEncoding('utf8').on('data', (text: string) => {
      said[name] += text;
      for (const listener of listeners) listener();
    });
  }
  const ended = new Promise<CommandResult>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => resolve({ code, signal, ...said }));
  });
  const saidText = (text: string): Promise<void> =>
    new Promise((resolve, reject) => {
      const look = (): void => {
        if (!said.stdout.includes(text) && !said.stderr.includes(text)) return;
        listeners.delete(look);
        resolve();
      };
      listeners.add(look);
      look();
      void ended.then(({ code }) => reject(new Error(`It ended with ${code} and never said "${text}":\n${said.stdout}\n${said.stderr}`)));
    });
  return { child, ended, said: saidText, output: () => said.stdout + said.stderr };
}

/** Runs `ranktrace ARGS…` to its end. */
export function runCommand(args: readonly string[], environment: Record<string, string> = {}): Promise<CommandResult> {
  return startCommand(args, environment).ended;
}
