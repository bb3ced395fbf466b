// Traces unlike those of our writer, made field by field from Perfetto's public .proto files. They stay together because all are made by the same few
// functions.

import { deflateSync, gzipSync, unzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TraceError } from '../model/errors.ts';
import { finish } from '../model/finish.ts';
import { ReadBudget } from '../model/read-budget.ts';
import { readSinkCalls } from '../testing/sink-calls.ts';
import { perfettoLimits as limits } from './perfetto-limits.ts';
import { PerfettoPackets } from './perfetto-packets.ts';
import { PerfettoSequence } from './perfetto-sequence.ts';
import { readPerfetto } from './perfetto-trace.ts';
import { ProtobufBuffer } from './protobuf-buffer.ts';

type Packet = (out: ProtobufBuffer) => void;

/** A trace of packets that our writer would not write. */
function foreign(packets: readonly Packet[]): Uint8Array[] {
  const chunks: Uint8Array[] = [];
  const out = new ProtobufBuffer((chunk) => chunks.push(chunk.slice()));
  for (const write of packets) {
    out.next();
    inside(out, 1, write);
  }
  out.flush();
  return chunks;
}

function inside(out: ProtobufBuffer, field: number, write: Packet): void {
  const mark = out.open(field);
  write(out);
  out.close(mark);
}

const [begin, end, instant, counter] = [1, 2, 3, 4];

/** A track event of sequence 5; `about` writes further fields of it. */
const event =
  (time: number, type: number, about: Packet = () => {}, { flags = 0, clock = 0 } = {}): Packet =>
  (out) => {
    out.uint(8, time);
    out.uint(10, 5);
    if (flags > 0) out.uint(13, flags);
    if (clock > 0) out.uint(58, clock);
    inside(out, 11, (fields) => {
      fields.uint(9, type);
      about(fields);
    });
  };

/** Name and track of an event. */
const on =
  (track: number | bigint, name = ''): Packet =>
  (out) => {
    if (name !== '') out.string(23, name);
    out.uint64(11, BigInt(track));
  };

const track =
  (uuid: number | bigint, about: Packet): Packet =>
  (packet) =>
    inside(packet, 60, (out) => {
      out.uint64(1, BigInt(uuid));
      about(out);
    });

const processTrack = (uuid: number, pid: number, name: string): Packet =>
  track(uuid, (out) =>
    inside(out, 3, (about) => {
      about.uint(1, pid);
      about.string(6, name);
    }),
  );
const threadTrack = (uuid: number | bigint, pid: number, tid: number, name: string): Packet =>
  track(uuid, (out) =>
    inside(out, 4, (about) => {
      about.uint(1, pid);
      about.uint(2, tid);
      about.string(5, name);
    }),
  );

/** The calls that a sink gets from a trace, a line each: lane and event, times in ns. */
function reported(packets: readonly Packet[]): string[] {
  return readSinkCalls(foreign(packets)).calls.map((call) => {
    if (!('state' in call)) return `${call.kind} ${call.name} of ${call.process.hostName}${call.unit === '' ? '' : `, ${call.unit}`}`;
    const { kind, state, name, start, length, value, arguments: given } = call;
    const about = kind === 'counter' ? ` = ${value}` : kind === 'instant' ? '' : ` ${state} ${length}`;
    return `${start} ${kind} ${name}${about}${given === undefined ? '' : ` ${JSON.stringify(Object.fromEntries(given))}`}`;
  });
}

