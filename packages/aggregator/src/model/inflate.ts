// The only place that inflates: zlib's own sync call with a bound. A deflate bomb ends at the size that its header states.

import { inflateRawSync } from 'node:zlib';
import type { Inflate } from '@ranktrace/protocol';

const chunkBytesMin = 1024;

/** Inflates raw deflate (RFC 1951); throws when the result passes `bytesMax` bytes. */
export const inflate: Inflate = (body, bytesMax) =>
  // One chunk of the announced size: the default of 16 KiB would grow by copying.
  inflateRawSync(body, { maxOutputLength: Math.max(1, bytesMax), chunkSize: Math.max(chunkBytesMin, bytesMax) });
