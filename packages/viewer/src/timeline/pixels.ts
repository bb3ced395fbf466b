// The picture of one frame as pixels: rectangles, lines of spans that are painted once and repeated downwards, hatching. Its pixels bound the cost of
// a frame, whatever the trace holds, and it needs no GPU.
//
//   line   ▓▓▒▒░▓▓▓▓░░▒▒▓   one row of `width` pixels, painted by span-line.ts
//   repeat ▓▓▒▒░▓▓▓▓░░▒▒▓   … copied down to the height of a lane
//
// Invariant: nothing is written outside of the clip, whatever the arguments; coordinates are device pixels, fractions are cut off.

import { mixed } from './palette.ts';

export class Pixels {
  readonly width: number;
  readonly height: number;
  /** Row by row from the top, 0xAABBGGRR. */
  readonly data: Uint32Array;
  #clipTop = 0;
  #clipBottom: number;

  constructor(width: number, height: number) {
    this.width = Math.max(1, Math.floor(width));
    this.height = Math.max(1, Math.floor(height));
    this.data = new Uint32Array(this.width * this.height);
    this.#clipBottom = this.height;
  }

  /** Restricts later changes to rows from `top` to before `bottom`. */
  clip(top: number, bottom: number): void {
    this.#clipTop = Math.max(0, Math.min(this.height, top | 0));
    this.#clipBottom = Math.max(this.#clipTop, Math.min(this.height, bottom | 0));
  }

  unclip(): void {
    this.#clipTop = 0;
    this.#clipBottom = this.height;
  }

  rect(left: number, top: number, right: number, bottom: number, pixel: number): void {
    const x0 = Math.max(0, left | 0);
    const x1 = Math.min(this.width, right | 0);
    const y0 = Math.max(this.#clipTop, top | 0);
    const y1 = Math.min(this.#clipBottom, bottom | 0);
    if (x0 >= x1) return;
    if (x0 === 0 && x1 === this.width) {
      if (y0 < y1) this.data.fill(pixel, y0 * this.width, y1 * this.width);
      return;
    }
    for (let y = y0; y < y1; y++) this.data.fill(pixel, y * this.width + x0, y * this.width + x1);
  }

  /** Copies a line of `width` pixels to the rows from `top` to before `bottom`. */
  repeat(line: Uint32Array, top: number, bottom: number): void {
    const y0 = Math.max(this.#clipTop, top | 0);
    const y1 = Math.min(this.#clipBottom, bottom | 0);
    for (let y = y0; y < y1; y++) this.data.set(line, y * this.width);
  }

  /** One column from `top` to before `bottom`. */
  column(x: number, top: number, bottom: number, pixel: number): void {
    const at = x | 0;
    if (at < 0 || at >= this.width) return;
    const y1 = Math.min(this.#clipBottom, bottom | 0);
    for (let y = Math.max(this.#clipTop, top | 0); y < y1; y++) this.data[y * this.width + at] = pixel;
  }

  /** Diagonal lines over a tinted ground, `period` pixels apart; the ground mixes with the pixels below, so that they stay visible. */
  hatch(left: number, top: number, right: number, bottom: number, ground: number, stroke: number, period: number): void {
    const x0 = Math.max(0, left | 0);
    const x1 = Math.min(this.width, right | 0);
    const y1 = Math.min(this.#clipBottom, bottom | 0);
    const thick = Math.max(1, (period / 5) | 0);
    for (let y = Math.max(this.#clipTop, top | 0); y < y1; y++) {
      const row = y * this.width;
      for (let x = x0; x < x1; x++) {
        const at = row + x;
        this.data[at] = mixed(this.data[at] as number, (x + y) % period < thick ? stroke : ground, 0.6);
      }
    }
  }

  /** A small triangle that points down to (x, tip): an instant. */
  marker(x: number, tip: number, size: number, pixel: number): void {
    const middle = x | 0;
    for (let up = 0; up < size; up++) {
      const half = up >> 1;
      this.rect(middle - half, (tip | 0) - up - 1, middle + half + 1, (tip | 0) - up, pixel);
    }
  }
}
