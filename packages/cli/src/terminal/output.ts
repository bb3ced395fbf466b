// All output of the command: results on stdout, progress and trouble on stderr. Any text may hold names from a rank, a file or a service, so all text
// passes through here, where no terminal control sequence gets through.
//
// Invariant: no other file of this package writes to stdout or stderr, except the screen of `top` and the lines that renew themselves, which clean
// each piece, and `run`, which relays the ranks' own output.

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

/** `ranktrace: LINE` on stderr. */
export function say(line: string): void {
  complain(`ranktrace: ${printable(line)}`);
}

/** Lines of text on stderr. */
export function complain(text: string): void {
  process.stderr.write(lines(text));
}

const lines = (text: string): string => (text === '' || text.endsWith('\n') ? printableLines(text) : `${printableLines(text)}\n`);
