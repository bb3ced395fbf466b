// The module of the walk-through: a linear layer, and a search in a large mask for the values above a threshold that the layer's output sets.

import { recordFunction } from '@ranktrace/sdk';
import * as tf from '@tensorflow/tfjs';
import { uniform } from './uniform.ts';

/** Finds the values of `mask` above the threshold of `output`. Called inside of `tf.tidy`, which keeps what it returns. */
export type Search = (mask: tf.Tensor3D, output: tf.Tensor) => tf.Tensor;

/** Result of a forward pass; the caller disposes of both tensors. */
export type Forward = {
  /** [rows of the input, outputs], each from 0 to 1. */
  output: tf.Tensor;
  /** As the search returns it. */
  found: tf.Tensor;
};

export class MaskedLinear {
  readonly #weights: tf.Tensor2D;
  readonly #search: Search;

  constructor(inputs: number, outputs: number, search: Search) {
    this.#weights = tf.tensor2d(uniform(inputs * outputs, { seed: 1, min: -0.5, max: 0.5 }), [inputs, outputs]);
    this.#search = search;
  }

  forward(input: tf.Tensor2D, mask: tf.Tensor3D): Forward {
    return tf.tidy(() => {
      const output = recordFunction('LINEAR PASS', () => tf.sigmoid(tf.matMul(input, this.#weights)));
      const found = recordFunction('MASK INDICES', () => this.#search(mask, output));
      return { output, found };
    });
  }

  dispose(): void {
    this.#weights.dispose();
  }
}
