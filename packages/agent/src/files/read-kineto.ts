// Reads one file of torch.profiler in pieces, zipped or not, from an open descriptor or a path.

import { createReadStream, readSync } from 'node:fs';
import { constants, createGunzip } from 'node:zlib';
import { KinetoReader, type KinetoReaderOptions, type KinetoTable } from '@ranktrace/trace/torch';

export interface ReadKinetoOptions extends KinetoReaderOptions {
  readonly isGzip: boolean;
  /** Bytes of the file that were read so far. */
  readonly onProgress?: ((bytes: number) => void) | undefined;
}

/** The table of a file; a descriptor is closed. Throws TraceError, and the system's errors. */
export async function readKinetoFile(file: string | number, { isGzip, onProgress, ...options }: ReadKinetoOptions): Promise<KinetoTable> {
  const from = typeof file === 'number' ? { fd: file, start: 0 } : {};
  const bytes = createReadStream(typeof file === 'number' ? '' : file, { ...from, highWaterMark: 1 << 20 });
  const reader = new KinetoReader(options);
  try {
    // The reader itself sees where a stream that is cut off ends: zlib would drop what it has unzipped by then.
    const text = isGzip ? bytes.pipe(createGunzip({ chunkSize: 1 << 20, finishFlush: constants.Z_SYNC_FLUSH })) : bytes;
    // `pipe` does not forward errors.
    bytes.on('error', (error) => text.destroy(error));
    try {
      for await (const chunk of text) {
        reader.push(chunk as Buffer);
        onProgress?.(bytes.bytesRead);
      }
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? String(error.code) : '';
      if (!code.startsWith('Z_')) throw error;
      reader.stop(`its gzip stream is broken (${code})`);
    }
    return reader.finish();
  } finally {
    bytes.destroy();
  }
}

/**
 * Whether the file may be complete, by its last bytes: a trace ends with `}` or `]`. Zipped ones show it only when they are read.
 */
export function mayBeComplete(descriptor: number, size: number): boolean {
  const first = new Uint8Array(2);
  if (readSync(descriptor, first, 0, 2, 0) < 2) return false;
  if (isGzipBytes(first)) return true;
  const last = Buffer.alloc(Math.min(16, size));
  readSync(descriptor, last, 0, last.length, size - last.length);
  return /[}\]]\s*$/.test(last.toString('latin1'));
}

/** Whether an open file is zipped. */
export function isGzipFile(descriptor: number): boolean {
  const first = new Uint8Array(2);
  return readSync(descriptor, first, 0, 2, 0) === 2 && isGzipBytes(first);
}

const isGzipBytes = (bytes: Uint8Array): boolean => bytes[0] === 0x1f && bytes[1] === 0x8b;
