// Ranks on GPUs, as far as a machine without one can show it: nvidia-smi is a script that prints the output of a host with two H100, and the backend
// is tfjs' own, which claims to compute on a device.

import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { runCommand } from './setup/ranktrace-command.ts';
import { runLine } from './setup/warm-command.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-devices-'));
afterAll(() => rmSync(directory, { recursive: true }));

// There is no device to find, so the ranks request counters of devices by name.
const environment = {
  RANKTRACE_ACTIVITIES: 'cpu,cuda',
  PATH: `${directory}/bin:${process.env.PATH}`,
  RANKTRACE_OVERHEAD_BUDGET: '1',
};

beforeAll(() => {
  mkdirSync(join(directory, 'bin'));
  // A line that is longer than a pipe or socket holds has left it once the rows before it are read; readers skip it, and the program goes on until then.
  const script = `#!/bin/sh
row() { echo "$1, GPU-0000000$1-0000-0000-0000-000000000000, NVIDIA H100 80GB HBM3, 83, 41, 79000, 81559, 1980, 2619, 650.1, 61, 5, 16"; }
told() { head -c 4194304 /dev/zero | tr '\\0' x; echo; : > "$TOLD-$RANK"; }
case "$*" in
  --query-gpu=index,name*) printf '0, NVIDIA H100 80GB HBM3\\n1, NVIDIA H100 80GB HBM3\\n';;
  *-lms*-i*) for last; do :; done; row "$last"; row "$last"; told; while :; do row "$last"; sleep 0.1; done;;
  *-lms*) for round in 1 2; do row 0; row 1; done; told; while :; do row 0; row 1; sleep 0.1; done;;
  *) exit 1;;
esac
`;
  writeFileSync(join(directory, 'bin/nvidia-smi'), script);
  chmodSync(join(directory, 'bin/nvidia-smi'), 0o755);
});

const node = process.execPath;
/** Prints the GPUs that it may see. */
const sees = ['-e', "console.log('sees', process.env.RANK, process.env.CUDA_VISIBLE_DEVICES, process.env.CUDA_DEVICE_ORDER)"];
const seen = (stdout: string): string[] => [...stdout.matchAll(/sees (.*)/g)].map(([, text]) => text as string).sort();

it('run --gpus starts a rank for each GPU, and each sees its own alone', async () => {
  const all = await runCommand(['run', '--gpus', '--out', directory, node, ...sees], environment);
  expect(seen(all.stdout), all.stderr).toEqual(['0 0 PCI_BUS_ID', '1 1 PCI_BUS_ID']);
  const some = await runCommand(['run', '--gpus', '--ranks', '1', '--out', directory, node, ...sees], {
    ...environment,
    CUDA_VISIBLE_DEVICES: '1,0',
  });
  expect(seen(some.stdout), some.stderr).toEqual(['0 1 undefined']);
  const many = await runCommand(['run', '--gpus', '--ranks', '3', '--out', directory, node, ...sees], environment);
  expect([many.code, many.stdout]).toEqual([2, '']);
  expect(many.stderr).toContain('--ranks must be at most 2');
});

const training = `
  import * as tf from '@tensorflow/tfjs';
  import { existsSync } from 'node:fs';
  import { profile } from '@ranktrace/sdk';
  await tf.setBackend('cpu');
  Object.assign(tf.backend(), { isUsingGpuDevice: true, isGPUPackage: true, binding: { TF_Version: '2.9.1' } });
  const prof = profile({ sampleIntervalMs: 100 }).start();
  for (let step = 0; step < 20 || !existsSync(process.env.TOLD + '-' + process.env.RANK); step++) {
    tf.tidy(() => tf.ones([8, 8]).matMul(tf.ones([8, 8])));
    prof.step();
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  await prof.stop();
  console.log(prof.keyAverages().table({ rowLimit: 1 }));`;

it('a report says on what ranks computed, and it and every table what the times of ops mean there', { timeout: 300_000 }, async () => {
  const out = join(directory, 'out');
  const command = [node, '--input-type=module', '-e', training];
  const { code, stdout, stderr } = await runCommand(['run', '--gpus', '--name', 'gpus', '--out', out, ...command], {
    ...environment,
    TOLD: join(directory, 'told-own'),
  });
  expect(code, stderr).toBe(0);
  const computed = 'computed on: @tensorflow/tfjs-node-gpu 4.22.0, TensorFlow 2.9.1, NVIDIA H100 80GB HBM3 (GPU 0, 1): ranks 0, 1';
  const times = 'times of ops: host dispatch';
  expect(stdout).toContain(computed);
  expect(stdout).toMatch(/^\[rank 0\] times of ops: host dispatch/m);
  const run = join(out, 'gpus');
  const report = await runLine(['report', run]);
  for (const text of [computed, times, 'memory used of a GPU: what processes have reserved']) expect(report.stdout).toContain(text);
  expect((await runLine(['table', run])).stdout).toMatch(new RegExp(`^${times}`));
  expect((await runLine(['table', run, '--rank', '1'])).stdout).toContain(times);
  const { ranks } = JSON.parse((await runLine(['report', run, '--json'])).stdout);
  expect(ranks[1].device).toMatchObject({ 'gpu.1': 'NVIDIA H100 80GB HBM3', 'tf.op_times': 'host dispatch' });
});

it('ranks that see all GPUs are reported that they share the last one, which is the one that is shown', { timeout: 300_000 }, async () => {
  const out = join(directory, 'shared');
  const command = [node, '--input-type=module', '-e', training];
  const { code, stdout, stderr } = await runCommand(['run', '--ranks', '2', '--name', 'shared', '--out', out, ...command], {
    ...environment,
    TOLD: join(directory, 'told-shared'),
  });
  expect(code, stderr).toBe(0);
  expect(stderr).toContain('every rank of this host sees GPU 1');
  expect(stdout).toContain('NVIDIA H100 80GB HBM3 (GPU 1): ranks 0, 1');
});
