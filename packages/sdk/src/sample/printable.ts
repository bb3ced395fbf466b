// What a child process said is shown to people, who must not be misled by it.

/** `text` as one line that shows nothing else than it says: no control characters, at most `charsMax` long. */
export function printable(text: string, charsMax: number): string {
  return text
    .slice(0, charsMax * 2)
    .replaceAll(/[\p{C}\s]+/gu, ' ')
    .trim()
    .slice(0, charsMax);
}
