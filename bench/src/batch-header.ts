// The header of every batch that a benchmark makes: a rank like any other.

import type { BatchHeader } from '@ranktrace/protocol';

export const benchHeader: Omit<BatchHeader, 'sequence' | 'watermark' | 'rank'> = {
  run: 'bench',
  worldSize: 8,
  incarnation: 'mi8b1y90-1x',
  host: '5f9c7c1e-4b1e-4ad6-8f51-0a5e2f3c9d10',
  hostName: 'gpu-07.example',
  pid: 4711,
  epoch: '1234567890123456',
  last: false,
  dropped: { events: 0, arguments: 0, names: 0, batches: 0 },
};
