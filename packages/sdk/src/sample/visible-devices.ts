// The devices that a rank shows: those visible to CUDA; for a launched rank, only the one that it computes on. TensorFlow.js reads no
// LOCAL_RANK: it puts its tensors on the last GPU that TensorFlow lists (tfjs-node 4.22, binding/tfjs_backend.cc).
//
// We read CUDA_VISIBLE_DEVICES as CUDA does (https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html)
// and, where that is silent, as torch/cuda/__init__.py `_parse_visible_devices` does: entries are numbers with anything after them, or UUIDs
// of one kind; the first invalid entry ends the list; a duplicate makes it empty.
//
// We take numbers for nvidia-smi's. CUDA orders devices fastest first unless CUDA_DEVICE_ORDER=PCI_BUS_ID, so on a host with GPUs of
// several kinds the two may differ; UUIDs never do.

import { sampleLimits } from './sample-limits.ts';

export interface VisibleDevicesInput {
  /** The variable's text; undefined when it is not set. */
  readonly cudaVisibleDevices: string | undefined;
  /** Whether a launcher started the rank, perhaps beside others; else it has the devices to itself. */
  readonly hasLauncher: boolean;
}

/**
 * Indexes and UUIDs for `nvidia-smi -i`; empty: none; undefined: all; `'last'`: the last of all.
 *
 * @example visibleDevices({ cudaVisibleDevices: '4,6', hasLauncher: true }) // ['6']
 */
export function visibleDevices({ cudaVisibleDevices, hasLauncher }: VisibleDevicesInput): readonly string[] | 'last' | undefined {
  if (cudaVisibleDevices === undefined) return hasLauncher ? 'last' : undefined;
  const visible = parse(cudaVisibleDevices);
  return hasLauncher ? visible.slice(-1) : visible;
}

function parse(text: string): readonly string[] {
  const prefix = ['GPU-', 'MIG-'].find((prefix) => text.trimStart().startsWith(prefix));
  const devices: string[] = [];
  for (const entry of text.split(',', sampleLimits.devicesMax)) {
    const device = prefix === undefined ? ordinal(entry.trim()) : uuid(entry.trim(), prefix);
    if (device === undefined) break;
    if (devices.includes(device)) return [];
    devices.push(device);
  }
  return devices;
}

/** `2`, `+2`, `-0` and `2ampere` are numbers to CUDA; `-1` is not a device. */
function ordinal(entry: string): string | undefined {
  const number = Number(/^[+-]?\d+/.exec(entry)?.[0]);
  return number >= 0 && number <= 9999 ? String(Math.abs(number)) : undefined;
}

/** UUIDs may be shortened; a MIG device of an old driver is `MIG-GPU-UUID/INSTANCE/INSTANCE`. */
function uuid(entry: string, prefix: string): string | undefined {
  return entry.startsWith(prefix) && /^[A-Za-z0-9/-]{5,80}$/.test(entry) ? entry : undefined;
}
