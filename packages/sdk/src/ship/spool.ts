// Write-ahead log of one incarnation's batches on disk: unacknowledged batches survive the aggregator, the network and this process.
//
//   <root>/<run>/rank-<rank>-<incarnation>/000000.seg 000001.seg …  (protocol's segment format)   acked ("<segment> <offset>")   owner   reserve
//
//   |  deleted segments  |  acknowledged  |  read, in the shipper's hands  |  not read yet  |
//                                         ^ acked                          ^ cursor         ^ end
//
// A batch that finds the disk full stays in memory, as a segment that has a number and no file: places in the log and their order do not change.
// The current segment ends there, so that it leaves the disk as soon as it is acknowledged.
//
//   |  000004.seg  |  5, in memory  |  6, in memory  |  000007.seg  |
//
// Invariants: acked ≤ cursor ≤ end. A batch is in the file before it is sent, unless the disk is full. Only whole segments leave the disk. A full
// spool rejects the new batch and keeps the older ones. Only the last batch of a life, which reports how many were lost, always finds room: the
// spool gives up `reserve` for it. `acked` only saves work; correctness rests on deduplication by batch id.
// There is no fsync: the file survives `kill -9` of the process, not a power cut (the training would not survive that either).

import {
  closeSync,
  existsSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmdirSync,
  rmSync,
  statSync,
  unlinkSync,
  writeFileSync,
  writeSync,
  writevSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import {
  crc32,
  decodeFrameHeader,
  encodeFrameHeader,
  frameHeaderBytes,
  isSegment,
  limits as protocolLimits,
  segmentMagic,
} from '@ranktrace/protocol';
import { SdkError } from '../model/errors.ts';
import { limits } from '../model/limits.ts';
import { isDiskFull, makeSpoolFolder, unusable } from './spool-folders.ts';
import { claimSpool, releaseSpool } from './spool-owner.ts';

/** The end of a frame: a position in the log. */
export interface Position {
  readonly segment: number;
  readonly offset: number;
}

/** One batch read back, and its end. */
export interface Frame {
  readonly bytes: Uint8Array;
  readonly end: Position;
}

export interface SpoolSettings {
  /** Roll to the next segment file after this many bytes. */
  readonly segmentBytes?: number;
  /** The spool is the output: nothing is ever deleted. */
  readonly keep?: boolean;
  /** The `processSpace` of the calling thread, which becomes the writer of this spool. */
  readonly owner?: string;
}

const segmentName = /^(\d{6,})\.seg$/;
const segmentFile = (segment: number): string => `${String(segment).padStart(6, '0')}.seg`;
const start = segmentMagic.length;
const reserveFile = 'reserve';

export class Spool {
  readonly directory: string;
  #segmentBytes: number;
  readonly #keep: boolean;
  readonly #owner: string | undefined;
  /** Bytes of each remaining segment, oldest first. */
  readonly #segments = new Map<number, number>();
  /** Batches that found no room on disk: each is a segment without a file. */
  readonly #memory = new Map<number, Uint8Array>();
  #memoryBytes = 0;
  #shortage: string | undefined;
  #hasReserved = false;
  #cursor: Position = { segment: 0, offset: start };
  #acked: Position = { segment: 0, offset: start };
  /** The segment appended to; -1 before the first append of this process. */
  #tail = -1;
  #writer: number | undefined;
  #reader: { readonly segment: number; readonly fd: number } | undefined;
  #marker: number | undefined;
  #corruptFrames = 0;

  private constructor(directory: string, { segmentBytes = limits.spoolSegmentBytes, keep = false, owner }: SpoolSettings) {
    this.directory = directory;
    this.#segmentBytes = segmentBytes;
    this.#keep = keep;
    this.#owner = owner;
  }

  /** Opens (or creates) the log in `directory`; throws SdkError `spool_unusable`. Appends go to a new segment, never behind a torn one. */
  static open(directory: string, settings: SpoolSettings = {}): Spool {
    const spool = new Spool(directory, settings);
    try {
      makeSpoolFolder(directory, settings.keep === true);
      spool.#list();
      if (settings.owner !== undefined) claimSpool(directory, settings.owner);
    } catch (cause) {
      // There may be room later; until then memory serves.
      if (settings.keep === true || !isDiskFull(cause)) throw unusable(directory, cause);
    }
    return spool;
  }

  /** Bytes in the log now. */
  get bytes(): number {
    let bytes = 0;
    for (const size of this.#segments.values()) bytes += size;
    return bytes;
  }

  /** Frames that could not be read back: torn by a kill in the middle of a write, or damaged. */
  get corruptFrames(): number {
    return this.#corruptFrames;
  }

  /** The reason why the last batch is not on disk: `bound`, or the system's code; undefined if it is. */
  get shortage(): string | undefined {
    return this.#shortage;
  }

  /** Whether the whole log has been read. */
  get caughtUp(): boolean {
    const { segment, offset } = this.#cursor;
    for (const [later, size] of this.#segments) if (later > segment ? size > start : later === segment && offset < size) return false;
    return true;
  }

  /**
   * Appends one batch; returns its end, or `undefined` when it would take the log over `bytesMax`, or found room neither on disk nor in memory.
   * The last one of a life may exceed the bound a little.
   */
  append(batch: Uint8Array, bytesMax: number, isLast = false): Position | undefined {
    const frameBytes = frameHeaderBytes + batch.length;
    const allowed = isLast ? bytesMax + protocolLimits.batchBytesMax : bytesMax;
    if (this.#writer !== undefined && (this.#size() >= this.#segmentBytes || this.bytes + frameBytes > allowed)) this.#roll();
    const opening = this.#writer === undefined ? start : 0;
    if (this.bytes + opening + frameBytes > allowed) {
      this.#shortage = 'bound';
      return undefined;
    }
    return this.#write(batch) ?? (this.#makeRoom(isLast) ? this.#write(batch) : undefined) ?? this.#hold(batch, isLast);
  }

  /** The next batch, or `undefined` at the end. A damaged frame ends its segment: later frames in it cannot be found. */
  read(): Frame | undefined {
    for (;;) {
      const { segment, offset } = this.#cursor;
      const size = this.#segments.get(segment) ?? 0;
      if (offset >= size) {
        const next = [...this.#segments.keys()].find((later) => later > segment);
        if (next === undefined) return undefined;
        this.#cursor = { segment: next, offset: start };
        continue;
      }
      const bytes = this.#readFrame(segment, offset);
      if (bytes === undefined) {
        this.#corruptFrames++;
        this.#cursor = { segment, offset: size };
        continue;
      }
      this.#cursor = { segment, offset: offset + frameHeaderBytes + bytes.length };
      return { bytes, end: this.#cursor };
    }
  }

  /** Marks `end`, the end of the last append, as read: its batch is in memory already. Only when `caughtUp` was true before that append. */
  passOver(end: Position): void {
    this.#cursor = end;
  }

  /** Moves the cursor back to the last acknowledged position. */
  rewind(): void {
    this.#cursor = this.#acked;
  }

  /** Acknowledges everything up to `end`: deletes whole segments below it. */
  acknowledge(end: Position): void {
    this.#acked = end;
    if (this.#keep) return;
    for (const [segment, size] of this.#segments) {
      const open = segment === this.#tail && this.#writer !== undefined;
      const done = segment < end.segment || (segment === end.segment && end.offset >= size);
      if (done && !open) this.#delete(segment);
    }
    this.#mark();
  }

  /** Writes batches held in memory to disk, as far as there is room; the caller appends nothing after that. Returns how many are lost. */
  saveMemory(): number {
    const held = [...this.#memory.values()];
    for (const segment of [...this.#memory.keys()]) this.#delete(segment);
    this.#releaseReserve();
    return held.filter((batch) => this.#write(batch) === undefined).length;
  }

  /** Closes the files, which stay on disk. */
  close(): void {
    if (this.#owner !== undefined && existsSync(this.directory)) {
      this.#releaseReserve();
      releaseSpool(this.directory, this.#owner);
    }
    for (const fd of [this.#writer, this.#reader?.fd, this.#marker]) if (fd !== undefined) closeSync(fd);
    this.#writer = undefined;
    this.#reader = undefined;
    this.#marker = undefined;
  }

  /** Closes and deletes the directory, and its parents while they are empty. */
  remove(): void {
    this.close();
    this.#memory.clear();
    try {
      rmSync(this.directory, { recursive: true, force: true });
      rmdirSync(dirname(this.directory));
    } catch {
      // Other ranks of the run still use the parent, or another process cleans up at the same time.
    }
    this.#segments.clear();
  }

  #list(): void {
    const numbers = readdirSync(this.directory)
      .flatMap((name) => segmentName.exec(name)?.[1] ?? [])
      .map(Number);
    for (const segment of numbers.sort((a, b) => a - b)) this.#segments.set(segment, this.#sizeOnDisk(segment));
    this.#tail = numbers.at(-1) ?? -1;
    this.#cursor = this.#acked = readMark(this.directory) ?? { segment: numbers[0] ?? 0, offset: start };
  }

  #sizeOnDisk(segment: number): number {
    const fd = openSync(join(this.directory, segmentFile(segment)), 'r');
    try {
      return fstatSync(fd).size;
    } finally {
      closeSync(fd);
    }
  }

  #size(): number {
    return this.#segments.get(this.#tail) ?? 0;
  }

  #write(batch: Uint8Array): Position | undefined {
    const frameBytes = frameHeaderBytes + batch.length;
    try {
      const fd = this.#writer ?? this.#create();
      const before = this.#size();
      let written = -1;
      try {
        // Write at a position: after a partial write the descriptor's own position would lie behind the cut.
        written = writevSync(fd, [encodeFrameHeader(batch), batch], before);
      } finally {
        // A full disk leaves part of a frame: without truncation, later frames would follow garbage.
        if (written !== frameBytes) ftruncateSync(fd, before);
      }
      // The system gives a reason only for a write that wrote nothing.
      this.#shortage = written === frameBytes ? undefined : 'ENOSPC';
      if (written !== frameBytes) return undefined;
      this.#segments.set(this.#tail, before + frameBytes);
      return { segment: this.#tail, offset: before + frameBytes };
    } catch (error) {
      this.#shortage = (error as NodeJS.ErrnoException).code ?? 'error';
      return undefined;
    }
  }

  /** The disk is full: ends the current segment, and gives up the reserve for the last batch; returns whether another try makes sense. */
  #makeRoom(isLast: boolean): boolean {
    const hasEnded = this.#writer !== undefined;
    if (hasEnded) {
      // With smaller segments, fewer acknowledgements free room.
      this.#segmentBytes = Math.max(
        limits.spoolSegmentBytesMin,
        Math.min(this.#segmentBytes, Math.ceil(this.bytes / limits.spoolSegmentsMin)),
      );
      this.#roll();
    }
    return (isLast && this.#releaseReserve()) || hasEnded;
  }

  /** Holds a batch in memory for which the disk had no room. Not where files are the output: it would never get there. */
  #hold(batch: Uint8Array, isLast: boolean): Position | undefined {
    if (this.#keep || (!isLast && this.#memoryBytes + batch.length > limits.spoolMemoryBytesMax)) return undefined;
    if (this.#writer !== undefined) this.#roll();
    const end = start + frameHeaderBytes + batch.length;
    this.#tail++;
    // A copy: msgpackr returns views of buffers of up to four times the size.
    this.#memory.set(this.#tail, new Uint8Array(batch));
    this.#memoryBytes += batch.length;
    this.#segments.set(this.#tail, end);
    return { segment: this.#tail, offset: end };
  }

  #reserve(): void {
    this.#hasReserved = true;
    try {
      writeFileSync(join(this.directory, reserveFile), new Uint8Array(limits.spoolReserveBytes));
    } catch {
      this.#releaseReserve(); // A partial one would be in the way.
    }
  }

  #releaseReserve(): boolean {
    try {
      unlinkSync(join(this.directory, reserveFile));
      return true;
    } catch {
      return false; // It never had room, or was given up before.
    }
  }

  #create(): number {
    // A month is long enough for somebody to tidy the temporary directory.
    makeSpoolFolder(this.directory, this.#keep);
    if (this.#owner !== undefined && !this.#hasReserved) this.#reserve();
    const file = join(this.directory, segmentFile(this.#tail + 1));
    const fd = openSync(file, 'wx');
    try {
      writeSync(fd, segmentMagic);
    } catch (error) {
      closeSync(fd);
      unlinkSync(file);
      throw error;
    }
    this.#writer = fd;
    this.#tail++;
    this.#segments.set(this.#tail, start);
    return fd;
  }

  /** Ends the current segment; deletes it if it is empty or fully acknowledged. */
  #roll(): void {
    const writer = this.#writer;
    this.#writer = undefined;
    try {
      if (writer !== undefined) closeSync(writer);
    } catch {
      // A network disk may report late that it is full: lost frames are counted when the segment is read back.
    }
    const isAcknowledged = !this.#keep && this.#acked.segment === this.#tail && this.#acked.offset >= this.#size();
    if (isAcknowledged || this.#size() === start) this.#delete(this.#tail);
  }

  #delete(segment: number): void {
    if (this.#reader?.segment === segment) this.#closeReader();
    this.#segments.delete(segment);
    const held = this.#memory.get(segment);
    if (held !== undefined) {
      this.#memoryBytes -= held.length;
      this.#memory.delete(segment);
      return;
    }
    try {
      unlinkSync(join(this.directory, segmentFile(segment)));
    } catch {
      // Already gone: its bytes no longer count either way.
    }
  }

  #readFrame(segment: number, offset: number): Uint8Array | undefined {
    const held = this.#memory.get(segment);
    if (held !== undefined) return held;
    try {
      const fd = this.#openReader(segment);
      const header = Buffer.alloc(frameHeaderBytes);
      if (readSync(fd, header, 0, frameHeaderBytes, offset) < frameHeaderBytes) return undefined;
      const { length, checksum } = decodeFrameHeader(header);
      const payload = Buffer.alloc(length);
      if (readSync(fd, payload, 0, length, offset + frameHeaderBytes) < length) return undefined;
      return crc32(payload) === checksum ? payload : undefined;
    } catch {
      return undefined;
    }
  }

  #openReader(segment: number): number {
    if (this.#reader?.segment === segment) return this.#reader.fd;
    this.#closeReader();
    const fd = openSync(join(this.directory, segmentFile(segment)), 'r');
    this.#reader = { segment, fd };
    const magic = Buffer.alloc(start);
    readSync(fd, magic, 0, start, 0);
    if (!isSegment(magic)) throw new SdkError('spool_unusable', `Cannot read "${segmentFile(segment)}": it must begin like a segment file`);
    return fd;
  }

  #closeReader(): void {
    if (this.#reader !== undefined) closeSync(this.#reader.fd);
    this.#reader = undefined;
  }

  // Fixed width, one write: a kill leaves the old or the new text, never a mixture that claims more than was acknowledged.
  #mark(): void {
    try {
      this.#marker ??= openSync(join(this.directory, 'acked'), 'w');
      const { segment, offset } = this.#acked;
      writeSync(this.#marker, `${String(segment).padStart(9, '0')} ${String(offset).padStart(12, '0')}\n`, 0);
    } catch {
      // Without the mark, batches are sent once more, and the receiver recognises them.
    }
  }
}

/** Whether everything in the spool in `directory`, which has no writer any more, is acknowledged. Throws the system's errors. */
export function isAcknowledged(directory: string): boolean {
  const acked = readMark(directory) ?? { segment: -1, offset: 0 };
  for (const name of readdirSync(directory)) {
    const segment = Number(segmentName.exec(name)?.[1] ?? -1);
    if (segment < acked.segment || segment < 0) continue;
    const { size } = statSync(join(directory, name));
    if (size > (segment === acked.segment ? acked.offset : start)) return false;
  }
  return true;
}

function readMark(directory: string): Position | undefined {
  try {
    const mark = /^(\d{9}) (\d{12})\n$/.exec(readFileSync(join(directory, 'acked'), 'utf8'));
    return mark === null ? undefined : { segment: Number(mark[1]), offset: Number(mark[2]) };
  } catch {
    return undefined;
  }
}
