// All that the command writes: results on stdout, progress and trouble on stderr. Names that a rank, a file or a service gave may be in any of it, so
// text passes through here, where nothing that a terminal obeys gets through.
//
// Invariant: no other file of this package writes to stdout or stderr, but for the screen of `top` and the lines that renew themselves, which clean
// each piece, and `run`, which hands on what the ranks themselves print.

import { printable, printableJson, printableLines } from '@ranktrace/protocol';

/** Lines of text on stdout; nothing where there are none. Each name in them was made printable where it was put in: a line feed here is ours. */
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
