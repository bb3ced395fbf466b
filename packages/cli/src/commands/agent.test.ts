import { expect, test } from 'vitest';
import { destinationOf } from './agent.ts';

test('batches go where --url says, or the variables', () => {
  const url = 'ws://head:7400';
  expect(destinationOf('agent', url, { RANKTRACE_URL: 'nats://other:4222' })).toEqual({ RANKTRACE_URL: url });
  expect(destinationOf('agent', undefined, { RANKTRACE_URL: url })).toEqual({ RANKTRACE_URL: url });
  expect(destinationOf('agent', undefined, { RANKTRACE_NATS_SERVERS: 'a,b' })).toEqual({});
  expect(() => destinationOf('watch', undefined, {})).toThrow('watch needs --url (or RANKTRACE_URL)');
});

test.each(['http://head:7400', 'head:7400', 'head', ''])('an address that is none for batches is blamed on --url: %j', (url) => {
  expect(() => destinationOf('agent', url, { RANKTRACE_URL: 'ws://head:7400' })).toThrow(
    `--url must be ws://HOST:PORT or wss://… of ranktrace serve, nats://HOST:PORT or tls://…, got "${url}"`,
  );
});
