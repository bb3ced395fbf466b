// Data-parallel training of a small network on handwritten digits, profiled with ranktrace.
//
// Every rank runs this file on its own share of the digits. A step is: take a batch, forward, backward, average the gradients over all
// ranks, update the weights. At the end of an epoch every rank asks rank 0 how good the weights are.
//
// All uses of ranktrace in a training loop are in this file:
//   profile().start()                  start recording
//   recordFunction('forward', …)       a phase of the step
//   prof.collective(…)                 an operation that all ranks take part in
//   prof.rpcClient, prof.rpcServer     the two sides of a remote call
//   prof.step()                        the step is over

import { type Profile, profile, recordFunction } from '@ranktrace/sdk';
import * as tf from '@tensorflow/tfjs';
import { type Batch, Digits } from './digits.ts';
import { answerAll, evaluateOnMaster } from './evaluation-rpc.ts';
import { type Cluster, joinCluster } from './join-cluster.ts';
import { type Options, readOptions } from './options.ts';
import { Perceptron } from './perceptron.ts';
import { batchesOf, shuffled } from './shards.ts';
import { chooseBackend } from './tensor-backend.ts';
import { TrainingError } from './training-error.ts';
import { checkSameWeights } from './weights-check.ts';

const batchSize = 32; // Digits per rank and step.

async function train(options: Options): Promise<void> {
  const { rank, worldSize, epochs, maxSteps } = options;
  const say = (line: string) => {
    if (rank === 0) console.log(line);
  };

  const backend = await chooseBackend();
  const digits = await Digits.load();
  const testDigits = digits.batch(digits.test);
  using model = new Perceptron();
  using cluster = await joinCluster(options);
  say(`training on ${worldSize} ${worldSize === 1 ? 'rank' : 'ranks'}, ${backend} backend`);

  // The values that the ranks average in a step: all gradients, the loss, and whether any rank got a stop signal. One array, so one all-reduce.
  const shared = new Float32Array(model.parameterCount + 2);
  const gradients = shared.subarray(0, model.parameterCount);
  const lossAt = model.parameterCount;
  const stopAt = model.parameterCount + 1;
  const toldToStop = stopSignal();

  await using prof = profile().start();
  prof.addMetadata('backend', backend);

  let step = 0;
  let stopping = false;
  let accuracy = 0;
  for (let epoch = 0; epoch < epochs && !stopping; epoch++) {
    const batches = batchesOf(shuffled(digits.train, epoch), { rank, worldSize, batchSize });
    const losses: number[] = [];
    for (const chosen of batches) {
      const batch = recordFunction('data', () => digits.batch(chosen));
      const activations = recordFunction('forward', () => model.forward(batch));
      recordFunction('backward', () => model.backward(batch, activations, gradients));

      shared[lossAt] = activations.loss;
      shared[stopAt] = toldToStop.aborted ? 1 : 0;
      await recordFunction('allreduce', () =>
        prof.collective({ op: 'all_reduce', group: 'world', bytes: shared.byteLength }, () => cluster.ring.allReduce(shared)),
      );
      recordFunction('optimizer', () => model.update(gradients));
      tf.dispose([batch.images, batch.labels, activations.hidden, activations.probabilities]);

      step++;
      losses.push(shared[lossAt]!);
      stopping = shared[stopAt]! > 0 || step === maxSteps; // The same on all ranks, so none is left waiting.
      if (stopping || losses.length === batches.length) {
        accuracy = await recordFunction('evaluate', () => evaluate({ prof, cluster, rank, epoch, model, testDigits }));
      }
      prof.step();
      if (stopping) break;
    }
    const loss = losses.reduce((sum, value) => sum + value, 0) / losses.length;
    say(`epoch ${epoch + 1}/${epochs}  loss ${loss.toFixed(4)}  test accuracy ${percent(accuracy)}`);
  }

  const checksum = await checkSameWeights(model.weights(), cluster.ring, options);
  say(`the weights of all ranks are the same after ${step} steps (checksum ${checksum})`);
  say(`test accuracy ${percent(accuracy)}`);
}

/** The share of test digits that the network recognises after `epoch`, from 0 to 1: computed by rank 0, for itself and for each caller. */
async function evaluate(about: {
  prof: Profile;
  cluster: Cluster;
  rank: number;
  epoch: number;
  model: Perceptron;
  testDigits: Batch;
}): Promise<number> {
  const { prof, cluster, rank, epoch, model, testDigits } = about;
  const { master, workers } = cluster;
  if (master) {
    return prof.rpcClient('evaluate', { peer: 'rank 0' }, (headers) => evaluateOnMaster(master, { rank, epoch, headers }));
  }
  const accuracy = model.accuracy(testDigits);
  await answerAll(workers, (call) =>
    prof.rpcServer('evaluate', { carrier: call.headers, peer: `rank ${call.rank}` }, () => model.accuracy(testDigits)),
  );
  return accuracy;
}

/** Aborted by the first SIGINT or SIGTERM; the second one ends the process at once. */
function stopSignal(): AbortSignal {
  const controller = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => controller.abort());
  return controller.signal;
}

const percent = (share: number) => `${(100 * share).toFixed(1)} %`;

try {
  await train(readOptions(process.argv.slice(2), process.env));
} catch (error) {
  const expected = error instanceof TrainingError;
  console.error(`rank ${process.env.RANK ?? 0}: ${expected ? error.message : (error as Error).stack}`);
  process.exitCode = expected && error.code === 'bad_usage' ? 2 : 1;
}
