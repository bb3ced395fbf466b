// First pass over a source: who it is, what its clocks say, what it lost. Reads no events.

import { type Batch, type BatchHeader, type Dropped, recordedKey, type TableName } from '@ranktrace/protocol';
import type { ClockEvidence, ClockSample } from '../align/fit-clocks.ts';
import type { EventCounts } from '../trace-sink.ts';
import type { BatchSource } from './batch-source.ts';

export interface Survey {
  readonly source: BatchSource;
  readonly header: BatchHeader;
  readonly evidence: ClockEvidence;
  readonly metadata: ReadonlyMap<string, string>;
  readonly dropped: Dropped;
  readonly recorded: EventCounts | undefined;
  readonly batches: number;
  readonly ended: boolean;
  /** Whether some batches came after their time. */
  readonly heldBack: boolean;
  /** Readable batches by index, in order of `since`: what an earlier one holds starts no later than what a later one may hold. */
  readonly order: Uint32Array;
  /** By index: no event of that batch starts before this; ns on the rank's clock. */
  readonly since: Float64Array;
}

/** Clock samples kept per rank: four hours of all that are sent, 16 MB of memory at most. */
const samplesMax = 65_536;

const surveyed: readonly TableName[] = ['clockSamples', 'wallClocks', 'metadata'];

/** Surveys one source, yielding once per batch so that the caller can breathe; undefined when it holds no readable batch. */
export function* survey(source: BatchSource): Generator<void, Survey | undefined> {
  let header: BatchHeader | undefined;
  let last: BatchHeader | undefined;
  let batches = 0;
  const samples: ClockSample[] = [];
  const metadata = new Map<string, string>();
  let wallClock: ClockEvidence['wallClock'];
  const since = new Float64Array(source.count);
  const readable = new Uint32Array(source.count);
  let promised = Number.NEGATIVE_INFINITY;
  let heldBack = false;
  for (let index = 0; index < source.count; index++) {
    const batch = source.batch(index, surveyed);
    if (batch === undefined) continue;
    header ??= batch.header;
    last = batch.header;
    heldBack ||= batch.header.since !== undefined;
    since[index] = batch.header.since ?? promised;
    promised = Math.max(promised, batch.header.watermark);
    readable[batches++] = index;
    collectSamples(batch, samples);
    if (samples.length > samplesMax) thin(samples);
    wallClock ??= firstWallClock(batch);
    const { columns, length } = batch.tables.metadata;
    for (let row = 0; row < length; row++) {
      metadata.set(batch.strings[columns.key[row] as number] as string, batch.strings[columns.value[row] as number] as string);
    }
    yield;
  }
  if (header === undefined || last === undefined) return undefined;
  const evidence = { rank: header.rank, host: header.host, epoch: BigInt(header.epoch), samples, wallClock, until: last.watermark };
  const recorded = readCounts(metadata.get(recordedKey));
  metadata.delete(recordedKey);
  return {
    source,
    header,
    evidence,
    metadata,
    dropped: last.dropped,
    recorded,
    batches,
    ended: last.last,
    heldBack,
    order: inOrder(readable.subarray(0, batches), since),
    since,
  };
}

/** Mostly they are: only what was held back comes later than its time. */
function inOrder(readable: Uint32Array, since: Float64Array): Uint32Array {
  const at = (place: number): number => since[readable[place] as number] as number;
  for (let place = 1; place < readable.length; place++) {
    if (at(place) < at(place - 1)) return readable.sort((a, b) => (since[a] as number) - (since[b] as number) || a - b);
  }
  return readable;
}

/** The recorder's own counts, as JSON text of a map from kind to count; from outside, so checked. */
function readCounts(text: string | undefined): EventCounts | undefined {
  if (text === undefined) return undefined;
  const counts = { span: 0, instant: 0, counter: 0, step: 0, collective: 0, rpc: 0 };
  try {
    const given = JSON.parse(text) as Record<string, unknown> | null;
    for (const kind of Object.keys(counts) as (keyof typeof counts)[]) {
      const count = given?.[kind];
      if (typeof count !== 'number' || !Number.isSafeInteger(count) || count < 0) return undefined;
      counts[kind] = count;
    }
    return counts;
  } catch {
    return undefined;
  }
}

/** Of every two neighbours the one with the shorter way stays: a run of any length keeps as many, spread over all of it. */
function thin(samples: ClockSample[]): void {
  const way = ({ sent, received }: ClockSample): number => received - sent;
  let kept = 0;
  for (let index = 0; index < samples.length; index += 2) {
    const [one, other] = [samples[index] as ClockSample, samples[index + 1]];
    samples[kept++] = other !== undefined && way(other) < way(one) ? other : one;
  }
  samples.length = kept;
}

function collectSamples(batch: Batch, samples: ClockSample[]): void {
  const { columns, length } = batch.tables.clockSamples;
  for (let row = 0; row < length; row++) {
    const epoch = batch.strings[columns.hostEpoch[row] as number] as string;
    if (!/^\d{1,20}$/.test(epoch)) continue;
    samples.push({
      sent: columns.sent[row] as number,
      received: columns.received[row] as number,
      remoteReceived: columns.remoteReceived[row] as number,
      remoteSent: columns.remoteSent[row] as number,
      remoteHost: batch.strings[columns.host[row] as number] as string,
      remoteEpoch: BigInt(epoch),
    });
  }
}

function firstWallClock(batch: Batch): ClockEvidence['wallClock'] {
  const { columns, length } = batch.tables.wallClocks;
  if (length === 0) return undefined;
  const unix = BigInt(columns.seconds[0] as number) * 1_000_000_000n + BigInt(columns.nanos[0] as number);
  return { time: columns.time[0] as number, unix };
}
