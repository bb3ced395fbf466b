import { createEventTables, encodeBatch, rankTime } from '@ranktrace/protocol';
import type { StepsSource } from '@ranktrace/trace';
import { expect, test } from 'vitest';
import type { StoredSource } from '../store/write-trace.ts';
import { makeHeader } from '../testing/make-batch.ts';
import { type StepRange, stepsOf } from './step-windows.ts';

const second = 1e9;

/** A batch a second, each with the step that ended in it; `heldBack`: batches in between, by sequence, and how far they reach back, s. */
function source(
  count: number,
  { last = false, heldBack: given = {} as Readonly<Record<number, number>>, lost = (_sequence: number): number => 0 } = {},
): StoredSource & { readonly reads: number[] } {
  const heldBack = Object.keys(given).map(Number);
  const reads: number[] = [];
  const batch = (sequence: number): Uint8Array => {
    const tables = createEventTables();
    const step = sequence - heldBack.filter((since) => since < sequence).length;
    const isStep = step < count && !heldBack.includes(sequence);
    if (isStep) tables.steps.append({ start: step * second, length: second, track: 1, step, overhead: 0 });
    const watermark = rankTime((Math.min(step, count) + 1) * second);
    const since = heldBack.includes(sequence) ? rankTime((given[sequence] as number) * second) : undefined;
    const dropped = { events: lost(sequence), arguments: 0, names: 0, batches: 0 };
    const header = makeHeader({ sequence, watermark, since, dropped, last: last && sequence === total - 1 });
    return encodeBatch({ header, strings: [''], tables }, (body) => body);
  };
  const total = count + heldBack.length;
  const read = (index: number): Uint8Array => {
    reads.push(index);
    return batch(index);
  };
  return { rank: 0, incarnation: '0001', count: total, missing: 0, read, reads };
}

function found(from: StoredSource, ...ranges: StepRange[]): StepsSource | undefined {
  const steps = stepsOf(from, ranges);
  let step = steps.next();
  while (step.done !== true) step = steps.next();
  return step.value;
}

const range = (fromStep: number, toStep: number): StepRange => ({ fromStep, toStep });

/** Sequence numbers of the batches that are read for a capture. */
const batchesOf = (steps: StepsSource | undefined): number[] =>
  Array.from({ length: steps?.count ?? 0 }, (_, index) => steps?.batch(index, [])?.header.sequence ?? -1);

test('steps are found where they are, with half a minute of clock around them', () => {
  const steps = found(source(1000), range(500, 503));
  expect(steps?.windows).toEqual([{ fromStep: 500, toStep: 503, from: 500 * second, until: 504 * second }]);
  const read = batchesOf(steps);
  expect([read[0], read.at(-1), read.length]).toEqual([470, 534, 65]);
});

test('losses count that lie in the time of the steps, and no others', () => {
  // The batch behind step 503 has watermark 505 s, and tells of losses by then.
  const within = ([...events]: readonly [at: number, events: number][]): number => {
    const lost = (sequence: number): number => events.reduce((sum, [at, more]) => sum + (sequence >= at ? more : 0), 0);
    const steps = found(source(1000, { lost }), range(500, 503));
    const last = batchesOf(steps).at(-1) as number;
    return lost(last) - (steps?.droppedElsewhere?.events ?? 0);
  };
  expect(within([[10, 5]])).toBe(0);
  expect(within([[501, 5]])).toBe(5);
  expect(within([[504, 5]])).toBe(5);
  expect(within([[505, 5]])).toBe(0);
  expect(
    within([
      [0, 7],
      [502, 3],
      [520, 100],
      [900, 1000],
    ]),
  ).toBe(3);
});

test('what comes before the steps is not read, but for a few headers', () => {
  const given = source(100_000);
  found(given, range(99_990, 99_995));
  expect(given.reads.length).toBeLessThan(60);
});

test('what was held back comes too, however much later, and nothing else of that time', () => {
  const steps = found(source(300, { heldBack: { 200: 101, 250: 103, 260: 245 } }), range(100, 102));
  const read = batchesOf(steps);
  expect([read[0], read.at(-2), read.at(-1)]).toEqual([70, 133, 200]);
});

test('the step that runs has no end, unless the rank has ended', () => {
  const going = found(source(50), range(48, 60));
  expect(going?.windows).toEqual([{ fromStep: 48, toStep: 60, from: 48 * second, until: Number.POSITIVE_INFINITY }]);
  expect(found(source(50), range(50, 60))?.windows[0]).toMatchObject({ from: 50 * second, until: Number.POSITIVE_INFINITY });
  const ended = found(source(50, { last: true }), range(48, 60));
  expect(ended?.windows).toEqual([{ fromStep: 48, toStep: 60, from: 48 * second, until: 50 * second }]);
});

test('a rank that has none of the steps is left out', () => {
  expect(found(source(50), range(60, 70))).toBeUndefined();
  expect(found(source(0), range(0, 1))).toBeUndefined();
});
