// UTF-8 to text, without the platform's decoder: this package compiles for service, terminal and browser alike.
//
// Invariant: any bytes are decoded; invalid UTF-8 (overlong forms and surrogates too) becomes U+FFFD, a byte at a time.

/** Characters handed to one call of String.fromCharCode: its arguments go on the stack. */
const atOnce = 4096;

/** The text of `bytes[from, to)`. */
export function decodeUtf8(bytes: Uint8Array, from: number, to: number): string {
  let ascii = true;
  for (let at = from; at < to && ascii; at++) ascii = (bytes[at] as number) < 0x80;
  let text = '';
  if (ascii) {
    for (let at = from; at < to; at += atOnce) {
      text += String.fromCharCode.apply(undefined, bytes.subarray(at, Math.min(at + atOnce, to)) as unknown as number[]);
    }
    return text;
  }
  for (let at = from; at < to; ) {
    const first = bytes[at] as number;
    const more =
      first < 0x80 ? 0 : first >= 0xc2 && first < 0xe0 ? 1 : first >= 0xe0 && first < 0xf0 ? 2 : first >= 0xf0 && first < 0xf5 ? 3 : -1;
    let point = more <= 0 ? first : first & (0x3f >> more);
    let valid = more >= 0 && at + more < to;
    for (let index = 1; valid && index <= more; index++) {
      const byte = bytes[at + index] as number;
      valid = (byte & 0xc0) === 0x80;
      point = (point << 6) | (byte & 0x3f);
    }
    if (valid && more === 2) valid = point >= 0x800 && (point < 0xd800 || point > 0xdfff);
    if (valid && more === 3) valid = point >= 0x10000 && point <= 0x10ffff;
    text += valid ? String.fromCodePoint(point) : '\ufffd';
    at += valid ? more + 1 : 1;
  }
  return text;
}

/** The text without the byte order mark that some editors and shells write before it: JSON.parse takes none. */
export const withoutByteOrderMark = (text: string): string => (text.startsWith('\uFEFF') ? text.slice(1) : text);
