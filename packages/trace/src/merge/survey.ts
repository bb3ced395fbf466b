// First pass over a source: its identity, clock evidence and losses. Reads no events.

import {
  type Batch,
  type BatchHeader,
  capturedKey,
  collectivesKey,
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
import { readCounts } from '../model/counts-text.ts';
import { isDeviceKind } from '../model/lanes.ts';
import type { EventCounts, ProcessTotals } from '../model/trace-sink.ts';
import { type BatchOrder, BatchTimes } from './batch-times.ts';
import { PrunedParts } from './pruned-parts.ts';

export interface Survey {
  readonly source: BatchSource;
  readonly header: BatchHeader;
  evidence: ClockEvidence;
  readonly metadata: ReadonlyMap<string, string>;
  /** Whether any of its tracks is a device or a stream; undefined where the source does not tell. */
  readonly hasDevices: boolean | undefined;
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
  /** Readable batches in order of `since`: no event of a batch starts before the `since` of an earlier one. */
  readonly order: BatchOrder;
}

/** Clock samples kept per rank: four hours at full rate, 3 MB of memory at most. */
const samplesMax = 65_536;

/** Kinds that the recorder itself counts. */
const eventKinds: readonly (keyof EventCounts)[] = ['span', 'instant', 'counter', 'step', 'collective', 'rpc'];

const surveyed: readonly TableName[] = ['clockSamples', 'wallClocks', 'metadata', 'tracks'];

/** Surveys one source, which may grow meanwhile. */
export class SourceSurvey {
  #source: BatchSource;
  #header: BatchHeader | undefined;
  #last: BatchHeader | undefined;
  #dropped = noneDropped;
  readonly #samples = new ClockSamples();
  readonly #metadata = new Map<string, string>();
  #wallClock: ClockEvidence['wallClock'];
  #hasDevices = false;
  readonly #times = new BatchTimes();
  #readable = 0;
  readonly #pruned = new PrunedParts();
  #heldBack = 0;
  #thinned = 0;

  constructor(source: BatchSource) {
    this.#source = source;
  }

  /** Reads the new batches of `source`, the same one in its current state; yields once per batch so that the caller can breathe. */
  *read(source: BatchSource): Generator<void, Survey | undefined> {
    this.#source = source;
    for (let index = this.#times.length; index < source.count; index++) {
      const batch = source.batch(index, surveyed);
      this.#times.add(batch?.header);
      if (batch === undefined) continue;
      this.#add(batch);
      yield;
    }
    return this.#survey;
  }

  #add(batch: Batch): void {
    const { header } = batch;
    this.#header ??= header;
    this.#last = header;
    this.#dropped = mostDropped(this.#dropped, header.dropped);
    if (header.since !== undefined) this.#heldBack++;
    if (header.pruned !== undefined) this.#pruned.add(header.pruned);
    this.#readable++;
    collectSamples(batch, this.#samples);
    if (this.#samples.length > samplesMax) {
      this.#samples.thin();
      this.#thinned++;
    }
    this.#wallClock ??= firstWallClock(batch);
    this.#hasDevices ||= hasDevices(batch);
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
    const metadata = new Map(this.#metadata);
    metadata.delete(recordedKey);
    metadata.delete(capturedKey);
    metadata.delete(runningKey);
    metadata.delete(collectivesKey);
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
        ...(this.#source.attempt === undefined ? {} : { attempt: this.#source.attempt }),
      },
      metadata,
      hasDevices: this.#source.tellsTracks === true ? this.#hasDevices : undefined,
      dropped: this.#dropped,
      recorded: readCounts(this.#metadata.get(recordedKey), eventKinds),
      pruned: this.#pruned.parts,
      running: readRunning(this.#metadata.get(runningKey) ?? ''),
      batches: this.#readable,
      ended: last.last,
      from: header.watermark,
      heldBack: this.#heldBack,
      thinned: this.#thinned,
      order: this.#times.order(),
    };
  }
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

function hasDevices({ tables: { tracks }, strings }: Batch): boolean {
  for (let row = 0; row < tracks.length; row++) if (isDeviceKind(strings[tracks.columns.kind[row] as number] as string)) return true;
  return false;
}
