import { type Batch, type BatchHeader, createEventTables } from '@ranktrace/protocol';
import { expect, it } from 'vitest';
import { phasesOfSteps } from './batch-steps.ts';

function batchOf(rows: readonly (readonly [step: number, name: string, length: number])[]): Batch {
  const tables = createEventTables();
  const strings = ['', ...new Set(rows.map(([, name]) => name))];
  for (const [step, name, length] of rows) tables.phases.append({ step, name: strings.indexOf(name), length, calls: 1 });
  return { header: {} as BatchHeader, strings, tables };
}

const rows = [
  [4, 'forward', 10],
  [5, 'forward', 9],
  [4, 'backward', 20],
  [4, 'forward', 5],
] as const;

const asObjects = (steps: ReadonlyMap<number, ReadonlyMap<string, number>>): unknown =>
  Object.fromEntries([...steps].map(([step, phases]) => [step, Object.fromEntries(phases)]));

it('sums a step’s rows of one name, wherever they lie', () => {
  expect(asObjects(phasesOfSteps(batchOf(rows)))).toEqual({ 4: { forward: 15, backward: 20 }, 5: { forward: 9 } });
  expect(phasesOfSteps(batchOf([])).size).toBe(0);
});

it('takes as many names of each step as it may, and goes on to sum these', () => {
  expect(asObjects(phasesOfSteps(batchOf(rows), 1))).toEqual({ 4: { forward: 15 }, 5: { forward: 9 } });
});
