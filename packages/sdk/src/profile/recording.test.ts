// Recorder, ring, drain and builder together, with a clock set by the test: batches match the program's calls.
// Over 500 lines because each case is one program and all of its batches, and all cases share one recorder and one clock.

import { AsyncLocalStorage } from 'node:async_hooks';
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { type Batch, type BatchHeader, decodeBatch, encodeBatch, rankTime, spanState, tableNames } from '@ranktrace/protocol';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { runCount } from '../../../../test/setup/seeds.ts';
import { BatchBuilder, noneRecorded, type RecordedCounts } from '../collect/batch-builder.ts';
import { RingDrain } from '../collect/ring-drain.ts';
import { recordingLimits } from '../model/recording-limits.ts';
import { type OpenScope, Recorder } from '../record/recorder.ts';
import { createRing, fixedNames, RingWriter } from '../record/ring.ts';

const header: BatchHeader = {
  run: 'test',
  rank: 0,
  worldSize: 1,
  incarnation: 'a-1',
  sequence: 0,
  host: 'h',
  hostName: 'h',
  pid: 1,
  epoch: '0',
  watermark: rankTime(0),
  last: false,
  dropped: { events: 0, arguments: 0, names: 0, batches: 0 },
};

/** A recorder whose clock counts ns and moves only by `tick`. */
class Rig {
  ns = 0;
  readonly batches: Batch[] = [];
  readonly recorder: Recorder;
  readonly drain: RingDrain;
  readonly builder = new BatchBuilder();
  recorded = noneRecorded();

  constructor(ringBytes = 4 * 1024 * 1024) {
    const ring = createRing(ringBytes);
    this.recorder = new Recorder({ ring: new RingWriter(ring), now: () => this.ns / 1e6, context: new AsyncLocalStorage(), idBase: 0 });
    this.drain = new RingDrain({ ring, origin: 0, track: 0 });
  }

  tick(ns = 1): void {
    this.ns += ns;
  }

  flush(): this {
    for (let empty = false; !empty; ) {
      empty = this.drain.drain({ summary: this.builder, detail: this.builder }, 0);
      for (const kind of Object.keys(this.recorded) as (keyof RecordedCounts)[]) this.recorded[kind] += this.builder.recorded[kind];
      const bytes = encodeBatch({ header, ...this.builder.take() }, (body) => deflateRawSync(body));
      this.batches.push(decodeBatch(bytes, (body, max) => inflateRawSync(body, { maxOutputLength: max })));
    }
    return this;
  }

  /** All rows, one line each. */
  text(): string[] {
    return this.batches.flatMap((batch) => batchText(batch));
  }
}

function batchText({ strings, tables }: Batch): string[] {
  const lines: string[] = [];
  const { spans, collectives, rpcs, instants, counters, steps, phases, numberArguments, stringArguments, metadata } = tables;
  const states = ['whole', 'open', 'close'];
  const common = (columns: Record<string, ArrayLike<number>>, row: number) => {
    const at = (name: string) => columns[name]?.[row] ?? -1;
    const ids = `${at('id') === 0 ? '' : ` id ${at('id')}`}${at('parent') === 0 ? '' : ` in ${at('parent')}`}`;
    return `${at('start')}+${at('length')} ${states[at('state')]}${ids}`;
  };
  const name = (index: number | undefined) => strings[index ?? 0] ?? '';
  for (let row = 0; row < spans.length; row++) lines.push(`${name(spans.columns.name[row])} ${common(spans.columns, row)}`);
  for (let row = 0; row < collectives.length; row++) {
    const { op, group, sequence, bytes, peer } = collectives.columns;
    const other = peer[row] === 0 ? '' : ` peer ${(peer[row] ?? 0) - 1}`;
    lines.push(`${name(op[row])} ${name(group[row])}#${sequence[row]} ${bytes[row]}B${other} ${common(collectives.columns, row)}`);
  }
  for (let row = 0; row < rpcs.length; row++) {
    const { method, side, status } = rpcs.columns;
    lines.push(`${name(method[row])} ${name(side[row])} ${name(status[row])} ${common(rpcs.columns, row)}`);
  }
  for (let row = 0; row < instants.length; row++) lines.push(`${name(instants.columns.name[row])} @${instants.columns.time[row]}`);
  for (let row = 0; row < counters.length; row++) {
    lines.push(`${name(counters.columns.name[row])} = ${counters.columns.value[row]} ${name(counters.columns.unit[row])}`);
  }
  for (let row = 0; row < steps.length; row++)
    lines.push(`step ${steps.columns.step[row]} ${steps.columns.start[row]}+${steps.columns.length[row]}`);
  for (let row = 0; row < phases.length; row++) {
    const { step, name: phase, length, calls } = phases.columns;
    lines.push(`phase ${step[row]} ${name(phase[row])} ${length[row]} ×${calls[row]}`);
  }
  for (let row = 0; row < metadata.length; row++) lines.push(`${name(metadata.columns.key[row])}: ${name(metadata.columns.value[row])}`);
  for (const table of [numberArguments, stringArguments]) {
    for (let row = 0; row < table.length; row++) {
      const value = table === stringArguments ? name(stringArguments.columns.value[row]) : table.columns.value[row];
      lines.push(`${tableNames[table.columns.table[row] ?? 0]}[${table.columns.row[row]}] ${name(table.columns.key[row])}=${value}`);
    }
  }
  return lines;
}

