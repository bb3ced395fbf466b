// The stacks of the program's own spans, from the recorder through the ring to a batch.

import { AsyncLocalStorage } from 'node:async_hooks';
import { expect, test } from 'vitest';
import { BatchBuilder } from '../collect/batch-builder.ts';
import { RingDrain } from '../collect/ring-drain.ts';
import { allDetail, detail } from '../model/detail.ts';
import { Recorder } from '../record/recorder.ts';
import { createRing, RingWriter } from '../record/ring.ts';

/** A recorder whose spans have the stack `at(name)`, and the arguments of its recorded spans: `name key=text …`. */
function rig(at: (name: string) => string, ringBytes = 1024 * 1024) {
  const ring = createRing(ringBytes);
  const word = new Int32Array([allDetail]);
  const recorder = new Recorder({ ring: new RingWriter(ring), now: () => 1, context: new AsyncLocalStorage(), idBase: 0, detail: word });
  recorder.stacks = { captureAt: (name) => ({ text: at(name), id: at(name) === '' ? 0 : -1 }) };
  const drain = new RingDrain({ ring, origin: 0, track: 0 });
  const spans = (): string[] => {
    const builder = new BatchBuilder();
    drain.drain({ summary: builder, detail: builder }, 0);
    const { strings, tables } = builder.take();
    const { spans, stringArguments } = tables;
    return Array.from({ length: spans.length }, (_, row) => {
      const texts = Array.from({ length: stringArguments.length }, (_, at) => at)
        .filter((at) => stringArguments.columns.row[at] === row)
        .map((at) => `${strings[stringArguments.columns.key[at] as number]}=${strings[stringArguments.columns.value[at] as number]}`);
      return [strings[spans.columns.name[row] as number], ...texts].join(' ');
    });
  };
  return { recorder, word, drain, spans };
}

test('a span has the stack where it is called, whether its name is new, known or async', async () => {
  const { recorder, spans } = rig((name) => `${name}.ts(1): f`);
  recorder.record('load', undefined, () => recorder.record('decode', { part: 'a' }, () => 1));
  recorder.record('load', undefined, () => recorder.record('decode', undefined, () => 2));
  await recorder.record('fetch', undefined, async () => 3);
  const decode = 'Call stack=decode.ts(1): f';
  const load = 'load Call stack=load.ts(1): f';
  expect(spans()).toEqual([load, `decode part=a ${decode}`, load, `decode ${decode}`, 'fetch Call stack=fetch.ts(1): f']);
});

test('where no code of the program is on the stack, or none is wanted, there is no argument', () => {
  const { recorder, word, spans } = rig((name) => (name === 'own' ? 'a.ts(1): f' : ''));
  const both = () => {
    for (const name of ['own', 'none']) recorder.record(name, undefined, () => 0);
  };
  both();
  word[0] = allDetail & ~detail.stacks;
  both();
  expect(spans()).toEqual(['own Call stack=a.ts(1): f', 'none', 'own', 'none']);
});

test('a stack that finds no room is counted, and its span is whole', () => {
  const { recorder, drain, spans } = rig((name) => (name === 'big' ? 'x'.repeat(900) : ''), 64 * 32);
  for (let span = 0; span < 12; span++) recorder.record('small', undefined, () => 0);
  recorder.record('big', undefined, () => 0);
  expect(drain.dropped).toMatchObject({ events: 0, arguments: 1 });
  expect(spans().at(-1)).toBe('big');
});
