// Makes a child process's output safe to show to people.

import { printable as shown } from '@ranktrace/protocol';

/** `text` as one harmless line: white space becomes one space, the rest as in protocol's `printable`; at most `charsMax` long. */
export const printable = (text: string, charsMax: number): string =>
  shown(
    text
      .slice(0, charsMax * 2)
      .replaceAll(/\s+/gu, ' ')
      .trim(),
  ).slice(0, charsMax);
