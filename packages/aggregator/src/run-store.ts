// The durable store of one run: every batch once, in order of arrival, in append-only segments.
//
//   append ──► has it? ──► writev into the last segment ──► index ──► 'stored' (now the batch may be acknowledged)
//
// Invariants: `append` returns 'stored' only after the write; the index holds exactly the whole frames on disk; opening after a kill -9
// gives the same store as never having been killed, because the index is rebuilt from the frames and a torn last frame is cut off.

import { join } from 'node:path';
import { type BatchHeader, segmentMagic } from '@ranktrace/protocol';
import { BatchIndex, indexSegment, type RunBatches } from './batch-index.ts';
import { AggregatorError } from './errors.ts';
import { aggregatorLimits as limits } from './limits.ts';
import { Quarantine } from './quarantine.ts';
import { createRunDirectory, listSegments, quarantineName, segmentsDirectory } from './run-directory.ts';
import { RunLock } from './run-lock.ts';
import { SegmentFiles } from './segment-files.ts';
import type { SegmentSource } from './segment-source.ts';
import { SegmentWriter, segmentName } from './segment-writer.ts';

export interface RunStoreOptions {
  /** Told in one line what opening found: a torn tail that was cut, damage that was left alone. */
  readonly onNotice?: (notice: string) => void;
  /** Bytes at which a segment is rolled; for tests. */
  readonly segmentBytesMax?: number;
}

export class RunStore implements RunBatches {
  readonly run: string;
  readonly directory: string;
  readonly quarantine: Quarantine;
  readonly #index: BatchIndex;
  readonly #files = new SegmentFiles();
  readonly #lock: RunLock;
  readonly #writer: SegmentWriter;
  /** File number in `#files` by segment number. */
  readonly #fileOf = new Map<number, number>();
  #closed = false;
  #lockLost = false;

  /**
   * Opens or creates the run `run` in `<out>/<run>`. Reads all frames: about 1 s per GB.
   * Throws AggregatorError `store_locked`, `store_format`, `store_unreadable`, `store_write_failed` or `store_full`.
   */
  constructor(out: string, run: string, options: RunStoreOptions = {}) {
    this.run = run;
    this.directory = join(out, run);
    createRunDirectory(this.directory, run);
    this.#lock = RunLock.take(this.directory);
    try {
      this.#index = new BatchIndex(run, this.#files);
      this.#writer = this.#readSegments(options);
      this.quarantine = new Quarantine(join(this.directory, quarantineName));
    } catch (error) {
      this.#lock.release();
      throw error;
    }
  }

  get worldSize(): number {
    return this.#index.worldSize;
  }

  /** Every incarnation as it is now: a merge reads a source twice, and must see the same both times while batches go on arriving. */
  sources(): readonly SegmentSource[] {
    return this.#index.sources().map((source) => source.snapshot());
  }

  /** Incarnations there are. */
  get sourceCount(): number {
    return this.#index.sources().length;
  }

  source(header: Pick<BatchHeader, 'rank' | 'incarnation'>): SegmentSource | undefined {
    return this.#index.source(header);
  }

  has(header: BatchHeader): boolean {
    return this.source(header)?.has(header.sequence) ?? false;
  }

  /**
   * Stores the bytes of the batch with this header, unless (rank, incarnation, sequence) is there.
   * Throws AggregatorError `store_full`, `store_write_failed`, `store_locked` (the lock was lost) or `closed`; the store is then as before.
   */
  append(bytes: Uint8Array, header: BatchHeader): 'stored' | 'duplicate' {
    if (this.#closed) throw new AggregatorError('closed', `Cannot store batch: run "${this.run}" is closed`);
    if (this.#lockLost) throw new AggregatorError('store_locked', `Cannot write run "${this.directory}": another process took its lock`);
    if (this.has(header)) return 'duplicate';
    const placed = this.#writer.append(bytes);
    this.#index.add(header, this.#file(placed.segment), placed.offset, bytes.length);
    return 'stored';
  }

  /** Puts what was appended on the disk and shows that the lock's owner lives. Throws AggregatorError `store_write_failed`, `store_locked`. */
  async sync(now: Date): Promise<void> {
    if (this.#closed) return;
    try {
      this.#lock.touch(now);
    } catch (error) {
      this.#lockLost = true; // two writers in one segment would destroy each other's frames
      throw error;
    }
    await this.#writer.sync();
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    try {
      await this.#writer.close();
    } finally {
      this.quarantine.close();
      this.#files.close();
      this.#lock.release();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #readSegments(options: RunStoreOptions): SegmentWriter {
    const notice = options.onNotice ?? (() => undefined);
    const segments = listSegments(this.directory);
    const last = segments.at(-1) ?? 0;
    let end: number | undefined;
    for (const segment of segments) {
      const path = join(segmentsDirectory(this.directory), segmentName(segment));
      const scan = indexSegment(path, this.#file(segment), (run) => (run === this.run ? this.#index : undefined));
      const tail = scan.size - scan.readable;
      if (scan.damaged > 0) notice(`"${path}": ${scan.damaged} damaged batches were left out`);
      if (scan.unreadable > 0) notice(`"${path}": ${scan.unreadable} frames of other runs or versions were left out`);
      const isTorn = scan.segment && tail <= limits.tornBytesMax;
      if (segment === last && isTorn && scan.readable >= segmentMagic.length) {
        end = scan.readable;
        if (tail > 0) notice(`"${path}": a torn batch of ${tail} bytes at the end was cut off`);
      } else if (tail > 0) notice(`"${path}": ${tail} bytes at the end cannot be read and were left alone`);
    }
    return new SegmentWriter(segmentsDirectory(this.directory), options.segmentBytesMax ?? limits.segmentBytesMax, last, end);
  }

  #file(segment: number): number {
    let file = this.#fileOf.get(segment);
    if (file === undefined) {
      file = this.#files.add(join(segmentsDirectory(this.directory), segmentName(segment)));
      this.#fileOf.set(segment, file);
    }
    return file;
  }
}
