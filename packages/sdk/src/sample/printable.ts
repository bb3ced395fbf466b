// What a child process said is shown to people, who must not be misled by it.

import { printable as shown } from '@ranktrace/protocol';

/** `text` as one line that shows nothing else than it says: white space is one space, the rest as protocol's `printable`; at most `charsMax` long. */
export const printable = (text: string, charsMax: number): string =>
  shown(
    text
      .slice(0, charsMax * 2)
      .replaceAll(/\s+/gu, ' ')
      .trim(),
  ).slice(0, charsMax);
