// Flow ids: 64 bits that each event of one collective, or each side of one rpc, derives on its own with the same result. Never 0n.

/** A second seed, so that the two halves of an id differ. */
const secondBasis = 0x050c5d1f;

/** FNV-1a over UTF-16 units, 32 bits (Fowler, Noll, Vo), from a seed. */
function fnv1a(text: string, seed: number): number {
  let hash = seed;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash >>> 0;
}

const offsetBasis = 0x811c9dc5;

/**
 * Id of a collective: the group's hash in the upper half, mixed with the sequence number in the lower, so numbers of one group never collide. Each
 * pair of ranks that sends in a group has its own numbers, so it counts as its own group.
 */
export function collectiveFlow(name: string, sequence: number, pair?: readonly [number, number]): bigint {
  const group = pair === undefined ? name : `${name} ${pair[0]} ${pair[1]}`;
  const high = fnv1a(group, offsetBasis) & 0x7fffffff;
  const low = (fnv1a(group, secondBasis) ^ Math.floor(sequence / 2 ** 32) ^ sequence) >>> 0;
  return (BigInt(high) << 32n) | BigInt(low) | (1n << 63n);
}

/** Id of an rpc: the client's span id (W3C, 8 bytes) at `row`; undefined when it is all zero, hence unknown. */
export function rpcFlow(spans: Uint8Array, row: number): bigint | undefined {
  const id = new DataView(spans.buffer, spans.byteOffset + row * 8, 8).getBigUint64(0);
  return id === 0n ? undefined : id;
}
