// The output buffer of a JSON file: repeated strings are escaped once.

import { ByteBuffer } from './byte-buffer.ts';

/** JSON strings cached, ~100 B each. */
const textsMax = 16_384;

/** Caches the JSON form of repeated strings. */
export class JsonBuffer extends ByteBuffer {
  readonly #texts = new Map<string, string>();

  /** `text` as a JSON string. */
  json(text: string): void {
    let json = this.#texts.get(text);
    if (json === undefined) {
      json = wellFormedJson(text);
      if (this.#texts.size >= textsMax) this.#texts.clear();
      this.#texts.set(text, json);
    }
    this.utf8(json);
  }
}

/** JSON that every parser accepts: JSON.stringify would leave lone surrogates as `\ud800`; some parsers reject the whole file for one. */
export function wellFormedJson(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) => (typeof inner === 'string' ? wellFormed(inner) : inner));
}

const wellFormed = (text: string): string => text.replace(/\p{Surrogate}/gu, '\ufffd');
