// A child process read line by line, within bounds, that delays nothing and keeps nothing alive.
//
// Invariants: it keeps no process and no thread alive; `onEnd` is called exactly once, unless `stop` was called before; no callback follows
// it. `stop`, silence, and an orderly end of its thread kill the child. If the thread or process ends by force, the pipe that the child
// writes to is closed, and its next line ends it (SIGPIPE).

import { type ChildProcessByStdio, spawn } from 'node:child_process';
import type { Readable } from 'node:stream';
import { guarded } from '../process/guarded.ts';
import { LineSplitter } from './line-splitter.ts';
import { printable } from './printable.ts';
import type { SampleLimits } from './sample-limits.ts';

export interface LineChildParts {
  readonly command: string;
  readonly args: readonly string[];
  readonly limits: SampleLimits;
  /** Window of `linesPerIntervalMax`. */
  readonly intervalMs: number;
  /** Silence after which it is ended. */
  readonly silenceMs: number;
  /** Returns whether it understood the line; one that it did not may explain why the child ends. */
  readonly onLine: (line: string) => boolean;
  readonly onEnd: (end: LineChildEnd) => void;
}

export interface LineChildEnd {
  /** Whether it could not start at all (no such command, no right to run it). */
  readonly absent: boolean;
  readonly ok: boolean;
  /** For people: `exit code 9: TEXT`. */
  readonly reason: string;
}

/** Starts `command`; returns a handle that stops it. Never throws. */
export function startLineChild({ command, args, limits, intervalMs, silenceMs, onLine, onEnd }: LineChildParts): { stop(): void } {
  let ended = false;
  let silent = false;
  let words = '';
  let child: ChildProcessByStdio<null, Readable, Readable> | undefined;
  const kill = guarded('ending a program', () => child?.kill('SIGKILL'));

  const giveUp = guarded('ending a program', () => {
    silent = true;
    kill();
  });
  const silence = setTimeout(giveUp, silenceMs).unref();
  const close = () => {
    ended = true;
    clearTimeout(silence);
    process.removeListener('exit', kill);
  };
  const end = (absent: boolean, ok: boolean, how: string) => {
    if (ended) return;
    close();
    onEnd({ absent, ok, reason: words === '' ? how : `${how}: ${words}` });
  };

  const hear = (line: string) => {
    if (ended) return;
    silence.refresh();
    if (onLine(line)) return;
    const text = printable(line, limits.reasonCharsMax);
    if (text !== '') words = text;
  };

  try {
    child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], windowsHide: true });
  } catch (error) {
    // An invalid argument; reported later, as all ends are.
    const refused = guarded('starting a program', () => end(isAbsent(error), false, codeOf(error)));
    setImmediate(refused).unref();
    return { stop: close };
  }
  child.on(
    'error',
    guarded('starting a program', (error: Error) => end(isAbsent(error), false, codeOf(error))),
  );
  // Without free descriptors these streams are missing, whatever the types say, and the error follows.
  const { stdout, stderr } = child as Partial<typeof child>;
  if (stdout === undefined || stderr === undefined) return { stop: close };
  child.unref();
  process.on('exit', kill);
  read(stdout, limits, intervalMs, hear);
  read(stderr, limits, intervalMs, hear);
  // `close` comes at the end of the pipes, after the last output is read; but a process of the child's may hold them open.
  const exited = guarded('ending a program', (code: number | null, signal: string | null) =>
    end(false, code === 0 && !silent, silent ? 'no answer' : (signal ?? `exit code ${code}`)),
  );
  child.on('close', exited);
  const exiting = guarded('ending a program', (code: number | null, signal: string | null) => {
    const late = guarded('ending a program', () => {
      exited(code, signal);
      stdout.destroy();
      stderr.destroy();
    });
    setTimeout(late, limits.pipesOpenMsMax).unref();
  });
  child.on('exit', exiting);

  return {
    stop: () => {
      if (ended) return;
      close();
      kill();
      stdout.destroy();
      stderr.destroy();
    },
  };
}

function read(stream: Readable, limits: SampleLimits, intervalMs: number, onLine: (line: string) => void): void {
  const splitter = new LineSplitter(limits.lineCharsMax);
  let lines = 0;
  let linesSinceMs = 0;
  let chars = 0;
  let charsSinceMs = 0;
  const bounded = (line: string) => {
    if (++lines <= limits.linesPerIntervalMax) onLine(line);
  };
  (stream as Readable & { unref?(): void }).unref?.();
  stream.setEncoding('utf8');
  // The child reports its end.
  stream.on(
    'error',
    guarded('reading a program', () => {}),
  );
  const heard = guarded('reading a program', (chunk: string) => {
    const nowMs = performance.now();
    if (nowMs - linesSinceMs >= intervalMs) [lines, linesSinceMs] = [0, nowMs];
    if (nowMs - charsSinceMs >= 1000) [chars, charsSinceMs] = [0, nowMs];
    splitter.push(chunk, bounded);
    chars += chunk.length;
    if (chars <= limits.outputCharsPerSecondMax) return;
    stream.pause();
    const resume = guarded('reading a program', () => stream.resume());
    setTimeout(resume, 1000 - (nowMs - charsSinceMs)).unref();
  });
  stream.on('data', heard);
}

/** Whether it can never start; descriptors, processes and memory may only be short for a moment. */
function isAbsent(error: unknown): boolean {
  return !['EMFILE', 'ENFILE', 'EAGAIN', 'ENOMEM'].includes(codeOf(error));
}

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? 'error';
}
