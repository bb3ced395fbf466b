import {
  besideOf,
  type Captured,
  capturedKey,
  createEventTables,
  decodeBatch,
  encodeBatch,
  type Running,
  rankTime,
  recorderKey,
  runningKey,
  windowKey,
} from '@ranktrace/protocol';
import { expect, test, vi } from 'vitest';
import { LiveState } from '../live/live-state.ts';
import { inflate } from '../model/inflate.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';
import { type BatchShape, makeHeader } from '../testing/make-batch.ts';

/** A batch with these values of the answer's metadata. */
const update = (live: LiveState, header: BatchShape, ...values: string[]): void => updateWith(live, header, capturedKey, values);

function updateWith(live: LiveState, header: BatchShape, key: string, values: readonly string[], isLatest = true): void {
  const tables = createEventTables();
  for (const row of values.keys()) tables.metadata.append({ key: 1, value: 2 + row });
  tables.steps.append({ start: 0, length: 1, track: 0, step: header.sequence ?? 0, overhead: 0 });
  const bytes = encodeBatch({ header: makeHeader(header), strings: ['', key, ...values], tables }, (body) => body);
  live.update(decodeBatch(bytes, inflate), { batches: 1, missing: 0, isLatest });
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
  updateWith(live, { incarnation: '0001', sequence: 30 }, capturedKey, [JSON.stringify(answer(30))], false);
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

test('a job that is started again with fewer ranks has those alone, and what the others stored stays; with more it has all', () => {
  const live = new LiveState();
  const ranks = (): number[] => live.status().runs.flatMap((run) => run.ranks.map(({ rank }) => rank));
  for (const rank of [0, 1, 2, 3]) update(live, { rank, worldSize: 4 });
  update(live, { rank: 0, worldSize: 2, incarnation: '0002' });
  update(live, { rank: 3, worldSize: 4, sequence: 1 });
  expect(live.status().runs).toMatchObject([{ worldSize: 2 }]);
  expect([ranks(), live.progress('demo').map(({ rank }) => rank), live.worldSize('demo')]).toEqual([[0, 1], [0, 1], 2]);
  expect(live.former('demo').map(({ rank, batches }) => [rank, batches])).toEqual([
    [2, 1],
    [3, 1],
  ]);
  update(live, { rank: 1, worldSize: 4, incarnation: '0002' });
  expect([ranks(), live.worldSize('demo'), live.former('demo')]).toEqual([[0, 1, 2, 3], 4, []]);
});

test('a rank that breaks its connection off is lost, once it had time to come back; one of an earlier life is not', () => {
  const live = new LiveState();
  const stateOf = (): readonly [string | undefined, boolean] => {
    const [status] = live.status(0).runs[0]?.ranks ?? [];
    return [status?.state, (status?.silentMs ?? -1) >= 0];
  };
  update(live, { incarnation: '0002' });
  live.left('demo.0.0001.0');
  live.left('demo.1.0002.0');
  live.left('other.0.0002.0');
  live.left('');
  expect(stateOf()).toEqual(['live', true]);
  live.left('demo.0.0002.0');
  expect(stateOf()).toEqual(['live', true]);
  const now = performance.now();
  using later = vi.spyOn(performance, 'now').mockReturnValue(now + limits.rankLostMs);
  expect(stateOf()).toEqual(['lost', true]);
  update(live, { incarnation: '0002', sequence: 1 });
  expect(stateOf()).toEqual(['live', true]);
  later.mockReturnValue(now + limits.rankLostMs + limits.rankStoppedMs);
  expect(stateOf()).toEqual(['stopped', true]);
  update(live, { incarnation: '0002', sequence: 2, last: true });
  expect(stateOf()).toEqual(['ended', true]);
});

test('what a rank is in the middle of is that of its newest batch', () => {
  const live = new LiveState();
  const says = (header: BatchShape, ...places: Running[]): readonly [string | null, number] => {
    const texts = places.map((place) => JSON.stringify(place));
    updateWith(live, { watermark: rankTime(3_000_000_000), ...header }, runningKey, texts);
    const [status] = live.status(0).runs[0]?.ranks ?? [];
    return [status?.inside ?? null, status?.insideMs ?? Number.NaN];
  };
  const forward: Running = { step: 7, phase: 'forward', since: 1_000_000_000 };
  expect(says({ sequence: 0 })).toEqual([null, 0]);
  const [name, forMs] = says({ sequence: 1 }, forward);
  expect([name, forMs >= 2000]).toEqual(['forward', true]);
  // A batch without news; an older batch comes late.
  expect(says({ sequence: 3 })[0]).toBe('forward');
  expect(says({ sequence: 2 }, { step: 6, phase: 'data', since: 0 })[0]).toBe('forward');
  const collective = { op: 'x'.repeat(100), group: 'world', sequence: 1, since: 2_000_000_000 };
  expect(says({ sequence: 4 }, { ...forward, collective })[0]).toBe('x'.repeat(64));
  expect(says({ sequence: 5 }, { step: 8 })).toEqual([null, 0]);
  expect(says({ sequence: 6 }, forward)[0]).toBe('forward');
  expect(says({ sequence: 7, last: true })).toEqual([null, 0]);
});

test('a recorder beside a rank begins no life of it: it adds windows, and says nothing of whether the rank goes on', () => {
  vi.useFakeTimers();
  try {
    const live = new LiveState();
    const beside = besideOf('0001');
    // It may be heard first.
    updateWith(live, { incarnation: beside }, recorderKey, ['kineto'], false);
    update(live, { incarnation: '0001', sequence: 7 }, JSON.stringify(answer(7)));
    updateWith(live, { incarnation: beside, sequence: 1 }, recorderKey, ['kineto'], false);
    const [before] = live.progress('demo');
    expect(before).toMatchObject({ incarnation: '0001', step: 7, ended: false, recordsWindows: false, beside: { incarnation: beside } });
    vi.advanceTimersByTime(5000);
    const shipped = JSON.stringify({ id: 1, state: 'shipped', from: 1, until: 2 });
    updateWith(live, { incarnation: beside, sequence: 2 }, windowKey, [shipped], false);
    const [after] = live.progress('demo');
    expect(after).toMatchObject({ incarnation: '0001', step: 7, heardAt: before?.heardAt, captured: [answer(7)] });
    expect(after?.windows).toMatchObject([{ id: 1, state: 'shipped', sender: { incarnation: beside } }]);
    // A window that another one shipped, which records none on demand, ends without it.
    updateWith(live, { incarnation: besideOf('0002'), last: true }, capturedKey, [], false);
    expect(live.progress('demo')).toMatchObject([{ beside: { incarnation: beside } }]);
    updateWith(live, { incarnation: beside, sequence: 3, last: true }, recorderKey, ['kineto'], false);
    expect(live.progress('demo')).toMatchObject([{ ended: false, beside: undefined }]);
  } finally {
    vi.useRealTimers();
  }
});