const deferred = () => {
  let resolve = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
};
const turn = () => new Promise<void>((done) => setImmediate(done));

describe('spans', () => {
  test('one that turns out to be async after a flush has shown it keeps the id it was shown with', async () => {
    const rig = new Rig();
    const { promise, resolve } = deferred();
    const result = rig.recorder.record('evaluate', undefined, () => {
      rig.tick(5);
      rig.flush();
      rig.tick(5);
      return promise;
    });
    rig.tick(10);
    resolve();
    await result;
    // A reader matches a span's rows by track, start and id: with another id, this would be two spans.
    expect(rig.flush().text()).toEqual(['evaluate 0+0 open', 'evaluate 0+20 close']);
  });

  test('scopes that close in another order than they opened have their own times', async () => {
    const rig = new Rig();
    const { recorder } = rig;
    const [a, b, c] = ['a', 'b', 'c'].map((name) => {
      const scope = recorder.openScope(name) as OpenScope;
      rig.tick(10);
      return scope;
    }) as [OpenScope, OpenScope, OpenScope];
    recorder.closeScope(b);
    rig.tick(10);
    recorder.record('inner', undefined, () => rig.tick(5));
    recorder.closeScope(a);
    rig.tick(10);
    await turn();
    recorder.closeScope(c);
    expect(rig.flush().text()).toEqual(['a 0+45 whole', 'b 10+20 whole', 'c 20+35 whole id 3', 'inner 40+5 whole']);
  });

  test('a scope that a generator leaves open is async: the spans around it end where they end', () => {
    const rig = new Rig();
    const { recorder } = rig;
    const load = function* () {
      for (let batch = 0; batch < 2; batch++) {
        const scope = recorder.openScope('load') as OpenScope;
        rig.tick(5);
        yield batch;
        rig.tick(1);
        recorder.closeScope(scope);
      }
    };
    const loader = load();
    for (let call = 0; call < 3; call++) {
      recorder.record('data', undefined, () => {
        loader.next();
        recorder.record('after', undefined, () => rig.tick(1));
      });
      rig.tick(10);
    }
    expect(rig.flush().text()).toEqual([
      'load 0+17 whole id 1',
      'data 0+6 whole',
      'after 5+1 whole',
      'data 16+7 whole',
      'load 17+17 whole id 2',
      'after 22+1 whole',
      'data 33+2 whole',
      'after 34+1 whole',
    ]);
  });

  test('a scope of an async function is left where it awaits: what its caller does then lies beside it', async () => {
    const rig = new Rig();
    const { recorder } = rig;
    recorder.beginStep();
    const gate = deferred();
    const load = async (name: string) => {
      const scope = recorder.openScope(name) as OpenScope;
      if (recorder.beginOp(recorder.name('op'))) recorder.endOp(0, 0, 0, 0, 0, 0);
      rig.tick(1);
      await gate.promise;
      recorder.closeScope(scope);
    };
    const step = async () => {
      const both = [load('a'), load('b')];
      recorder.record('forward', undefined, () => rig.tick(10));
      gate.resolve();
      await Promise.all(both);
      rig.tick(1);
    };
    await step();
    recorder.step();
    expect(
      rig
        .flush()
        .text()
        .filter((line) => !line.startsWith('op')),
    ).toEqual([
      'a 0+12 whole id 1',
      'b 1+11 whole id 2',
      'forward 2+10 whole',
      'step 0 0+13',
      'phase 0 a 1 ×1',
      'phase 0 b 1 ×1',
      'phase 0 forward 10 ×1',
    ]);
    await recorder.record('outer', undefined, async () => {
      await Promise.all([load('c'), recorder.record('d', undefined, async () => rig.tick(3))]);
    });
    expect(
      rig
        .flush()
        .text()
        .filter((line) => !/^(op|a|b|forward|step|phase)/.test(line)),
    ).toEqual(['outer 13+4 whole id 3', 'c 13+4 whole id 4 in 3', 'd 14+3 whole id 5 in 3']);
  });

  test('a name that returned a promise once is still a span on the stack where it returns a value', async () => {
    const rig = new Rig();
    const { recorder } = rig;
    await recorder.record('get', undefined, () => turn());
    recorder.record('outer', undefined, () => {
      recorder.record('get', undefined, () => rig.tick(5));
    });
    expect(rig.flush().text()).toEqual(['outer 0+5 whole', 'get 0+5 whole', 'get 0+0 whole id 1']);
  });

  test('nested sync spans lie inside each other, without ids', () => {
    const rig = new Rig();
    const { recorder } = rig;
    for (let call = 0; call < 2; call++) {
      recorder.record('outer', undefined, () => {
        rig.tick();
        recorder.record('inner', undefined, () => rig.tick(5));
        rig.tick();
      });
    }
    expect(rig.flush().text()).toEqual(['outer 0+7 whole', 'inner 1+5 whole', 'outer 7+7 whole', 'inner 8+5 whole']);
  });

  test('an async function is a span with an id, and what it does after an await is in it', async () => {
    const rig = new Rig();
    const { recorder } = rig;
    const both = ['a', 'b'].map((name) =>
      recorder.record(name, undefined, async () => {
        recorder.record('before', undefined, () => rig.tick());
        await turn();
        recorder.record('after', undefined, () => rig.tick());
        await recorder.record('deep', undefined, async () => turn());
      }),
    );
    await Promise.all(both);
    expect(rig.flush().text()).toEqual([
      'a 0+4 whole id 1',
      'before 0+1 whole in 1',
      'b 1+3 whole id 2',
      'before 1+1 whole in 2',
      'after 2+1 whole in 1',
      'deep 3+1 whole id 3 in 1',
      'after 3+1 whole in 2',
      'deep 4+0 whole id 4 in 2',
    ]);
  });

  test('an arrow function that returns a promise is the parent of what it began, before and after', async () => {
    const rig = new Rig();
    const { recorder } = rig;
    const work = async () => {
      recorder.record('before', undefined, () => rig.tick());
      const inner = recorder.record('async', undefined, async () => turn());
      await turn();
      recorder.record('after', undefined, () => rig.tick());
      await inner;
    };
    for (let call = 0; call < 2; call++) await recorder.record('arrow', undefined, () => work());
    const text = rig.flush().text();
    // The first call shows that the name is async, the second uses that.
    expect(text).toEqual([
      'arrow 0+2 whole id 2',
      'before 0+1 whole in 2',
      'after 1+1 whole in 2',
      'async 1+0 whole id 1 in 2',
      'arrow 2+2 whole id 4',
      'before 2+1 whole in 4',
      'after 3+1 whole in 4',
      'async 3+0 whole id 3 in 4',
    ]);
  });

  test('a name that returned values and then a promise is recorded as async from there on', async () => {
    const rig = new Rig();
    const { recorder } = rig;
    recorder.record('load', undefined, () => rig.tick());
    await recorder.record('load', undefined, () => turn().then(() => rig.tick(3)));
    expect(rig.flush().text()).toEqual(['load 0+1 whole', 'load 1+3 whole id 1']);
  });

  test('what still runs at a flush is open, and complete once it ended, arguments too', async () => {
    const rig = new Rig();
    const { recorder } = rig;
    const gate = deferred();
    const done = recorder.record('long', { batch: 32, mode: 'train' }, () => gate.promise);
    rig.tick();
    rig.flush();
    rig.tick();
    rig.flush();
    gate.resolve();
    await done;
    rig.flush();
    const args = ['spans[0] batch=32', 'spans[0] mode=train'];
    expect(rig.text()).toEqual(['long 0+0 open id 1', ...args, 'long 0+2 close id 1', ...args]);
  });

  test('what the function throws ends the span and reaches the caller', async () => {
    const rig = new Rig();
    const { recorder } = rig;
    const fail = () => {
      rig.tick();
      throw new Error('mine');
    };
    for (let call = 0; call < 2; call++) expect(() => recorder.record('sync', undefined, fail)).toThrow('mine');
    await expect(recorder.record('async', undefined, async () => fail())).rejects.toThrow('mine');
    await expect(recorder.rpcClient('call', {}, async () => fail())).rejects.toThrow('mine');
    expect(rig.flush().text()).toEqual(['sync 0+1 whole', 'sync 1+1 whole', 'async 2+1 whole id 1', 'call client error 3+1 whole id 2']);
  });

  test('a lazy thenable stays what it is, and does its work once, where the program starts it', async () => {
    const rig = new Rig();
    let started = 0;
    // biome-ignore lint/suspicious/noThenProperty: query builders look like this.
    const lazy = { then: (done: (value: number) => void) => done(++started) };
    const given = rig.recorder.record('query', undefined, () => lazy as PromiseLike<number>);
    expect(given).toBe(lazy);
    expect(started).toBe(0);
    expect(await given).toBe(1);
    expect(started).toBe(1);
  });
});

