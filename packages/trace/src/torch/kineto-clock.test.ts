// Clocks, collectives and steps survive export by our recorder and re-import. Look-alikes of its data do no harm.

import { nanos, noneDropped, type TableName, traceTime } from '@ranktrace/protocol';
import { describe, expect, test } from 'vitest';
import type { ClockSample } from '../align/clock-evidence.ts';
import type { BatchSource } from '../model/batch-source.ts';
import type { TraceEvent } from '../model/trace-sink.ts';
import { traceEvent, traceHeader, traceLane, traceProcess } from '../testing/trace-events.ts';
import { KinetoReader } from './kineto-reader.ts';
import { kinetoSources } from './kineto-source.ts';
import type { KinetoTable } from './kineto-table.ts';
import { kinetoWriter, type RecordedClock } from './kineto-writer.ts';

const unixEpoch = 1_795_000_000_123_456_789n;
const process = traceProcess({ rank: 1, incarnation: 'life-1', host: 'boot-a', hostName: 'node-a', pid: 4242 });
const main = traceLane({ process, tid: 4242 });
const steps = traceLane({ process, index: 2, kind: 'steps', name: 'ProfilerSteps' });
const sample: ClockSample = {
  remoteHost: 'boot-b',
  remoteEpoch: 77n,
  sent: 5_000,
  received: 6_000,
  remoteReceived: 5_400,
  remoteSent: 5_500,
};
const clock: RecordedClock = { host: 'boot-a', epoch: 26_455_459_451_349n, samples: [sample] };

const at = (name: string, start: number, length: number, about: Partial<TraceEvent>): TraceEvent =>
  traceEvent({ lane: main, name, start: traceTime(start), length: nanos(length), ...about });

const events: readonly TraceEvent[] = [
  at('forward', 1_000, 4_000, {}),
  at('ring sum', 5_000, 900, { kind: 'collective', group: 'world', sequence: 7, bytes: 4099, isAsync: true }),
  at('send', 6_000, 100, { kind: 'collective', group: 'pipe', sequence: 3, bytes: 8, peerRank: 0 }),
  at('exchange', 6_200, 100, { kind: 'collective', group: 'pipe', sequence: 4, bytes: 0, peerRank: 2 }),
  at('ring sum', 7_000, 900, { kind: 'collective', group: 'world', sequence: 7, bytes: 1 }),
  at('ProfilerStep#4', 500, 9_500, {
    kind: 'step',
    step: 4,
    lane: steps,
    overhead: nanos(31),
    phases: new Map([
      ['forward', nanos(4_000)],
      ['ring sum', nanos(900)],
    ]),
  }),
];

function fileOf(about: RecordedClock | undefined = clock): Record<string, unknown> {
  const chunks: Uint8Array[] = [];
  const writer = kinetoWriter((chunk) => chunks.push(chunk.slice()), {
    ...{ options: {}, steps: true, traceId: '', traceName: 'rank1.json', clock: about },
  });
  writer.begin(traceHeader([process], { worldSize: 3, unixEpoch }));
  for (const lane of [main, steps]) writer.lane(lane);
  for (const event of events) writer.event(event);
  writer.end([]);
  return JSON.parse(Buffer.concat(chunks).toString()) as Record<string, unknown>;
}

function read(file: object): KinetoTable {
  const reader = new KinetoReader({ keep: 'all' });
  // Only the JSON text can hold numbers beyond doubles.
  const text = JSON.stringify(file).replace(
    /"baseTimeNanoseconds":\d+/,
    `"baseTimeNanoseconds":${unixEpoch - (unixEpoch % 7_889_238_000_000_000n)}`,
  );
  reader.push(new TextEncoder().encode(text));
  return reader.finish();
}

function sourceOf(...files: readonly object[]): BatchSource {
  const named = files.map((file, index) => ({ name: `${index}.json`, table: read(file) }));
  return kinetoSources([{ run: 'r', rank: 1, worldSize: 3, files: named }])[0] as BatchSource;
}

const firstBatch = (...files: readonly object[]) => {
  const source = sourceOf(...files);
  const batch = source.batch(0);
  if (batch === undefined) throw new Error('no batch');
  return { source, ...batch };
};

