import { type Captured, capturedKey, createEventTables, decodeBatch, encodeBatch } from '@ranktrace/protocol';
import { expect, test } from 'vitest';
import { inflate } from '../inflate.ts';
import { aggregatorLimits as limits } from '../limits.ts';
import { LiveState } from '../live-state.ts';
import { type BatchShape, makeHeader } from '../testing/make-batch.ts';

/** A batch with these values of the answer's metadata. */
function update(live: LiveState, header: BatchShape, ...values: string[]): void {
  const tables = createEventTables();
  for (const row of values.keys()) tables.metadata.append({ key: 1, value: 2 + row });
  tables.steps.append({ start: 0, length: 1, track: 0, step: header.sequence ?? 0, overhead: 0 });
  const bytes = encodeBatch({ header: makeHeader(header), strings: ['', capturedKey, ...values], tables }, (body) => body);
  live.update(decodeBatch(bytes, inflate), { batches: 1, missing: 0 });
}

const answer = (fromStep: number): Captured => ({ fromStep, toStep: fromStep, firstStep: fromStep, lastStep: null });
const captured = (live: LiveState): readonly Captured[] | undefined => live.progress('demo')[0]?.captured;

test('answers to requests for steps are those of the latest life, the last few, and nothing that is none', () => {
  const live = new LiveState();
  expect(live.progress('demo')).toEqual([]);
  update(live, {}, JSON.stringify(answer(1)), '{', JSON.stringify(answer(2)));
  expect(captured(live)).toEqual([answer(1), answer(2)]);
  for (let step = 3; step < 20; step++) update(live, { sequence: step }, JSON.stringify(answer(step)));
  expect(captured(live)).toHaveLength(limits.answersPerRankMax);
  expect(captured(live)?.at(-1)).toEqual(answer(19));

  update(live, { incarnation: '0002' });
  update(live, { incarnation: '0001', sequence: 30 }, JSON.stringify(answer(30)));
  expect(live.progress('demo')).toMatchObject([{ rank: 0, incarnation: '0002', step: 0, ended: false, captured: [] }]);
});

test('how long ago a rank was heard is its own', () => {
  const live = new LiveState();
  const began = performance.now();
  update(live, { rank: 0 });
  update(live, { rank: 1, worldSize: 3 });
  const heard = live.progress('demo').map(({ heardAt }) => heardAt);
  expect(heard.every((at) => at >= began && at <= performance.now())).toBe(true);
  expect(heard[1]).toBeGreaterThanOrEqual(heard[0] as number);
  expect(live.worldSize('demo')).toBe(4);
});
