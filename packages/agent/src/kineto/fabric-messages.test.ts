// The messages of Kineto's interface, from bytes that torch 2.13 sent, and from bytes that it never would.

import fc from 'fast-check';
import { expect, it } from 'vitest';
import { decodeFabricMessage, encodeFabricMessage, windowConfig, windowFile } from './fabric-messages.ts';

const bytes = (hex: string): Uint8Array => Uint8Array.from(Buffer.from(hex.replaceAll(/\s/g, ''), 'hex'));
const type = (name: string): string => Buffer.from(name.padEnd(32, '\0')).toString('hex');

/** Sent by process 20155, whose launcher is 20108. */
const request = `2c00000000000000 ${type('req')} 03000000 07000000 0000000000000000 bb4e0000 8c4e0000 8b4e0000 824e0000 814e0000 90150000 8f150000`;

it('reads the request of a process, with its ancestors', () => {
  expect(decodeFabricMessage(bytes(request))).toEqual({
    type: 'req',
    takesActivities: true,
    job: 0n,
    pids: [20155, 20108, 20107, 20098, 20097, 5520, 5519],
  });
});

it('reads that a process which records takes no request for activities', () => {
  expect(decodeFabricMessage(bytes(request.replace('03000000', '01000000')))).toMatchObject({ takesActivities: false });
});

it('reads a registration', () => {
  expect(decodeFabricMessage(bytes(`1000000000000000 ${type('ctxt')} 02000000 bb4e0000 2a00000000000000`))).toEqual({
    type: 'ctxt',
    gpu: 2,
    pid: 20155,
    job: 42n,
  });
});

it.each([
  ['no bytes', ''],
  ['half a header', '2c00000000000000'],
  ['a size that is not the datagram’s', request.replace('2c', '2d')],
  ['a size of 2^64 − 1', request.replace('2c00000000000000', 'ffffffffffffffff')],
  ['a count of pids that is too large', request.replace('07000000', 'ffffff7f')],
  ['a count of pids below 0', request.replace('07000000', 'ffffffff')],
  ['a process 0', request.replace('bb4e0000', '00000000')],
  ['a type without an end', `0000000000000000 ${'41'.repeat(32)}`],
  ['an unknown type', `0000000000000000 ${type('gone')}`],
  ['a registration that is too short', `0c00000000000000 ${type('ctxt')} 02000000 bb4e0000 2a000000`],
])('refuses %s', (_, hex) => {
  expect(decodeFabricMessage(bytes(hex))).toBeUndefined();
});

it('never throws, whatever arrives', () => {
  const framed = fc.tuple(fc.constantFrom('req', 'ctxt', ''), fc.uint8Array({ maxLength: 80 })).map(([name, payload]) => {
    const message = encodeFabricMessage('req', payload);
    message.set(Buffer.from(name.padEnd(4, '\0')), 8);
    return message;
  });
  fc.assert(
    fc.property(fc.oneof(fc.uint8Array({ maxLength: 200 }), framed), (any) => {
      const message = decodeFabricMessage(any);
      if (message?.type === 'req') expect(message.pids.length).toBeGreaterThan(0);
    }),
  );
});

it('answers in the same frame', () => {
  const answer = encodeFabricMessage('req', new TextEncoder().encode('A=1\n'));
  expect(Buffer.from(answer).toString('hex')).toBe(`0400000000000000${type('req')}413d310a`);
});

it('asks by time, and knows the name of the file that Kineto makes of it', () => {
  const path = '/traces/w1.json';
  expect(windowConfig({ path, startUnixMs: 1_790_000_000_000.4, durationMs: 2000 }).split('\n').slice(0, 3)).toEqual([
    'ACTIVITIES_LOG_FILE=/traces/w1.json',
    'PROFILE_START_TIME=1790000000000',
    'ACTIVITIES_DURATION_MSECS=2000',
  ]);
  expect(windowFile(path, 20155)).toBe('/traces/w1_20155.json');
});