describe('bundles of compressed packets', () => {
  // A thousandth of the limit: the test inflates no 64 MiB.
  const largest = limits.perfettoBundleBytesMax / 1024;
  const inflate = (bytes: Uint8Array, bytesMax: number) => unzipSync(bytes, { maxOutputLength: bytesMax / 1024 });
  const bundle =
    (bytes: Uint8Array): Packet =>
    (packet) =>
      inside(packet, 50, (out) => out.raw(bytes));
  const bytesOf = (packets: readonly Packet[]) => Buffer.concat(foreign(packets));
  const zipped = (packets: readonly Packet[]) => deflateSync(bytesOf(packets));
  const read = (packets: readonly Packet[]) => {
    const chunks = bytesOf(packets);
    const { calls, skipped } = readSinkCalls([chunks.subarray(0, 40), chunks.subarray(40)], inflate);
    return { names: calls.flatMap((call) => ('state' in call ? `${call.start} ${call.name}` : [])), skipped };
  };
  const at = (time: number, name: string) => event(time, instant, on(2, name));
  const nothing = { packets: 0, bundles: 0, events: 0, reversed: 0, arguments: 0, flows: 0, counters: 0 };

  it('are read in their place, as zlib or gzip, with the tracks that they describe', () => {
    const inside = zipped([processTrack(1, 40, 'app'), threadTrack(2, 40, 41, 'main'), at(1100, 'b'), at(1200, 'c')]);
    const last = bundle(gzipSync(bytesOf([at(1500, 'f')])));
    expect(read([at(1000, 'a'), bundle(inside), at(1300, 'd'), bundle(zipped([])), at(1400, 'e'), last])).toEqual({
      names: ['0 a', '100 b', '200 c', '300 d', '400 e', '500 f'],
      skipped: nothing,
    });
    expect(read([bundle(inside)]).names).toEqual(['0 b', '100 c']);
  });

  it('are counted where they are damaged, too large or inside of others, and what lies around them is read', () => {
    const large = deflateSync(new Uint8Array(largest + 1));
    const nested = zipped([at(1100, 'b'), bundle(zipped([at(1200, 'no')]))]);
    const broken = deflateSync(Buffer.concat([bytesOf([at(1300, 'c')]), Buffer.of(0x0a, 0x7f, 1)]));
    for (const [bytes, inner] of [
      ...[[large, []] as const, [Buffer.from('no zlib'), []] as const, [nested, ['100 b']] as const, [broken, ['300 c']] as const],
    ]) {
      const { names, skipped } = read([at(1000, 'a'), bundle(bytes), at(1900, 'z')]);
      expect([names, skipped]).toEqual([['0 a', ...inner, '900 z'], { ...nothing, bundles: 1 }]);
    }
    expect(readSinkCalls(foreign([at(1000, 'a'), bundle(zipped([at(1100, 'b')]))])).skipped.bundles).toBe(1);
  });
});

