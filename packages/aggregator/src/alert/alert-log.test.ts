import { appendFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { aggregatorLimits as limits } from '../model/limits.ts';
import { fullDisk } from '../testing/full-disk.ts';
import { makeAlert } from '../testing/make-alert.ts';
import { temporaryDirectory } from '../testing/temporary-directory.ts';
import { AlertLog, readAlertLog } from './alert-log.ts';

test('the last line of an alert is how it stands, and a torn line spoils no other', () => {
  using directory = temporaryDirectory();
  expect(readAlertLog(directory.path)).toEqual({ alerts: [], unreadable: 0 });
  const [first, second] = [makeAlert({ id: 'a' }), makeAlert({ id: 'b' })];
  const log = new AlertLog(directory.path);
  for (const alert of [first, second, { ...first, state: 'resolved' as const }]) log.append(alert, []);
  appendFileSync(join(directory.path, 'alerts.jsonl'), '{"id":"c","ru');
  new AlertLog(directory.path).append(makeAlert({ id: 'd' }), []);
  const { alerts, unreadable } = readAlertLog(directory.path);
  expect(alerts.map(({ id, state }) => `${id} ${state}`)).toEqual(['a resolved', 'b firing', 'd firing']);
  expect(unreadable).toBe(1);
});

test('a line that a full disk tore spoils no other either', () => {
  using directory = temporaryDirectory();
  const path = join(directory.path, 'alerts.jsonl');
  const log = new AlertLog(directory.path);
  log.append(makeAlert({ id: 'a' }), []);
  {
    using _full = fullDisk(statSync(path).size + 100);
    expect(() => log.append(makeAlert({ id: 'b' }), [])).toThrow(expect.objectContaining({ code: 'store_write_failed' }));
  }
  log.append(makeAlert({ id: 'c' }), []);
  const { alerts, unreadable } = readAlertLog(directory.path);
  expect([alerts.map(({ id }) => id), unreadable]).toEqual([['a', 'c'], 1]);
});

test('a full log is written anew with the newest alerts as they stand', () => {
  using directory = temporaryDirectory();
  const log = new AlertLog(directory.path);
  const kept = new Map<string, ReturnType<typeof makeAlert>>();
  for (let at = 0; at < 9000; at++) {
    const alert = makeAlert({ id: `alert-${at % 300}`, step: at });
    kept.set(alert.id, alert);
    log.append(alert, kept.values());
    if (at % 500 === 0) expect(statSync(join(directory.path, 'alerts.jsonl')).size).toBeLessThanOrEqual(limits.alertLogBytesMax);
  }
  const { alerts, unreadable } = readAlertLog(directory.path);
  expect(unreadable).toBe(0);
  expect(new Map(alerts.map((alert) => [alert.id, alert]))).toEqual(kept);
});
