// Splits an untrusted stream into lines: skips a line longer than the bound to its end, so that memory stays bounded.

export class LineSplitter {
  readonly #charsMax: number;
  #rest = '';
  #skipping = false;

  constructor(charsMax: number) {
    this.#charsMax = charsMax;
  }

  /** Calls `onLine` with each line that `chunk` ends, without its LF or CRLF. Drops a last line without one: it may be cut. */
  push(chunk: string, onLine: (line: string) => void): void {
    let start = 0;
    for (let end = chunk.indexOf('\n'); end >= 0; end = chunk.indexOf('\n', start)) {
      if (!this.#skipping && this.#rest.length + end - start <= this.#charsMax) {
        const line = this.#rest + chunk.slice(start, end);
        onLine(line.endsWith('\r') ? line.slice(0, -1) : line);
      }
      this.#rest = '';
      this.#skipping = false;
      start = end + 1;
    }
    if (this.#skipping) return;
    this.#skipping = this.#rest.length + chunk.length - start > this.#charsMax;
    this.#rest = this.#skipping ? '' : this.#rest + chunk.slice(start);
  }
}
