import { AsyncLocalStorage } from 'node:async_hooks';
import { expect, test } from 'vitest';
import { Recorder } from './recorder.ts';
import { cellBytes, createRing, RingReader, RingWriter, recordKind } from './ring.ts';

function smallRecorder() {
  const ring = createRing(64 * cellBytes);
  const recorder = new Recorder({ ring: new RingWriter(ring), now: () => 1, context: new AsyncLocalStorage(), idBase: 0 });
  return { recorder, reader: new RingReader(ring) };
}

function kinds(reader: RingReader): number[] {
  const read: number[] = [];
  reader.refresh();
  while (!reader.done) {
    const { kind, a } = reader;
    read.push(kind);
    reader.next();
    if (kind === recordKind.defineName) reader.takeBytes(a);
  }
  reader.release();
  return read;
}

test('drops and counts when the ring is full', () => {
  const { recorder, reader } = smallRecorder();
  for (let i = 0; i < 100; i++) recorder.instant('x');
  const read = kinds(reader);
  const kept = read.filter((kind) => kind === recordKind.instant).length;
  expect(kept).toBe(64 - 16 - 2); // Without the cells kept for steps and those of the name.
  expect(reader.dropped).toEqual({ events: 100 - kept, arguments: 0, names: 0 });
  recorder.instant('x');
  expect(kinds(reader)).toEqual([recordKind.instant]);
});

test('an accepted begin always gets its end, however full the ring', () => {
  const { recorder, reader } = smallRecorder();
  const name = recorder.name('x');
  let open = 0;
  for (let i = 0; i < 100; i++) if (recorder.begin(name)) open++;
  for (let i = 0; i < 100; i++) recorder.instant('x');
  for (let i = 0; i < open; i++) recorder.end();
  const read = kinds(reader);
  expect(read.filter((kind) => kind === recordKind.spanBegin)).toHaveLength(open);
  expect(read.filter((kind) => kind === recordKind.end)).toHaveLength(open);
  expect(open).toBe((64 - 16 - 2) / 2);
});

test('step marks fit when events no longer do', () => {
  const { recorder, reader } = smallRecorder();
  for (let i = 0; i < 100; i++) recorder.instant('x');
  for (let i = 0; i < 16; i++) recorder.step();
  expect(kinds(reader).filter((kind) => kind === recordKind.step)).toHaveLength(16);
});

test('reads what was written while the position wraps many times', () => {
  const ring = createRing(64 * cellBytes);
  const words = new Int32Array(ring);
  const writer = new RingWriter(ring);
  const reader = new RingReader(ring);
  for (let i = 0; i < 10_000; i++) {
    expect(writer.hasRoom(1)).toBe(true);
    writer.put(recordKind.instant, i, i, 0, 0);
    writer.publish();
    reader.refresh();
    expect(reader.name).toBe(i);
    reader.next();
    reader.release();
  }
  expect(words[0]).toBe(10_000);
});
