import { expect, test } from 'vitest';
import { ProtocolError } from './errors.ts';
import { limits } from './limits.ts';
import {
  type ControlMessage,
  controlMessageSchema,
  decodeMessage,
  encodeMessage,
  type LiveMessage,
  liveMessageSchema,
  rankMessageSchema,
  readCaptured,
  readDeviceSteps,
  readRunning,
} from './messages.ts';

const control: readonly ControlMessage[] = [
  { type: 'clock_pong', id: 7, host: 'b1f0c6de', received: '9000000060010', sent: '9000000061010' },
  { type: 'ack', batch: 'night-42.3.0192f3a1-7c.17' },
  { type: 'refused', batch: 'night-42.3.0192f3a1-7c.17', reason: 'bad_table: column spans.start' },
  { type: 'flush' },
  { type: 'pull', run: 'night-42', fromStep: 3 },
  { type: 'record', run: 'night-42', fromStep: 100, toStep: 2_147_483_646 },
];

const live: LiveMessage = {
  type: 'status',
  quarantined: 2,
  expired: 0,
  runs: [
    {
      run: 'night-42',
      worldSize: 2,
      ranks: [
        {
          rank: 0,
          incarnation: 'a',
          host: 'h',
          hostName: 'node-a',
          batches: 3,
          missing: 1,
          events: 400,
          step: -1,
          dropped: { events: 0, arguments: 0, names: 0, batches: 0 },
          ended: false,
          state: 'stopped',
          silentMs: 8000,
          inside: 'backward',
          insideMs: 12,
        },
      ],
    },
  ],
};

const refusal = (decode: () => unknown): string => {
  try {
    decode();
  } catch (error) {
    expect(error).toBeInstanceOf(ProtocolError);
    return `${(error as ProtocolError).code}: ${(error as ProtocolError).message}`;
  }
  throw new Error('it was taken');
};

test('every message comes back as it went', () => {
  for (const message of control) expect(decodeMessage(controlMessageSchema, encodeMessage(message))).toEqual(message);
  expect(decodeMessage(rankMessageSchema, encodeMessage({ type: 'clock_ping', id: 0 }))).toEqual({ type: 'clock_ping', id: 0 });
  expect(decodeMessage(liveMessageSchema, encodeMessage(live))).toEqual(live);
});

test('times keep all their digits: they are text', () => {
  const pong = decodeMessage(
    controlMessageSchema,
    '{"type":"clock_pong","id":1,"host":"h","received":"1766000000123456789","sent":"1766000000123456790"}',
  );
  expect(pong).toMatchObject({ received: '1766000000123456789', sent: '1766000000123456790' });
});

test.for([
  ['', 'bad_message: Cannot decode message: it is not JSON'],
  ['{', 'not JSON'],
  ['null', 'bad_message'],
  ['[]', 'bad_message'],
  ['{}', 'bad_message: Cannot decode message: "type"'],
  ['{"type":"clock_ping"}', '"id"'],
  ['{"type":"clock_ping","id":-1}', '"id"'],
  ['{"type":"clock_ping","id":1.5}', '"id"'],
  ['{"type":"clock_ping","id":1e400}', '"id"'],
  ['{"type":"clock_ping","id":1,"more":1}', 'bad_message'],
  ['{"type":"ack","batch":"x"}', '"type"'],
  ['{"__proto__":{"type":"clock_ping","id":1}}', 'bad_message'],
])('from a rank, %s is refused', ([text, why]) => {
  expect(refusal(() => decodeMessage(rankMessageSchema, text as string))).toContain(why);
});

test('nothing becomes part of Object.prototype', () => {
  refusal(() => decodeMessage(rankMessageSchema, '{"__proto__":{"polluted":true},"type":"x"}'));
  expect(({} as Record<string, unknown>).polluted).toBeUndefined();
});

