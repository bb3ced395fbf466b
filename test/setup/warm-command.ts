// `ranktrace` for tests of many command lines: one process runs them one after the other. A start costs a quarter of a second of CPU time, and code
// that has run before runs faster; a test that asks what a line prints needs neither a process of its own nor to pay for it.
//
// A test of a start, an end, a signal, a variable or the memory of a command starts its own (ranktrace-command.ts).

import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import type { Readable, Writable } from 'node:stream';
import { pathToFileURL } from 'node:url';
import { programPath } from './command-module.ts';
import { type CommandResult, repository } from './ranktrace-command.ts';

type Host = ChildProcessByStdio<Writable, Readable, Readable>;

let host: Host | undefined;
let last: Promise<unknown> = Promise.resolve();

/** Runs `ranktrace ARGS…` to its end, in the repository's root, after those before it. */
export function runLine(args: readonly string[]): Promise<CommandResult> {
  const result = last.then(() => runIn(startedHost(), args));
  last = result.catch(() => undefined);
  return result;
}

function startedHost(): Host {
  if (host !== undefined) return host;
  const child = spawn(process.execPath, ['test/programs/command-lines.mjs'], { cwd: repository, stdio: ['pipe', 'pipe', 'pipe'] });
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8');
  // A test that is killed must not leave it behind.
  const endWithTest = () => child.kill('SIGKILL');
  process.once('exit', endWithTest);
  child.once('exit', () => {
    process.off('exit', endWithTest);
    host = undefined;
  });
  host = child;
  return child;
}

function runIn(child: Host, args: readonly string[]): Promise<CommandResult> {
  const mark = `\u0000${randomUUID()}\n`;
  return new Promise((resolve, reject) => {
    const said = { stdout: '', stderr: '' };
    const finish = (): void => {
      child.stdout.off('data', onStdout);
      child.stderr.off('data', onStderr);
      child.off('close', onClose);
    };
    const look = (): void => {
      if (!said.stdout.endsWith(mark) || !said.stderr.endsWith(mark)) return;
      finish();
      const stdout = said.stdout.slice(0, -mark.length);
      const end = stdout.lastIndexOf('\u0000');
      resolve({
        code: Number(stdout.slice(end + 1)),
        signal: null,
        stdout: stdout.slice(0, end),
        stderr: said.stderr.slice(0, -mark.length),
      });
    };
    const onStdout = (text: string): void => {
      said.stdout += text;
      look();
    };
    const onStderr = (text: string): void => {
      said.stderr += text;
      look();
    };
    const onClose = (code: number | null): void => {
      finish();
      reject(new Error(`"ranktrace ${args.join(' ')}" ended its process with ${code}:\n${said.stdout}\n${said.stderr}`));
    };
    child.stdout.on('data', onStdout);
    child.stderr.on('data', onStderr);
    child.once('close', onClose);
    const line = JSON.stringify({ module: pathToFileURL(programPath).href, args, mark });
    // Node's readline ends a line at these two as well, from version 24 on.
    child.stdin.write(`${line.replaceAll('\u2028', String.raw`\u2028`).replaceAll('\u2029', String.raw`\u2029`)}\n`);
  });
}
