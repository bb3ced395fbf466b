// Bandwidth of a collective by the rules of nccl-tests (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md), so that figures
// compare with those of that tool on the same machines.
//
//   algorithm bandwidth = size / time                 bus bandwidth = algorithm bandwidth × factor
//
//   operation        size, by the input of one rank (`bytes`)        factor, for n ranks
//   all_reduce       bytes                                           2 (n − 1) / n
//   all_gather       n × bytes   (bytes: its own shard)              (n − 1) / n
//   reduce_scatter   bytes       (bytes: the whole input)            (n − 1) / n
//   all_to_all       bytes       (bytes: the whole input)            (n − 1) / n
//   gather           n × bytes   (bytes: its own shard)              (n − 1) / n
//   scatter          bytes       (bytes: the root's whole input)     (n − 1) / n
//   broadcast        bytes                                           1
//   reduce           bytes                                           1
//   send, recv       bytes                                           1
//
// The bus bandwidth is the load on a link; it compares with the hardware's bandwidth for any n.

import { type CollectiveKind, nanosPerSecond } from '@ranktrace/protocol';

/** Bytes per second. */
export interface Bandwidth {
  readonly algorithm: number;
  readonly bus: number;
}

/** Size in bytes and bus factor of a collective of `ranks` ranks with an input of `bytes` each; undefined for a barrier, which moves nothing. */
export function trafficOf(
  kind: CollectiveKind,
  ranks: number,
  bytes: number,
): { readonly size: number; readonly factor: number } | undefined {
  const others = (ranks - 1) / ranks;
  switch (kind) {
    case 'all_reduce':
      return { size: bytes, factor: 2 * others };
    case 'all_gather':
    case 'gather':
      return { size: ranks * bytes, factor: others };
    case 'reduce_scatter':
    case 'all_to_all':
    case 'scatter':
      return { size: bytes, factor: others };
    case 'broadcast':
    case 'reduce':
    case 'send':
    case 'recv':
      return { size: bytes, factor: 1 };
    case 'barrier':
      return undefined;
  }
}

/**
 * Bandwidth of a collective that took `length` ns after the last entry; undefined where it moved nothing, took no time, or its kind
 * has no rule. `ranks` ≥ 1, `bytes`: the input of one rank.
 *
 * @example bandwidthOf('all_reduce', 8, 1e9, nanos(1e7)) // 100 GB/s algorithm, 175 GB/s bus
 */
export function bandwidthOf(kind: CollectiveKind | undefined, ranks: number, bytes: number, length: number): Bandwidth | undefined {
  if (kind === undefined || !(bytes > 0) || !(length > 0)) return undefined;
  const traffic = trafficOf(kind, ranks, bytes);
  if (traffic === undefined) return undefined;
  const algorithm = (traffic.size * nanosPerSecond) / length;
  return { algorithm, bus: algorithm * traffic.factor };
}
