// Write-ahead log of one incarnation's batches on disk: what is not acknowledged survives the aggregator, the network and this process.
//
//   <root>/<run>/rank-<rank>-<incarnation>/000000.seg 000001.seg …  (protocol's segment format)   acked ("<segment> <offset>")   owner
//
//   |  deleted segments  |  acknowledged  |  read, in the shipper's hands  |  on disk only  |
//                                         ^ acked                          ^ cursor         ^ end
//
// Invariants: acked ≤ cursor ≤ end. A batch is in the file before it is sent. Only whole segments leave the disk. When full, the new
// batch is refused: what was promised first is kept. `acked` only spares work; correctness rests on deduplication by batch id.
// There is no fsync: the file survives `kill -9` of the process, not a power cut (the training would not survive that either).

import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fstatSync,
  ftruncateSync,
  mkdirSync,
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
import { crc32, decodeFrameHeader, encodeFrameHeader, frameHeaderBytes, isSegment, segmentMagic } from '@ranktrace/protocol';
import { SdkError } from './errors.ts';
import { ownerFile } from './leftover-spools.ts';
import { limits } from './limits.ts';

/** The end of a frame: a place in the log. */
export interface Position {
  readonly segment: number;
  readonly offset: number;
}

/** One batch read back, and where it ends. */
export interface Frame {
  readonly bytes: Uint8Array;
  readonly end: Position;
}

export interface SpoolSettings {
  /** Roll to the next segment file after this many bytes. */
  readonly segmentBytes?: number;
  /** The spool is the output: nothing is ever deleted. */
  readonly keep?: boolean;
  /** Written beside the segments: where the process id in the directory's name means something (`processSpace`). */
  readonly owner?: string;
}

const segmentName = /^(\d{6,})\.seg$/;
const segmentFile = (segment: number): string => `${String(segment).padStart(6, '0')}.seg`;
const start = segmentMagic.length;

export class Spool {
  readonly directory: string;
  readonly #segmentBytes: number;
  readonly #keep: boolean;
  /** Bytes of each segment file that is still on disk, oldest first. */
  readonly #segments = new Map<number, number>();
  #cursor: Position = { segment: 0, offset: start };
  #acked: Position = { segment: 0, offset: start };
  /** The segment appended to; -1 before the first append of this process. */
  #tail = -1;
  #writer: number | undefined;
  #reader: { readonly segment: number; readonly fd: number } | undefined;
  #marker: number | undefined;
  #corruptFrames = 0;

  private constructor(directory: string, { segmentBytes = limits.spoolSegmentBytes, keep = false }: SpoolSettings) {
    this.directory = directory;
    this.#segmentBytes = segmentBytes;
    this.#keep = keep;
  }

  /** Opens (or creates) the log in `directory`; throws SdkError `spool_unusable`. Appends go to a new segment, never behind a torn one. */
  static open(directory: string, settings: SpoolSettings = {}): Spool {
    const spool = new Spool(directory, settings);
    try {
      makeFolder(directory, settings.keep);
      if (settings.owner !== undefined) writeFileSync(join(directory, ownerFile), settings.owner);
      spool.#list();
    } catch (cause) {
      throw unusable(directory, cause);
    }
    return spool;
  }

