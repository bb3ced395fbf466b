// A dump of a rank's Flight Recorder, asked for: its watchdog reads the pipe, and writes the file.
//
//   any byte ──► PIPE<rank>.pipe ──► watchdog ──► FILE<rank>, a pickle ──► readFlightRecorder
//
// Invariant: nothing here waits for the rank: the pipe is opened and written without blocking, and the file is awaited `dumpWaitMs` long.
// Invariant: pipe and file are the rank's user's own, and no links. A pickle is read by the restricted reader alone.

import { closeSync, constants, fstatSync, lstatSync, openSync, readSync, writeSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import { TraceError } from '@ranktrace/trace';
import { type FlightRecorderDump, readFlightRecorder } from '@ranktrace/trace/torch';
import { fileKey } from '../files/file-journal.ts';
import { openOwnFile } from '../files/trace-folder.ts';
import { AgentError } from '../model/errors.ts';
import { agentLimits as limits } from '../model/limits.ts';

export interface DumpPlace {
  readonly pipe: string;
  readonly file: string;
  /** The rank's user. */
  readonly uid: number;
}

/** Asks for a dump and reads it. Rejects with AgentError `dump_unavailable`, `file_refused`, and with the signal's reason. */
export async function requestDump(
  { pipe, file, uid }: DumpPlace,
  signal: AbortSignal,
  waitMs: number = limits.dumpWaitMs,
): Promise<FlightRecorderDump> {
  const askedMs = Date.now();
  const before = stateOf(file);
  ask(pipe, uid);
  const until = performance.now() + waitMs;
  for (let unread = 'none came'; ; ) {
    await wait(limits.dumpLookMs, undefined, { signal });
    const opened = openOwnFile(file, uid, limits.dumpBytesMax);
    // A file of before shows an earlier moment. File systems may keep whole seconds, and a server of files has a clock of its own.
    if (opened !== undefined && (fileKey(opened.about) !== before || Math.ceil(opened.about.mtimeMs / 1000) * 1000 >= askedMs)) {
      try {
        return readFlightRecorder(contentOf(opened.descriptor, opened.about.size));
      } catch (error) {
        // It is being written.
        if (!(error instanceof TraceError)) throw error;
        unread = error.message;
      }
    } else if (opened !== undefined) closeSync(opened.descriptor);
    if (performance.now() > until)
      throw new AgentError('dump_unavailable', `Cannot read a dump from "${file}" within ${waitMs / 1000} s: ${unread}`);
  }
}

/** Undefined for none. */
function stateOf(file: string): string | undefined {
  try {
    return fileKey(lstatSync(file));
  } catch {
    return undefined;
  }
}

/** Writes to the pipe. Throws AgentError. */
function ask(pipe: string, uid: number): void {
  const refused = (why: string): AgentError => new AgentError('dump_unavailable', `Cannot ask for a dump through "${pipe}": ${why}`);
  let descriptor: number | undefined;
  try {
    // To open a device may do something, so look first; and look again at what was opened.
    if (!lstatSync(pipe).isFIFO()) throw refused('it must be a pipe');
    descriptor = openSync(pipe, constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW);
    const about = fstatSync(descriptor);
    if (!about.isFIFO()) throw refused('it must be a pipe');
    if (about.uid !== uid) throw refused(`it must be of user ${uid}, got one of user ${about.uid}`);
    writeSync(descriptor, '1');
  } catch (error) {
    if (error instanceof AgentError) throw error;
    const { code = 'error' } = error as NodeJS.ErrnoException;
    const whys: Readonly<Record<string, string>> = {
      ENOENT: 'there is none: its Flight Recorder is off (TORCH_FR_BUFFER_SIZE), or its first collective is still to come',
      ENXIO: 'nobody reads it',
      EAGAIN: 'it is full: nobody reads it',
    };
    throw refused(whys[code] ?? code);
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}

/** The file's first `size` bytes; closes it. */
function contentOf(descriptor: number, size: number): Uint8Array {
  try {
    const bytes = new Uint8Array(size);
    let length = 0;
    for (let read = -1; read !== 0 && length < size; length += read) read = readSync(descriptor, bytes, length, size - length, length);
    return bytes.subarray(0, length);
  } finally {
    closeSync(descriptor);
  }
}
