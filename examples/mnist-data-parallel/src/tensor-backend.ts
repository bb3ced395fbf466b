// Chooses the tensor backend: TensorFlow on the GPU or the CPU when a native package is installed, else WebAssembly, else plain JavaScript.
//
// The native packages download libtensorflow when they are installed, so this example does not depend on them: `npm install
// @tensorflow/tfjs-node-gpu` beside it is enough.

import * as tf from '@tensorflow/tfjs';
import { setThreadsCount } from '@tensorflow/tfjs-backend-wasm';

const nativePackages = ['@tensorflow/tfjs-node-gpu', '@tensorflow/tfjs-node'];

/** Activates the best backend of this machine and returns its name. */
export async function chooseBackend(): Promise<string> {
  for (const name of nativePackages) {
    if ((await isImported(name)) && (await tf.setBackend('tensorflow'))) return name;
  }
  setThreadsCount(1); // A rank is one process on one core: helper threads of several ranks would only fight for the cores.
  if (!(await tf.setBackend('wasm'))) await tf.setBackend('cpu');
  return tf.getBackend();
}

async function isImported(name: string): Promise<boolean> {
  try {
    await import(name);
    return true;
  } catch (error) {
    // A missing package is the usual case. A broken one (say, no CUDA library) deserves a warning before we take the slower backend.
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') console.warn(`Cannot use ${name}: ${(error as Error).message}`);
    return false;
  }
}
