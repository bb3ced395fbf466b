import { signal } from '@preact/signals';
import type { EventPlace } from '@ranktrace/protocol';
import { expect, it } from 'vitest';
import type { RunClient } from '../client/run-client.ts';
import { createViewState } from '../client/view-state.ts';
import { viewProcess, viewTrack } from '../testing/view-model.ts';
import { showPlace } from './show-place.ts';

const kernel = 'ncclDevKernel_AllReduce';
const names = ['aten::mm', 'nccl:allreduce', 'all_reduce'];
const place = (event: number, name: string, start: number, length: number): EventPlace => ({
  ...{ track: 1, event, depth: 0, name, start, length },
});

/** The event that is shown for a line, of a service with these events, in order of start. */
async function shown(name: string, from: number, until: number, events: readonly EventPlace[]): Promise<number | undefined> {
  const client = {
    model: signal({ names, processes: [viewProcess(0)], tracks: [viewTrack(1, 0, 'stream')] }),
    search: async (text: string) => ({ names: text === kernel ? [{ name: 2, count: 1, total: 9, alias: kernel }] : [], leftOut: 0 }),
    find: async (wanted: readonly number[], _: unknown, time: number, _next: string, _depth: unknown, past?: EventPlace) =>
      events.find((one) => {
        const isBeyond = one.start > time || (past !== undefined && one.start === time && one.event > past.event);
        return isBeyond && (wanted.length === 0 || wanted.includes(names.indexOf(one.name)));
      }) ?? null,
  };
  const state = createViewState();
  await showPlace(client as unknown as RunClient, state, name, { rank: 0, from, until });
  return state.selected.value?.event;
}

it("a collective's kernel is found by its operation, not the annotation at the same time, and behind others that begin nearly then", async () => {
  const events = [
    place(1, 'aten::mm', 49_000, 800),
    place(2, 'nccl:allreduce', 50_000, 7000),
    place(3, 'all_reduce', 50_000, 7000),
    place(4, 'aten::mm', 90_000, 5000),
  ];
  expect(await shown(kernel, 50_000, 57_000, events)).toBe(3);
  expect(await shown('aten::mm', 90_000, 95_000, events)).toBe(4);
  // By its time alone: the first of those that begin and end there.
  expect(await shown('', 50_000, 57_000, events)).toBe(2);
  expect(await shown('', 70_000, 71_000, events)).toBeUndefined();
});