describe('other events', () => {
  test('collectives count their sequence per group; a traceparent joins the two sides of a call', async () => {
    const rig = new Rig();
    const { recorder } = rig;
    recorder.collective({ op: 'broadcast' }, () => 1);
    recorder.collective({ op: 'broadcast', group: 'tp', bytes: 8 }, () => 1);
    recorder.collective({ op: 'broadcast', sequence: 7 }, () => 1);
    recorder.collective({ op: 'broadcast' }, () => 1);
    recorder.rpcClient('eval', { peer: 'rank 0' }, (carrier) => recorder.rpcServer('eval', { carrier }, () => 1));
    rig.flush();
    expect(rig.text()).toEqual([
      'broadcast world#0 0B 0+0 whole',
      'broadcast tp#0 8B 0+0 whole',
      'broadcast world#7 0B 0+0 whole',
      'broadcast world#8 0B 0+0 whole',
      'eval client ok 0+0 whole',
      'eval server ok 0+0 whole',
    ]);
    const { trace, span, parentSpan } = rig.batches[0]?.tables.rpcs.columns ?? {};
    expect(trace?.slice(0, 16)).toEqual(trace?.slice(16, 32));
    expect(parentSpan?.slice(8, 16)).toEqual(span?.slice(0, 8));
  });

  test('sends and receives count per group, direction and other rank', () => {
    const rig = new Rig();
    const { recorder } = rig;
    const calls = [
      { op: 'send', peer: 1 },
      { op: 'isend', peer: 1 },
      { op: 'recv', peer: 1 },
      { op: 'send', peer: 0, group: 'pp' },
      { op: 'send', peer: 65_535 },
      { op: 'all_reduce' },
      { op: 'send', peer: 1, sequence: 9 },
      { op: 'send', peer: -1 },
    ];
    for (const about of calls) recorder.collective(about, () => 1);
    rig.flush();
    expect(rig.text()).toEqual([
      'send world#0 0B peer 1 0+0 whole',
      'isend world#1 0B peer 1 0+0 whole',
      'recv world#0 0B peer 1 0+0 whole',
      'send pp#0 0B peer 0 0+0 whole',
      'send world#0 0B peer 65535 0+0 whole',
      'all_reduce world#0 0B 0+0 whole',
      'send world#9 0B peer 1 0+0 whole',
      'send world#0 0B 0+0 whole',
    ]);
  });

  test('the role of a phase is stated once; one that is none, or too many, is counted', () => {
    const rig = new Rig();
    rig.recorder.phaseRole('rollouts', 'data');
    rig.recorder.phaseRole('rollouts', 'wait');
    rig.recorder.phaseRole('odd', 'nonsense' as never);
    expect(rig.flush().text()).toEqual(['phase_role.rollouts: data']);
    expect(rig.drain.dropped.arguments).toBe(1);
    for (let index = 0; index < 2 * recordingLimits.phaseRolesMax; index++) rig.recorder.phaseRole(`phase ${index}`, 'wait');
    rig.batches.length = 0;
    expect(rig.flush().text()).toHaveLength(recordingLimits.phaseRolesMax - 1);
    expect(rig.drain.dropped.arguments).toBe(recordingLimits.phaseRolesMax + 2);
  });

  test('instants, counters and metadata', () => {
    const rig = new Rig();
    rig.tick(3);
    rig.recorder.instant('checkpoint', { path: '/a/ü', ok: true });
    rig.recorder.counter('loss', 0.25, 'nats');
    rig.recorder.addMetadata('backend', 'wasm');
    expect(rig.flush().text()).toEqual([
      'checkpoint @3',
      'loss = 0.25 nats',
      'backend: wasm',
      'instants[0] path=/a/ü',
      'instants[0] ok=true',
    ]);
  });

  test('steps with the time of the spans directly below them; the last, open one is not reported', async () => {
    const rig = new Rig();
    const { recorder } = rig;
    recorder.beginStep();
    const gate = deferred();
    const prefetch = recorder.record('prefetch', undefined, () => gate.promise);
    recorder.record('forward', undefined, () => {
      recorder.record('matmul', undefined, () => rig.tick(10));
    });
    recorder.record('forward', undefined, () => rig.tick(2));
    await recorder.record('allreduce', undefined, async () => {
      await recorder.collective({ op: 'all_reduce' }, async () => turn().then(() => rig.tick(5)));
    });
    recorder.step();
    rig.tick(4);
    gate.resolve();
    await prefetch;
    recorder.collective({ op: 'barrier' }, () => rig.tick(1));
    recorder.step();
    rig.tick(100);
    const text = rig.flush().text();
    expect(text.filter((line) => /^(step|phase)/.test(line))).toEqual([
      'step 0 0+17',
      'step 1 17+5',
      'phase 0 prefetch 0 ×1',
      'phase 0 forward 12 ×2',
      'phase 0 allreduce 5 ×1',
      'phase 1 prefetch 4 ×0',
      'phase 1 barrier 1 ×1',
    ]);
  });
});

