import { type Nanos, nanos, type TraceTime, traceTime } from '@ranktrace/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { runCount } from '../../../../test/setup/seeds.ts';
import { findCompleteness } from '../analyse/findings.ts';
import { mergeRun } from '../merge/merge-run.ts';
import { apartAt, boundAt } from '../model/epsilon.ts';
import { TraceError } from '../model/errors.ts';
import { finish } from '../model/finish.ts';
import { isDeviceKind } from '../model/lanes.ts';
import { median } from '../model/robust.ts';
import { teeSink } from '../model/tee-sink.ts';
import type { Alignment, ProcessTotals, TraceEvent, TraceHeader, TraceLane, TraceProcess, TraceSink } from '../model/trace-sink.ts';
import { simulatedCluster } from '../simulate/simulated-cluster.ts';
import { readSinkCalls } from '../testing/sink-calls.ts';
import { droppedCounts, eventCounts, processTotals, traceEvent, traceHeader, traceLane, traceProcess } from '../testing/trace-events.ts';
import { dumpWriter } from '../write/dump.ts';
import type { PerfettoSkipped } from './perfetto-events.ts';
import { readPerfetto } from './perfetto-trace.ts';
import { perfettoWriter } from './perfetto-writer.ts';

/** The output of our writer for the calls of `report`, cut into chunks of `chunkBytes`. */
function written(report: (sink: TraceSink) => void, chunkBytes = 1 << 20): Uint8Array[] {
  const chunks: Uint8Array[] = [];
  report(perfettoWriter((chunk) => chunks.push(chunk.slice())));
  return cut(chunks, chunkBytes);
}

function cut(chunks: readonly Uint8Array[], chunkBytes: number): Uint8Array[] {
  const whole = new Uint8Array(chunks.flatMap((chunk) => [...chunk]));
  return Array.from({ length: Math.ceil(whole.length / chunkBytes) }, (_, at) => whole.slice(at * chunkBytes, (at + 1) * chunkBytes));
}

const skippedNothing: PerfettoSkipped = { packets: 0, bundles: 0, events: 0, reversed: 0, arguments: 0, flows: 0, counters: 0 };

