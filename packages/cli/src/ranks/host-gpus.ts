// The GPUs of this host, as nvidia-smi lists them, and how ranks share them: one each.

import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { printable } from '@ranktrace/protocol';
import { CliError } from '../terminal/errors.ts';

export interface HostGpu {
  /** nvidia-smi's index, in the order of PCI. */
  readonly index: string;
  readonly name: string;
}

const gpusMax = 1024;
const answerWithinMs = 10_000;

/** Rejects where nvidia-smi is missing, or fails. */
export async function hostGpus(): Promise<readonly HostGpu[]> {
  const query = ['--query-gpu=index,name', '--format=csv,noheader'];
  const { stdout } = await promisify(execFile)('nvidia-smi', query, { timeout: answerWithinMs });
  return readGpus(stdout);
}

/** Reads the output of `nvidia-smi --query-gpu=index,name --format=csv,noheader`; skips other lines. */
export function readGpus(text: string): readonly HostGpu[] {
  return text.split('\n', gpusMax).flatMap((line) => {
    const [, index, name = ''] = /^\s*(\d{1,4})\s*,\s*(.*?)\s*$/.exec(line) ?? [];
    return index === undefined ? [] : [{ index, name: printable(name) }];
  });
}

/**
 * The environment of each rank, one GPU each: those of `CUDA_VISIBLE_DEVICES` if it is set, else all of the host. `ranks`: their number; undefined:
 * as many as there are GPUs. Throws CliError `bad_usage` where there are fewer.
 */
export async function oneGpuEach(
  ranks: number | undefined,
  visible: string | undefined,
  list: () => Promise<readonly HostGpu[]> = hostGpus,
): Promise<readonly NodeJS.ProcessEnv[]> {
  const [devices, from] = visible === undefined ? [await listed(list), 'nvidia-smi lists'] : [entries(visible), 'CUDA_VISIBLE_DEVICES has'];
  const wanted = ranks ?? devices.length;
  if (devices.length === 0) throw new CliError('bad_usage', `--gpus gives each rank a GPU, and ${from} none`);
  if (wanted > devices.length) {
    const have = `${devices.length} ${devices.length === 1 ? 'GPU' : 'GPUs'}`;
    throw new CliError(
      'bad_usage',
      `--gpus gives each rank a GPU: --ranks must be at most ${devices.length}, for ${from} ${have}, got ${wanted}`,
    );
  }
  // nvidia-smi's numbers are CUDA's only in this order; an order set by the user stays.
  const order = visible === undefined ? { CUDA_DEVICE_ORDER: 'PCI_BUS_ID' } : {};
  return devices.slice(0, wanted).map((device) => ({ CUDA_VISIBLE_DEVICES: device, ...order }));
}

async function listed(list: () => Promise<readonly HostGpu[]>): Promise<readonly string[]> {
  try {
    return (await list()).map(({ index }) => index);
  } catch (cause) {
    throw new CliError('bad_usage', `--gpus needs nvidia-smi, or CUDA_VISIBLE_DEVICES: ${(cause as Error).message.split('\n', 1)[0]}`, {
      cause,
    });
  }
}

/** Parsed as by CUDA: the first entry that is no device ends the list. */
function entries(visible: string): readonly string[] {
  const all = visible.split(',', gpusMax).map((entry) => entry.trim());
  const end = all.findIndex((entry) => !/^(\d{1,4}|(GPU|MIG)-[A-Za-z0-9/-]{1,80})$/.test(entry));
  return [...new Set(end < 0 ? all : all.slice(0, end))];
}