describe('what no type allows and a program does', () => {
  test('values that are no numbers or text are dropped and counted, and nothing throws', () => {
    const rig = new Rig();
    const { recorder } = rig;
    recorder.counter('loss', 1n as never);
    recorder.addMetadata('key', Object.create(null));
    recorder.addMetadata('seed', 7 as never);
    recorder.collective({ op: 'all_reduce', bytes: 8n as never }, () => 1);
    recorder.collective({ op: 'all_reduce', sequence: '5' as never }, () => 1);
    recorder.collective({ op: 'send', peer: 65_536 }, () => 1);
    recorder.collective({ op: 'send', peer: '1' as never }, () => 1);
    recorder.collective({ op: 'all_reduce' }, () => 1);
    expect(rig.flush().text()).toEqual([
      'all_reduce world#0 0B 0+0 whole',
      'all_reduce world#0 0B 0+0 whole',
      'send world#0 0B 0+0 whole',
      'send world#0 0B 0+0 whole',
      'all_reduce world#2 0B 0+0 whole',
      'seed: 7',
    ]);
    expect(rig.drain.dropped).toEqual({ events: 2, arguments: 4, names: 0 });
  });
});

describe('an argument that is not there', () => {
  test('is no reason not to run the function, and is counted where the event cannot be recorded', () => {
    const rig = new Rig();
    const { recorder } = rig;
    for (const about of [null, undefined] as never[]) {
      expect(recorder.collective(about, () => 1)).toBe(1);
      expect(recorder.rpcClient('ask', about, () => 2)).toBe(2);
      expect(recorder.rpcServer('answer', about, () => 3)).toBe(3);
      expect(recorder.record('part', about, () => 4)).toBe(4);
    }
    rig.flush();
    expect(rig.drain.dropped).toEqual({ events: 2, arguments: 0, names: 0 });
  });

  test('where it is the function, the program hears what a call of it throws, recorded or not', () => {
    const { recorder } = new Rig();
    const nothing = undefined as never;
    for (const call of [
      () => recorder.collective({ op: 'all_reduce' }, nothing),
      () => recorder.rpcServer('answer', {}, nothing),
      () => recorder.record('part', undefined, nothing),
    ])
      expect(call).toThrow(TypeError);
    recorder.close();
    expect(() => recorder.record('part', undefined, nothing)).toThrow(TypeError);
  });
});