test('a long message is refused before it is parsed, a deep one as well', () => {
  expect(refusal(() => decodeMessage(rankMessageSchema, ' '.repeat(limits.messageBytesMax + 1)))).toMatch(/^oversized: .*65537/);
  const deep = '['.repeat(limits.messageBytesMax / 2) + ']'.repeat(limits.messageBytesMax / 2);
  expect(refusal(() => decodeMessage(rankMessageSchema, deep))).toMatch(/^bad_message/);
});

test("a rank's answer to `record` is read with care", () => {
  const captured = { fromStep: 100, toStep: 109, firstStep: null, lastStep: null };
  expect(readCaptured(JSON.stringify(captured))).toEqual(captured);
  for (const text of [
    '',
    '{',
    'null',
    '[]',
    '{}',
    JSON.stringify({ ...captured, toStep: 2 ** 31 }),
    JSON.stringify({ ...captured, more: 1 }),
  ]) {
    expect(readCaptured(text)).toBeUndefined();
  }
});

test('where a rank says that it is is read with care', () => {
  const place = { step: 300, phase: 'all_reduce', since: 12, collective: { op: 'all_reduce', group: 'world', sequence: 7, since: 12 } };
  const stays = { ...place, entered: [['world', 7]] };
  for (const known of [{ step: 0 }, place, stays]) expect(readRunning(JSON.stringify(known))).toEqual(known);
  for (const wrong of [
    {},
    { ...place, step: -1 },
    { ...place, phase: 'x'.repeat(limits.stringBytesMax + 1) },
    { ...place, collective: { ...place.collective, sequence: 0.5 } },
    { ...place, entered: Array(limits.runningGroupsMax + 1).fill(['world', 7]) },
    { ...place, more: 1 },
  ]) {
    expect(readRunning(JSON.stringify(wrong))).toBeUndefined();
  }
  expect(readRunning('{')).toBeUndefined();
});

test('a status of 65,536 ranks with long host names is a message', () => {
  const dropped = { events: 123_456, arguments: 123_456, names: 123_456, batches: 123_456 };
  const counts = {
    batches: 13_000_000,
    missing: 123_456,
    events: 1_234_567_890,
    step: 12_345_678,
    dropped,
    ended: false,
    state: 'stopped' as const,
    silentMs: 123_456_789,
    insideMs: 123_456_789,
  };
  const names = {
    incarnation: 'x'.repeat(32),
    host: 'h'.repeat(limits.hostCharsMax),
    hostName: 'n'.repeat(limits.hostCharsMax),
    inside: 'i'.repeat(64),
  };
  const ranks = Array.from({ length: limits.rankMax + 1 }, (_, rank) => ({ rank, ...names, ...counts }));
  const text = encodeMessage({ type: 'status', runs: [{ run: 'r', worldSize: ranks.length, ranks }], quarantined: 0, expired: 0 });
  expect(decodeMessage(liveMessageSchema, text).runs[0]?.ranks).toHaveLength(ranks.length);
});

test('the steps with all work of devices come through, and anything else is none', () => {
  for (const known of [
    [],
    [[0, 5]],
    [
      [0, 5],
      [9, null],
    ],
  ])
    expect(readDeviceSteps(JSON.stringify(known))).toEqual(known);
  const many = Array.from({ length: limits.deviceStretchesMax + 1 }, (_, step) => [2 * step, 2 * step]);
  for (const wrong of [
    many,
    [[0]],
    [[0, 1, 2]],
    [[-1, 5]],
    [[0, 1.5]],
    [['0', 5]],
    [[0, limits.capturedStepMax + 1]],
    [[null, 5]],
    {},
    null,
    7,
  ])
    expect(readDeviceSteps(JSON.stringify(wrong)), JSON.stringify(wrong).slice(0, 80)).toBeUndefined();
  for (const text of ['', '[[0,5]', '[[0,1e999]]', '['.repeat(100_000)]) expect(readDeviceSteps(text)).toBeUndefined();
});
