// The kind of an operation from any spelling of its name: torch (`_allgather_base`, `reduce_scatter_tensor`), NCCL kernels
// (`ncclDevKernel_AllReduce_Sum_f32_RING_LL`), gloo annotations (`gloo:all_reduce`), MPI (`MPI_Allreduce`, `MPI_Ssend`), our own recorder.

export type CollectiveKind =
  | 'all_reduce'
  | 'all_gather'
  | 'reduce_scatter'
  | 'all_to_all'
  | 'broadcast'
  | 'reduce'
  | 'gather'
  | 'scatter'
  | 'barrier'
  | 'send'
  | 'recv';

/** Letters and digits of each spelling; the order matters: `allreduce` contains `reduce`, `reducescatter` contains `reduce` and `scatter`. */
const spellings: readonly (readonly [string, CollectiveKind])[] = [
  ['allreduce', 'all_reduce'],
  ['reducescatter', 'reduce_scatter'],
  ['allgather', 'all_gather'],
  ['alltoall', 'all_to_all'],
  ['broadcast', 'broadcast'],
  ['bcast', 'broadcast'],
  ['barrier', 'barrier'],
  ['reduce', 'reduce'],
  ['gather', 'gather'],
  ['scatter', 'scatter'],
];

/** A send or receive is a word of its own, with MPI's letters before it at most. */
const pointToPoint = /(?:^|[^a-z])i?[bsr]?(send|recv|receive)(?:$|[^a-z])/;
const charsRead = 256;
/** Kinds by name: a job has a few names, and asks for each of its collectives. */
const known = new Map<string, CollectiveKind | undefined>();
const knownMax = 1024;

/** The kind of the operation called `op`; undefined when its name shows none, or both send and receive. */
export function collectiveKind(op: string): CollectiveKind | undefined {
  const kind = known.get(op);
  if (kind !== undefined || known.has(op)) return kind;
  if (known.size >= knownMax) known.clear();
  const found = kindIn(op.slice(0, charsRead));
  if (op.length <= charsRead) known.set(op, found);
  return found;
}

function kindIn(text: string): CollectiveKind | undefined {
  const letters = text.toLowerCase().replace(/[^a-z0-9]/g, '');
  for (const [spelling, kind] of spellings) if (letters.includes(spelling)) return kind;
  if (letters.includes('sendrecv')) return undefined;
  const word = pointToPoint.exec(text.replace(/([a-z])(?=[A-Z])/g, '$1_').toLowerCase())?.[1];
  return word === undefined ? undefined : word === 'send' ? 'send' : 'recv';
}

/** Whether two names mean one operation: libraries name it in several ways (`_allgather_base`). */
export function isSameOperation(one: string, other: string): boolean {
  if (one === other) return true;
  const kind = collectiveKind(one);
  return kind !== undefined && kind === collectiveKind(other);
}

/** torch's annotations of calls that only start a device's collective and return before it is done. */
const launch = /^(?:nccl|ucc|xccl|hccl|cncl):/;

/** Whether the call `op` only starts a device's collective. */
export const isLaunch = (op: string): boolean => launch.test(op);

/** Whether no rank can leave the collective called `op` before every rank has entered it, so that its ranks leave it together. */
export function isBarrierLike(op: string): boolean {
  if (isLaunch(op)) return false;
  const kind = collectiveKind(op);
  return kind === 'all_reduce' || kind === 'all_gather' || kind === 'reduce_scatter' || kind === 'all_to_all' || kind === 'barrier';
}

/**
 * [source, destination] of one side of a send, on `rank` with `peer` at the other side; undefined without a peer (`peer` below 0). An
 * operation that is both send and receive, or neither, is one end of an exchange: the pair is in order of rank.
 */
export function pairOf(rank: number, peer: number, op: string): readonly [number, number] | undefined {
  if (peer < 0) return undefined;
  const kind = collectiveKind(op);
  return kind === 'send' || (kind !== 'recv' && rank < peer) ? [rank, peer] : [peer, rank];
}
