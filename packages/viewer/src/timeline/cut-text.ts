// Shortens a text to the available room: whole characters from its beginning, then an ellipsis.
//
// Invariant: by the sum of its characters' widths, the result is never wider than the room. (Drawn together they are no wider: kerning brings pairs
// closer, not farther apart.)

/** Least number of characters before an ellipsis; fewer are no help. */
const charsMin = 2;
const ellipsis = '…';

/**
 * The beginning of `text` with an ellipsis, at most `room` wide; empty when there is no room for two characters. `widthOf` measures one character.
 */
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
