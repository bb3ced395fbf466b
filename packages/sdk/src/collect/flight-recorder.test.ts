import { randomBytes } from 'node:crypto';
import { deflateRawSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { noneRecorded } from './batch-builder.ts';
import { FlightRecorder } from './flight-recorder.ts';

test('memory that bodies keep is no more than what is counted, though zlib returns views of larger buffers', () => {
  const bytesMax = 64 * 1024;
  const recorder = new FlightRecorder(bytesMax);
  for (let serial = 0; serial < 200; serial++) {
    const body = deflateRawSync(randomBytes(900));
    expect(body.buffer.byteLength).toBeGreaterThan(4 * body.length);
    recorder.add({ serial, body: { encoding: 'deflate', size: 900, body }, since: serial, until: serial, recorded: noneRecorded() }, false);
  }
  const held = recorder.takeUnsent(0, 200);
  expect(held.length).toBeGreaterThan(60);
  expect(new Set(held.map(({ body }) => body.body.buffer)).size).toBe(held.length);
  expect(held.reduce((sum, { body }) => sum + body.body.buffer.byteLength, 0)).toBe(recorder.bytes);
  expect(recorder.bytes).toBeLessThanOrEqual(bytesMax);
});