describe('limits', () => {
  test('an instant keeps its arguments where a batch is full', () => {
    const rig = new Rig(64 * 1024 * 1024);
    const count = recordingLimits.rowsPerBatchMax * 2;
    for (let i = 0; i < count; i++) rig.recorder.instant('x', { i, text: `t${i}` });
    const text = rig.flush().text();
    expect(rig.batches.length).toBeGreaterThan(2);
    expect(text.filter((line) => line.startsWith('instants['))).toHaveLength(2 * count);
    expect(rig.drain.dropped).toEqual({ events: 0, arguments: 0, names: 0 });
  });

  test('every step that is not reported is counted', () => {
    const rig = new Rig(64 * 32);
    rig.recorder.beginStep();
    for (let i = 0; i < 100; i++) rig.recorder.step();
    rig.flush();
    for (let i = 0; i < 10; i++) rig.recorder.step();
    const steps = rig
      .flush()
      .text()
      .filter((line) => line.startsWith('step'));
    expect(rig.drain.dropped.events).toBe(110 - steps.length);
    expect(rig.recorded.step).toBe(steps.length);
  });

  test('names over the limit share a stand-in and are counted', () => {
    const rig = new Rig(64 * 1024 * 1024);
    for (let i = 0; i < recordingLimits.namesMax + 10; i++) rig.recorder.instant(`n${i}`);
    const text = rig.flush().text();
    expect(text).toHaveLength(recordingLimits.namesMax + 10);
    expect(text.filter((line) => line === '(too many names) @0')).toHaveLength(rig.drain.dropped.names);
    expect(rig.drain.dropped).toEqual({ events: 0, arguments: 0, names: fixedNames.length + 10 });
  });

  test('long text is cut at a character and counted; arguments that cannot be recorded are counted', () => {
    const rig = new Rig();
    rig.recorder.instant('é'.repeat(3000), { text: `x${'é'.repeat(3000)}`, what: {} as string });
    const many = Object.fromEntries(Array.from({ length: 70 }, (_, index) => [`k${index}`, index]));
    rig.recorder.instant('many', many);
    const text = rig.flush().text();
    expect(text[0]).toBe(`${'é'.repeat(2048)} @0`);
    expect(text).toContain(`instants[0] text=x${'é'.repeat(2047)}`);
    expect(text.filter((line) => line.startsWith('instants[1] k'))).toHaveLength(64);
    expect(rig.drain.dropped.arguments).toBe(1 + 1 + 1 + 6);
  });

  test('every batch keeps to its bytes, even of long arguments alone', () => {
    const rig = new Rig(64 * 1024 * 1024);
    for (let event = 0; event < 40; event++) {
      const args = Object.fromEntries(
        Array.from({ length: 64 }, (_, index) => [`k${index}`, `${event}-${index}-`.padEnd(4000, String(index))]),
      );
      rig.recorder.record(`e${event}`, args, () => rig.tick());
    }
    rig.flush();
    expect(rig.batches.length).toBeGreaterThan(10);
    expect(rig.text().filter((line) => / (whole|close)$/.test(line))).toHaveLength(40);
    expect(rig.drain.dropped).toEqual({ events: 0, arguments: 0, names: 0 });
  });
});

