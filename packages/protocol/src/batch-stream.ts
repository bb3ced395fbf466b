// The JetStream stream of batches: how ranktrace creates and bounds it, in JetStream's own words and units (ns, bytes). The client is an argument.
//
//   |  read by every aggregator  |  unread by one of them  |      at `max_bytes` the oldest go, so the stream always takes the newest
//   ^ purged by aggregators      ^ the lowest ack floor
//
// The first to connect, rank or aggregator, makes the stream; an aggregator bounds a stream that has no bound.
//
// Invariant: the stream's bound is below the server's free space. At `max_file` a server refuses every batch, read or not, until somebody
// deletes something. No request reports `max_file`; but the server reserves `max_bytes` and refuses a stream that is too large for it, so
// we halve a refused size until the server accepts one.

import { limits } from './limits.ts';
import { batchSubjects, streamName } from './subjects.ts';

/** The bounds of the stream that an operator may choose. */
export interface StreamOptions {
  /** Most bytes held; beyond that the stream deletes its oldest batches, read or not. Default: the server's room, up to `streamBytesMax`. */
  readonly bytesMax?: number | undefined;
  /** Servers of a cluster that hold a copy of each batch. Default 1. */
  readonly replicas?: number | undefined;
}

/** The settings of a stream that ranktrace owns. */
export interface StreamConfig {
  readonly name: string;
  readonly subjects: string[];
  readonly storage: string;
  readonly retention: string;
  readonly discard: string;
  readonly max_msg_size: number;
  readonly duplicate_window: number;
  readonly max_age: number;
  readonly max_bytes: number;
  readonly num_replicas: number;
}

/** The streams of a JetStream client. */
export interface StreamManager {
  info(name: string): Promise<{
    readonly config: Omit<StreamConfig, 'name'>;
    readonly state: { readonly first_seq: number; readonly last_seq: number };
  }>;
  add(config: Partial<StreamConfig>): Promise<unknown>;
  update(name: string, config: Partial<StreamConfig>): Promise<{ readonly config: Pick<StreamConfig, 'num_replicas'> }>;
}

/** JetStream's error codes that mean something to us. */
export const streamErrors = {
  notFound: 10059,
  /** A stream of that name exists with another configuration. */
  exists: 10058,
  messageTooLarge: 10054,
  /** The stream would exceed the limits of the server, the account or a stream. */
  noRoom: [10002, 10023, 10047, 10122],
  /** The stream is full, and configured to refuse new messages instead of deleting old ones. */
  streamFull: 10077,
} as const;

/** The stream as we make it. */
export const streamConfig: Omit<StreamConfig, 'max_bytes' | 'num_replicas'> = {
  name: streamName,
  subjects: [batchSubjects],
  storage: 'file',
  retention: 'limits',
  discard: 'old',
  max_msg_size: limits.streamMessageBytesMax,
  duplicate_window: limits.streamDuplicateWindowMs * 1e6,
  max_age: limits.streamAgeMsMax * 1e6,
};

/** Makes the stream; leaves it alone if it exists, or if somebody else makes it meanwhile. Rejects as the client does. */
export async function makeStream(streams: StreamManager, { bytesMax, replicas = 1 }: StreamOptions = {}): Promise<void> {
  try {
    await streams.info(streamName);
    return;
  } catch (error) {
    if (streamErrorOf(error) !== streamErrors.notFound) throw error;
  }
  try {
    await withRoom(bytesMax, (max_bytes) => streams.add({ ...streamConfig, max_bytes, num_replicas: replicas }));
  } catch (error) {
    if (streamErrorOf(error) !== streamErrors.exists) throw error;
  }
}

/** Bounds a stream that has no bound and applies explicitly given options; resolves with whether it changed. Rejects as the client does. */
export async function boundStream(streams: StreamManager, { bytesMax, replicas }: StreamOptions = {}): Promise<boolean> {
  const { config } = await streams.info(streamName);
  const isBounded = config.max_bytes > 0;
  const isSize = bytesMax === undefined ? isBounded : config.max_bytes === bytesMax;
  const isCopied = replicas === undefined || config.num_replicas === replicas;
  if (!isSize) {
    await withRoom(bytesMax, (max_bytes) =>
      streams.update(streamName, { max_bytes, ...(!isBounded && { discard: streamConfig.discard }) }),
    );
  }
  if (!isCopied) await streams.update(streamName, { num_replicas: replicas });
  return !isSize || !isCopied;
}

/** The JetStream code of an error, undefined for any other error. */
export function streamErrorOf(error: unknown): number | undefined {
  const { api_error } = (error ?? {}) as { readonly api_error?: { readonly err_code?: number } };
  return api_error?.err_code;
}

/** The reason for refusing a batch, as far as JetStream's code shows it. */
export function streamProblem(error: unknown): string | undefined {
  const code = streamErrorOf(error);
  if (code === streamErrors.streamFull) {
    return `the stream ${streamName} is full and refuses new batches: update it to discard old ones (nats stream edit ${streamName} --discard old)`;
  }
  if (code !== undefined && isNoRoom(code)) {
    return `the store of the NATS server is full (max_file, or the limit of the account): make room, or bound the stream ${streamName} below it`;
  }
  return undefined;
}

const isNoRoom = (code: number): boolean => (streamErrors.noRoom as readonly number[]).includes(code);

/** Calls `ask` with a size, halved while the server has no room; with `bytesMax`, only with that. */
async function withRoom(bytesMax: number | undefined, ask: (bytes: number) => Promise<unknown>): Promise<void> {
  for (let bytes = bytesMax ?? limits.streamBytesMax; ; bytes = Math.floor(bytes / 2)) {
    try {
      await ask(bytes);
      return;
    } catch (error) {
      const isLast = bytesMax !== undefined || bytes / 2 < limits.streamBytesMin;
      if (isLast || !isNoRoom(streamErrorOf(error) ?? 0)) throw error;
    }
  }
}