  /** Bytes on disk. */
  get bytes(): number {
    let bytes = 0;
    for (const size of this.#segments.values()) bytes += size;
    return bytes;
  }

  /** Frames that could not be read back: torn by a kill in the middle of a write, or damaged. */
  get corruptFrames(): number {
    return this.#corruptFrames;
  }

  /** Whether everything on disk has been read. */
  get caughtUp(): boolean {
    const { segment, offset } = this.#cursor;
    for (const [later, size] of this.#segments) if (later > segment ? size > start : later === segment && offset < size) return false;
    return true;
  }

  /** Appends one batch; its end, or `undefined` when it would take the log over `bytesMax` or cannot be written. */
  append(batch: Uint8Array, bytesMax: number): Position | undefined {
    const frameBytes = frameHeaderBytes + batch.length;
    if (this.#writer !== undefined && (this.#size() >= this.#segmentBytes || this.bytes + frameBytes > bytesMax)) this.#roll();
    const opening = this.#writer === undefined ? start : 0;
    if (this.bytes + opening + frameBytes > bytesMax) return undefined;
    try {
      const fd = this.#writer ?? this.#create();
      const before = this.#size();
      let written = -1;
      try {
        // At a position: after a write that was cut short, the descriptor's own would stand behind the cut.
        written = writevSync(fd, [encodeFrameHeader(batch), batch], before);
      } finally {
        // A full disk leaves part of a frame: without the cut, later frames would stand behind garbage.
        if (written !== frameBytes) ftruncateSync(fd, before);
      }
      if (written !== frameBytes) return undefined;
      this.#segments.set(this.#tail, before + frameBytes);
      return { segment: this.#tail, offset: before + frameBytes };
    } catch {
      return undefined;
    }
  }

  /** The next batch on disk, or `undefined` at the end. Damaged frames end their segment: what follows them cannot be found. */
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

  /** Takes `end`, where the last append ended, as read: its batch went on in memory. Only when `caughtUp` was true before that append. */
  passOver(end: Position): void {
    this.#cursor = end;
  }

  /** Reads again from what was acknowledged last. */
  rewind(): void {
    this.#cursor = this.#acked;
  }

  /** Everything up to `end` is stored elsewhere: whole segments below it are deleted. */
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

  /** Closes the files; they stay where they are. */
  close(): void {
    for (const fd of [this.#writer, this.#reader?.fd, this.#marker]) if (fd !== undefined) closeSync(fd);
    this.#writer = undefined;
    this.#reader = undefined;
    this.#marker = undefined;
  }

  /** Closes and deletes the directory, and its parents while they are empty. */
  remove(): void {
    this.close();
    try {
      rmSync(this.directory, { recursive: true, force: true });
      rmdirSync(dirname(this.directory));
    } catch {
      // Other ranks of the run still use the parent, or somebody else cleans up at the same time.
    }
    this.#segments.clear();
  }

  #list(): void {
    const numbers = readdirSync(this.directory)
      .flatMap((name) => segmentName.exec(name)?.[1] ?? [])
      .map(Number);
    for (const segment of numbers.sort((a, b) => a - b)) this.#segments.set(segment, this.#sizeOnDisk(segment));
    this.#tail = numbers.at(-1) ?? -1;
    this.#cursor = this.#acked = this.#readMark() ?? { segment: numbers[0] ?? 0, offset: start };
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

  #create(): number {
    // A month is long enough for somebody to tidy the temporary directory.
    makeFolder(this.directory, this.#keep);
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

  /** Ends the segment being written; when all of it is acknowledged it leaves the disk, which may make the room that is wanted. */
  #roll(): void {
    const writer = this.#writer;
    this.#writer = undefined;
    try {
      if (writer !== undefined) closeSync(writer);
    } catch {
      // A network disk may say so late that it is full: what it did not keep is counted when it is read back.
    }
    if (!this.#keep && this.#acked.segment === this.#tail && this.#acked.offset >= this.#size()) this.#delete(this.#tail);
  }

  #delete(segment: number): void {
    if (this.#reader?.segment === segment) this.#closeReader();
    this.#segments.delete(segment);
    try {
      unlinkSync(join(this.directory, segmentFile(segment)));
    } catch {
      // Already gone: its bytes no longer count either way.
    }
  }

  #readFrame(segment: number, offset: number): Uint8Array | undefined {
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

  // Fixed width, one write: a kill leaves the old or the new text, never a mixture that says more than was acknowledged.
  #mark(): void {
    try {
      this.#marker ??= openSync(join(this.directory, 'acked'), 'w');
      const { segment, offset } = this.#acked;
      writeSync(this.#marker, `${String(segment).padStart(9, '0')} ${String(offset).padStart(12, '0')}\n`, 0);
    } catch {
      // Without the mark, batches are sent once more and recognised as known.
    }
  }

  #readMark(): Position | undefined {
    try {
      const mark = /^(\d{9}) (\d{12})\n$/.exec(readFileSync(join(this.directory, 'acked'), 'utf8'));
      return mark === null ? undefined : { segment: Number(mark[1]), offset: Number(mark[2]) };
    } catch {
      return undefined;
    }
  }
}

/** Throws SdkError `spool_unusable` when no spool could be opened below `directory`: at the start, where somebody can still act on it. */
export function checkSpoolRoot(directory: string, keep: boolean): void {
  try {
    makeFolder(directory, keep);
    accessSync(directory, constants.W_OK | constants.X_OK);
  } catch (cause) {
    throw unusable(directory, cause);
  }
}

function unusable(directory: string, cause: unknown): SdkError {
  const code = (cause as NodeJS.ErrnoException).code ?? 'error';
  return new SdkError('spool_unusable', `Cannot use spool "${directory}": it must be a directory that can be written (${code})`, { cause });
}

/** Other ranks of this host make, and when they end remove, the same folders: what was missing a moment ago may be there, and the other way. */
const makeFolderTries = 8;

/**
 * Makes `directory` and what is missing above it. What a rank records may be confidential, and the temporary directory is everybody's; an
 * output directory (`keep`) is the user's choice. Not `recursive`: where a folder takes no new one with ENOENT (/proc) Node never returns.
 */
function makeFolder(directory: string, keep = false, tries = makeFolderTries): void {
  try {
    mkdirSync(directory, keep ? {} : { mode: 0o700 });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST' && statSync(directory).isDirectory()) return;
    if (code !== 'ENOENT' || tries === 0) throw error;
    const above = dirname(directory);
    if (!existsSync(above)) makeFolder(above, keep);
    makeFolder(directory, keep, tries - 1);
  }
}

/** `<root>/<run>/rank-<rank>-<incarnation>`. */
export function spoolPath(root: string, identity: { run: string; rank: number; incarnation: string }): string {
  return join(root, identity.run, `rank-${identity.rank}-${identity.incarnation}`);
}
