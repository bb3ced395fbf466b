// First pass over a source: its identity, clock evidence and losses. Reads no events.

import {
  type Batch,
  type BatchHeader,
  capturedKey,
  type Dropped,
  mostDropped,
  noneDropped,
  type Running,
  readRunning,
  recordedKey,
  runningKey,
  type TableName,
} from '@ranktrace/protocol';
import { ClockSamples } from '../align/clock-samples.ts';
import type { ClockEvidence } from '../align/fit-clocks.ts';
import type { BatchSource } from '../model/batch-source.ts';
import { ColumnTable } from '../model/column-table.ts';
import { readCounts } from '../model/counts-text.ts';
import type { EventCounts, ProcessTotals } from '../model/trace-sink.ts';
import { PrunedParts } from './pruned-parts.ts';

export interface Survey {
  readonly source: BatchSource;
  readonly header: BatchHeader;
  evidence: ClockEvidence;
  readonly metadata: ReadonlyMap<string, string>;
  readonly dropped: Dropped;
  readonly recorded: EventCounts | undefined;
  /** Events pruned before; undefined: none. */
  readonly pruned: ProcessTotals['pruned'];
  /** The rank's last reported place. */
  readonly running: Running | undefined;
  readonly batches: number;
  readonly ended: boolean;
  /** Its first watermark, ns on the rank's clock. */
  readonly from: number;
  /** Batches that came after their time. */
  readonly heldBack: number;
  /** How often clock samples had to be thinned. */
  readonly thinned: number;
  /** Readable batches by index, in order of `since`: no event of a batch starts before the `since` of an earlier one. */
  readonly order: Uint32Array;
  /** By index: no event of that batch starts before this; ns on the rank's clock. */
  readonly since: Float64Array;
  /** By index: the batch's own promise for those after it; ns on the rank's clock. */
  readonly watermarks: Float64Array;
}

/** Clock samples kept per rank: four hours at full rate, 3 MB of memory at most. */
const samplesMax = 65_536;

/** Kinds that the recorder itself counts. */
const eventKinds: readonly (keyof EventCounts)[] = ['span', 'instant', 'counter', 'step', 'collective', 'rpc'];

const surveyed: readonly TableName[] = ['clockSamples', 'wallClocks', 'metadata'];

/** Surveys one source, which may grow meanwhile. */
export class SourceSurvey {
  #source: BatchSource;
  #header: BatchHeader | undefined;
  #last: BatchHeader | undefined;
  #dropped = noneDropped;
  readonly #samples = new ClockSamples();
  readonly #metadata = new Map<string, string>();
  #wallClock: ClockEvidence['wallClock'];
  /** By index of the batch. Filled rows never change, so surveys share them. */
  readonly #batches = new ColumnTable({ since: 'f64', watermark: 'f64' });
  readonly #readable = new ColumnTable({ index: 'u32' });
  readonly #pruned = new PrunedParts();
  #promised = Number.NEGATIVE_INFINITY;
  #heldBack = 0;
  #thinned = 0;

  constructor(source: BatchSource) {
    this.#source = source;
  }

  /** Reads the new batches of `source`, the same one in its current state; yields once per batch so that the caller can breathe. */
  *read(source: BatchSource): Generator<void, Survey | undefined> {
    this.#source = source;
    for (let index = this.#batches.length; index < source.count; index++) {
      const batch = source.batch(index, surveyed);
      const row = this.#batches.add();
      this.#batches.columns.since[row] = batch?.header.since ?? this.#promised;
      this.#batches.columns.watermark[row] = batch?.header.watermark ?? this.#promised;
      if (batch === undefined) continue;
      this.#add(index, batch);
      yield;
    }
    return this.#survey;
  }

  #add(index: number, batch: Batch): void {
    const { header } = batch;
    this.#header ??= header;
    this.#last = header;
    this.#dropped = mostDropped(this.#dropped, header.dropped);
    if (header.since !== undefined) this.#heldBack++;
    if (header.pruned !== undefined) this.#pruned.add(header.pruned);
    this.#promised = Math.max(this.#promised, header.watermark);
    const row = this.#readable.add();
    this.#readable.columns.index[row] = index;
    collectSamples(batch, this.#samples);
    if (this.#samples.length > samplesMax) {
      this.#samples.thin();
      this.#thinned++;
    }
    this.#wallClock ??= firstWallClock(batch);
    const { columns, length } = batch.tables.metadata;
    for (let row = 0; row < length; row++) {
      this.#metadata.set(batch.strings[columns.key[row] as number] as string, batch.strings[columns.value[row] as number] as string);
    }
  }

  /** Undefined while there is no readable batch. */
  get #survey(): Survey | undefined {
    const [header, last] = [this.#header, this.#last];
    if (header === undefined || last === undefined) return undefined;
    const { rank, host, epoch } = header;
    const { columns, length } = this.#batches;
    const since = columns.since.subarray(0, length);
    const metadata = new Map(this.#metadata);
    metadata.delete(recordedKey);
    metadata.delete(capturedKey);
    metadata.delete(runningKey);
    return {
      source: this.#source,
      header,
      evidence: {
        rank,
        host,
        epoch: BigInt(epoch),
        samples: this.#samples,
        wallClock: this.#wallClock,
        until: last.watermark,
        ...(this.#source.hostUnknown === true ? { hostUnknown: true } : {}),
      },
      metadata,
      dropped: this.#dropped,
      recorded: readCounts(this.#metadata.get(recordedKey), eventKinds),
      pruned: this.#pruned.parts,
      running: readRunning(this.#metadata.get(runningKey) ?? ''),
      batches: this.#readable.length,
      ended: last.last,
      from: header.watermark,
      heldBack: this.#heldBack,
      thinned: this.#thinned,
      order: inOrder(this.#readable.columns.index.subarray(0, this.#readable.length), since),
      since,
      watermarks: columns.watermark.subarray(0, length),
    };
  }
}

/** Sorts only if needed: batches mostly come in order, except held-back ones. */
function inOrder(readable: Uint32Array, since: Float64Array): Uint32Array {
  const at = (place: number): number => since[readable[place] as number] as number;
  for (let place = 1; place < readable.length; place++) {
    if (at(place) < at(place - 1)) return readable.slice().sort((a, b) => (since[a] as number) - (since[b] as number) || a - b);
  }
  return readable;
}

function collectSamples(batch: Batch, samples: ClockSamples): void {
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