describe('a trace of somebody else', () => {
  const bigTrack = 0xdead_beef_0000_0001n;
  const who = [processTrack(1, 40, 'browser'), threadTrack(2, 40, 41, 'main'), threadTrack(bigTrack, 40, 42, 'worker')];

  it('has its processes as ranks, threads and tracks as lanes, where they have events', () => {
    const { header, calls } = readSinkCalls(
      foreign([
        processTrack(9, 70, 'gpu'),
        ...who,
        event(1000, begin, on(2, 'a')),
        event(1200, begin, on(bigTrack, 'b')),
        event(1300, end, on(2)),
        event(1400, end, on(bigTrack)),
      ]),
    );
    expect(header.processes.map(({ rank, pid, hostName, alignment }) => [rank, pid, hostName, alignment.method])).toEqual([
      [0, 40, 'browser', 'exact'],
      [1, 70, 'gpu', 'exact'],
    ]);
    expect(calls.map((call) => ('state' in call ? [call.name, call.state, call.start, call.length] : [call.name, call.tid]))).toEqual([
      ['main', 41],
      ['a', 'open', 0, 0],
      ['worker', 42],
      ['b', 'open', 200, 0],
      ['a', 'close', 0, 300],
      ['b', 'close', 200, 200],
    ]);
  });

  it('names events, categories and arguments by interned strings, until its state is cleared', () => {
    const intern: Packet = (packet) => {
      packet.uint(10, 5);
      packet.uint(13, 1);
      inside(packet, 12, (data) => {
        for (const [kind, iid, text] of [
          [1, 1, 'net'],
          [2, 7, 'load'],
          [3, 2, 'url'],
          [29, 3, 'http://x'],
        ] as const) {
          inside(data, kind, (entry) => {
            entry.uint(1, iid);
            entry.string(2, text);
          });
        }
      });
      inside(packet, 59, (defaults) => inside(defaults, 11, (of) => of.uint(11, 2)));
    };
    const load: Packet = (out) => {
      out.uint(10, 7);
      out.uint(3, 1);
      inside(out, 4, (argument) => {
        argument.uint(1, 2);
        argument.uint(17, 3);
      });
    };
    const needs = { flags: 2 };
    const cleared: Packet = (packet) => {
      packet.uint(10, 5);
      packet.uint(13, 1);
    };
    const packets = [
      ...who,
      event(900, instant, load, needs),
      intern,
      event(1000, instant, load, needs),
      cleared,
      event(2000, instant, load, needs),
    ];
    const { calls, skipped } = readSinkCalls(foreign(packets));
    const events = calls.filter((call) => 'state' in call);
    expect(events.map(({ name, category, lane, arguments: given }) => [name, category, lane.name, given?.get('url')])).toEqual([
      ['load', 'net', 'main', 'http://x'],
      ['', '', 'events', undefined],
    ]);
    expect(skipped).toEqual({ packets: 0, bundles: 0, events: 1, reversed: 0, arguments: 0, flows: 0, counters: 0 });
  });

  it('holds a string once, however often it is given the same number', () => {
    const named: Packet = (packet) =>
      inside(packet, 12, (data) =>
        inside(data, 2, (entry) => {
          entry.uint(1, 7);
          entry.string(2, 'load');
        }),
      );
    const held = { bytes: 0 };
    const sequence = new PerfettoSequence(held);
    const packets = new PerfettoPackets(foreign([named, named, named]));
    const bytes: number[] = [];
    while (packets.next()) {
      sequence.take(packets);
      bytes.push(held.bytes);
    }
    expect(bytes).toEqual(Array(3).fill(bytes[0]));
  });

  it('reads arguments of every type, and what lies inside of them', () => {
    const argument =
      (key: string, about: Packet): Packet =>
      (out) =>
        inside(out, 4, (of) => {
          of.string(10, key);
          about(of);
        });
    const all: Packet = (out) => {
      on(2, 'e')(out);
      argument('b', (of) => of.bool(2, true))(out);
      argument('u', (of) => of.uint64(3, 2n ** 64n - 1n))(out);
      argument('i', (of) => of.int(4, -5))(out);
      argument('d', (of) => of.double(5, 0.5))(out);
      argument('p', (of) => of.uint64(7, 0xffff_0000_0000n))(out);
      argument('j', (of) => of.string(9, '{}'))(out);
      argument('n', (of) => {
        inside(of, 11, (inner) => {
          inner.string(10, 'x');
          inner.uint(4, 1);
        });
        inside(of, 11, (inner) => {
          inner.string(10, 'list');
          for (const value of [7, 8]) inside(inner, 12, (item) => item.uint(4, value));
        });
      })(out);
    };
    expect(reported([...who, event(0, instant, all)])[1]).toBe(
      '0 instant e {"b":"true","u":"18446744073709551615","i":-5,"d":0.5,"p":"0xffff00000000","j":"{}","n.x":1,"n.list[0]":7,"n.list[1]":8}',
    );
  });

  it('ends a span with the arguments of its begin, too: an end adds to them', () => {
    const given =
      (...numbers: readonly (readonly [string, number])[]): Packet =>
      (out) => {
        on(2)(out);
        for (const [key, value] of numbers) {
          inside(out, 4, (of) => {
            of.string(10, key);
            of.uint(4, value);
          });
        }
      };
    const packets = [...who, event(0, begin, given(['url', 1], ['tries', 1])), event(9, end, given(['tries', 2], ['status', 200]))];
    expect(reported(packets).slice(1)).toEqual(['0 span  open 0 {"url":1,"tries":1}', '0 span  close 9 {"url":1,"tries":2,"status":200}']);
  });

  it('reads counters with their unit, factor and increments', () => {
    const memory = track(3, (out) => {
      out.uint(5, 1);
      out.string(2, 'memory');
      inside(out, 8, (about) => {
        about.uint(3, 3);
        about.uint(4, 1024);
        about.uint(5, 1);
      });
    });
    const plus =
      (value: number): Packet =>
      (out) => {
        on(3)(out);
        out.int(30, value);
      };
    expect(reported([...who, memory, event(0, counter, plus(4)), event(5, counter, plus(-1))])).toEqual([
      'counter memory of browser, bytes',
      '0 counter memory = 4096',
      '5 counter memory = 3072',
    ]);
    const cleared: Packet = (packet) => {
      packet.uint(10, 5);
      packet.uint(13, 1);
    };
    expect(reported([...who, memory, event(0, counter, plus(4)), cleared, event(5, counter, plus(3))]).slice(1)).toEqual([
      '0 counter memory = 4096',
      '5 counter memory = 3072',
    ]);
  });

  it('places other clocks by snapshots, and adds up incremental timestamps', () => {
    const snapshot: Packet = (packet) => {
      packet.uint(10, 5);
      inside(packet, 6, (about) => {
        for (const [id, time, isIncremental] of [
          [6, 5000, false],
          [3, 4000, false],
          [1, 1_766_000_000_000_005_000, false],
          [64, 0, true],
        ] as const) {
          inside(about, 1, (clock) => {
            clock.uint(1, id);
            clock.uint64(2, BigInt(time));
            if (isIncremental) {
              clock.bool(3, true);
              clock.uint(4, 1000);
            }
          });
        }
      });
    };
    const packets: Packet[] = [
      ...who,
      snapshot,
      event(5100, instant, on(2, 'boottime')),
      event(4200, instant, on(2, 'monotonic'), { clock: 3 }),
      event(3, instant, on(2, 'first'), { clock: 64 }),
      (packet) => {
        packet.uint(8, 1);
        packet.uint(10, 5);
        packet.uint(58, 64);
      },
      event(2, instant, on(2, 'second'), { clock: 64 }),
    ];
    expect(reported(packets).slice(1)).toEqual([
      '100 instant boottime',
      '200 instant monotonic',
      '3000 instant first',
      '6000 instant second',
    ]);
    expect(readSinkCalls(foreign(packets)).header.unixEpoch).toBe(1_766_000_000_000_005_120n);
  });

  it.each([
    ['MONOTONIC', 3],
    ['BOOTTIME', 6],
    ['a clock of its own', 128],
  ])('begins at the first time of %s, where events name it and no snapshot tells what it reads', (_, clock) => {
    const unix = 1_766_000_000_000_000_000;
    const at = (time: number, name: string) => event(unix + time, instant, on(2, name), { clock });
    const { calls, skipped } = readSinkCalls(foreign([...who, at(0, 'a'), at(4096, 'b')]));
    expect(calls.flatMap((call) => ('state' in call ? `${call.start} ${call.name}` : []))).toEqual(['0 a', '4096 b']);
    expect(skipped.events).toBe(0);
  });

  /** A clock snapshot of sequence 5: ids with times. */
  const snapshotOf =
    (...clocks: readonly (readonly [id: number, time: number, unit?: number])[]): Packet =>
    (packet) => {
      packet.uint(10, 5);
      inside(packet, 6, (about) => {
        for (const [id, time, unit] of clocks) {
          inside(about, 1, (clock) => {
            clock.uint(1, id);
            clock.uint(2, time);
            if (unit === undefined) return;
            clock.bool(3, true);
            clock.uint(4, unit);
          });
        }
      });
    };
  const timed = (packets: readonly Packet[]) => {
    const { calls, skipped } = readSinkCalls(foreign(packets));
    const events = calls.flatMap((call) => ('state' in call ? `${call.start} ${call.state} ${call.name} ${call.length}` : []));
    return { events, skipped: Object.fromEntries(Object.entries(skipped).filter(([, count]) => count > 0)) };
  };

  it('has its events by time, however its packets lie in it: the end of a span may come before its begin', () => {
    const [a, b] = [on(2, 'a'), on(2, 'b')];
    const packets = [
      ...who,
      event(1000, instant, on(bigTrack, 'first')),
      event(1600, end, on(2)),
      event(1100, begin, a),
      event(1150, begin, on(2, 'in')),
      event(1160, end, on(2)),
      event(1900, begin, b),
      event(1700, begin, on(2, 'early')),
      event(1800, end, on(2)),
      event(1950, end, on(2)),
    ];
    const events = ['0 whole first 0', '100 open a 0', '150 whole in 10', '100 close a 500', '700 whole early 100', '900 whole b 50'];
    expect(timed(packets)).toEqual({ events, skipped: {} });
    // Spans in the order of their ends, as converters write them.
    expect(timed([...who, event(20, begin, a), event(30, end, on(2)), event(10, begin, b), event(40, end, on(2))]).events).toEqual([
      '-10 open b 0',
      '0 whole a 10',
      '-10 close b 30',
    ]);
    // An end right behind its begin is its end, though it is earlier.
    const reversed = [event(20, instant, a), event(15, begin, b), event(5, end, on(2)), event(16, instant, a)];
    expect(timed([...who, ...reversed])).toEqual({
      events: ['-5 whole b 0', '-4 whole a 0', '0 whole a 0'],
      skipped: { reversed: 1 },
    });
  });

  it('sums up an incremental counter in the order of its packets', () => {
    const memory = track(7, (out) => inside(out, 8, (about) => about.bool(5, true)));
    const plus = (time: number, value: number) => event(time, counter, (out) => [out.uint(11, 7), out.uint(30, value)]);
    expect(reported([...who, memory, plus(10, 4), plus(20, 3), event(5, instant, on(2, 'late'))]).slice(1)).toEqual([
      'thread main of browser',
      '-5 instant late',
      '0 counter events = 4',
      '10 counter events = 7',
    ]);
  });

  it('charges the events that it holds to bring them in order', () => {
    const packets = [...who, ...Array.from({ length: 500 }, (_, at) => event(1000 - at, instant, on(2, 'e')))];
    const read = (bytes: number) => {
      const budget = new ReadBudget(bytes);
      finish(readPerfetto(() => foreign(packets), budget).events({ begin() {}, lane() {}, event() {}, end() {} }));
      return budget.held;
    };
    expect(() => read(200_000)).toThrow(expect.objectContaining({ code: 'memory' }));
    expect(read(400_000)).toBe(read(800_000));
  });

  it('leaves out what needs the packets that were lost before it, until the state is cleared', () => {
    const cleared: Packet = (packet) => {
      snapshotOf([6, 1000], [64, 0, 1])(packet);
      packet.uint(13, 1);
    };
    const at = (time: number, name: string) => event(time, instant, on(2, name), { flags: 2, clock: 64 });
    const lost =
      (write: Packet): Packet =>
      (packet) => {
        write(packet);
        packet.bool(42, true);
      };
    const packets = [...who, lost(cleared), at(5, 'a'), lost(at(5, 'x')), at(5, 'y'), cleared, at(7, 'b')];
    expect(timed(packets)).toEqual({ events: ['5 whole a 0', '7 whole b 0'], skipped: { events: 2 } });
  });

  it('takes the old mark of a cleared state', () => {
    const cleared: Packet = (packet) => {
      packet.uint(10, 5);
      packet.bool(41, true);
    };
    expect(timed([...who, cleared, event(9, instant, on(2, 'a'), { flags: 2 })])).toEqual({ events: ['0 whole a 0'], skipped: {} });
  });

  it("leaves out times on a sequence's clock that no snapshot tells", () => {
    const packets = [...who, event(900, instant, on(2, 'a')), event(7, instant, on(2, 'x'), { clock: 64 })];
    expect(timed(packets)).toEqual({ events: ['0 whole a 0'], skipped: { events: 1 } });
  });

  it('places times before the first snapshot of their clock by that', () => {
    const packets = [
      ...who,
      event(500, instant, on(2, 'a'), { clock: 3 }),
      snapshotOf([6, 9000], [3, 600]),
      event(9100, instant, on(2, 'b')),
    ];
    expect(timed(packets).events).toEqual(['-100 whole a 0', '100 whole b 0']);
  });

  it('counts flows beside the first of an event, and the counters that events carry', () => {
    const both: Packet = (out) => {
      on(2, 'a')(out);
      for (const flow of [7n, 8n]) out.fixed64(47, flow);
      for (const value of [500, 600]) out.uint(12, value);
      out.double(46, 0.5);
    };
    expect(timed([...who, event(0, instant, both)])).toEqual({ events: ['0 whole a 0'], skipped: { flows: 1, counters: 3 } });
  });

  it('skips and counts what it cannot read', () => {
    const ftrace: Packet = (packet) => inside(packet, 1, (out) => out.uint(1, 0));
    const legacy = event(10, 0, on(2, 'legacy'));
    const noTime: Packet = (packet) => inside(packet, 11, (fields) => fields.uint(9, instant));
    const { calls, skipped } = readSinkCalls(
      foreign([...who, ftrace, ftrace, legacy, noTime, event(20, end, on(2)), event(30, instant, on(2, 'kept'))]),
    );
    expect(calls).toHaveLength(2);
    expect(skipped).toEqual({ packets: 2, bundles: 0, events: 3, reversed: 0, arguments: 0, flows: 0, counters: 0 });
  });

  it('reports nothing at times that no trace has, and no span of negative length', () => {
    const never: Packet = (out) => {
      out.uint64(8, 2n ** 64n - 1n);
      inside(out, 11, (fields) => fields.uint(9, instant));
    };
    const packets = [...who, never, event(100, begin, on(2, 'backward')), event(90, end, on(2)), event(120, instant, on(2, 'after'))];
    const { calls, skipped } = readSinkCalls(foreign([event(0, instant, on(2, 'first')), ...packets]));
    expect(calls.map((call) => ('state' in call ? [call.name, call.start, call.length] : call.kind))).toEqual([
      'thread',
      ['first', 0, 0],
      ['backward', 100, 0],
      ['after', 120, 0],
    ]);
    expect(skipped).toEqual({ packets: 0, bundles: 0, events: 1, reversed: 1, arguments: 0, flows: 0, counters: 0 });
  });

  it('goes round no circle of tracks, and knows events on tracks that nobody describes', () => {
    const circle = [5, 6].map((uuid) => track(uuid, (out) => out.uint(5, 11 - uuid)));
    expect(reported([...circle, event(0, instant, on(5, 'e')), event(1, instant, on(77, 'f'))])).toEqual([
      'thread events of pid 0',
      '0 instant e',
      'thread events of pid 0',
      '1 instant f',
    ]);
  });

  it('has bounded arguments and depth', () => {
    const many: Packet = (out) => {
      for (let key = 0; key <= limits.perfettoArgumentsMax; key++) {
        inside(out, 4, (of) => {
          of.string(10, `key ${key}`);
          of.uint(4, 1);
        });
      }
    };
    const deep =
      (depth: number): Packet =>
      (out) => {
        if (depth > 0) inside(out, 11, deep(depth - 1));
        else out.uint(4, 1);
      };
    const { calls, skipped } = readSinkCalls(foreign([event(0, instant, many), event(1, instant, (out) => inside(out, 4, deep(100)))]));
    expect(calls.map((call) => ('arguments' in call ? call.arguments?.size : -1))).toEqual([-1, limits.perfettoArgumentsMax, undefined]);
    expect(skipped.arguments).toBe(2);
  });

  it('charges what open spans hold, their arguments too, and gives it back when they end', () => {
    const argued: Packet = (out) => {
      on(2)(out);
      inside(out, 4, (of) => {
        of.string(10, 'key');
        of.string(6, 'x'.repeat(50_000));
      });
    };
    const spans = Array.from({ length: 20 }, (_, at) => event(at, begin, argued));
    const read = (packets: readonly Packet[]): void => {
      const chunks = foreign(packets);
      const sink = { begin: () => {}, lane: () => {}, event: () => {}, end: () => {} };
      finish(readPerfetto(() => chunks, new ReadBudget(1024 ** 2)).events(sink));
    };
    expect(() => read([...who, ...spans])).toThrow('it must fit in 1 MiB of memory');
    read([...who, ...spans.flatMap((span, at) => [span, event(at, instant, on(bigTrack)), event(at + 1, end, on(2))])]);
  });

  it('has bounded clocks in a snapshot', () => {
    const snapshot =
      (clocks: number): Packet =>
      (packet) =>
        inside(packet, 6, (about) => {
          for (let read = 0; read < clocks; read++) inside(about, 1, () => {});
        });
    const most = limits.perfettoSnapshotClocksMax;
    expect(reported([snapshot(most), event(5, instant, on(2, 'a'))]).slice(1)).toEqual(['0 instant a']);
    expect(() => reported([snapshot(most + 1), event(5, instant, on(2, 'a'))])).toThrow('a clock snapshot has more than 1024 clocks');
  });
});

describe('bytes that anything may have happened to', () => {
  it('are reported or refused', () => {
    const nested: Packet = (out) =>
      inside(out, 4, (of) => {
        of.string(10, 'key');
        inside(of, 11, (inner) => inside(inner, 12, (item) => item.uint(4, 1)));
      });
    const clocks: Packet = (packet) => inside(packet, 6, (about) => inside(about, 1, (clock) => clock.uint(1, 64)));
    const [valid] = foreign([
      threadTrack(2, 40, 41, 'main'),
      clocks,
      event(3, begin, nested, { flags: 1, clock: 64 }),
      event(4, counter, on(2)),
      event(5, end, on(2)),
    ]) as [Uint8Array];
    let refused = 0;
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(valid.length - 1), fc.nat(255)), { minLength: 1, maxLength: 5 }), (changes) => {
        const bytes = valid.slice();
        for (const [at, byte] of changes) bytes[at] = byte;
        try {
          readSinkCalls([bytes]);
        } catch (error) {
          expect(error).toBeInstanceOf(TraceError);
          refused++;
        }
      }),
      { seed: 6, numRuns: 3000 },
    );
    expect(refused).toBeGreaterThan(300);
    expect(refused).toBeLessThan(2900);
  });
});