describe('a trace of ours', () => {
  const text = fc.string({ unit: 'grapheme', maxLength: 12 });
  const name = text.filter((chars) => !/ · tid \d+$/.test(chars));
  const whole = fc.integer({ min: 0, max: 2 ** 40 });
  const number = fc.oneof(fc.maxSafeInteger(), fc.double({ noNaN: false })).map((value) => (Object.is(value, -0) ? 0 : value));
  const givenArguments = fc
    .uniqueArray(fc.tuple(fc.oneof(text, fc.constantFrom('op', 'step', 'group', 'peer', 'side', 'bytes')), fc.oneof(text, number)), {
      selector: ([key]) => key,
      maxLength: 4,
    })
    .map((entries) => (entries.length === 0 ? undefined : new Map<string, string | number>(entries)));
  const flow = fc.option(fc.bigInt({ min: 1n, max: 2n ** 64n - 1n }), { nil: undefined });
  const about = fc.oneof(
    fc.record({ kind: fc.constant('span' as const), flow }),
    fc.record({ kind: fc.constant('instant' as const), flow }),
    fc.record({
      kind: fc.constant('collective' as const),
      ...{ group: text, sequence: fc.maxSafeNat(), bytes: fc.maxSafeNat(), peerRank: fc.integer({ min: -1, max: 1000 }), flow },
    }),
    fc.record({
      kind: fc.constant('rpc' as const),
      ...{ side: fc.constantFrom('client', 'server'), peer: text, status: fc.constantFrom('ok', 'error'), traceId: text, spanId: text },
      ...{ parentSpanId: text, flow },
    }),
  );
  const step = fc.record({
    kind: fc.constant('step' as const),
    step: fc.maxSafeNat(),
    overhead: whole.map(nanos),
    phases: fc.option(fc.dictionary(text, whole, { minKeys: 1, maxKeys: 3 }), { nil: undefined }),
  });
  const alignment: fc.Arbitrary<Alignment> = fc.oneof(
    fc.constant<Alignment>({ method: 'exact', bound: nanos(0) }),
    fc.constant<Alignment>({ method: 'unaligned', bound: undefined }),
    fc.record({
      method: fc.constantFrom('sampled', 'messages', 'shared'),
      bound: whole.map(nanos),
      clockSteps: fc.array(whole.map(traceTime), { minLength: 1, maxLength: 3 }),
      clockJumps: fc.array(whole.map(nanos), { minLength: 1, maxLength: 3 }),
      driftPpm: fc.integer({ min: 51, max: 800 }),
      shifted: fc.array(fc.record({ from: whole.map(traceTime), until: whole.map(traceTime), most: whole.map(nanos) }), {
        minLength: 1,
        maxLength: 3,
      }),
    }),
  );
  const kinds = fc.constantFrom('thread', 'stream', 'device', 'steps', 'counter');
  const trace = fc.record({
    run: text,
    worldSize: fc.nat(4096),
    unixEpoch: fc.option(fc.bigInt({ min: 0n, max: 2n ** 62n }), { nil: undefined }),
    processes: fc.array(
      fc.record({
        rank: fc.nat(4095),
        incarnation: text,
        host: text,
        isHostKnown: fc.boolean(),
        hostName: text,
        pid: fc.nat(2 ** 31),
        alignment,
        metadata: fc.dictionary(text, text),
      }),
      { minLength: 1, maxLength: 3 },
    ),
    lanes: fc.array(fc.record({ process: fc.nat(2), kind: kinds, name, tid: fc.nat(99_999), overflow: fc.nat(255), unit: text }), {
      maxLength: 5,
    }),
    events: fc.array(
      fc.record({
        ...{
          lane: fc.nat(4),
          about,
          step,
          start: whole,
          length: whole,
          name: text,
          category: text,
          value: number,
          arguments: givenArguments,
        },
        shape: fc.constantFrom('whole', 'open', 'closed', 'closed later'),
        closing: givenArguments,
      }),
      { maxLength: 30 },
    ),
    totals: fc.record(
      {
        ...{ batches: fc.nat(), missing: fc.nat(), late: fc.nat(), ended: fc.boolean() },
        ...{ from: whole.map((time) => traceTime(0 - time)), until: whole.map(traceTime) },
      },
      { requiredKeys: ['batches', 'missing', 'late', 'ended'] },
    ),
    pruned: fc.subarray([
      { what: 'detail', steps: [3, 12_000], on: '2026-01-31' },
      { what: 'steps', steps: undefined, on: '2026-03-01' },
    ] as const),
    place: fc.option(
      fc.record({
        step: fc.nat(),
        phase: fc.option(fc.record({ name: text, since: whole.map(traceTime) }), { nil: undefined }),
        collective: fc.option(fc.record({ op: text, group: text, sequence: fc.nat(), since: whole.map(traceTime) }), { nil: undefined }),
        entered: fc.dictionary(text, fc.nat(), { noNullPrototype: true }).map((groups) => new Map(Object.entries(groups))),
      }),
      { nil: undefined },
    ),
    chunkBytes: fc.constantFrom(1, 7, 100, 1 << 20),
  });

  it('comes back as it was reported', () => {
    fc.assert(
      fc.property(trace, ({ run, worldSize, unixEpoch, chunkBytes, ...made }) => {
        const used = new Set(made.events.map(({ lane }) => lane));
        const processes = made.processes.map(({ isHostKnown, ...process }, at, { length }): TraceProcess => {
          const hasDevices = made.lanes.some((lane, place) => used.has(place) && isDeviceKind(lane.kind) && lane.process % length === at);
          const metadata = new Map(Object.entries(process.metadata));
          return { ...process, ...(isHostKnown ? {} : { hostUnknown: true }), index: at + 1, hasDevices, metadata };
        });
        const header = { run, worldSize, unixEpoch, processes };
        const lanes = made.lanes.map((lane, at): TraceLane => {
          const process = processes[lane.process % processes.length] as TraceProcess;
          const unit = lane.kind !== 'counter' ? '' : lane.unit === 'B' ? 'bytes' : lane.unit;
          const isLine = lane.kind === 'thread' || isDeviceKind(lane.kind);
          return { ...lane, index: at + 1, process, unit, tid: isLine ? lane.tid : 0, overflow: isLine ? lane.overflow : 0 };
        });
        const expected: (TraceLane | TraceEvent)[] = [];
        const known = new Set<TraceLane>();
        const later: TraceEvent[] = [];
        for (const { lane: place, about, step, start, length, shape, closing, value, ...rest } of made.events) {
          const lane = lanes[place];
          if (lane === undefined) continue;
          if (!known.has(lane)) expected.push(lane);
          known.add(lane);
          const at = { lane, start: traceTime(start) };
          if (lane.kind === 'counter') {
            expected.push(traceEvent({ ...at, kind: 'counter', name: lane.name, value }));
            continue;
          }
          const phases =
            step.phases === undefined ? undefined : new Map(Object.entries(step.phases).map(([phase, time]) => [phase, nanos(time)]));
          const event = traceEvent({ ...at, ...rest, ...(lane.kind === 'steps' ? { ...step, phases } : about), length: nanos(length) });
          if (event.kind === 'instant') expected.push({ ...event, length: nanos(0) });
          else if (shape === 'whole' || event.kind === 'step') expected.push(event);
          else {
            expected.push({ ...event, state: 'open', length: nanos(0) });
            // With an argument: without one, a close right behind its open is a whole span.
            const closed: TraceEvent = { ...event, state: 'close', arguments: new Map([...(closing ?? []), ['end', 1]]) };
            if (shape === 'closed') expected.push(closed);
            if (shape === 'closed later') later.unshift(closed);
          }
        }
        // An open span inside another keeps the outer one from closing first.
        const open = new Map<TraceLane, TraceEvent[]>();
        for (const call of expected)
          if ('state' in call && call.state === 'open') open.set(call.lane, [...(open.get(call.lane) ?? []), call]);
        const isInnermost = (event: TraceEvent): boolean => open.get(event.lane)?.at(-1)?.start === event.start;
        for (const closed of later) {
          if (!isInnermost(closed) || expected.some((call) => 'state' in call && call.state === 'close' && call.lane === closed.lane))
            continue;
          expected.push(closed);
          open.get(closed.lane)?.pop();
        }
        const totals = processes.map(
          (process): ProcessTotals => ({
            ...processTotals({ process, ...made.totals, counts: eventCounts({ span: 3 }), dropped: droppedCounts({ names: 2 }) }),
            ...(made.place && { place: made.place }),
            ...(made.pruned.length > 0 && { pruned: { parts: made.pruned, events: eventCounts({ span: 7, step: 2 }) } }),
          }),
        );
        const chunks = written((sink) => {
          sink.begin(header);
          for (const call of expected) 'state' in call ? sink.event(call) : sink.lane(call);
          sink.end(totals);
        }, chunkBytes);
        const reported = readSinkCalls(chunks);
        expect(reported.header).toEqual(header);
        expect(reported.calls).toEqual(expected);
        expect(reported.totals).toEqual(totals);
        expect(reported.skipped).toEqual(skippedNothing);
      }),
      { seed: 11, numRuns: runCount(400) },
    );
  });

  it('of a whole cluster reads the same as the merge that wrote it', () => {
    const { sources } = simulatedCluster({ ranks: 4, hosts: 2, seconds: 10, seed: 2 });
    const dumped: Uint8Array[][] = [[], []];
    const dumpTo = (to: Uint8Array[]): TraceSink => dumpWriter((chunk) => to.push(chunk.slice()));
    const chunks = written((writer) => {
      const merging = mergeRun(sources, teeSink(writer, dumpTo(dumped[0] as Uint8Array[])));
      while (merging.next().done !== true);
    });
    const reading = readPerfetto(() => chunks).events(dumpTo(dumped[1] as Uint8Array[]));
    while (reading.next().done !== true);
    const [asMerged, asRead] = dumped.map((parts) =>
      new TextDecoder().decode(new Uint8Array(parts.flatMap((part) => [...part]))).split('\n'),
    );
    expect(asRead?.length).toBeGreaterThan(1000);
    expect(asRead).toEqual(asMerged);
  });

  it('has the events of a host whose date is some days early', () => {
    const day = 86_400e9;
    const process = traceProcess({ hasDevices: false });
    const lane = traceLane({ process });
    const events = [-3 * day, -3.9 * day, -day, 0, 40 * day].map((start) =>
      traceEvent({ lane, start: traceTime(start), length: nanos(7) }),
    );
    for (const unixEpoch of [undefined, 1_766_000_000_123_456_789n]) {
      const chunks = written((sink) => {
        sink.begin(traceHeader([process], { unixEpoch }));
        sink.lane(lane);
        for (const event of events) sink.event(event);
        sink.end([processTotals({ process })]);
      });
      const { header, calls } = readSinkCalls(chunks);
      expect(header.unixEpoch).toBe(unixEpoch);
      expect(calls.slice(1)).toEqual(events);
    }
  });

  it('has the conflicts between its clocks: the largest, in order of time', () => {
    const of = (at: number) => ({
      time: 1e9 * at,
      slack: at === 7 ? 1.5 : 1000 + at,
      isAtStep: at % 2 === 0,
      hosts: [`host "${at}"`, 'b'],
    });
    const conflicts = Array.from({ length: 257 }, (_, at) => of(at));
    const process: TraceProcess = {
      ...{ index: 1, rank: 0, incarnation: '1', host: 'b', hostName: 'b', pid: 7, metadata: new Map() },
      alignment: { method: 'exact', bound: nanos(0) },
    };
    const bytes = written((sink) => {
      sink.begin({ run: 'r', worldSize: 1, unixEpoch: undefined, processes: [process], clockConflicts: conflicts });
      sink.end([]);
    });
    expect(readPerfetto(() => bytes).header.clockConflicts).toEqual(conflicts.filter(({ slack }) => slack !== 1.5));
  });

  it('tells as much of its clocks at each time as the merge that wrote it', () => {
    // Half a second around its step, a clock is known to 20 ms; at other times to less than 1 ms.
    const { sources } = simulatedCluster({
      ranks: 4,
      hosts: 4,
      seconds: 60,
      seed: 5,
      clockSteps: [{ host: 2, seconds: 30, micros: -20_000 }],
    });
    const times: TraceTime[] = [];
    let merged: TraceHeader | undefined;
    const noting: TraceSink = {
      begin: (header) => {
        merged = header;
      },
      lane: () => {},
      event: ({ start }) => void times.push(start),
      end: () => {},
    };
    const chunks = written((writer) => finish(mergeRun(sources, teeSink(writer, noting))));
    const { header } = readPerfetto(() => chunks);
    for (const tell of [boundAt, apartAt]) {
      for (const [at, process] of (merged?.processes ?? []).entries()) {
        const read = header.processes[at] as TraceProcess;
        const [asMerged, asRead] = [process, read].map((of) => times.map((time) => tell(of, time) ?? 0)) as [number[], number[]];
        expect(asRead.findIndex((value, place) => value < (asMerged[place] as number))).toBe(-1);
        expect(median(asRead)).toBeLessThanOrEqual(2 * median(asMerged));
      }
    }
    const stepping = header.processes[2] as TraceProcess;
    expect(stepping.alignment.bound).toBeGreaterThan(20e6);
    expect(median(times.map((time) => boundAt(stepping, time) ?? 0))).toBeLessThan(1e6);
  });
});

