// The messages of Kineto's on-demand interface ("IPC fabric": pytorch/kineto, libkineto/src/IpcFabricConfigClient.cpp; dynolog/src/ipcfabric).
//
//   datagram   | size of the payload: u64 LE | type: 32 bytes, NUL-padded | payload |
//   ctxt       | gpu: i32 | pid: i32 | job: i64 |                     registration; answered by an i32, the number of processes
//   req        | kinds: i32 | n: i32 | job: i64 | pids: i32[n] |      own process first, then its ancestors; answered by a text, empty for nothing to do
//
// Invariant: any bytes give a message or undefined, in O(bytes).

import { agentLimits as limits } from '../model/limits.ts';

const headerBytes = 40;
const typeBytes = 32;

export type FabricMessage =
  | { readonly type: 'ctxt'; readonly gpu: number; readonly pid: number; readonly job: bigint }
  | {
      readonly type: 'req';
      /** Whether the process could begin to record activities; not while it records. */
      readonly takesActivities: boolean;
      readonly job: bigint;
      /** The process that asks, then its ancestors, as it counts them itself: in its own namespace. */
      readonly pids: readonly number[];
    };

/** Bit of `kinds` for a request of activities; 1 is for events, which we never ask for. */
const activities = 2;

/** The message in a datagram; undefined for anything else. */
export function decodeFabricMessage(bytes: Uint8Array): FabricMessage | undefined {
  if (bytes.length < headerBytes) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (view.getBigUint64(0, true) !== BigInt(bytes.length - headerBytes)) return undefined;
  const payload = bytes.length - headerBytes;
  const int = (at: number): number => view.getInt32(headerBytes + at, true);
  const long = (at: number): bigint => view.getBigInt64(headerBytes + at, true);
  switch (typeOf(bytes)) {
    case 'ctxt':
      return payload === 16 && int(4) > 0 ? { type: 'ctxt', gpu: int(0), pid: int(4), job: long(8) } : undefined;
    case 'req': {
      if (payload < 16) return undefined;
      const count = int(4);
      if (count < 1 || count > limits.requestPidsMax || payload !== 16 + 4 * count) return undefined;
      const pids = Array.from({ length: count }, (_, index) => int(16 + 4 * index));
      if (pids.some((pid) => pid < 0) || pids[0] === 0) return undefined;
      return { type: 'req', takesActivities: (int(0) & activities) !== 0, job: long(8), pids };
    }
    default:
      return undefined;
  }
}

/** An answer: the frame of `type` around `payload`. */
export function encodeFabricMessage(type: FabricMessage['type'], payload: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(headerBytes + payload.length);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(payload.length), true);
  bytes.set(new TextEncoder().encode(type), 8);
  bytes.set(payload, headerBytes);
  return bytes;
}

function typeOf(bytes: Uint8Array): string {
  const type = bytes.subarray(8, 8 + typeBytes);
  const end = type.indexOf(0);
  return end > 8 || end < 0 ? '' : String.fromCharCode(...type.subarray(0, end));
}

/** A request to record activities. */
export interface WindowRequest {
  /** Path of the file; Kineto puts `_<pid>` before its extension. */
  readonly path: string;
  /** ms since 1970, on the wall clock of this host. */
  readonly startUnixMs: number;
  readonly durationMs: number;
}

/**
 * Kineto's text for a request. Time, not steps: Kineto counts steps only once it has recorded. CUDA's kinds have no effect in a build without it; without
 * any kinds such a build writes an empty file.
 */
export function windowConfig({ path, startUnixMs, durationMs }: WindowRequest): string {
  return [
    `ACTIVITIES_LOG_FILE=${path}`,
    `PROFILE_START_TIME=${Math.round(startUnixMs)}`,
    `ACTIVITIES_DURATION_MSECS=${Math.round(durationMs)}`,
    `ACTIVITIES_WARMUP_PERIOD_SECS=${limits.warmupS}`,
    'ACTIVITY_TYPES=cpu_op,user_annotation,gpu_user_annotation,gpu_memcpy,gpu_memset,kernel,cuda_runtime,cuda_driver',
    '',
  ].join('\n');
}

/** The file that process `pid` writes for a request with this path. */
export const windowFile = (path: string, pid: number): string => path.replace(/(\.\w+)?$/, (extension) => `_${pid}${extension}`);
