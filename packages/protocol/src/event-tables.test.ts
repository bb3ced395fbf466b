import { expect, test } from 'vitest';
import { createEventTables, EventTable, spanState, tableColumns, tableNames } from './event-tables.ts';
import { limits } from './limits.ts';

test('rows are kept over any growth', () => {
  const table = new EventTable('rpcs', 0);
  const id8 = (first: number) => Uint8Array.from({ length: 8 }, (_, index) => first + index);
  for (let row = 0; row < 100; row++) {
    const at = table.append({
      start: row,
      length: 2 * row,
      track: row,
      method: 1,
      side: 2,
      peer: 3,
      status: 4,
      trace: new Uint8Array([...id8(row), ...id8(row)]),
      span: id8(row),
      parentSpan: id8(100),
      id: 2 ** 40,
      parent: 0,
      state: spanState.whole,
    });
    expect(at).toBe(row);
  }
  expect(table.length).toBe(100);
  for (const row of [0, 15, 16, 99]) {
    expect(table.columns.start[row]).toBe(row);
    expect(table.columns.trace.slice(row * 16, row * 16 + 16)).toEqual(new Uint8Array([...id8(row), ...id8(row)]));
    expect(table.columns.parentSpan.slice(row * 8, row * 8 + 8)).toEqual(id8(100));
    expect(table.columns.id[row]).toBe(2 ** 40);
  }
});

test('clear forgets the rows and keeps the room', () => {
  const table = new EventTable('metadata', 4);
  table.append({ key: 1, value: 2 });
  const { key } = table.columns;
  table.clear();
  expect(table.length).toBe(0);
  expect(table.append({ key: 5, value: 6 })).toBe(0);
  expect(table.columns.key).toBe(key);
  expect([table.columns.key[0], table.columns.value[0]]).toEqual([5, 6]);
});

test('a table is full at the limit a decoder accepts', () => {
  const table = new EventTable('metadata', limits.rowsPerTableMax);
  for (let row = 0; row < limits.rowsPerTableMax; row++) {
    expect(table.full).toBe(false);
    table.append({ key: 0, value: 0 });
    if (row === 2) row = limits.rowsPerTableMax - 4;
  }
  table.length = limits.rowsPerTableMax;
  expect(table.full).toBe(true);
});

test('table numbers are part of the format: new tables come last', () => {
  expect(tableNames).toEqual([
    'tracks',
    'spans',
    'instants',
    'counters',
    'steps',
    'phases',
    'collectives',
    'rpcs',
    'clockSamples',
    'wallClocks',
    'metadata',
    'numberArguments',
    'stringArguments',
    'ops',
    'memory',
  ]);
});

test('columns of one table are as long as each other', () => {
  const tables = createEventTables(3);
  for (const name of tableNames) {
    for (const [column, type] of Object.entries(tableColumns[name])) {
      const perRow = type === 'id16' ? 16 : type === 'id8' ? 8 : 1;
      expect((tables[name].columns as Record<string, ArrayLike<number>>)[column]?.length, `${name}.${column}`).toBe(3 * perRow);
    }
  }
});

test('no column has a name that a table keeps for itself', () => {
  for (const name of tableNames)
    expect(Object.keys(tableColumns[name]), name).not.toEqual(expect.arrayContaining([expect.stringMatching(/^(rows|tick)$/)]));
});
