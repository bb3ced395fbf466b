// A child process that is read line by line, within bounds, and never in the way of anything.
//
// Invariants: it keeps no process and no thread alive; `onEnd` is called exactly once, unless `stop` was called before; nothing is told
// after that. It is killed by `stop`, by silence and when its thread ends in order. Should the thread or process be ended by force, the
// pipe it writes to is closed, and its next line ends it (SIGPIPE).

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
  /** Ended when nothing came for this long. */
  readonly silenceMs: number;
  /** Says whether the line was understood; one that was not may tell why the child ends. */
  readonly onLine: (line: string) => boolean;
  readonly onEnd: (end: LineChildEnd) => void;
}

export interface LineChildEnd {
  /** It could not be started at all (no such command, no right to run it). */
  readonly absent: boolean;
  readonly ok: boolean;
  /** For people: `exit code 9: TEXT`. */
  readonly reason: string;
}

/** Starts `command`; returns what ends it. Never throws. */
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
    // An argument that cannot be one; told later, as all ends are.
    const refused = guarded('starting a program', () => end(isAbsent(error), false, codeOf(error)));
    setImmediate(refused).unref();
    return { stop: close };
  }
  child.on(
    'error',
    guarded('starting a program', (error: Error) => end(isAbsent(error), false, codeOf(error))),
  );
  // Without a descriptor for them there are none, whatever the types say, and the error follows.
  const { stdout, stderr } = child as Partial<typeof child>;
  if (stdout === undefined || stderr === undefined) return { stop: close };
  child.unref();
  process.on('exit', kill);
  read(stdout, limits, intervalMs, hear);
  read(stderr, limits, intervalMs, hear);
  // `close` comes when the pipes are at their end, so that what it said last has been read; a process of the child's may hold them open.
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
  // Its end is told by the child.
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

/** Whether it cannot be started at all; what the system lacks for a moment (descriptors, processes, memory), it may have later. */
function isAbsent(error: unknown): boolean {
  return !['EMFILE', 'ENFILE', 'EAGAIN', 'ENOMEM'].includes(codeOf(error));
}

function codeOf(error: unknown): string {
  return (error as NodeJS.ErrnoException).code ?? 'error';
}