describe('what is no Perfetto trace', () => {
  const small = written((sink) => {
    const process = traceProcess();
    const lane = traceLane({ process });
    sink.begin(traceHeader([process]));
    sink.lane(lane);
    for (let at = 0; at < 20; at++) {
      const given = new Map<string, string | number>([['key', at]]);
      sink.event(traceEvent({ lane, name: `span ${at}`, start: traceTime(at * 100), length: nanos(50), arguments: given, flow: 5n }));
    }
    sink.end([processTotals({ process })]);
  })[0] as Uint8Array;

  const refused = (bytes: Uint8Array | readonly Uint8Array[]): string => {
    try {
      readSinkCalls(bytes instanceof Uint8Array ? [bytes] : bytes);
    } catch (error) {
      if (error instanceof TraceError) return `${error.code}: ${error.message}`;
      throw error;
    }
    return '';
  };

  it('may name any number of steps of a clock: the first thousand are read', () => {
    const many = 200_000;
    const clockSteps = Array<TraceTime>(many).fill(traceTime(1));
    const alignment: Alignment = {
      method: 'sampled',
      bound: nanos(1),
      clockSteps,
      clockJumps: Array<Nanos>(many).fill(nanos(-5e6)),
      driftPpm: 1e300,
    };
    const chunks = written((sink) => {
      const process = { ...traceProcess(), alignment };
      sink.begin(traceHeader([process]));
      sink.lane(traceLane({ process }));
      sink.event(traceEvent({ lane: traceLane({ process }) }));
      sink.end([processTotals({ process })]);
    });
    const { header } = readPerfetto(() => chunks);
    expect(header.processes[0]?.alignment.clockSteps).toHaveLength(1024);
    expect(header.processes[0]?.alignment.clockJumps).toHaveLength(1024);
    const [step, drift] = findCompleteness(header, []);
    expect(step?.text).toMatch(/ stepped at (0\.0 s \(−5\.0 ms\)(, )?){5}: each side/);
    expect(drift?.kind).toBe('clock_drift');
  });

  it('is refused in one clear line', () => {
    const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
    const inPacket = (...content: number[]): Uint8Array => new Uint8Array([0x0a, content.length, ...content]);
    const cannot = 'Cannot read the Perfetto trace: at byte';
    expect(refused(bytes('{"traceEvents":[]}'))).toBe(`not_perfetto: ${cannot} 0 it must begin with a packet (0x0a), got 0x7b`);
    expect(refused([])).toBe(`no_events: ${cannot} 0 it must hold packets, got none`);
    expect(refused(small.slice(0, 5))).toMatch(/^truncated: .* a packet must hold \d+ bytes, the file ends after \d+$/);
    expect(refused(new Uint8Array([0x0a]))).toBe(`truncated: ${cannot} 1 the file ends in the middle of a packet`);
    expect(refused(new Uint8Array([0x0a, 0xff, 0xff, 0xff, 0xff, 0x7f]))).toMatch(/^too_large: .* a packet has 34359738367 bytes/);
    expect(refused(inPacket(0x0a, 0x05, 0x01))).toBe(`not_perfetto: ${cannot} 4 a field of 5 bytes is in a message of which 1 are left`);
    expect(refused(inPacket(0x40, 0xff))).toBe(`not_perfetto: ${cannot} 3 a number goes beyond its packet`);
    expect(refused(inPacket(0x0b, 0x00))).toBe(`not_perfetto: ${cannot} 3 a field has the wire type 3`);
    expect(refused(inPacket(0x00, 0x00))).toBe(`not_perfetto: ${cannot} 3 a field has the number 0`);
    expect(refused(inPacket(0x40, ...Array(10).fill(0xff), 0x01))).toMatch(/a number has more than 10 bytes$/);
    expect(refused(inPacket(0x5a, 0x02, 0x48, 0xff, 0x40, 0x00))).toMatch(/a field ends after the message it is in$/);
  });

  it.each([
    ['rank', { rank: 1e12 }, {}, 'from 0 to 262144, got 1000000000000'],
    ['rank', { rank: -1 }, {}, 'from 0 to 262144, got -1'],
    ['rank', { rank: 0.5 }, {}, 'from 0 to 262144, got 0.5'],
    ['world size', {}, { worldSize: 1e15 }, 'from 0 to 262144, got 1000000000000000'],
    ['number', { index: 0 }, {}, 'from 1 to 262144, got 0'],
  ])('is refused where the %s of a process is none that a job can have: %j %j', (what, about, of, wanted) => {
    const chunks = written((sink) => {
      const process = traceProcess(about);
      sink.begin(traceHeader([process], of));
      sink.end([processTotals({ process })]);
    });
    expect(refused(chunks)).toBe(`not_perfetto: Cannot read the Perfetto trace: the ${what} of one of its processes must be ${wanted}`);
  });

  it('has lanes with small numbers, whatever those of its tracks are: readers keep lists by lane', () => {
    const process = traceProcess();
    const lanes = [7, 2 ** 40, 2 ** 51, 0].map((index) => traceLane({ process, index, name: `lane ${index}` }));
    const chunks = written((sink) => {
      sink.begin(traceHeader([process]));
      for (const lane of lanes) sink.lane(lane);
      for (const lane of lanes) sink.event(traceEvent({ lane, name: lane.name }));
      sink.end([processTotals({ process })]);
    });
    const read = readSinkCalls(chunks).calls.map((call) => ('state' in call ? [call.lane.index, call.name] : [call.index, call.name]));
    const expected = [7, 262_146, 262_147, 262_148].map((index, at) => [index, lanes[at]?.name]);
    expect(read).toEqual([...expected, ...expected]);
  });

  it('is read up to where it was cut after its first packet, and says where', () => {
    expect(readPerfetto(() => [small]).stopped).toBeUndefined();
    const stops = new Set<string>();
    for (let end = 6; end < small.length; end++) {
      let stopped: string | undefined;
      try {
        const trace = readPerfetto(() => [small.slice(0, end)]);
        stopped = trace.stopped;
        finish(trace.events({ begin: () => {}, lane: () => {}, event: () => {}, end: () => {} }));
      } catch (error) {
        expect(error).toBeInstanceOf(TraceError);
        continue;
      }
      if (stopped !== undefined) stops.add(stopped.replace(/\d+/g, 'N'));
    }
    expect([...stops].sort()).toEqual([
      'at byte N a packet must hold N bytes, the file ends after N',
      'at byte N the file ends before the totals of its processes',
      'at byte N the file ends in the middle of a packet',
    ]);
  });

  it('never hangs and never throws anything else, whatever bytes are changed, cut or doubled', () => {
    const change = fc.record({ at: fc.nat(small.length - 1), byte: fc.nat(255), kind: fc.constantFrom('set', 'cut', 'double') });
    let refusals = 0;
    fc.assert(
      fc.property(fc.array(change, { minLength: 1, maxLength: 6 }), (changes) => {
        let bytes: Uint8Array = small.slice();
        for (const { at, byte, kind } of changes) {
          if (kind === 'set') bytes[at % bytes.length] = byte;
          else if (kind === 'cut') bytes = new Uint8Array([...bytes.subarray(0, at), ...bytes.subarray(at + (byte % 8))]);
          else bytes = new Uint8Array([...bytes.subarray(0, at), ...bytes.subarray(Math.max(0, at - byte))]);
        }
        if (refused(bytes) !== '') refusals++;
      }),
      { seed: 4, numRuns: 1000 },
    );
    expect(refusals).toBeGreaterThan(100);
    expect(refusals).toBeLessThan(990);
  });
});
