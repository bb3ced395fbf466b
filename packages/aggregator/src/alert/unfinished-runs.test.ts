// A service that is started again, over the runs that its earlier lives left: it watches those that may still go on, without a batch of theirs.

import { once } from 'node:events';
import { cpSync, existsSync, readFileSync, renameSync, rmSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import type { Alert } from '@ranktrace/protocol';
import { resolveAlertRules } from '@ranktrace/trace/alert';
import { expect, test } from 'vitest';
import { WebSocket } from 'ws';
import type { Retention } from '../prune/prune-store.ts';
import { type Aggregator, startAggregator } from '../service.ts';
import { alertStateName, listSegments } from '../store/run-directory.ts';
import { RunStore } from '../store/run-store.ts';
import { type BatchShape, makeBatch, makeHeader } from '../testing/make-batch.ts';
import { startReceiver } from '../testing/receiver.ts';
import { temporaryDirectory } from '../testing/temporary-directory.ts';
import { waitUntil } from '../testing/wait-until.ts';
import type { ServeConfig } from './alert-config.ts';
import type { OutputConfig } from './output-config.ts';

const withSequence = (shape: BatchShape, sequence: number): BatchShape => ({ ...shape, sequence });

const start = (out: string, outputs: ServeConfig['outputs'] = [], retention: Retention = {}): Promise<Aggregator> => {
  const rules = resolveAlertRules({ rankStoppedMs: 1500, off: ['hang'] });
  return startAggregator({ out, retention, config: { page: undefined, rules, capture: undefined, outputs } });
};

const openAlerts = ({ alerts }: Aggregator): string[] =>
  alerts.alerts('demo').flatMap(({ rule, state, ranks }) => (state === 'firing' ? [`${rule} of ${ranks.join()}`] : []));

const runsOf = (aggregator: Aggregator): string[] => aggregator.status().runs.map(({ run }) => run);

test('ranks that died while the service was away are reported, and what is open stays so', async () => {
  using directory = temporaryDirectory();
  {
    await using first = await start(directory.path);
    for (const rank of [0, 1]) expect(first.ingest(makeBatch({ rank, worldSize: 2 })).result).toBe('stored');
  }
  {
    await using second = await start(directory.path);
    expect(runsOf(second)).toEqual(['demo']);
    await waitUntil('the ranks are silent for too long', () => openAlerts(second).length > 0);
    expect(openAlerts(second)).toEqual(['rank_stopped of 0,1']);
  }
  await using third = await start(directory.path);
  expect(openAlerts(third)).toEqual(['rank_stopped of 0,1']);
  const metrics = await (await fetch(`${third.address}/metrics`)).text();
  expect(metrics).toContain('ranktrace_alerts{run="demo",rule="rank_stopped",state="firing"} 1');
  expect(third.ingest(makeBatch({ rank: 0, worldSize: 2, sequence: 1 })).result).toBe('stored');
});

test('ranks whose service was killed before it saved their state are known from their batches', async () => {
  using directory = temporaryDirectory();
  {
    await using first = await start(directory.path);
    for (const rank of [0, 1, 2]) first.ingest(makeBatch({ rank, worldSize: 3, last: rank === 2 }));
  }
  rmSync(join(directory.path, 'demo', alertStateName));
  await using second = await start(directory.path);
  await waitUntil('a rank is silent for too long', () => openAlerts(second).length > 0);
  expect(openAlerts(second)).toEqual(['rank_stopped of 0,1']);
});

test.each(['killed', 'ended'])(
  'an alert that a webhook has not taken when the service was %s is sent by the next one, once',
  async (how) => {
    using directory = temporaryDirectory();
    await using receiver = await startReceiver();
    receiver.answer = { code: 500 };
    const webhook: OutputConfig = {
      type: 'webhook',
      name: 'hook',
      severity: 'warning',
      perMinute: 6000,
      retryForMs: 600_000,
      holdMs: 0,
      resolved: true,
      url: receiver.url,
      headers: {},
      timeoutMs: 5000,
      format: 'json',
    };
    const [before, after] = [join(directory.path, 'before'), join(directory.path, 'after')];
    const taken = (): string[] => receiver.requests.splice(0).map(({ body }) => (body as Alert).state);
    {
      await using first = await start(before, [webhook]);
      for (const rank of [0, 1]) expect(first.ingest(makeBatch({ rank, worldSize: 2 })).result).toBe('stored');
      await waitUntil('the webhook refuses the alert', () => receiver.requests.length > 0);
      await waitUntil('both ranks are in it', () => openAlerts(first).join() === 'rank_stopped of 0,1');
      if (how === 'killed') cpSync(before, after, { recursive: true });
    }
    if (how === 'ended') cpSync(before, after, { recursive: true });
    rmSync(join(after, 'demo', 'lock'), { force: true });
    receiver.answer = { code: 200 };
    taken();
    {
      await using second = await start(after, [webhook]);
      await waitUntil('the webhook takes the alert', () => receiver.requests.length > 0);
      expect(openAlerts(second)).toEqual(['rank_stopped of 0,1']);
    }
    expect(taken()).toEqual(['firing']);
    {
      await using third = await start(after, [webhook]);
      expect(openAlerts(third)).toEqual(['rank_stopped of 0,1']);
      receiver.answer = { code: 500 };
      for (const rank of [0, 1]) third.ingest(makeBatch({ rank, worldSize: 2, sequence: 1, last: true }));
      await waitUntil('the webhook refuses the end', () => receiver.requests.length > 0);
    }
    expect(new Set(taken())).toEqual(new Set(['resolved']));
    receiver.answer = { code: 200 };
    {
      await using _ = await start(after, [webhook]);
      await waitUntil('the webhook takes the end', () => receiver.requests.length > 0);
    }
    // The answer may come as the service ends: then the run is opened once more, and nothing is sent.
    {
      await using _ = await start(after, [webhook]);
    }
    expect(taken()).toEqual(['resolved']);
    await using last = await start(after, [webhook]);
    expect(runsOf(last)).toEqual([]);
  },
);

test('a run is watched also where retention prunes it at the start', async () => {
  using directory = temporaryDirectory();
  {
    // The second segment is pruned for several turns of the event loop, in which a large run is opened.
    await using store = new RunStore(directory.path, 'demo', { segmentBytesMax: 70_000 });
    for (const shape of [{ ballastKb: 99 }, ...Array.from({ length: 8 }, () => ({ spans: 10_000 }))].map(withSequence)) {
      expect(store.append(makeBatch(shape), makeHeader(shape))).toBe('stored');
    }
  }
  const segments = listSegments(join(directory.path, 'demo'));
  expect(segments.length).toBe(2);
  const then = new Date(Date.now() - 3 * 3600_000);
  for (const { path } of segments) utimesSync(path, then, then);
  await using service = await start(directory.path, [], { keepDetailMs: 3600_000 });
  await waitUntil('the rank is silent for too long', () => openAlerts(service).length > 0);
  expect(openAlerts(service)).toEqual(['rank_stopped of 0']);
});

test('what ranks send while the service ends is stored by the next one: its alerts know all that is stored', async () => {
  using directory = temporaryDirectory();
  await using receiver = await startReceiver();
  receiver.answer = { code: 0 };
  const sending = { name: 'slow', severity: 'warning', perMinute: 6000, retryForMs: 0, holdMs: 0, resolved: true } as const;
  const webhook: OutputConfig = { type: 'webhook', ...sending, url: receiver.url, headers: {}, timeoutMs: 5000, format: 'json' };
  const service = await start(directory.path, [webhook]);
  const dropped = { events: 1, arguments: 0, names: 0, batches: 0 };
  let sequence = 0;
  const send = (socket: WebSocket): void => socket.send(makeBatch({ worldSize: 1, spans: 1, sequence: sequence++, dropped }));
  const connected = async (): Promise<WebSocket> => {
    const socket = new WebSocket(service.address.replace('http', 'ws').concat('/v1/ingest'));
    socket.on('error', () => undefined);
    await once(socket, 'open');
    return socket;
  };
  const first = await connected();
  send(first);
  await waitUntil('the alert is on its way, for long', () => receiver.requests.length > 0);
  const ended = service[Symbol.asyncDispose]();
  for (const socket of [first, await connected()]) for (let batch = 0; batch < 50; batch++) send(socket);
  await ended;
  const { batches } = JSON.parse(readFileSync(join(directory.path, 'demo', alertStateName), 'utf8')) as { batches: number };
  await using store = new RunStore(directory.path, 'demo');
  expect(batches).toBe(store.sources()[0]?.count);
});

test('runs that are over, those of long ago, and those whose directory was renamed are left alone', async () => {
  using directory = temporaryDirectory();
  {
    await using first = await start(directory.path);
    first.ingest(makeBatch({ run: 'over', last: true, worldSize: 1 }));
    for (const rank of [0, 1]) first.ingest(makeBatch({ run: 'fewer', rank, worldSize: 2 }));
    first.ingest(makeBatch({ run: 'fewer', incarnation: '0002', last: true, worldSize: 1 }));
    first.ingest(makeBatch({ run: 'old', worldSize: 1 }));
    first.ingest(makeBatch({ run: 'renamed', worldSize: 1 }));
  }
  renameSync(join(directory.path, 'renamed'), join(directory.path, 'renamed-since'));
  const segment = listSegments(join(directory.path, 'old')).at(-1);
  const then = new Date(Date.now() - 25 * 3600_000);
  utimesSync(segment?.path ?? '', then, then);
  await using second = await start(directory.path);
  expect(runsOf(second)).toEqual([]);
  expect(existsSync(join(directory.path, 'renamed-since', 'lock'))).toBe(false);
});
