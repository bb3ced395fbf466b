import { inflateRawSync } from 'node:zlib';
import { type Batch, decodeBatch } from '@ranktrace/protocol';
import type { CollectorParts } from '../collect/collector.ts';

/** A shipper that decodes each batch and keeps it. */
export const keepingShipper = (batches: Batch[]): CollectorParts['shipper'] => ({
  ship: (bytes) => {
    batches.push(decodeBatch(bytes, (body, max) => inflateRawSync(body, { maxOutputLength: max })));
    return true;
  },
  takeClockSamples: () => [],
  setPings: () => {},
  isShort: false,
  droppedBatches: 0,
  drained: async () => true,
  hurry: () => {},
  close: async () => {},
});
