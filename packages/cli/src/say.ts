// Progress and trouble, a line at a time, on stderr. What a rank named or a server answered may be in it, so it is cleaned here, once.

import { printable } from './format.ts';

/** `ranktrace: LINE` on stderr. */
export function say(line: string): void {
  process.stderr.write(`ranktrace: ${printable(line)}\n`);
}
