import { expect, test } from 'vitest';
import { opTimesText } from './op-times.ts';

test('reports what the times of ops mean where that is not how long an op took', () => {
  expect(opTimesText(new Map([['tf.op_times', 'host dispatch']]))).toMatch(/^times of ops: host dispatch \(the device works on/);
  expect(opTimesText(new Map([['tf.op_times', 'device, fenced']]))).toMatch(/^times of ops: device, fenced/);
});

test('says nothing of times on the host, nor of what nobody knows', () => {
  for (const value of ['host', 'toString', '', 7, undefined]) expect(opTimesText(new Map([['tf.op_times', value]]))).toBeUndefined();
  expect(opTimesText(new Map())).toBeUndefined();
});
