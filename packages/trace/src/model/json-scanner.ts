// A pull scanner over JSON bytes that arrive in chunks: it turns wanted values into numbers and table indexes and skips the rest.
//
//   |  committed  |  the unit being read  |  not scanned yet    |
//   0             ^ mark                  ^ at                  ^ end            byte 0 is byte `origin` of the file
//
// A unit (an event, a metadata member) is read from contiguous bytes. When the bytes end inside it, the scanner throws `moreWanted`, the reader
// goes back to `mark` and reads the unit again once the bytes have doubled, so that even a file fed byte by byte costs O(bytes).
// As units are small (about 300 bytes), that is simpler and faster than a state machine that can stop anywhere.
//
// Invariant: strict JSON (RFC 8259), except for what known writers produce: invalid UTF-8 (Kineto) becomes U+FFFD; control characters in strings,
// NaN and Infinity (Python), nan and inf (C++) and values that nest too deep are skipped as values, and set `unfit`, for JSON.parse would refuse them.
// Invariant: it allocates only the unit's own bytes and the text a caller asks for; depth is bounded, and with it recursion.

import { decodeUtf8 } from './decode-utf8.ts';
import { TraceError, type TraceErrorCode } from './errors.ts';
import { limits } from './limits.ts';

/** Thrown when the bytes end inside a unit and more may come. It is no error: only the reader sees it. */
export const moreWanted: unique symbol = Symbol('more bytes wanted');

/** How its errors begin. */
export const cannotRead = 'Cannot read the trace: ';

export const json = {
  quote: 0x22,
  comma: 0x2c,
  minus: 0x2d,
  colon: 0x3a,
  openArray: 0x5b,
  backslash: 0x5c,
  closeArray: 0x5d,
  openObject: 0x7b,
  closeObject: 0x7d,
} as const;

const isDigit = (byte: number): boolean => byte >= 0x30 && byte <= 0x39;

/** 1 for bytes that end a run of plain bytes in a string: quote, backslash, control characters. */
const endsPlain = Uint8Array.from({ length: 256 }, (_, byte) => (byte === json.quote || byte === json.backslash || byte < 0x20 ? 1 : 0));

/** 1 for bytes that may continue a number, after its first digits. */
const continuesNumber = Uint8Array.from({ length: 256 }, (_, byte) => (isDigit(byte) || byte === 0x2e || (byte | 0x20) === 0x65 ? 1 : 0));

/** Digits that a double holds exactly. */
const exactDigits = 15;

const escaped = (control: string): string => `\\u${control.charCodeAt(0).toString(16).padStart(4, '0')}`;

/** Powers of ten that scale up to 22 decimals exactly. */
const powers = Float64Array.from({ length: 23 }, (_, exponent) => 10 ** exponent);

export class JsonScanner {
  bytes: Uint8Array = new Uint8Array(0);
  /** Of the same bytes. */
  view = new DataView(this.bytes.buffer);
  at = 0;
  end = 0;
  /** Offset of `bytes[0]` in the file. */
  origin = 0;
  /** Whether no more bytes will come. */
  final = false;
  /** The last string read: its bytes are `bytes[from, to)`, between the quotes. */
  from = 0;
  to = 0;
  /** Whether the last string has escapes. */
  escaped = false;
  /** Set by a value that JSON.parse would refuse, or that nests too deep. Callers clear it. */
  unfit = false;
  /** The last time read by `micros`: whole µs, and ns below that, 0 … 999. */
  wholeMicros = 0;
  restNanos = 0;

  #mark = 0;
  /** Bytes needed before the unit is tried again. */
  #wanted = 0;

