// The index of one run's batches: its sources, and the reading of segment files into it.

import { type BatchHeader, decodeBatchHeader, isBeside, ProtocolError } from '@ranktrace/protocol';
import { aggregatorLimits as limits } from '../model/limits.ts';
import type { SegmentFiles } from './segment-files.ts';
import { type SegmentScan, scanSegment } from './segment-scan.ts';
import { SegmentSource, type SummaryPlace } from './segment-source.ts';

/** A reader's view of a run; a live store and a read-only log give the same. */
export interface RunBatches {
  readonly run: string;
  /** Number of participating ranks, as they announced it. */
  readonly worldSize: number;
  /** Every incarnation of every rank, sorted by (rank, incarnation). */
  sources(): readonly SegmentSource[];
}

/** Of a rank of which only a recorder beside it was heard. */
const noLife = -1;

export class BatchIndex implements RunBatches {
  readonly run: string;
  readonly #files: SegmentFiles;
  readonly #sources = new Map<string, SegmentSource>();
  readonly #latestLives = new Map<number, number>();
  #sorted: readonly SegmentSource[] | undefined;
  #worldSize = 1;

  constructor(run: string, files: SegmentFiles) {
    this.run = run;
    this.#files = files;
  }

  get worldSize(): number {
    return this.#worldSize;
  }

  sources(): readonly SegmentSource[] {
    this.#sorted ??= [...this.#sources.values()].sort((a, b) => a.rank - b.rank || (a.incarnation < b.incarnation ? -1 : 1));
    return this.#sorted;
  }

  source(header: Pick<BatchHeader, 'rank' | 'incarnation'>): SegmentSource | undefined {
    return this.#sources.get(key(header));
  }

  /** Notes the place of a batch; returns whether it was new. */
  add(header: BatchHeader, file: number, offset: number, length: number): boolean {
    let source = this.source(header);
    if (source === undefined) {
      const { rank, incarnation } = header;
      const life = this.#sources.size;
      if (!isBeside(incarnation)) this.#latestLives.set(rank, life);
      source = new SegmentSource(
        { rank, incarnation, life },
        this.#files,
        () => this.#windowBytes(),
        () => this.#latestLives.get(rank) ?? noLife,
      );
      this.#sources.set(key(header), source);
      this.#sorted = undefined;
    }
    if (header.worldSize > this.#worldSize) this.#worldSize = header.worldSize;
    return source.add(header.pruned?.from ?? header.sequence, header.sequence, file, offset, length);
  }

  /** Replaces the batches in `file` by those in `summaries`, by their headers. */
  replace(file: number, summaries: readonly (SummaryPlace & Pick<BatchHeader, 'rank' | 'incarnation'>)[]): void {
    const bySource = new Map<SegmentSource, SummaryPlace[]>(this.sources().map((source) => [source, []]));
    for (const summary of summaries) {
      const source = this.source(summary);
      if (source !== undefined) bySource.get(source)?.push(summary);
    }
    for (const [source, ofSource] of bySource) source.replace(file, ofSource);
  }

  #windowBytes(): number {
    return Math.min(limits.readAheadBytesMax, limits.readAheadTotalBytesMax / this.#sources.size);
  }
}

export interface IndexedSegment extends SegmentScan {
  /** Whole frames without a batch that this version can read. */
  readonly unreadable: number;
  /** Batches that were already stored. */
  readonly duplicates: number;
}

/** Reads a segment's frames into the index that `indexOf` gives for their run. Throws like `scanSegment`. */
export function indexSegment(path: string, file: number, indexOf: (run: string) => BatchIndex | undefined): IndexedSegment {
  let unreadable = 0;
  let duplicates = 0;
  const scan = scanSegment(path, (payload, offset) => {
    let header: BatchHeader;
    try {
      header = decodeBatchHeader(payload);
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      unreadable++;
      return;
    }
    const index = indexOf(header.run);
    if (index === undefined) unreadable++;
    else if (!index.add(header, file, offset, payload.length)) duplicates++;
  });
  return { ...scan, unreadable, duplicates };
}

const key = (header: Pick<BatchHeader, 'rank' | 'incarnation'>): string => `${header.rank}/${header.incarnation}`;
