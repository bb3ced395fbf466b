// Edges of the recorder that no trace shows.

import { AsyncLocalStorage } from 'node:async_hooks';
import { expect, test } from 'vitest';
import { Recorder, type SpanContext } from './recorder.ts';
import { createRing, RingReader, RingWriter, recordKind } from './ring.ts';

test('a recorder that is closed leaves no context, which would cost every later await', async () => {
  const context = new AsyncLocalStorage<SpanContext>();
  const recorder = new Recorder({ ring: new RingWriter(createRing(65_536)), now: () => 1, context, idBase: 0 });
  const seen = await recorder.record('forward', undefined, async () => {
    await undefined;
    const during = context.getStore();
    recorder.close();
    await undefined;
    return [during !== undefined, context.getStore()];
  });
  expect(seen).toEqual([true, undefined]);
});

test('promises that never settle leave room for all else, however many there are', () => {
  const memory = createRing(65_536);
  const [writer, reader] = [new RingWriter(memory), new RingReader(memory)];
  const recorder = new Recorder({ ring: writer, now: () => 1, context: new AsyncLocalStorage<SpanContext>(), idBase: 0 });
  const never = new Promise(() => {});
  let [forwards, ends] = [0, 0];
  for (let step = 0; step < 10_000; step++) {
    recorder.record(step % 2 === 0 ? 'always' : `${step % 7}`, undefined, () => never);
    recorder.collective({ op: 'all_reduce' }, () => never);
    recorder.record('forward', undefined, () => {});
    recorder.step();
    if (step % 50 !== 49) continue;
    reader.refresh();
    while (!reader.done) {
      if (reader.kind === recordKind.spanBegin && reader.extra === 0 && reader.b === 0 && reader.a <= 0) forwards++;
      if (reader.kind === recordKind.step) ends++;
      reader.next();
    }
    reader.release();
  }
  expect(ends).toBe(10_000);
  expect(forwards).toBeGreaterThanOrEqual(10_000);
  const { events, arguments: parts } = reader.dropped;
  expect(events + parts).toBeGreaterThan(0);
});
