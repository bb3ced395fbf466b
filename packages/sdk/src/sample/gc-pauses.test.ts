// Real collections of a real heap: many small objects, and `gc()` from Node's --expose-gc.

import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { type GcKind, watchGc } from './gc-pauses.ts';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

test('reports collections with their kind, start and length, and whether they were asked for', async () => {
  const seen: { kind: GcKind; startMs: number; lengthMs: number; forced: boolean }[] = [];
  const stop = watchGc((kind, startMs, lengthMs, forced) => seen.push({ kind, startMs, lengthMs, forced }));
  const beganMs = performance.now();
  let kept: object[] = [];
  for (let index = 0; index < 2_000_000; index++) {
    kept.push({ index });
    if (kept.length === 1000) kept = [];
  }
  const gcMs = performance.now();
  collect();
  const endedMs = performance.now();
  await sleep(50);

  const minor = seen.filter(({ kind }) => kind === 'minor');
  expect(minor.length).toBeGreaterThan(0);
  expect(minor.some(({ forced }) => !forced)).toBe(true);
  const major = seen.find(({ kind, forced }) => kind === 'major' && forced);
  expect(major?.startMs).toBeGreaterThanOrEqual(gcMs - 1);
  expect(major && major.startMs + major.lengthMs).toBeLessThanOrEqual(endedMs + 1);
  for (const { startMs, lengthMs } of seen) {
    expect(startMs).toBeGreaterThanOrEqual(beganMs - 1);
    expect(startMs).toBeLessThanOrEqual(endedMs + 50);
    expect(lengthMs).toBeGreaterThan(0);
  }

  stop();
  seen.length = 0;
  collect();
  await sleep(50);
  expect(seen).toEqual([]);
});
