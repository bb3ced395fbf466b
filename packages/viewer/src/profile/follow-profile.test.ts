import { type Signal, signal } from '@preact/signals';
import type { RunModel, RunProfile } from '@ranktrace/protocol';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { followProfile, type ProfileAnswer } from './follow-profile.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const modelOf = (about: Partial<RunModel>): RunModel => ({ epoch: 'first', live: false, read: 9, total: 9, ...about }) as RunModel;

/** `tables` answers by rank; -1: of all ranks. */
function followed(rank: number | undefined, first: RunModel) {
  const model: Signal<RunModel | undefined> = signal(first);
  const tables = new Map<number, RunProfile>();
  const asked: (number | undefined)[] = [];
  let answer: ProfileAnswer = { profile: undefined, absent: undefined, problem: undefined };
  const profile = async (of: number | undefined): Promise<RunProfile | null> => {
    asked.push(of);
    return tables.get(of ?? -1) ?? null;
  };
  const begin = (): (() => void) =>
    followProfile({ model, profile }, rank, (change) => {
      answer = { ...answer, ...change };
    });
  return { model, tables, asked, begin, answer: () => answer };
}

const profileOf = (leftOut: number, analysed = true): RunProfile => ({ leftOut, analysed, ranks: [0, 1] }) as unknown as RunProfile;

it('says that a rank has no tables once there are those of all, and stops asking', async () => {
  const { tables, asked, begin, answer } = followed(99, modelOf({}));
  const stop = begin();
  await vi.advanceTimersByTimeAsync(3000);
  expect(answer()).toEqual({ profile: undefined, absent: undefined, problem: undefined });
  tables.set(-1, profileOf(1));
  await vi.advanceTimersByTimeAsync(3000);
  expect(answer()).toEqual({ profile: undefined, absent: { rank: 99, others: [0, 1] }, problem: undefined });
  const before = asked.length;
  await vi.advanceTimersByTimeAsync(60_000);
  expect(asked.length).toBe(before);
  stop();
});

it('asks again when a run goes on that was whole', async () => {
  const { model, tables, asked, begin, answer } = followed(undefined, modelOf({}));
  tables.set(-1, profileOf(1));
  const stop = begin();
  await vi.advanceTimersByTimeAsync(60_000);
  expect([asked.length, answer().profile?.leftOut]).toEqual([1, 1]);
  // A second life: live for a while, then whole again.
  tables.set(-1, profileOf(2));
  model.value = modelOf({ live: true, total: 12 });
  await vi.advanceTimersByTimeAsync(100);
  expect(answer().profile?.leftOut).toBe(2);
  for (let total = 13; total < 20; total++) model.value = modelOf({ live: true, total });
  await vi.advanceTimersByTimeAsync(100);
  expect(asked.length).toBe(2);
  tables.set(-1, profileOf(3, false));
  model.value = modelOf({ read: 20, total: 20 });
  await vi.advanceTimersByTimeAsync(100);
  expect(answer().profile?.leftOut).toBe(3);
  tables.set(-1, profileOf(4));
  await vi.advanceTimersByTimeAsync(3000);
  expect(answer().profile?.leftOut).toBe(4);
  // Batches that were added and read between two messages.
  tables.set(-1, profileOf(5));
  model.value = modelOf({ read: 30, total: 30 });
  await vi.advanceTimersByTimeAsync(100);
  expect(answer().profile?.leftOut).toBe(5);
  stop();
});
