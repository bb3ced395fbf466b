// A training loop on a GPU that is known in every launch: node cuda-training.mjs ADDON PTX work|ahead|cost
//
//   work    steps of launches, transfers, kernels that CUDA's events time, and kernels that the host sees begin and tells to end
//   ahead   steps of 20 to 30 launches that nobody waits for: the host is as far ahead as the driver lets it
//   cost    steps of 1,000 launches
//
// One line of JSON on stdout says what was done. WAIT_MS: until recording of kernels has begun, which happens on another thread.

import { readFileSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import { profile, recordFunction } from '@ranktrace/sdk';

const [addon, ptx, mode] = process.argv.slice(2);
const module = { exports: {} };
process.dlopen(module, addon);
const cuda = module.exports;
const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

const device = cuda.open(readFileSync(ptx, 'utf8'));
const prof = profile();
await prof.start();
await wait(Number(process.env.WAIT_MS ?? 5000));
const done = await { work, ahead, cost }[mode]();
await prof.stop();
console.log(JSON.stringify({ device, ...done }));

async function work() {
  const [steps, perStep] = [20, 100];
  for (let step = 0; step < steps; step++) {
    recordFunction('launches', () => {
      cuda.launch(perStep, 20_000);
      cuda.wait();
    });
    prof.step();
  }
  const bytes = 1 << 22;
  recordFunction('transfers', () => cuda.transfer(bytes));
  prof.step();
  const events = recordFunction('timed', () => cuda.timed(50, 2_000_000));
  prof.step();
  const told = recordFunction('told', () => cuda.told(50));
  prof.step();
  // The host's clock where a span begins: the trace's times are those of the rank.
  const anchors = [];
  for (let at = 0; at < 50; at++) {
    anchors.push(Number(process.hrtime.bigint()));
    recordFunction('anchor', () => {});
    await wait(1);
  }
  prof.step();
  return { launches: steps * perStep, bytes, events, told, anchors };
}

async function ahead() {
  const counts = Array.from({ length: 110 }, (_, step) => 20 + ((7 * step) % 11));
  const kernelNs = 200_000;
  for (const count of counts) {
    recordFunction('launches', () => cuda.launch(count, kernelNs));
    prof.step();
    await new Promise((resolve) => setImmediate(resolve));
  }
  cuda.wait();
  return { counts, kernelNs };
}

async function cost() {
  const launches = 1000;
  const calls = [];
  const lengths = [];
  for (let step = 0; step < 60; step++) {
    const began = performance.now();
    calls.push(cuda.launch(launches, 5000) / launches);
    cuda.wait();
    prof.step();
    lengths.push(performance.now() - began);
    await new Promise((resolve) => setImmediate(resolve));
  }
  // The first ones warm up.
  return { callNs: median(calls.slice(10)), stepMs: median(lengths.slice(10)) };
}
