import { type Batch, type BatchHeader, createEventTables } from '@ranktrace/protocol';
import { expect, it } from 'vitest';
import { ownClock } from '../align/clock-model.ts';
import { argumentOf } from '../model/event-arguments.ts';
import { ArgumentIndex, Signatures } from './argument-index.ts';
import { EventReader, rowsOf } from './event-reader.ts';

/** `peerRank` and flow of a rank's part of `pp` number 3. */
function partOf(rank: number, op: string, peer: number): { readonly peerRank: number; readonly flow: bigint | undefined } {
  const tables = createEventTables();
  tables.collectives.append({ start: 0, length: 5, track: 1, op: 1, group: 2, sequence: 3, bytes: 8, id: 0, parent: 0, state: 0, peer });
  const batch: Batch = { header: { rank } as BatchHeader, strings: ['', op, 'pp'], tables };
  const reader = new EventReader();
  reader.read(rowsOf(batch, 'collectives', ownClock, new ArgumentIndex(batch, new Signatures())), 0);
  return { peerRank: reader.event.peerRank, flow: reader.event.flow };
}

it('joins a send and its receive, and nothing else of the same number', () => {
  expect(partOf(4, 'all_reduce', 0).peerRank).toBe(-1);
  expect(partOf(4, 'send', 1).peerRank).toBe(0);
  const flow = partOf(4, 'isend', 8).flow;
  expect(partOf(7, 'recv', 5).flow).toBe(flow);
  const others = [partOf(7, 'send', 5), partOf(4, 'send', 7), partOf(4, 'all_reduce', 0), partOf(7, 'recv', 6)];
  expect(new Set([flow, ...others.map((part) => part.flow)]).size).toBe(5);
  expect(partOf(4, 'all_reduce', 0).flow).toBe(partOf(5, 'all_reduce', 0).flow);
});

it('sums the rows of a step’s phases that have one name', () => {
  const tables = createEventTables();
  tables.steps.append({ start: 0, length: 20, track: 1, step: 4, overhead: 0 });
  for (const length of [7, 5]) tables.phases.append({ step: 4, name: 1, length, calls: 1 });
  const batch: Batch = { header: { rank: 0 } as BatchHeader, strings: ['', 'forward'], tables };
  const reader = new EventReader();
  reader.read(rowsOf(batch, 'steps', ownClock, new ArgumentIndex(batch, new Signatures())), 0);
  expect([...(reader.event.phases ?? [])]).toEqual([['forward', 12]]);
});

it('gives one argument as the map of all has it', () => {
  const strings = ['', 'aten::mm', 'cpu_op', '{"Input Dims": [[2]], "stream": 7}', 'stream', 'note', 'a', 'b'];
  const tables = createEventTables();
  for (let row = 0; row < 3; row++)
    tables.spans.append({ start: row, length: 1, track: 0, name: 1, category: 2, id: 0, parent: 0, state: 0 });
  const op = { signature: 3, sequence: 5, isBackward: 0, allocated: 0, freed: 0, step: 0, module: 0, stack: 0 };
  for (const row of [0, 1]) tables.ops.append({ row, ...op });
  tables.numberArguments.append({ table: 1, row: 1, key: 4, value: 20 });
  for (const value of [6, 7]) tables.stringArguments.append({ table: 1, row: 2, key: 5, value });
  const batch: Batch = { header: { rank: 0 } as BatchHeader, strings, tables };
  const reader = new EventReader();
  const seen = [0, 1, 2].map((row) => {
    const read = () => reader.read(rowsOf(batch, 'spans', ownClock, new ArgumentIndex(batch, new Signatures())), row);
    read();
    const one = ['Input Dims', 'stream', 'Sequence number', 'note', 'none'].map((key) => argumentOf(reader.event, key));
    read();
    const all = reader.event.arguments;
    expect(one).toEqual(['Input Dims', 'stream', 'Sequence number', 'note', 'none'].map((key) => all?.get(key)));
    return one.slice(0, 4);
  });
  expect(seen).toEqual([
    ['[[2]]', 7, 5, undefined],
    ['[[2]]', 20, 5, undefined],
    [undefined, undefined, undefined, 'b'],
  ]);
});
