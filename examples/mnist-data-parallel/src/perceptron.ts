// The model: 784 pixels → 128 hidden units (ReLU) → 10 classes (softmax), trained by gradient descent with momentum.
//
// The gradient is written out instead of taken from `tf.variableGrads`, because that runs forward and backward in one call, and a profile
// should show the two apart:
//
//   forward    hidden = relu(x W₁ + b₁)      p = softmax(hidden W₂ + b₂)      loss = mean over the batch of −log p[label]
//   backward   δ₂ = (p − labels) / batch     dW₂ = hiddenᵀ δ₂    db₂ = Σ δ₂
//              δ₁ = δ₂ W₂ᵀ where hidden > 0  dW₁ = xᵀ δ₁         db₁ = Σ δ₁
//
// Invariant: the same seed and the same gradients give the same weights, bit for bit, on every rank.

import * as tf from '@tensorflow/tfjs';
import { type Batch, digitClasses, pixelsPerDigit } from './digits.ts';

const hiddenUnits = 128;
const learningRate = 0.05;
const momentum = 0.9;
const weightSeed = 7;

/** Results of forward that backward needs. */
export interface Activations {
  readonly hidden: tf.Tensor2D; // [size, 128]
  readonly probabilities: tf.Tensor2D; // [size, 10]
  /** Mean cross-entropy of the batch, in nats. */
  readonly loss: number;
}

export class Perceptron implements Disposable {
  readonly #hiddenWeights = tf.variable(tf.initializers.glorotUniform({ seed: weightSeed }).apply([pixelsPerDigit, hiddenUnits])) as Matrix;
  readonly #hiddenBias = tf.variable(tf.zeros([hiddenUnits]));
  readonly #outputWeights = tf.variable(
    tf.initializers.glorotUniform({ seed: weightSeed + 1 }).apply([hiddenUnits, digitClasses]),
  ) as Matrix;
  readonly #outputBias = tf.variable(tf.zeros([digitClasses]));
  readonly #optimizer = tf.train.momentum(learningRate, momentum);

  /** The order in which gradients and weights lie in a flat array. */
  readonly #parameters = [this.#hiddenWeights, this.#hiddenBias, this.#outputWeights, this.#outputBias];
  /** Length of such a flat array: 101 770. */
  readonly parameterCount = this.#parameters.reduce((count, parameter) => count + parameter.size, 0);

  forward({ images, labels }: Batch): Activations {
    const { loss, ...activations } = tf.tidy(() => {
      const hidden = tf.relu(tf.add(tf.matMul(images, this.#hiddenWeights), this.#hiddenBias)) as tf.Tensor2D;
      const probabilities = tf.softmax(tf.add(tf.matMul(hidden, this.#outputWeights), this.#outputBias)) as tf.Tensor2D;
      const likelihood = tf.sum(tf.mul(probabilities, labels), 1);
      return { hidden, probabilities, loss: tf.neg(tf.mean(tf.log(tf.maximum(likelihood, 1e-7)))) };
    });
    // Reading the loss waits for the device, so on a GPU too this phase lasts as long as the work it names.
    const [value] = loss.dataSync();
    loss.dispose();
    return { ...activations, loss: value! };
  }

  /** Writes the gradient of the batch's mean loss into `gradients`, of length `parameterCount`. */
  backward({ images, labels }: Batch, { hidden, probabilities }: Activations, gradients: Float32Array): void {
    tf.tidy(() => {
      const outputError = tf.div(tf.sub(probabilities, labels), images.shape[0]) as tf.Tensor2D;
      const hiddenError = tf.mul(tf.matMul(outputError, tf.transpose(this.#outputWeights)), tf.step(hidden)) as tf.Tensor2D;
      // Transposed by an op of its own: matMul's own flag leaves the fast path of the wasm backend, and takes four times as long.
      copyInto(gradients, [
        tf.matMul(tf.transpose(images), hiddenError),
        tf.sum(hiddenError, 0),
        tf.matMul(tf.transpose(hidden), outputError),
        tf.sum(outputError, 0),
      ]);
    });
  }

  /** One step of the optimizer along `gradients`, of length `parameterCount`. */
  update(gradients: Float32Array): void {
    tf.tidy(() => {
      let start = 0;
      const named = this.#parameters.map(({ name, size, shape }) => {
        const tensor = tf.tensor(gradients.subarray(start, start + size), shape);
        start += size;
        return { name, tensor };
      });
      this.#optimizer.applyGradients(named);
    });
  }

  /** Share of the batch's digits that are recognised, from 0 to 1. */
  accuracy({ images, labels }: Batch): number {
    return tf.tidy(() => {
      const hidden = tf.relu(tf.add(tf.matMul(images, this.#hiddenWeights), this.#hiddenBias)) as tf.Tensor2D;
      const logits = tf.add(tf.matMul(hidden, this.#outputWeights), this.#outputBias);
      return tf.mean(tf.cast(tf.equal(tf.argMax(logits, 1), tf.argMax(labels, 1)), 'float32')).dataSync()[0]!;
    });
  }

  /** A copy of all weights, in the order of the gradients. */
  weights(): Float32Array {
    const weights = new Float32Array(this.parameterCount);
    copyInto(weights, this.#parameters);
    return weights;
  }

  [Symbol.dispose](): void {
    tf.dispose(this.#parameters);
    this.#optimizer.dispose();
  }
}

type Matrix = tf.Variable<tf.Rank.R2>;

/** Copies the tensors' values one after the other into `flat`; on a GPU this waits for them. */
function copyInto(flat: Float32Array, tensors: readonly tf.Tensor[]): void {
  let start = 0;
  for (const tensor of tensors) {
    flat.set(tensor.dataSync(), start);
    start += tensor.size;
  }
}