describe('a file of our own recorder', () => {
  test("is on the host's clock, by which ranks of one host need no alignment, with its pings", () => {
    const { source, header, strings, tables } = firstBatch(fileOf());
    expect(source.hostUnknown).toBe(false);
    expect(source.incarnation).toBe('life-1');
    expect(header).toMatchObject({ host: 'boot-a', hostName: 'node-a', epoch: '26455459451349', incarnation: 'life-1' });
    const { columns } = tables.spans;
    expect([columns.start[0], columns.length[0], strings[columns.name[0] as number]]).toEqual([1_000, 4_000, 'forward']);
    const { seconds, nanos: rest, time } = tables.wallClocks.columns;
    expect(BigInt(seconds[0] as number) * 1_000_000_000n + BigInt(rest[0] as number)).toBe(unixEpoch);
    expect(time[0]).toBe(0);
    const pings = tables.clockSamples;
    expect(pings.length).toBe(1);
    expect([pings.columns.sent[0], pings.columns.received[0], pings.columns.remoteReceived[0]]).toEqual([5_000, 6_000, 5_400]);
    expect(strings[pings.columns.hostEpoch[0] as number]).toBe('77');
    expect(source.batch(0, ['collectives'] as TableName[])?.tables.clockSamples.length).toBe(0);
  });

  test('has the collectives that were recorded, whatever their name, under their own numbers', () => {
    const { strings, tables } = firstBatch(fileOf());
    const { columns, length } = tables.collectives;
    const rows = Array.from({ length }, (_, row) => [
      ...[strings[columns.op[row] as number], strings[columns.group[row] as number], columns.sequence[row], columns.bytes[row]],
      ...[columns.peer[row], columns.start[row], (columns.id[row] as number) > 0],
    ]);
    expect(rows).toEqual([
      ['ring sum', 'world', 7, 4099, 0, 5_000, true],
      ['send', 'pipe', 3, 8, 1, 6_000, false],
      ['exchange', 'pipe', 4, 0, 3, 6_200, false],
      ['ring sum', 'world', 7, 1, 0, 7_000, false],
    ]);
    // A value with its own column is not repeated as an argument.
    const keys = [tables.stringArguments, tables.numberArguments].flatMap(({ columns: { key, table }, length }) =>
      Array.from({ length }, (_, row) => `${table[row]} ${strings[key[row] as number]}`),
    );
    expect(keys.filter((key) => /Collective|Group|Seq|bytes|Rank/.test(key))).toEqual([]);
  });

  test('has steps with the phases and the overhead that were recorded', () => {
    const { strings, tables } = firstBatch(fileOf());
    expect([tables.steps.columns.step[0], tables.steps.columns.start[0], tables.steps.columns.overhead[0]]).toEqual([4, 500, 31]);
    const { name, length } = tables.phases.columns;
    expect([0, 1].map((row) => [strings[name[row] as number], length[row]])).toEqual([
      ['forward', 4_000],
      ['ring sum', 900],
    ]);
  });
});

describe('what says of itself what cannot be', () => {
  const about = (change: object): object => {
    const file = fileOf();
    return { ...file, ranktrace: { ...(file.ranktrace as object), ...change } };
  };

  test.each([
    ['no host', { host: '' }],
    ['a host that is no text', { host: 7 }],
    ['a host of a megabyte', { host: 'x'.repeat(1e6) }],
    ['no epoch', { clockEpoch: undefined }],
    ['an epoch before 0', { clockEpoch: '-5' }],
    ['an epoch of a thousand digits', { clockEpoch: '9'.repeat(1000) }],
    ['an epoch that is a number', { clockEpoch: 5 }],
    ['a wall clock that is years away from its events', { unixEpoch: '5' }],
    ['a life that no batch can name', { incarnation: '../x' }],
  ])('%s: its times are those of a wall clock of an unknown host', (_, change) => {
    const { source, header, tables } = firstBatch(about(change));
    expect(source.hostUnknown).toBe(true);
    expect(header.hostName).toBe('node-a');
    expect(tables.collectives.length).toBe(4);
    expect(tables.clockSamples.length).toBe(0);
  });

  test('pings that are none are left out', () => {
    const good = ['boot-b', '77', 5_000, 6_000, 5_400, 5_500];
    const bad = [
      7,
      [],
      ['boot-b', 77, 1, 2, 3, 4],
      ['boot-b', '-1', 1, 2, 3, 4],
      ['boot-b', '77', 1.5, 2, 3, 4],
      ['b'.repeat(1e4), '77', 1, 2, 3, 4],
    ];
    const { tables } = firstBatch(about({ clockSamples: [...bad, good, null] }));
    expect(tables.clockSamples.length).toBe(1);
    expect(firstBatch(about({ clockSamples: 'x' })).tables.clockSamples.length).toBe(0);
  });

  test('events that were dropped while it was recorded are counted, malformed counts are none', () => {
    const dropped = { events: 5, arguments: 1, names: 0, batches: 0 };
    const droppedOf = (change: unknown): unknown => firstBatch(about({ dropped: change })).header.dropped;
    expect(droppedOf(dropped)).toEqual(dropped);
    for (const bad of [undefined, null, 5, { ...dropped, events: -1 }, { events: 5 }]) expect(droppedOf(bad)).toEqual(noneDropped);
  });

  test('files of one rank that are of two clocks are on neither', () => {
    const later = about({ host: 'boot-z' });
    expect(firstBatch(fileOf(), later).source.hostUnknown).toBe(true);
  });

  test('a step whose phases are no lengths has those that are', () => {
    const file = fileOf() as { traceEvents: { name: string; args: Record<string, unknown> }[] };
    const step = file.traceEvents.find(({ name }) => name === 'ProfilerStep#4');
    Object.assign(step?.args ?? {}, { 'Phases (ns)': { forward: -1, a: 'x', b: 5, c: 1e300 }, 'Overhead (ns)': 1e9 });
    const { strings, tables } = firstBatch(file);
    expect(tables.phases.length).toBe(1);
    expect(strings[tables.phases.columns.name[0] as number]).toBe('b');
    expect(tables.steps.columns.overhead[0]).toBe(9_500);
  });
});
