import { expect, test } from 'vitest';
import { ProtocolError } from './errors.ts';
import { limits } from './limits.ts';
import { batchId, batchSubject, batchSubjects, checkRunName, clockSubject, clockSubjects, controlSubject } from './subjects.ts';

test('subjects of a run', () => {
  expect([batchSubject('night-42', 3), clockSubject('night-42'), controlSubject('night-42')]).toEqual([
    'ranktrace.v1.night-42.batch.3',
    'ranktrace.v1.night-42.clock',
    'ranktrace.v1.night-42.control',
  ]);
});

test('the subscriptions match them, token by token', () => {
  const matches = (pattern: string, subject: string) => {
    const [wanted, got] = [pattern.split('.'), subject.split('.')];
    return wanted.length === got.length && wanted.every((token, index) => token === '*' || token === got[index]);
  };
  expect(matches(batchSubjects, batchSubject('a', 0))).toBe(true);
  expect(matches(clockSubjects, clockSubject('a'))).toBe(true);
  expect(matches(batchSubjects, clockSubject('a'))).toBe(false);
});

test('no run name can widen a subscription, leave a folder or end a line', () => {
  const bad = ['', '*', '>', 'a.b', 'a b', 'a/b', '..', 'a\n', '\n', 'ä', 'a*', 'a\0', 'x'.repeat(limits.runNameCharsMax + 1)];
  for (const run of bad) {
    for (const make of [checkRunName, clockSubject, controlSubject, (name: string) => batchSubject(name, 0)]) {
      expect(() => make(run), JSON.stringify(run)).toThrow(ProtocolError);
    }
  }
  expect(() => checkRunName('a.b')).toThrow('Bad run name "a.b": it must be 1 to 64 letters, digits, "_" or "-"');
  expect(checkRunName('x'.repeat(limits.runNameCharsMax))).toHaveLength(limits.runNameCharsMax);
});

test('the batch id distinguishes run, rank, incarnation and sequence: no field can hold a dot', () => {
  expect(batchId({ run: 'night-42', rank: 3, incarnation: '0192f3a1-7c', sequence: 17 })).toBe('night-42.3.0192f3a1-7c.17');
});
