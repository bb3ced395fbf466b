// The durable store of one run: every batch once, in order of arrival, in append-only segments.
//
//   append ──► has it? ──► writev into the last segment ──► index ──► 'stored' (now the batch may be acknowledged)
//
// Invariants: `append` returns 'stored' only after the write; the index holds exactly the whole frames on disk; opening after a kill -9
// gives the same store as never having been killed, because the index is rebuilt from the frames and a torn last frame is cut off.

import { statSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { type BatchHeader, segmentMagic } from '@ranktrace/protocol';
import { AggregatorError } from '../model/errors.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';
import { BatchIndex, indexSegment, type RunBatches } from './batch-index.ts';
import type { PlacedSummary } from './prune-segment.ts';
import { Quarantine } from './quarantine.ts';
import { createRunDirectory, listSegments, quarantineName, type SegmentFile, segmentsDirectory } from './run-directory.ts';
import { RunLock } from './run-lock.ts';
import { SegmentFiles } from './segment-files.ts';
import type { SegmentSource } from './segment-source.ts';
import { SegmentWriter } from './segment-writer.ts';

export interface RunStoreOptions {
  /** Receives the findings of the opening: a torn tail that was cut, damage that was left alone. */
  readonly onNotice?: (notice: string) => void;
  /** Bytes at which a segment is rolled; for tests. */
  readonly segmentBytesMax?: number;
  /** The result of `surveyRun`, so that opening reads only later segments. */
  readonly survey?: RunSurvey;
}

/** Contents of a run's closed segments. */
export interface RunSurvey {
  readonly index: BatchIndex;
  readonly files: SegmentFiles;
  /** File number in `files` by segment number. */
  readonly fileOf: Map<number, number>;
  /** The last surveyed segment, 0 = none. */
  readonly through: number;
}

/**
 * Reads the closed segments of `<out>/<run>`, all but the last, giving way to the event loop after each (64 MiB, about 60 ms). Closed segments never
 * change, so writers may continue meanwhile.
 */
export async function surveyRun(out: string, run: string, onNotice: (notice: string) => void = () => undefined): Promise<RunSurvey> {
  const directory = join(out, run);
  const survey = emptySurvey(run);
  const closed = listSegments(directory).slice(0, -1);
  for (const file of closed) {
    const { tail } = scanInto(survey, file, onNotice);
    if (tail > 0) onNotice(leftAlone(file.path, tail));
    await setImmediate();
  }
  return { ...survey, through: closed.at(-1)?.segment ?? 0 };
}

export class RunStore implements RunBatches {
  readonly run: string;
  readonly directory: string;
  readonly quarantine: Quarantine;
  readonly #survey: RunSurvey;
  readonly #lock: RunLock;
  readonly #writer: SegmentWriter;
  #closed = false;
  #lockLost = false;
  #touchedAt = Number.NEGATIVE_INFINITY;

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
      const { survey } = options;
      this.#survey = survey !== undefined && isCurrent(survey, this.directory) ? survey : emptySurvey(run);
      this.#writer = this.#readSegments(options);
      this.quarantine = new Quarantine(join(this.directory, quarantineName));
    } catch (error) {
      this.#lock.release();
      throw error;
    }
  }

  get closed(): boolean {
    return this.#closed;
  }

  get worldSize(): number {
    return this.#survey.index.worldSize;
  }

  /** A snapshot of every incarnation: a merge reads a source twice, and must see the same both times while batches continue to arrive. */
  sources(): readonly SegmentSource[] {
    return this.#survey.index.sources().map((source) => source.snapshot());
  }

  /** Number of incarnations. */
  get sourceCount(): number {
    return this.#survey.index.sources().length;
  }

  source(header: Pick<BatchHeader, 'rank' | 'incarnation'>): SegmentSource | undefined {
    return this.#survey.index.source(header);
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
    this.#survey.index.add(header, fileOf(this.#survey, placed.segment, this.#writer.path(placed.segment)), placed.offset, bytes.length);
    return 'stored';
  }

  /** Flushes appended batches to the disk and shows that the lock's owner lives. Throws AggregatorError `store_write_failed`, `store_locked`. */
  async sync(now: Date): Promise<void> {
    if (this.#closed) return;
    if (!this.#writer.isDirty && performance.now() - this.#touchedAt < limits.lockTouchMs) return;
    this.#touchedAt = performance.now();
    try {
      this.#lock.touch(now);
    } catch (error) {
      this.#lockLost = true; // two writers in one segment would destroy each other's frames
      throw error;
    }
    await this.#writer.sync();
  }

  /**
   * Segments that are complete; closes the current one first if its last write was before `beforeMs` (unix time).
   * Throws AggregatorError `store_write_failed`.
   */
  async closedSegments(beforeMs: number): Promise<SegmentFile[]> {
    const { path } = this.#writer.current;
    if (path !== undefined && statSync(path).mtimeMs < beforeMs) await this.#writer.endSegment();
    return listSegments(this.directory).filter((file) => this.isComplete(file));
  }

  /** Whether no batch will be appended to a segment any more. */
  isComplete({ segment }: SegmentFile): boolean {
    const { current } = this.#writer;
    return current.path === undefined || segment < current.segment;
  }

  /** From now on readers find the batches of a segment in its summary. */
  replaceSegment({ segment }: SegmentFile, path: string, summaries: readonly PlacedSummary[]): void {
    const before = this.#survey.fileOf.get(segment);
    const file = this.#survey.files.add(path);
    this.#survey.fileOf.set(segment, file);
    if (before === undefined) return;
    const places = summaries.map((summary) => ({ ...summary, file }));
    this.#survey.index.replace(before, places);
    this.#survey.files.release(before);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    try {
      await this.#writer.close();
    } finally {
      this.quarantine.close();
      this.#survey.files.close();
      this.#lock.release();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #readSegments(options: RunStoreOptions): SegmentWriter {
    const notice = options.onNotice ?? (() => undefined);
    const segments = listSegments(this.directory);
    const last = segments.at(-1)?.segment ?? 0;
    let end: number | undefined;
    for (const file of segments) {
      const { segment, path, pruned } = file;
      if (segment <= this.#survey.through) continue;
      const { scan, tail } = scanInto(this.#survey, file, notice);
      const isTorn = scan.segment && tail <= limits.tornBytesMax;
      if (segment === last && pruned === undefined && isTorn && scan.readable >= segmentMagic.length) {
        end = scan.readable;
        if (tail > 0) notice(`"${path}": a torn batch of ${tail} bytes at the end was cut off`);
      } else if (tail > 0) notice(leftAlone(path, tail));
    }
    return new SegmentWriter(segmentsDirectory(this.directory), options.segmentBytesMax ?? limits.segmentBytesMax, last, end);
  }
}

const leftAlone = (path: string, bytes: number): string => `"${path}": ${bytes} bytes at the end cannot be read and were left alone`;

/** Whether the surveyed segments are still the existing ones: pruning may have changed them meanwhile. */
function isCurrent({ files, fileOf, through }: RunSurvey, directory: string): boolean {
  const closed = listSegments(directory).filter(({ segment }) => segment <= through);
  return closed.length === fileOf.size && closed.every(({ segment, path }) => files.path(fileOf.get(segment) ?? -1) === path);
}

const emptySurvey = (run: string): RunSurvey => {
  const files = new SegmentFiles();
  return { index: new BatchIndex(run, files), files, fileOf: new Map(), through: 0 };
};

/** Reads one segment into the survey's index; reports skipped parts. */
function scanInto(survey: RunSurvey, { segment, path }: SegmentFile, notice: (notice: string) => void) {
  const { index } = survey;
  const scan = indexSegment(path, fileOf(survey, segment, path), (run) => (run === index.run ? index : undefined));
  if (scan.damaged > 0) notice(`"${path}": ${scan.damaged} damaged batches were left out`);
  if (scan.unreadable > 0) notice(`"${path}": ${scan.unreadable} frames of other runs or versions were left out`);
  return { scan, tail: scan.size - scan.readable };
}

function fileOf(survey: RunSurvey, segment: number, path: string): number {
  let file = survey.fileOf.get(segment);
  if (file === undefined) {
    file = survey.files.add(path);
    survey.fileOf.set(segment, file);
  }
  return file;
}
