// All output of the command: results on stdout, progress and trouble on stderr. Any text may hold names from a rank, a file or a service, so all text
// passes through here, where no terminal control sequence gets through.
//
// Invariant: no other file of this package writes to stdout or stderr, except the screen of `top` and the lines that renew themselves, which clean
// each piece, and `run`, which relays the ranks' own output.

import { writeSync } from 'node:fs';
import { printable, printableJson, printableLines } from '@ranktrace/protocol';

/**
 * Prints lines of text on stdout; nothing for an empty text. Names in them were made printable where they were inserted: a line feed here is ours.
 */
export function print(text: string): void {
  process.stdout.write(lines(text));
}

/** `data` as one line of JSON on stdout, names as they are. */
export function printData(data: unknown): void {
  process.stdout.write(`${printableJson(data)}\n`);
}

/** Names that lines on stderr give to files of ours. */
const shownAs = new Map<string, string>();

/** From now on `say` names a file of ours, as the copy of a pipe, by what the user typed. */
export function showAs(path: string, operand: string): void {
  shownAs.set(path, operand);
}

/** `ranktrace: LINE` on stderr. */
export function say(line: string): void {
  let shown = line;
  for (const [path, operand] of shownAs) shown = shown.replaceAll(path, operand);
  complain(`ranktrace: ${printable(shown)}`);
}

/** Removes a line of stderr that renews itself, which is drawn again below what is written. */
let removeRenewed = (): void => {};

/** From now on `remove` is called before each line on stderr. */
export function removeBeforeLines(remove: () => void): void {
  removeRenewed = remove;
}

/** Lines of text on stderr. */
export function complain(text: string): void {
  removeRenewed();
  process.stderr.write(lines(text));
}

const lines = (text: string): string => (text === '' || text.endsWith('\n') ? printableLines(text) : `${printableLines(text)}\n`);

/** Writes bytes of a file to stdout as they are, waiting for a slow reader: they may be far more than memory holds. */
export function writeBytes(chunk: Uint8Array): void {
  for (let done = 0; done < chunk.length; ) {
    try {
      done += writeSync(1, chunk, done);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      // The reader, such as `| head`, has closed the pipe.
      if (code === 'EPIPE') process.exit(0);
      if (code !== 'EAGAIN') throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    }
  }
}
