// The file of a result, written piece by piece: the trace of a long recording may have more bytes than Node writes at once (2 GiB), and than memory
// has room for beside the training.
//
//   pieces ──► blocks of `blockBytes` ──► file
//                                    └──► .gz:  | header | deflated block | … | deflated block | end | CRC-32 | bytes |
//
// A block is deflated by itself and ends with a whole byte, so that all blocks are one deflate stream (RFC 1951), and the file one gzip member.
//
// A new file has another name until it is whole: TensorBoard, or `ranktrace watch`, may look into the folder while it is written.

import { closeSync, lstatSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';
import { constants, crc32, deflateRawSync } from 'node:zlib';
import { SdkError } from '../model/errors.ts';

const blockBytes = 1024 * 1024;

/** RFC 1952: deflate, no name, no time, Unix. */
const gzipHeader = Uint8Array.of(0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3);
/** The end of a deflate stream: an empty last block. */
const deflateEnd = Uint8Array.of(3, 0);

/** Writes a file, compressed when its name ends in `.gz`. Throws SdkError `file_unwritable`, `bad_option`. */
export function writeResult(path: string, content: Uint8Array | string): void {
  writeResultBy(path, (write) => write(typeof content === 'string' ? Buffer.from(content) : content));
}

/** The same for content that `make` writes piece by piece; a piece is not kept. Throws what `make` throws, too: then the file is not whole. */
export function writeResultBy(path: string, make: (write: (piece: Uint8Array) => void) => void): void {
  checkPath(path);
  const file = new ResultFile(path);
  try {
    make((piece) => file.write(piece));
    file.end();
  } finally {
    file.close();
  }
}

/** JavaScript callers may pass anything. Throws SdkError `bad_option`. */
export function checkPath(path: unknown): void {
  if (typeof path !== 'string')
    throw new SdkError('bad_option', `Cannot write a file named by a value of type ${typeof path}: it must be text`);
}

class ResultFile {
  readonly #path: string;
  readonly #isCompressed: boolean;
  /** Opened with the first block: until then, nothing that is there is replaced. */
  #file: number | undefined;
  /** The name of a new file until it is whole. */
  #draft: string | undefined;
  readonly #block = Buffer.allocUnsafe(blockBytes);
  #filled = 0;
  #checksum = 0;
  #bytes = 0;

  constructor(path: string) {
    this.#path = path;
    this.#isCompressed = path.endsWith('.gz');
  }

  write(piece: Uint8Array): void {
    for (let from = 0; from < piece.length; ) {
      const length = Math.min(piece.length - from, blockBytes - this.#filled);
      this.#block.set(piece.subarray(from, from + length), this.#filled);
      this.#filled += length;
      from += length;
      if (this.#filled === blockBytes) this.#writeBlock();
    }
  }

  end(): void {
    this.#writeBlock();
    if (this.#isCompressed) {
      const trailer = Buffer.alloc(8);
      trailer.writeUInt32LE(this.#checksum, 0);
      trailer.writeUInt32LE(this.#bytes % 2 ** 32, 4);
      this.#put(deflateEnd);
      this.#put(trailer);
    }
    this.#attempt(() => {
      const file = this.#file;
      this.#file = undefined;
      // A network disk may report only now that it is full.
      if (file !== undefined) closeSync(file);
      if (this.#draft !== undefined) renameSync(this.#draft, this.#path);
      this.#draft = undefined;
    });
  }

  /** Leaves nothing open and no draft behind, where it did not end. */
  close(): void {
    try {
      if (this.#file !== undefined) closeSync(this.#file);
      if (this.#draft !== undefined) rmSync(this.#draft, { force: true });
    } catch {
      // The error that it did not end by says more.
    }
  }

  #writeBlock(): void {
    const block = this.#block.subarray(0, this.#filled);
    this.#filled = 0;
    if (!this.#isCompressed) {
      this.#put(block);
      return;
    }
    if (this.#file === undefined) this.#put(gzipHeader);
    this.#checksum = crc32(block, this.#checksum);
    this.#bytes += block.length;
    this.#put(deflateRawSync(block, { finishFlush: constants.Z_SYNC_FLUSH }));
  }

  #put(bytes: Uint8Array): void {
    this.#attempt(() => {
      this.#file ??= this.#open();
      for (let from = 0; from < bytes.length; ) from += writeSync(this.#file, bytes, from);
    });
  }

  /** A file, link, device or pipe that is there is written straight: it may be all that this user may write there. */
  #open(): number {
    const isNew = lstatSync(this.#path, { throwIfNoEntry: false }) === undefined;
    const path = isNew ? `${this.#path}.partial` : this.#path;
    const file = openSync(path, 'w');
    if (isNew) this.#draft = path;
    return file;
  }

  #attempt(work: () => void): void {
    try {
      work();
    } catch (cause) {
      const code = (cause as NodeJS.ErrnoException).code ?? 'error';
      throw new SdkError('file_unwritable', `Cannot write "${this.#path}": ${code}; its directory must exist and allow it`, { cause });
    }
  }
}
