// Memory at a peak by category and holder, of a small training step in torch's events.

import { describe, expect, test } from 'vitest';
import { mergeRun } from '../merge/merge-run.ts';
import { finish } from '../model/finish.ts';
import { Random } from '../simulate/random.ts';
import { sourcesOfKineto, tableOfKineto } from '../testing/merged-kineto.ts';
import { type HeldAtPeak, HeldMemory, type MemoryPlace, memoryPlace } from './held-memory.ts';
import { OpSumsSink } from './op-sums.ts';
import { memoryOf } from './run-profile.ts';

const place = { pid: 9, tid: 1 };
const span = (cat: string, name: string, ts: number, dur: number, tid = 1) => ({ ph: 'X', cat, name, ...place, tid, ts, dur });

/** Allocates and frees, with the allocator's total from `before` bytes on. */
class Allocator {
  readonly events: object[] = [];
  readonly #device: number;
  readonly #reserved: number;
  #total: number;

  constructor(before: number, device = 0, reserved = 0) {
    this.#total = before;
    this.#device = device;
    this.#reserved = reserved;
  }

  change(ts: number, address: number, bytes: number, tid = 1): void {
    this.#total += bytes;
    const of = { 'Device Type': 1, 'Device Id': this.#device, 'Total Allocated': this.#total, 'Total Reserved': this.#reserved };
    const args = { Bytes: bytes, Addr: address, ...of };
    this.events.push({ ph: 'i', s: 't', cat: 'cpu_instant_event', name: '[memory]', ...place, tid, ts, args });
  }
}

function heldOf(traceEvents: readonly object[]) {
  const ops = new OpSumsSink();
  finish(mergeRun(sourcesOfKineto([tableOfKineto(JSON.stringify({ traceEvents }))]), ops));
  return ops.ranks.flatMap(memoryOf);
}

test('a training step: what was held at the peak, by the parts of the program that allocated and freed it', () => {
  const memory = new Allocator(1000);
  const spans = [
    ...[span('user_annotation', 'enumerate(DataLoader)#_Next', 0, 10), span('cpu_op', 'aten::to', 2, 5)],
    ...[span('cpu_op', 'aten::linear', 20, 20), span('cpu_op', 'aten::relu', 45, 10)],
    span('cpu_op', 'autograd::engine::evaluate_function: AddmmBackward0', 60, 30, 2),
    ...[span('user_annotation', 'Optimizer.step#Adam.step', 100, 40), span('cpu_op', 'aten::zeros_like', 105, 10)],
    span('user_annotation', 'Optimizer.zero_grad#Adam.zero_grad', 150, 10),
  ];
  memory.change(3, 1, 64);
  memory.change(22, 2, 500);
  memory.change(25, 3, 40);
  memory.change(30, 3, -40);
  memory.change(46, 4, 300);
  memory.change(65, 5, 200, 2);
  memory.change(70, 6, 90, 2); // The peak: 1000 + 64 + 500 + 300 + 200 + 90.
  memory.change(75, 6, -90, 2);
  memory.change(80, 2, -500, 2);
  memory.change(82, 4, -300, 2);
  memory.change(106, 7, 100);
  memory.change(155, 5, -200);
  const [held] = heldOf([...spans, ...memory.events]);
  expect(held).toMatchObject({ device: 'GPU 0', peak: 2154, allocations: 7 });
  expect(held?.kinds).toEqual([
    ['before the recording', 1000],
    ['activations', 800],
    ['gradients', 200],
    ['temporaries', 90],
    ['inputs', 64],
  ]);
  expect(held?.holders.map(({ kind, place: of, name, bytes }) => `${kind} ${of} ${name} ${bytes}`)).toEqual([
    'activations forward aten::linear 500',
    'activations forward aten::relu 300',
    'gradients backward autograd::engine::evaluate_function: AddmmBackward0 200',
    'temporaries backward autograd::engine::evaluate_function: AddmmBackward0 90',
    'inputs data aten::to 64',
  ]);
});

// The allocator states what it reserved, or nothing: the two go into different tables of a batch.
test.each([0, 4096])('each device of a process has its own memory (%i bytes reserved)', (reserved) => {
  const [first, second] = [new Allocator(0, 0, reserved), new Allocator(0, 5, reserved)];
  for (let at = 1; at <= 6; at++) {
    first.change(10 * at, at, 10);
    second.change(10 * at + 5, 100 + at, 100);
  }
  const held = heldOf([span('cpu_op', 'aten::mm', 0, 100), ...first.events, ...second.events]);
  expect(held.map(({ device, peak, allocations, kinds }) => [device, peak, allocations, kinds])).toEqual([
    ['GPU 0', 60, 6, [['unknown', 60]]],
    ['GPU 5', 600, 6, [['unknown', 600]]],
  ]);
});

test('without addresses, as in files of 2021, what held it is unknown', () => {
  const at = (ts: number, bytes: number) => ({
    ph: 'i',
    s: 't',
    name: '[memory]',
    ...place,
    ts,
    args: { 'Device Type': 1, 'Device Id': 0, Bytes: bytes },
  });
  const [held] = heldOf([span('cpu_op', 'aten::mm', 0, 50), at(1, 100), at(2, 50), at(3, -100)]);
  expect([held?.peak, held?.kinds, held?.holders]).toEqual([150, [['unknown', 150]], []]);
});

test.each([
  [[], 'other'],
  [['ProfilerStep#3'], 'other'],
  [['ProfilerStep#3', 'enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__', 'aten::stack'], 'data'],
  [['ProfilerStep#3', 'aten::linear'], 'forward'],
  [['## forward ##', 'aten::linear'], 'forward'],
  [['autograd::engine::evaluate_function: MulBackward0', 'MulBackward0', 'aten::mul'], 'backward'],
  [['## backward ##', 'aten::mm'], 'backward'],
  [['Optimizer.step#SGD.step', 'aten::add_'], 'optimizer'],
  [['Optimizer.zero_grad#SGD.zero_grad'], 'optimizer'],
] as const)('spans %j are in: %s', (names, expected) => {
  expect(memoryPlace(names)).toBe(expected);
});

describe('any allocations', () => {
  test.each(Array.from({ length: 20 }, (_, seed) => seed))('what is held at the peak adds up to it (seed %i)', (seed) => {
    const random = new Random(seed, 'memory');
    const places: readonly MemoryPlace[] = ['data', 'forward', 'backward', 'optimizer', 'other'];
    const held = new HeldMemory();
    const live = new Map<number, number>();
    const before = random.whole(3) * 500;
    let [total, peak] = [before, -1];
    let expected: HeldAtPeak['holders'][number]['bytes'] = 0;
    for (let at = 0; at < 400; at++) {
      const address = 1 + random.whole(30);
      const of = places[random.whole(places.length)] as MemoryPlace;
      const known = live.get(address);
      if (known === undefined) {
        const bytes = 1 + random.whole(100);
        held.allocate(address, bytes, `op ${random.whole(4)}`, of);
        live.set(address, bytes);
        total += bytes;
      } else {
        held.free(address, of);
        live.delete(address);
        total -= known;
      }
      if (total <= peak) continue;
      peak = total;
      expected = total - before;
      held.peak(total);
    }
    const { kinds, holders } = held.held;
    const sum = (values: readonly number[]): number => values.reduce((all, value) => all + value, 0);
    expect(sum(kinds.map(([, bytes]) => bytes))).toBe(peak);
    expect(kinds.find(([kind]) => kind === 'before the recording')?.[1] ?? 0).toBe(before);
    if (holders.length < 16) expect(sum(holders.map(({ bytes }) => bytes))).toBe(expected);
  });
});
