// Connects N processes that know only MASTER_ADDR and MASTER_PORT as a ring.
//
//   1. Every rank opens a ring port, any free one.               rank r → rank 0    {"rank":r,"ringPort":40123}
//   2. Rank 0 waits for all, then sends everybody the list.      rank 0 → rank r    {"addresses":[{"host":"10.0.0.7","port":40123},…]}
//   3. Every rank connects to the next one's ring port.          rank r → rank r+1  {"rank":r}, and from then on chunks
//
// The connections of steps 1 and 2 stay open: the evaluation RPC uses them.

import { limits } from './limits.ts';
import type { Place } from './options.ts';
import { connectToPeer, type PeerConnection } from './peer-connection.ts';
import { PeerListener } from './peer-listener.ts';
import { type Neighbours, RingAllReduce } from './ring-all-reduce.ts';
import { TrainingError } from './training-error.ts';

export interface Cluster extends Disposable {
  readonly ring: RingAllReduce;
  /** On rank 0 the connections to ranks 1 … N − 1, in that order; elsewhere none. */
  readonly workers: readonly PeerConnection[];
  /** The connection to rank 0; `undefined` on rank 0 itself. */
  readonly master: PeerConnection | undefined;
}

/** Address of a rank's ring port. */
interface Address {
  readonly host: string;
  readonly port: number;
}

/** A rank that has reported to rank 0. */
interface Worker extends Address {
  readonly connection: PeerConnection;
}

/**
 * Finds the other ranks and connects the ring. Disposing the cluster closes all its connections.
 * @throws TrainingError `cannot_meet` when the ranks do not find each other within `limits.meetingMsMax`
 * @example using cluster = await joinCluster({ rank: 0, worldSize: 4, masterAddress: '127.0.0.1', masterPort: 29500 });
 */
export async function joinCluster(place: Place): Promise<Cluster> {
  const connections: PeerConnection[] = [];
  const close = () => {
    for (const connection of connections) connection[Symbol.dispose]();
  };
  try {
    return { ...(await meet(place, connections)), [Symbol.dispose]: close };
  } catch (error) {
    close(); // An open connection would keep the process alive.
    throw error;
  }
}

/** Every connection goes into `connections` as soon as it is open. */
async function meet(place: Place, connections: PeerConnection[]): Promise<Omit<Cluster, keyof Disposable>> {
  const { rank, worldSize, masterAddress, masterPort } = place;
  if (worldSize === 1) return { ring: new RingAllReduce(0, 1, undefined), workers: [], master: undefined };

  using ringListener = await PeerListener.open(listenHost(place), 0);
  if (rank === 0) {
    const workers = await meetWorkers(place, connections);
    const addresses = [{ host: masterAddress, port: ringListener.port }, ...workers.map(({ host, port }) => ({ host, port }))];
    await Promise.all(workers.map(({ connection }) => connection.sendJson({ addresses })));
    const ring = new RingAllReduce(rank, worldSize, await connectRing(place, addresses, ringListener, connections));
    return { ring, workers: workers.map(({ connection }) => connection), master: undefined };
  }
  const master = await connectToPeer({ host: masterAddress, port: masterPort, peer: 'rank 0' });
  connections.push(master);
  await master.sendJson({ rank, ringPort: ringListener.port });
  const { addresses } = (await master.receiveJson(limits.meetingMsMax)) as { addresses: Address[] };
  const ring = new RingAllReduce(rank, worldSize, await connectRing(place, addresses, ringListener, connections));
  return { ring, workers: [], master };
}

/** Rank 0's side of steps 1 and 2: waits until every other rank has reported; sorted by rank. */
async function meetWorkers(place: Place, connections: PeerConnection[]): Promise<Worker[]> {
  using listener = await PeerListener.open(listenHost(place), place.masterPort);
  const workers = new Map<number, Worker>();
  while (workers.size < place.worldSize - 1) {
    const missing = Array.from({ length: place.worldSize - 1 }, (_, index) => index + 1).filter((rank) => !workers.has(rank));
    const connection = await listener.accept(`rank ${missing.join(', rank ')}`);
    connections.push(connection);
    try {
      const { rank, ringPort } = (await connection.receiveJson(limits.greetingMsMax)) as { rank: number; ringPort: number };
      if (!missing.includes(rank))
        throw new TrainingError('bad_message', `rank ${rank} was not expected, only rank ${missing.join(', rank ')}`);
      connection.peer = `rank ${rank}`;
      workers.set(rank, { host: connection.remoteAddress ?? place.masterAddress, port: ringPort, connection });
    } catch (error) {
      // A port scanner or a health check must not end the training before it begins.
      console.warn(`Ignored a connection to port ${place.masterPort}: ${(error as Error).message}`);
      connection[Symbol.dispose]();
    }
  }
  return [...workers].sort(([a], [b]) => a - b).map(([, worker]) => worker);
}

/** Step 3. All ring ports are open by now, so connecting first and accepting afterwards cannot deadlock. */
async function connectRing(
  { rank, worldSize }: Place,
  addresses: readonly Address[],
  listener: PeerListener,
  connections: PeerConnection[],
): Promise<Neighbours> {
  const nextRank = (rank + 1) % worldSize;
  const previousRank = (rank + worldSize - 1) % worldSize;
  const next = await connectToPeer({ ...addresses[nextRank]!, peer: `rank ${nextRank}` });
  connections.push(next);
  await next.sendJson({ rank });
  const previous = await listener.accept(`rank ${previousRank}`);
  connections.push(previous);
  const greeting = (await previous.receiveJson(limits.greetingMsMax)) as { rank: number };
  if (greeting.rank !== previousRank) {
    throw new TrainingError(
      'cannot_meet',
      `Cannot close the ring on rank ${rank}: rank ${greeting.rank} connected, wanted rank ${previousRank}`,
    );
  }
  return { previous, next };
}

/** Ranks that meet on the loopback address are all on this host, and nobody else should be able to connect. */
function listenHost({ masterAddress }: Place): string | undefined {
  return masterAddress === 'localhost' || masterAddress === '::1' || masterAddress.startsWith('127.') ? masterAddress : undefined;
}
