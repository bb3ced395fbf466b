// Edges of the recorder that no trace shows.

import { AsyncLocalStorage } from 'node:async_hooks';
import { expect, test } from 'vitest';
import { Recorder, type SpanContext } from './recorder.ts';
import { createRing, RingWriter } from './ring.ts';

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
