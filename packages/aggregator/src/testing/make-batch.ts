// Real batches for tests: protocol's encoder, a few spans, one step with two phases.

import { randomBytes } from 'node:crypto';
import { deflateRawSync } from 'node:zlib';
import { type BatchHeader, createEventTables, encodeBatch, rankTime } from '@ranktrace/protocol';

export interface BatchShape extends Partial<BatchHeader> {
  /** Spans in the batch, 8 by default. */
  readonly spans?: number;
  /** Kilobytes of strings that nothing uses and nothing compresses; none by default. */
  readonly ballastKb?: number;
}

/** Header of a test batch. */
export function makeHeader({ spans: _spans, ballastKb: _ballast, ...header }: BatchShape = {}): BatchHeader {
  return {
    run: 'demo',
    rank: 0,
    worldSize: 4,
    incarnation: '0001',
    sequence: 0,
    host: 'host-a',
    hostName: 'a.example',
    pid: 4711,
    epoch: '1000',
    watermark: rankTime(0),
    last: false,
    dropped: { events: 0, arguments: 0, names: 0, batches: 0 },
    ...header,
  };
}

/** Bytes of a test batch; step `sequence` took 1 ms + its number in ns. */
export function makeBatch(shape: BatchShape = {}): Uint8Array {
  const header = makeHeader(shape);
  const tables = createEventTables();
  const { sequence } = header;
  for (let row = 0; row < (shape.spans ?? 8); row++) {
    tables.spans.append({
      start: sequence * 1e6 + row * 1013,
      length: 500 + ((row * 7919) % 251),
      track: 1,
      name: 1,
      category: 0,
      id: 0,
      parent: 0,
      state: 0,
    });
  }
  tables.steps.append({ start: sequence * 1e6, length: 1e6 + sequence, track: 1, step: sequence, overhead: 0 });
  tables.phases.append({ step: sequence, name: 1, length: 3e5, calls: 1 });
  tables.phases.append({ step: sequence, name: 2, length: 6e5, calls: 1 });
  const ballast = Array.from({ length: shape.ballastKb ?? 0 }, () => randomBytes(750).toString('base64'));
  return encodeBatch({ header, strings: ['', 'forward', 'backward', ...ballast], tables }, (body) => deflateRawSync(body, { level: 1 }));
}