type Action =
  | { readonly do: 'begin' | 'async' | 'arrow'; readonly name: string }
  | { readonly do: 'end' | 'flush' }
  | { readonly do: 'tick' | 'settle'; readonly by: number };

const action: fc.Arbitrary<Action> = fc.oneof(
  fc.record({ do: fc.constantFrom('begin' as const, 'async' as const, 'arrow' as const), name: fc.constantFrom('a', 'b', 'ü') }),
  fc.record({ do: fc.constantFrom('end' as const, 'flush' as const) }),
  fc.record({ do: fc.constantFrom('tick' as const, 'settle' as const), by: fc.nat(9) }),
);

test('whole, open and close rows rebuild any program exactly, wherever the flushes fall', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(action, { maxLength: 60 }), async (program) => {
      const rig = new Rig();
      const stack: { name: string; start: number }[] = [];
      const running: { name: string; start: number; resolve: () => void; done: Promise<unknown> }[] = [];
      const wanted: string[] = [];
      const end = () => {
        const span = stack.pop();
        if (span === undefined) return;
        rig.recorder.end();
        wanted.push(`${span.name} ${span.start}+${rig.ns - span.start}`);
      };
      const settle = async (index: number) => {
        const [span] = running.splice(index % Math.max(1, running.length), 1);
        if (span === undefined) return;
        span.resolve();
        await span.done;
        wanted.push(`${span.name} ${span.start}+${rig.ns - span.start}`);
      };
      for (const step of program) {
        if (step.do === 'tick') rig.tick(step.by);
        else if (step.do === 'flush') rig.flush();
        else if (step.do === 'end') end();
        else if (step.do === 'settle') await settle(step.by);
        else if ('name' in step && step.do === 'begin') {
          rig.recorder.begin(rig.recorder.name(step.name));
          stack.push({ name: step.name, start: rig.ns });
        } else if ('name' in step) {
          const { promise, resolve } = deferred();
          const done = rig.recorder.record(step.name, undefined, step.do === 'async' ? async () => promise : () => promise);
          running.push({ name: step.name, start: rig.ns, resolve, done });
        }
      }
      while (stack.length > 0) end();
      while (running.length > 0) await settle(0);
      rig.flush();
      expect(rebuild(rig.batches).sort()).toEqual(wanted.sort());
    }),
    { seed: 20_261_121, numRuns: runCount(300) },
  );
});

/** `name start+length` of every finished span; throws when an `open` is never closed, a `close` was never open, or rows are out of order. */
function rebuild(batches: readonly Batch[]): string[] {
  const open = new Map<string, number>();
  const finished: string[] = [];
  for (const { strings, tables } of batches) {
    const { start, length, name, state } = tables.spans.columns;
    for (let row = 0; row < tables.spans.length; row++) {
      if (row > 0) {
        const [before, now] = [start[row - 1] as number, start[row] as number];
        expect(before < now || (before === now && (length[row - 1] as number) >= (length[row] as number))).toBe(true);
      }
      const text = `${strings[name[row] as number]} ${start[row]}`;
      if (state[row] === spanState.open) open.set(text, (open.get(text) ?? 0) + 1);
      else finished.push(`${text}+${length[row]}`);
      if (state[row] !== spanState.close) continue;
      const left = (open.get(text) ?? 0) - 1;
      expect(left).toBeGreaterThanOrEqual(0);
      if (left === 0) open.delete(text);
      else open.set(text, left);
    }
  }
  expect([...open]).toEqual([]);
  return finished;
}