  /** Takes the next bytes of the file; returns whether there are enough to try reading. */
  feed(chunk: Uint8Array): boolean {
    const kept = this.end - this.#mark;
    if (kept === 0) {
      // A view without the subclass that Node's streams give: a subarray of it would be slow.
      this.#setBytes(new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.length));
    } else {
      // The array doubles, so that many small chunks are not copied over and over.
      const fits = this.#mark === 0 && this.#owned && this.bytes.length >= kept + chunk.length;
      const joined = fits ? this.bytes : new Uint8Array(2 * kept + chunk.length);
      if (!fits) joined.set(this.bytes.subarray(this.#mark, this.end));
      joined.set(chunk, kept);
      if (!fits) this.#setBytes(joined);
    }
    this.#owned = kept > 0;
    this.origin += this.#mark;
    this.#mark = 0;
    this.at = 0;
    this.end = kept + chunk.length;
    return this.end >= this.#wanted;
  }

  #owned = false;

  #setBytes(bytes: Uint8Array): void {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  /** Marks everything before `at` as read. */
  commit(): void {
    this.#mark = this.at;
    this.#wanted = 0;
  }

  /** Goes back to the last commit, to try again with more bytes. */
  rewind(): void {
    this.at = this.#mark;
    const kept = this.end - this.#mark;
    if (kept > limits.jsonValueBytesMax) {
      throw this.error('too_large', `one value may have ${limits.jsonValueBytesMax} bytes, got more`);
    }
    this.#wanted = 2 * kept;
  }

  /** Copies the unread bytes out of the caller's chunk, which the caller may then reuse. */
  detach(): void {
    if (this.#owned) return;
    this.#setBytes(this.bytes.slice(this.#mark, this.end));
    this.origin += this.#mark;
    this.at -= this.#mark;
    this.end -= this.#mark;
    this.#mark = 0;
    this.#owned = true;
  }

  error(code: TraceErrorCode, what: string): TraceError {
    return new TraceError(code, `${cannotRead}at byte ${this.origin + this.at} ${what}`);
  }

  /** The next byte that is not white space, not consumed. */
  peek(): number {
    if (this.at < this.end) {
      const byte = this.bytes[this.at] as number;
      if (byte > 0x20) return byte;
    }
    for (; this.at < this.end; this.at++) {
      const byte = this.bytes[this.at] as number;
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return byte;
    }
    throw this.#ended();
  }

  /** Whether only white space is left in the bytes fed so far. */
  isEmpty(): boolean {
    for (; this.at < this.end; this.at++) {
      const byte = this.bytes[this.at] as number;
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return false;
    }
    return true;
  }

  /** Whether all that is left is one `byte` and white space. */
  isLast(byte: number): boolean {
    const { at } = this;
    let isLast = this.isEmpty();
    if (!isLast && this.bytes[this.at] === byte) {
      this.at++;
      isLast = this.isEmpty();
    }
    this.at = at;
    return isLast;
  }

  expect(wanted: number): void {
    if (this.peek() !== wanted) throw this.wrong(`\`${String.fromCharCode(wanted)}\``);
    this.at++;
  }

  /** The separator after a member: true if another one follows, false if `close` ends them. */
  another(close: number): boolean {
    const byte = this.peek();
    if (byte !== json.comma && byte !== close) throw this.wrong(`\`,\` or \`${String.fromCharCode(close)}\``);
    this.at++;
    return byte === json.comma;
  }

  /** Error that names the byte found in place of `wanted`. */
  wrong(wanted: string): TraceError {
    const byte = this.bytes[this.at] as number;
    const found = byte > 0x20 && byte < 0x7f ? `\`${String.fromCharCode(byte)}\`` : `byte 0x${byte.toString(16).padStart(2, '0')}`;
    return this.error('not_json', `it must have ${wanted}, got ${found}`);
  }

  /** Skips a string; `from`, `to` and `escaped` describe it. */
  string(): void {
    this.expect(json.quote);
    const { bytes, end } = this;
    let at = this.at;
    this.from = at;
    this.escaped = false;
    for (; at < end; at++) {
      if (endsPlain[bytes[at] as number] === 0) continue;
      const byte = bytes[at] as number;
      if (byte === json.quote) {
        this.to = at;
        this.at = at + 1;
        return;
      }
      if (byte === json.backslash) {
        this.at = at;
        at = this.#escape();
      } else {
        this.unfit = true;
      }
    }
    this.at = end;
    throw this.#ended();
  }

  /** The last string as text. */
  text(): string {
    if (!this.escaped) return decodeUtf8(this.bytes, this.from, this.to);
    // Escapes are rare, and such strings short and already checked, so JSON.parse may decode them.
    const text = decodeUtf8(this.bytes, this.from, this.to);
    return JSON.parse(`"${this.unfit ? text.replaceAll(/\p{Cc}/gu, escaped) : text}"`) as string;
  }

  number(): number {
    this.peek();
    const { bytes, end } = this;
    const first = this.at;
    // Nearly all numbers are short whole ones.
    const until = Math.min(end, first + exactDigits);
    let short = 0;
    let place = first;
    for (; place < until; place++) {
      const digit = (bytes[place] as number) - 0x30;
      if (digit < 0 || digit > 9) break;
      short = short * 10 + digit;
    }
    if (place < end && continuesNumber[bytes[place] as number] === 0 && (place === first + 1 || (place > first && bytes[first] !== 0x30))) {
      this.at = place;
      return short;
    }
    const negative = bytes[first] === json.minus;
    this.skipNumber();
    let value = 0;
    let at = negative ? first + 1 : first;
    let digits = 0;
    for (; at < this.at && isDigit(bytes[at] as number); at++, digits++) value = value * 10 + ((bytes[at] as number) - 0x30);
    if (bytes[at] === 0x2e && at < this.at) {
      const point = at++;
      for (; at < this.at && isDigit(bytes[at] as number); at++, digits++) value = value * 10 + ((bytes[at] as number) - 0x30);
      value /= powers[at - point - 1] ?? 1;
    }
    // Up to 15 digits and one division are exact; longer numbers take the slow, correctly rounded way.
    if (at < this.at || digits > 15) return Number(decodeUtf8(bytes, first, this.at));
    return negative ? -value : value;
  }

  /** Reads a time in µs into `wholeMicros` and `restNanos` from its digits: a double of µs since 1970 cannot hold ns. */
  micros(): void {
    this.peek();
    if (this.#plainMicros()) return;
    const { bytes } = this;
    const first = this.at;
    this.skipNumber();
    let whole = 0;
    let at = first;
    for (; at < this.at && isDigit(bytes[at] as number); at++) whole = whole * 10 + ((bytes[at] as number) - 0x30);
    let rest = 0;
    if (bytes[at] === 0x2e && at < this.at) {
      const point = at++;
      for (; at < this.at && at <= point + 3 && isDigit(bytes[at] as number); at++) rest = rest * 10 + ((bytes[at] as number) - 0x30);
      const decimals = at - point - 1;
      if (decimals < 3) rest *= powers[3 - decimals] as number;
      else if (at < this.at && (bytes[at] as number) >= 0x35 && isDigit(bytes[at] as number)) rest++;
      while (at < this.at && isDigit(bytes[at] as number)) at++;
    }
    if (at < this.at || bytes[first] === json.minus) {
      // Negative or with an exponent: no known writer emits it, but JSON allows it.
      const value = Number(decodeUtf8(bytes, first, this.at));
      whole = Math.floor(value);
      rest = Math.round((value - whole) * 1000);
    }
    this.wholeMicros = rest === 1000 ? whole + 1 : whole;
    this.restNanos = rest === 1000 ? 0 : rest;
  }

  /** Reads a time as all known writers print it, digits and up to three decimals; false, without reading, for any other. */
  #plainMicros(): boolean {
    const { bytes, end } = this;
    let at = this.at;
    const until = Math.min(end, at + exactDigits);
    const first = at;
    let whole = 0;
    for (; at < until; at++) {
      const digit = (bytes[at] as number) - 0x30;
      if (digit < 0 || digit > 9) break;
      whole = whole * 10 + digit;
    }
    if (at === first || (bytes[first] === 0x30 && at > first + 1)) return false;
    let rest = 0;
    if (at < end && bytes[at] === 0x2e) {
      const point = at++;
      const last = Math.min(end, at + 3);
      for (; at < last; at++) {
        const digit = (bytes[at] as number) - 0x30;
        if (digit < 0 || digit > 9) break;
        rest = rest * 10 + digit;
      }
      if (at === point + 1) return false;
      if (at < point + 4) rest *= at === point + 3 ? 10 : 100;
    }
    if (at >= end || continuesNumber[bytes[at] as number] === 1) return false;
    this.wholeMicros = whole;
    this.restNanos = rest;
    this.at = at;
    return true;
  }

  /** Skips any value; `depth` is its nesting depth. */
  skip(depth = 0): void {
    const byte = this.peek();
    if (byte === json.openObject || byte === json.openArray) this.#skipNested(depth);
    else this.#skipPlain(byte);
  }

  /** Skips an array or object at `depth`, without recursion: `#closes` holds the end of each level that is open. */
  #skipNested(depth: number): void {
    let closes = this.#closes;
    let level = depth;
    do {
      const byte = this.peek();
      if (byte === json.openObject || byte === json.openArray) {
        if (level >= limits.jsonDepthMax) this.unfit = true;
        if (level >= limits.jsonSkippedDepthMax) {
          throw this.error('too_deep', `values may be ${limits.jsonSkippedDepthMax} deep to be skipped, got deeper`);
        }
        const close = byte === json.openObject ? json.closeObject : json.closeArray;
        this.at++;
        if (this.peek() !== close) {
          if (level >= closes.length) {
            closes = new Uint8Array(2 * level);
            closes.set(this.#closes);
            this.#closes = closes;
          }
          closes[level++] = close;
          if (close === json.closeObject) this.#key();
          continue;
        }
        this.at++;
      } else {
        this.#skipPlain(byte);
      }
      // After a value: the next one, or the end of each level that ends here.
      while (level > depth) {
        const close = closes[level - 1] as number;
        if (this.another(close)) {
          if (close === json.closeObject) this.#key();
          break;
        }
        level--;
      }
    } while (level > depth);
  }

  #closes = new Uint8Array(limits.jsonDepthMax);

  #key(): void {
    this.string();
    this.expect(json.colon);
  }

  /** Skips a value that holds no others; `byte` is its first. */
  #skipPlain(byte: number): void {
    if (byte === json.quote) this.string();
    else if (this.isNoNumber(byte)) this.#skipNoNumber(byte);
    else if (byte === json.minus || isDigit(byte)) this.skipNumber();
    else if (byte === 0x74) this.#literal('true');
    else if (byte === 0x66) this.#literal('false');
    else if (byte === 0x6e) this.#literal('null');
    else throw this.wrong('a value');
  }

  /** Whether `byte`, the first of a value, begins a number that is none, in capitals or not: nan, inf, infinity; with a minus or without. */
  isNoNumber(byte: number): boolean {
    const next = this.at + 1 < this.end ? (this.bytes[this.at + 1] as number) | 0x20 : 0;
    if (byte === json.minus) return next === 0x69 || next === 0x6e;
    // `n` alone begins null, too.
    return byte === 0x4e || (byte | 0x20) === 0x69 || (byte === 0x6e && next === 0x61);
  }

  #skipNoNumber(byte: number): void {
    if (byte === json.minus) this.at++;
    const isNan = (this.#next() | 0x20) === 0x6e;
    this.#literal(isNan ? 'nan' : 'inf', 0x20);
    if (!isNan && (this.#next() | 0x20) === 0x69) this.#literal('inity', 0x20);
    this.unfit = true;
  }

  skipNumber(): void {
    if (this.bytes[this.at] === json.minus) this.at++;
    if (this.#next() === 0x30) this.at++;
    else this.#digits();
    if (this.at < this.end && this.bytes[this.at] === 0x2e) {
      this.at++;
      this.#digits();
    }
    if (this.at < this.end && ((this.bytes[this.at] as number) | 0x20) === 0x65) {
      this.at++;
      const sign = this.#next();
      if (sign === 0x2b || sign === json.minus) this.at++;
      this.#digits();
    }
    // At the end of the bytes the number may continue in the next chunk.
    if (this.at === this.end && !this.final) throw moreWanted;
  }

  #digits(): void {
    if (!isDigit(this.#next())) throw this.wrong('a digit');
    while (this.at < this.end && isDigit(this.bytes[this.at] as number)) this.at++;
  }

  /** `lower`: 0x20 takes capitals for small letters, too. */
  #literal(word: string, lower = 0): void {
    for (let index = 0; index < word.length; index++) {
      if ((this.#next() | lower) !== word.charCodeAt(index)) throw this.wrong(`\`${word}\``);
      this.at++;
    }
  }

  /** Checks the escape at `at`; returns the position of its last byte. */
  #escape(): number {
    this.escaped = true;
    this.at++;
    const kind = this.#next();
    if (kind === 0x75) {
      for (let digit = 0; digit < 4; digit++) {
        this.at++;
        const byte = this.#next();
        if (!isDigit(byte) && !((byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x66)) throw this.wrong('four hexadecimal digits');
      }
    } else if (!'"\\/bfnrt'.includes(String.fromCharCode(kind))) {
      throw this.wrong('an escape');
    }
    return this.at;
  }

  #next(): number {
    if (this.at >= this.end) throw this.#ended();
    return this.bytes[this.at] as number;
  }

  #ended(): TraceError | typeof moreWanted {
    return this.final
      ? this.error('truncated', 'the file ends in the middle of its data: it was cut off or is still being written')
      : moreWanted;
  }
}
