import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { readRun } from '../../../../test/setup/trace-events.ts';
import { type Profile, profile } from './profile.ts';
import { recordFunction } from './record-function.ts';
import { injectTraceContext, runWithTraceContext } from './trace-carrier.ts';

const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
let directory: string;
let prof: Profile;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'ranktrace-carrier-'));
  // A starved shipper may need long for its last batch.
  prof = profile({ run: 'test', rank: 0, worldSize: 1, directory, sampleIntervalMs: 0, exitDeadlineMs: 120_000 });
});
afterEach(async () => {
  await prof.stop();
  rmSync(directory, { recursive: true, force: true });
});

async function stopAndRead() {
  await prof.stop();
  const { events, findings } = await readRun(join(directory, 'test'), 'test');
  expect(findings).toEqual([]);
  return (name: string) => events.find((event) => event.name === name);
}

const hostile: readonly unknown[] = [
  undefined,
  null,
  7,
  'traceparent',
  [],
  [traceparent],
  () => {},
  { traceparent: 7 },
  { traceparent: [] },
  { traceparent: 'nonsense' },
  Object.freeze({}),
  new Proxy(
    {},
    {
      get() {
        throw new Error('get');
      },
      set() {
        throw new Error('set');
      },
    },
  ),
  {
    get() {
      throw new Error('get');
    },
    set() {
      throw new Error('set');
    },
  },
  { get: () => ({}), set: 7 },
];

test('what runs as part of a carrier has its trace, and its calls name the carrier as their parent', async () => {
  prof.start();
  await runWithTraceContext({ traceparent }, async () => {
    await sleep(1);
    prof.rpcClient('Pull', {}, (carrier) => expect(carrier.traceparent).toContain('0af7651916cd43dd8448eb211c80319c'));
  });
  prof.rpcClient('outside', {}, () => {});
  const event = await stopAndRead();
  expect(event('Pull')).toMatchObject({ traceId: '0af7651916cd43dd8448eb211c80319c', parentSpanId: 'b7ad6b7169203331' });
  expect(event('outside')?.traceId).not.toBe('0af7651916cd43dd8448eb211c80319c');
});

test('the innermost call that runs is what is written', async () => {
  prof.start();
  const seen: string[] = [];
  await prof.rpcServer('Push', { carrier: { traceparent } }, async () => {
    seen.push(injectTraceContext().traceparent ?? '');
    await prof.rpcClient('Apply', {}, async ({ traceparent: own = '' }) => {
      await sleep(1);
      expect(injectTraceContext({ accept: '*' })).toEqual({ accept: '*', traceparent: own });
      expect(injectTraceContext(new Headers()).get('traceparent')).toBe(own);
      expect(injectTraceContext(new Map<string, string>()).get('traceparent')).toBe(own);
      seen.push(own);
    });
  });
  expect(injectTraceContext({ traceparent: 'as it was' })).toEqual({ traceparent: 'as it was' });
  const event = await stopAndRead();
  expect(seen).toEqual(['Push', 'Apply'].map((name) => `00-${event(name)?.traceId}-${event(name)?.spanId}-01`));
});

test('a context comes out of anything with get', async () => {
  prof.start();
  for (const [name, carrier] of [
    ['headers', new Headers({ traceparent })],
    ['map', new Map([['traceparent', traceparent]])],
    ['capital', { Traceparent: traceparent }],
  ] as const) {
    runWithTraceContext(carrier, () => prof.rpcClient(name, {}, () => {}));
  }
  const event = await stopAndRead();
  for (const name of ['headers', 'map', 'capital']) expect(event(name)?.parentSpanId).toBe('b7ad6b7169203331');
});

test('spans keep their places inside of a carrier’s work', async () => {
  prof.start();
  recordFunction('outer', () => runWithTraceContext({ traceparent }, () => recordFunction('inner', () => {})));
  const event = await stopAndRead();
  expect(event('inner')?.lane).toBe(event('outer')?.lane);
});

test('hostile carriers throw nothing, in or out', async () => {
  prof.start();
  for (const carrier of hostile) {
    expect(runWithTraceContext(carrier as object, () => 7)).toBe(7);
    prof.rpcClient('call', {}, () => void injectTraceContext(carrier as object));
  }
  expect(() =>
    runWithTraceContext({ traceparent }, () => {
      throw new TypeError('mine');
    }),
  ).toThrow(new TypeError('mine'));
  await stopAndRead();
});

test('without a profile there is nothing to write, and functions just run', () => {
  const carrier = {};
  expect(injectTraceContext(carrier)).toBe(carrier);
  expect(carrier).toEqual({});
  expect(runWithTraceContext({ traceparent }, () => 'ran')).toBe('ran');
});
