// Shortens a text to the available room: whole characters from its beginning and its end, with an ellipsis between them.
//
// Invariant: by the sum of its characters' widths, the result is never wider than the room. (Drawn together they are no wider: kerning brings pairs
// closer, not farther apart.)

/** Least number of characters beside the ellipsis; fewer are no help. */
const charsMin = 2;
const ellipsis = '…';
/** From this number of characters on, the end of the text is kept, too: every third character. */
const tailFrom = 12;
const tailPart = 3;

/**
 * The beginning and the end of `text` with an ellipsis between them, at most `room` wide; the beginning alone where there is little room, and nothing
 * where there is none for two characters. `widthOf` measures one character.
 */
export function cutText(text: string, room: number, widthOf: (char: string) => number): string {
  let left = room - widthOf(ellipsis);
  let end = 0;
  let chars = 0;
  for (const char of text) {
    left -= widthOf(char);
    if (left < 0) break;
    end += char.length;
    chars++;
  }
  if (chars < charsMin) return '';
  if (chars < tailFrom) return `${text.slice(0, end)}${ellipsis}`;
  // The text is longer than the room: only as many characters as fit are taken apart.
  const tail = lastChars(text, Math.floor(chars / tailPart));
  let tailLeft = room - widthOf(ellipsis);
  for (const char of tail) tailLeft -= widthOf(char);
  if (tailLeft < 0) return `${text.slice(0, end)}${ellipsis}`;
  end = 0;
  for (const char of text) {
    tailLeft -= widthOf(char);
    if (tailLeft < 0) break;
    end += char.length;
  }
  return `${text.slice(0, end)}${ellipsis}${tail}`;
}

function lastChars(text: string, count: number): string {
  let from = text.length;
  for (let left = count; left > 0 && from > 0; left--) {
    from--;
    // Both halves of a pair, or none.
    if (from > 0 && (text.charCodeAt(from) & 0xfc00) === 0xdc00) from--;
  }
  return text.slice(from);
}
