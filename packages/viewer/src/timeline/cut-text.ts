// A text shortened to the room that there is: whole characters from its beginning, then an ellipsis.
//
// Invariant: as wide as its characters are each for themselves, the result is never wider than the room. (Together they are no wider: pairs are
// drawn closer, not farther apart.)

/** Fewer characters than these before the ellipsis say nothing. */
const charsMin = 2;
const ellipsis = '…';

/** The beginning of `text` with an ellipsis, at most `room` wide; empty when there is no room for two characters. `widthOf`: of one character. */
export function cutText(text: string, room: number, widthOf: (char: string) => number): string {
  let left = room - widthOf(ellipsis);
  let chars = 0;
  let end = 0;
  for (const char of text) {
    left -= widthOf(char);
    if (left < 0) break;
    end += char.length;
    chars++;
  }
  return chars < charsMin ? '' : `${text.slice(0, end)}${ellipsis}`;
}
