// Dumps that real gloo processes wrote (test/data/README.md).

import { readFileSync } from 'node:fs';
import { describe, expect, it, test } from 'vitest';
import { TraceError } from '../model/errors.ts';
import { type FlightRecorderDump, looksLikeFlightRecorder, readFlightRecorder } from './flight-recorder-dump.ts';

const fileOf = (name: string): Uint8Array => readFileSync(new URL(`../../../../test/data/flight-recorder/${name}`, import.meta.url));
const lines = ({ collectives }: FlightRecorderDump): string[] =>
  collectives.map(({ group, sequence, op, bytes, isOver, isSend }) => `${op} ${group}#${sequence} ${bytes} ${isOver} ${isSend}`);

describe('a dump of a gloo process', () => {
  it.each(['nccl_trace_rank_0', 'rank0.json'])('has its collectives, by group and number: %s', (name) => {
    const dump = readFlightRecorder(fileOf(name));
    expect([dump.version, dump.malformed]).toEqual(['2.10', 0]);
    expect(lines(dump)).toEqual([
      'all_reduce world#1 48 true false',
      'all_reduce world#2 48 true false',
      'all_reduce world#3 48 true false',
      'broadcast 1#1 48 true false',
      'all_reduce world#4 48 false false',
    ]);
    expect(dump.collectives.map(({ ended }) => ended)).toEqual([undefined, undefined, undefined, undefined, undefined]);
  });

  it('has times to the ns in both forms', () => {
    const [pickled, written] = ['nccl_trace_rank_0', 'rank0.json'].map((name) => readFlightRecorder(fileOf(name)).collectives);
    expect(written?.map(({ created }) => created)).toEqual(pickled?.map(({ created }) => created));
    expect(pickled?.[0]?.created.toString()).toMatch(/^\d{19}$/);
  });

  it('says how many ranks there are where it lists them', () => {
    expect([0, 1, 2, 3].map((rank) => readFlightRecorder(fileOf(`nccl_trace_rank_${rank}`)).worldSize)).toEqual([0, 0, 4, 4]);
  });

  it('may begin with a byte order mark where it is JSON', () => {
    const marked = Buffer.concat([Buffer.of(0xef, 0xbb, 0xbf), fileOf('rank0.json')]);
    expect(looksLikeFlightRecorder(marked, marked.subarray(0, 4096).toString())).toBe(true);
    expect(readFlightRecorder(marked)).toEqual(readFlightRecorder(fileOf('rank0.json')));
  });

  it('is recognized by its first bytes', () => {
    for (const name of ['nccl_trace_rank_2', 'rank0.json']) {
      const beginning = fileOf(name).subarray(0, 4096);
      expect(looksLikeFlightRecorder(beginning, new TextDecoder().decode(beginning))).toBe(true);
    }
    for (const text of ['{"traceEvents":[{"args":{"pg_status":1}}]}', '[1]', '']) {
      expect(looksLikeFlightRecorder(new TextEncoder().encode(text), text)).toBe(false);
    }
  });
});

test('a dump cut at any byte is refused, and says where it ends', () => {
  const whole = fileOf('nccl_trace_rank_3');
  for (let length = 3; length < whole.length; length++) {
    let message = 'read';
    try {
      readFlightRecorder(whole.subarray(0, length));
    } catch (error) {
      expect(error).toBeInstanceOf(TraceError);
      ({ message } = error as TraceError);
    }
    expect(message).toBe(`Cannot read the pickle: it ends at byte ${length}`);
  }
});

test('entries of nccl: ends that the watchdog saw, sends, groups with a name; what is none is counted', () => {
  const entry = {
    ...{ process_group: ['3', 'mesh_tp'], profiling_name: 'nccl:_all_gather_base', collective_seq_id: 7, p2p_seq_id: 2, is_p2p: false },
    ...{ state: 'completed', retired: false, time_created_ns: 'CREATED', time_discovered_completed_ns: 'ENDED' },
    ...{ input_sizes: [[8, 16], [2]], input_dtypes: ['BFloat16', 'Long'] },
  };
  const entries = [
    entry,
    { ...entry, state: 'started', time_discovered_completed_ns: 0 },
    { ...entry, is_p2p: true, profiling_name: 'nccl:send 0->1' },
    { ...entry, time_created_ns: 'soon' },
    { ...entry, collective_seq_id: -1 },
    { ...entry, input_sizes: [[2 ** 40, 2 ** 40]], input_dtypes: ['Float'] },
    null,
  ];
  // As the file has them: numbers that do not fit a double.
  const text = JSON.stringify({ version: '2.7', entries })
    .replaceAll('"CREATED"', '1759300074000000123')
    .replaceAll('"ENDED"', '1759300074000900123');
  const dump = readFlightRecorder(new TextEncoder().encode(text));
  expect(dump.malformed).toBe(3);
  expect(lines(dump)).toEqual([
    '_all_gather_base 3 mesh_tp#7 272 true false',
    '_all_gather_base 3 mesh_tp#7 272 false false',
    'send 0->1 3 mesh_tp#2 272 true true',
    '_all_gather_base 3 mesh_tp#7 0 true false',
  ]);
  expect(dump.collectives.map(({ created, ended }) => ended && `${created} ${ended - created}`)).toEqual([
    ...['1759300074000000123 900000', undefined, '1759300074000000123 900000', '1759300074000000123 900000'],
  ]);
});

