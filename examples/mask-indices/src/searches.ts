// The searches of the three stages. All find the same values of the mask.

import * as tf from '@tensorflow/tfjs';

/** First version: the comparison as a float32 for each value, copied to JavaScript, which makes the indices and copies them back. */
export function searchFloats(mask: tf.Tensor3D, output: tf.Tensor): tf.Tensor {
  const threshold = thresholdOf(output).dataSync()[0]!;
  const isAbove = tf.cast(tf.greater(mask, threshold), 'float32');
  const indices = indicesOfOnes(isAbove.dataSync(), mask.shape);
  return tf.tensor2d(indices, [indices.length / 3, 3], 'int32');
}

/** The comparison in its own type: a bool, of one byte instead of four. */
export function searchBools(mask: tf.Tensor3D, output: tf.Tensor): tf.Tensor {
  const threshold = thresholdOf(output).dataSync()[0]!;
  const isAbove = tf.greater(mask, threshold);
  const indices = indicesOfOnes(isAbove.dataSync(), mask.shape);
  return tf.tensor2d(indices, [indices.length / 3, 3], 'int32');
}

/** The bools are the result, and the threshold stays a tensor: nothing leaves the backend. */
export function searchOnBackend(mask: tf.Tensor3D, output: tf.Tensor): tf.Tensor {
  return tf.greater(mask, thresholdOf(output));
}

/** The mean, over the rows, of each row's largest output. */
function thresholdOf(output: tf.Tensor): tf.Tensor {
  return tf.mean(tf.max(output, 1));
}

/** [plane, row, column] of each 1, in order. */
function indicesOfOnes(values: ArrayLike<number>, [, rows, columns]: readonly [number, number, number]): Int32Array {
  const indices: number[] = [];
  for (let at = 0; at < values.length; at++) {
    if (values[at] !== 1) continue;
    const line = Math.floor(at / columns);
    indices.push(Math.floor(line / rows), line % rows, at % columns);
  }
  return Int32Array.from(indices);
}
