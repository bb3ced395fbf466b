import { expect, test } from 'vitest';
import { readKineto } from './kineto-reader.ts';
import { KinetoSteps } from './kineto-source-steps.ts';

const steps = 8;
const names = ['data', 'forward', 'backward', 'optimizer'];
const stepNanos = names.length * 10_037;

/** Steps whose phases, 10.037 µs each, follow each other without a gap, and hold a mark each at their end; as their writer prints them. */
function textOfSteps(epochMicros: bigint): string {
  const events: string[] = [];
  const span = (name: string, at: number, nanos: number): void => {
    const ts = epochMicros * 1000n + BigInt(at);
    const args = `"ts":${ts / 1000n}.${String(ts % 1000n).padStart(3, '0')},"dur":${(nanos / 1000).toFixed(3)}`;
    events.push(`{"ph":"X","cat":"user_annotation","name":"${name}","pid":1,"tid":1,${args}}`);
  };
  for (let step = 0; step < steps; step++) {
    span(`ProfilerStep#${step}`, step * stepNanos, stepNanos);
    for (const [index, name] of names.entries()) {
      span(name, step * stepNanos + index * 10_037, 10_037);
      span('mark', step * stepNanos + index * 10_037 + 9_937, 100);
    }
  }
  return `[${events.join(',')}]`;
}

function phasesOf(text: string) {
  const table = readKineto(new TextEncoder().encode(text));
  const { start, duration } = table.events.columns;
  const at = (column: Float64Array, row: number): number => column[row] as number;
  const rows = Uint32Array.from({ length: table.events.length }, (_, row) => row);
  rows.sort((a, b) => at(start, a) - at(start, b) || at(duration, b) - at(duration, a));
  const { phases } = new KinetoSteps(table, rows);
  const all = Array.from({ length: phases.length }, (_, row) => {
    return [table.strings.get(phases.columns.name[row] as number), phases.columns.length[row] as number] as const;
  });
  return { all, timeError: table.timeError };
}

// 1.7e15 µs since 1970 is a moment of 2023. JSON's shortest text of the double ….25 is ….2, that of ….75 is ….8.
test.each([1_700_000_000_000_000n, 2_300_000_000_000_000n])('times of %s µs that a program rounded lose no phase', (epoch) => {
  const text = textOfSteps(epoch);
  const exact = phasesOf(text);
  expect(exact.timeError).toBe(0);
  expect(exact.all).toEqual(Array.from({ length: steps }, () => names.map((name) => [name, 10_037])).flat());
  const rounded = phasesOf(JSON.stringify(JSON.parse(text)));
  expect(rounded.timeError).toBe(epoch < 2n ** 51n ? 500 : 1000);
  expect(rounded.all.map(([name]) => name)).toEqual(exact.all.map(([name]) => name));
  for (const [, length] of rounded.all) expect(Math.abs(length - 10_037)).toBeLessThanOrEqual(rounded.timeError);
});

test('whole µs, and times from a nearer base, are exact', () => {
  expect(phasesOf(textOfSteps(4_376_996_912_525n)).timeError).toBe(0);
  expect(phasesOf(JSON.stringify(JSON.parse(textOfSteps(4_376_996_912_525n)))).timeError).toBe(0);
  const whole = '[{"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":1,"tid":1,"ts":1700000000000000,"dur":5}]';
  expect(phasesOf(whole).timeError).toBe(0);
});