it.each([
  ['ComplexDouble', 16 * 6],
  ['ComplexHalf', 4 * 6],
  ['Float8_e4m3fnuz', 6],
  ['UInt16', 2 * 6],
  ['Bits4x2', 0],
  ['toString', 0],
])('the payload of a tensor of %s is %i bytes, and one that is known in part is not known', (type, bytes) => {
  const entry = {
    ...{ profiling_name: 'nccl:all_reduce', collective_seq_id: 1, time_created_ns: '1759300074000000123' },
    state: 'completed',
  };
  const entries = [
    { ...entry, input_sizes: [[2, 3]], input_dtypes: [type] },
    { ...entry, input_sizes: [[2, 3], [4]], input_dtypes: [type, 'Float'] },
  ];
  const { collectives } = readFlightRecorder(new TextEncoder().encode(JSON.stringify({ entries })));
  expect(collectives.map((collective) => collective.bytes)).toEqual([bytes, bytes === 0 ? 0 : bytes + 16]);
});

describe('a coalesced call', () => {
  const entry = (name: string, sequence: number, state: string, isSend = false, ms = 0) => ({
    ...{ process_group: ['0', 'default_pg'], profiling_name: `nccl:${name}`, is_p2p: isSend, state, retired: state === 'completed' },
    ...{ collective_seq_id: isSend ? 0 : sequence, p2p_seq_id: isSend ? sequence : 0 },
    ...{ time_created_ns: `${1759300074000000000n + BigInt(ms) * 1_000_000n}`, input_sizes: [[2]], input_dtypes: ['Float'] },
    ...(state === 'completed' && { time_discovered_completed_ns: `${1759300074000000000n + BigInt(ms + 5) * 1_000_000n}` }),
  });
  const read = (entries: readonly unknown[]) => readFlightRecorder(new TextEncoder().encode(JSON.stringify({ entries })));

  it.each(['completed', 'scheduled'])('is one collective with the payload of its ops, which torch leaves scheduled: %s', (state) => {
    const dump = read([
      ...[entry('_broadcast_oop', 1, 'scheduled', false, 1), entry('_broadcast_oop', 1, 'scheduled', false, 2)],
      { ...entry('ALLGATHER_coalesced', 1, state, false, 3), input_sizes: [] },
      ...[
        entry('_reduce_scatter_base', 2, 'scheduled', false, 4),
        entry('coalesced', 2, state, false, 5),
        entry('all_reduce', 3, 'scheduled', false, 6),
      ],
    ]);
    const isOver = state === 'completed';
    expect(lines(dump)).toEqual([
      `ALLGATHER_coalesced world#1 16 ${isOver} false`,
      `_reduce_scatter_base world#2 16 ${isOver} false`,
      'all_reduce world#3 8 false false',
    ]);
    expect(dump.malformed).toBe(0);
    expect(dump.collectives[0]?.created).toBe(1759300074001000000n);
    expect(dump.collectives[0]?.ended).toBe(isOver ? 1759300074008000000n : undefined);
  });

  it('of sends and receives leaves these, which name their peers, and they end with it', () => {
    const sends = (sequence: number, state: string) => [
      ...[entry('send 0->1', sequence, 'scheduled', true), entry('recv 0<-1', sequence, 'scheduled', true)],
      { ...entry('coalesced', sequence, state, true, 1), input_sizes: [] },
    ];
    const dump = read([...sends(1, 'completed'), ...sends(2, 'scheduled'), entry('broadcast', 1, 'scheduled')]);
    expect(lines(dump)).toEqual([
      ...['send 0->1 world#1 8 true true', 'recv 0<-1 world#1 8 true true'],
      ...['send 0->1 world#2 8 false true', 'recv 0<-1 world#2 8 false true', 'broadcast world#1 8 false false'],
    ]);
    expect(dump.collectives[0]?.ended).toBe(1759300074006000000n);
  });

  it('is one of two that have its number, where the process made its group anew', () => {
    const life = (ms: number) => [
      entry('all_reduce', 1, 'completed', false, ms),
      entry('_broadcast_oop', 2, 'scheduled', false, ms + 1),
      { ...entry('ALLGATHER_coalesced', 2, 'completed', false, ms + 2), input_sizes: [] },
    ];
    const ordinary = [entry('all_reduce', 1, 'completed', false, 40), entry('all_reduce', 2, 'completed', false, 41)];
    const dump = read([...life(0), ...life(20), ...ordinary, ...life(60)]);
    const ms = (time: bigint | undefined) => Number((time ?? 0n) - 1759300074000000000n) / 1e6;
    expect(dump.collectives.map(({ op, sequence, created, ended }) => `${op} ${sequence} ${ms(created)}–${ms(ended)}`)).toEqual([
      ...['all_reduce 1 0–5', 'ALLGATHER_coalesced 2 1–7', 'all_reduce 1 20–25', 'ALLGATHER_coalesced 2 21–27'],
      ...['all_reduce 1 40–45', 'all_reduce 2 41–46', 'all_reduce 1 60–65', 'ALLGATHER_coalesced 2 61–67'],
    ]);
  });

  it('whose ops are not in the dump any more is as it is', () => {
    expect(lines(read([entry('coalesced', 1, 'completed', true), entry('allreduce_coalesced', 1, 'completed')]))).toEqual([
      ...['coalesced world#1 8 true true', 'allreduce_coalesced world#1 8 true false'],
    ]);
  });
});
