import { once } from 'node:events';
import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import type { CaptureResult } from '@ranktrace/protocol';
import { decodeBatch } from '@ranktrace/protocol';
import { expect, test, vi } from 'vitest';
import type { CaptureSteps } from '../capture/capture-steps.ts';
import { LiveState } from '../live/live-state.ts';
import { AggregatorError } from '../model/errors.ts';
import { inflate } from '../model/inflate.ts';
import { makeBatch } from '../testing/make-batch.ts';
import { captureRequests } from './capture-requests.ts';
import { HttpService } from './http-service.ts';

const result: CaptureResult = { run: 'demo', path: '/out/a.pftrace', fromStep: 7, toStep: 8, ranks: [0], late: [], dead: [], notes: [] };

/** The service's answer to `body`, as `code body`, with active runs. */
async function post(
  body: string,
  { runs = ['demo'], silent = [], headers = {}, method = 'POST', capture = async () => result } = {} as {
    runs?: readonly string[];
    /** Runs of which nothing was heard for a minute. */
    silent?: readonly string[];
    headers?: Record<string, string>;
    method?: string;
    capture?: CaptureSteps;
  },
): Promise<string> {
  const live = new LiveState();
  const takeBatch = (run: string): void =>
    live.update(decodeBatch(makeBatch({ run }), inflate), { batches: 1, missing: 0, isLatest: true });
  const minuteAgo = performance.now() - 60_000;
  const now = vi.spyOn(performance, 'now').mockReturnValue(minuteAgo);
  silent.forEach(takeBatch);
  now.mockRestore();
  runs.forEach(takeBatch);
  const service = await HttpService.listen({ listen: {}, capture: captureRequests(live, capture), onNotice: () => undefined });
  try {
    const sent = request(`${service.address}/v1/capture`, { method, headers, agent: false });
    sent.end(body);
    const [response] = await once(sent, 'response');
    return `${response.statusCode} ${(await text(response)).trim()}`;
  } finally {
    await service.close();
  }
}

test('the only run that goes on is meant where none is named; what was captured is answered', async () => {
  const asked: unknown[] = [];
  const capture: CaptureSteps = async (run, steps) => {
    asked.push(run, steps);
    return result;
  };
  expect(await post('{"steps":2}', { capture })).toBe(`200 ${JSON.stringify(result)}`);
  expect(await post('{"run":"other","steps":2,"fromStep":7,"pull":{"fromStep":1,"toStep":3}}', { capture })).toMatch(/^200/);
  expect(asked).toEqual(['demo', { steps: 2 }, 'other', { steps: 2, fromStep: 7, pull: { fromStep: 1, toStep: 3 } }]);
});

test.for([
  ['', '400 .*it must be JSON'],
  ['{', '400 .*it must be JSON'],
  ['null', '400 '],
  ['{}', '400 .*\\\\"steps\\\\"'],
  ['{"steps":0}', '400 .*\\\\"steps\\\\"'],
  ['{"steps":100001}', '400 .*\\\\"steps\\\\"'],
  ['{"steps":1,"more":1}', '400 '],
  ['{"steps":2,"fromStep":2147483646}', '400 .*its last step may be 2147483646'],
  ['{"steps":1,"pull":{"fromStep":3,"toStep":2}}', '400 .*pull'],
  [`{"steps":1,"run":"${' '.repeat(5000)}"}`, '400 .*it may have 4096 bytes'],
])('%s is refused', async ([body, answer]) => {
  expect(await post(body as string)).toMatch(new RegExp(`^${answer}`));
});

test('of several runs one must be named; without any it cannot be done', async () => {
  expect(await post('{"steps":1}', { runs: ['a', 'b'] })).toMatch(/^400 .*one of the runs that go on: a, b/);
  expect(await post('{"steps":1}', { runs: [] })).toMatch(/^409 .*no run goes on/);
  expect(await post('{"steps":1}', { runs: ['a'], silent: ['killed'] })).toMatch(/^200/);
  expect(await post('{"steps":1}', { runs: [], silent: ['killed'] })).toMatch(/^200/);
  expect(await post('{"steps":1}', { runs: [], silent: ['killed', 'b'] })).toMatch(/^400 .*one of the runs that go on: killed, b/);
});

test('what goes wrong has a code and a message', async () => {
  const failing = (error: unknown): { capture: CaptureSteps } => ({
    capture: async () => {
      throw error;
    },
  });
  const missing = new AggregatorError('store_missing', 'Cannot open run "x": there is no run yet');
  expect(await post('{"steps":1}', failing(missing))).toBe(`404 ${JSON.stringify({ error: 'store_missing', message: missing.message })}`);
  expect(await post('{"steps":1}', failing(new AggregatorError('too_many_captures', 'busy')))).toMatch(/^409/);
  expect(await post('{"steps":1}', failing(new TypeError('bug')))).toBe('500 {"error":"failed","message":"bug"}');
});

test('pages of other hosts may not ask, and reading it is nothing', async () => {
  expect(await post('{"steps":1}', { headers: { origin: 'http://evil.example' } })).toMatch(/^403/);
  expect(await post('{"steps":1}', { headers: { host: 'evil.example' } })).toMatch(/^403/);
  expect(await post('', { method: 'GET' })).toMatch(/^404/);
  expect(await post('', { method: 'PUT' })).toMatch(/^405/);
});

test('who goes away gives the capture up', async () => {
  let gaveUp: (() => void) | undefined;
  const given = new Promise<void>((resolve) => {
    gaveUp = resolve;
  });
  let begin: (() => void) | undefined;
  const begun = new Promise<void>((resolve) => {
    begin = resolve;
  });
  const capture: CaptureSteps = (_run, _steps, signal) =>
    new Promise((_resolve, reject) => {
      begin?.();
      signal?.addEventListener('abort', () => {
        gaveUp?.();
        reject(signal.reason as Error);
      });
    });
  const live = new LiveState();
  const service = await HttpService.listen({ listen: {}, capture: captureRequests(live, capture), onNotice: () => undefined });
  const sent = request(`${service.address}/v1/capture`, { method: 'POST', agent: false }).on('error', () => undefined);
  sent.end('{"steps":1,"run":"demo"}');
  await begun;
  sent.destroy();
  await given;
  await service.close();
});
