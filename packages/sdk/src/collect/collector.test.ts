// Threads that come and go: each of their records is shipped or counted, once. Over 500 lines: all cases share one rig of rings, and read its batches.

import { AsyncLocalStorage } from 'node:async_hooks';
import { inflateRawSync } from 'node:zlib';
import {
  type Batch,
  type Captured,
  capturedKey,
  decodeBatch,
  decodeBody,
  deviceStepsKey,
  encodeBatch,
  type Running,
  readCaptured,
  readRunning,
  runningKey,
} from '@ranktrace/protocol';
import { mergeRun, type ProcessTotals, type TraceSink } from '@ranktrace/trace';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { runCount } from '../../../../test/setup/seeds.ts';
import { recordingLimits } from '../model/recording-limits.ts';
import { AskedSteps } from '../record/capture-slots.ts';
import { type OpenScope, Recorder } from '../record/recorder.ts';
import { cellBytes, createRing, RingWriter } from '../record/ring.ts';
import { type AttachedThread, captureWords, controlBytes, type Session } from '../record/session.ts';
import { keepingShipper } from '../testing/keeping-shipper.ts';
import { Collector } from './collector.ts';

const session: Session = {
  id: 'a-1',
  thread: 0,
  control: new SharedArrayBuffer(controlBytes),
  epochNs: 0n,
  ringBytes: 0,
  hooks: undefined,
};

/** A collector whose clock the test sets, and the batches it shipped. */
class Rig {
  ns = 1_000_000_000n;
  readonly ended = new Set<number>();
  readonly batches: Batch[] = [];
  readonly collector: Collector;

  constructor(flightRecorderSteps = 4, flushIntervalMs = 200) {
    this.collector = new Collector({
      session,
      identity: { run: 'test', rank: 0, worldSize: 1, host: 'h', pid: 1 },
      shipper: keepingShipper(this.batches),
      flushIntervalMs,
      flightRecorderSteps,
      flightRecorderBytes: 1024 * 1024,
      mainThread: 0,
      monotonicNs: () => this.ns,
      threadEnded: (tid) => this.ended.has(tid),
    });
  }

  thread(thread: number, cells = 64): { recorder: Recorder; about: AttachedThread } {
    const made = this.unheard(thread, cells);
    this.collector.attach(made.about);
    return made;
  }

  /** A thread whose announcement is on its way. */
  unheard(thread: number, cells = 64): { recorder: Recorder; about: AttachedThread } {
    const ring = createRing(cells * cellBytes);
    const recorder = new Recorder({
      ring: new RingWriter(ring),
      now: () => Number(this.ns) / 1e6,
      context: new AsyncLocalStorage(),
      idBase: 0,
    });
    const about = { type: 'attach', session: 'a-1', thread, name: `t${thread}`, tid: 1000 + thread, ring, origin: 0 } as const;
    return { recorder, about };
  }

  tick(ms: number): void {
    this.ns += BigInt(ms) * 1_000_000n;
    this.collector.tick();
  }

  get last(): Batch {
    return this.batches.at(-1) as Batch;
  }

  get tracks(): number[] {
    const { columns, length } = this.last.tables.tracks;
    return [...columns.track.subarray(0, length)];
  }
}

test('a span that is still open lasts until recording ended', () => {
  const rig = new Rig();
  const { recorder } = rig.thread(0, 1024);
  recorder.beginStep();
  recorder.openScope('never awaited');
  rig.tick(300);
  const since = rig.batches.length;
  recorder.close();
  const ended = Number(rig.ns);
  rig.tick(5000);
  rig.collector.flush(true);
  expect(rig.batches.slice(since).map(({ header }) => header.watermark <= ended)).not.toContain(false);
  expect(rig.batches.at(-1)?.header).toMatchObject({ last: true, watermark: ended });
});

test('a thread that is announced again after it ended does not count its losses twice', () => {
  const rig = new Rig();
  const { recorder, about } = rig.thread(1);
  for (let i = 0; i < 100; i++) recorder.instant('x');
  recorder.close();
  rig.tick(20);
  rig.collector.attach(about);
  rig.tick(1000);
  const shown = rig.batches.reduce((sum, { tables }) => sum + tables.instants.length, 0);
  expect(rig.last.header.dropped.events).toBe(100 - shown);
});

test('a thread that began while detail was sent is sent, though it is heard of after that; one that began later is held', () => {
  const rig = new Rig();
  const main = rig.thread(0).recorder;
  const [early, late] = [rig.unheard(1), rig.unheard(2)];
  early.recorder.instant('early');
  rig.tick(20);
  main.mark({ sends: false, begins: false });
  rig.tick(20);
  late.recorder.instant('late');
  for (const { about } of [early, late]) rig.collector.attach(about);
  rig.tick(300);
  rig.collector.flush(true);
  const shown = rig.batches.flatMap(({ strings, tables: { instants } }) =>
    Array.from(instants.columns.name.subarray(0, instants.length), (name) => strings[name]),
  );
  expect(shown).toEqual(['early']);
});

test('a thread that was terminated is read to its end and forgotten', () => {
  const rig = new Rig();
  const { recorder } = rig.thread(1);
  rig.tick(1000);
  recorder.instant('x');
  rig.ended.add(1001);
  rig.tick(1000);
  expect(rig.last.tables.instants.length).toBe(1);
  expect(rig.tracks).toEqual([1]);
  rig.tick(1000);
  expect(rig.tracks).toEqual([]);
});

test('events of threads over the limit are counted, while they live and after', () => {
  const rig = new Rig();
  for (let thread = 0; thread < recordingLimits.threadsMax; thread++) rig.thread(thread);
  const { recorder } = rig.thread(recordingLimits.threadsMax);
  for (let i = 0; i < 100; i++) recorder.instant('x');
  rig.tick(1000);
  expect(rig.last.header.dropped.events).toBe(100);
  recorder.record('y', undefined, () => 1);
  recorder.close();
  rig.tick(1000);
  rig.tick(1000);
  expect(rig.last.header.dropped.events).toBe(101);
  expect(rig.tracks).toHaveLength(recordingLimits.threadsMax);
});

const names = (batches: readonly Batch[]): string[] =>
  batches.flatMap(({ strings, tables: { spans } }) => [...spans.columns.name.subarray(0, spans.length)].map((name) => strings[name] ?? ''));

/** The merge of the batches, one line per event, and the losses it reports. */
function merged(batches: readonly Batch[]): { lines: string[]; totals: ProcessTotals } {
  const lines: string[] = [];
  const copy = (batch: Batch): Batch =>
    decodeBatch(
      encodeBatch(batch, (body) => body),
      (body) => body,
    );
  const source = {
    rank: 0,
    incarnation: 'a-1',
    count: batches.length,
    missing: 0,
    batch: (index: number) => copy(batches[index] as Batch),
  };
  const sink: TraceSink = {
    begin: () => {},
    lane: () => {},
    event: ({ kind, state, name, start, length }) => {
      if (kind === 'span') lines.push(`${state} ${name} ${start / 1e6}${state === 'whole' ? ` +${length / 1e6}` : ''}`);
    },
    end: () => {},
  };
  const merge = mergeRun([source], sink);
  let step = merge.next();
  while (step.done !== true) step = merge.next();
  return { lines, totals: step.value[0] as ProcessTotals };
}

describe('detail that is held back', () => {
  /** Steps of 10 ms with a span of 4 ms in each. */
  function steps(rig: Rig, recorder: Recorder, from: number, to: number): void {
    const id = recorder.name('work');
    for (let step = from; step < to; step++) {
      recorder.begin(id);
      rig.tick(4);
      recorder.end();
      rig.tick(6);
      recorder.step();
    }
  }

  test('stays here while steps and their phases go out', () => {
    const rig = new Rig();
    const { recorder } = rig.thread(0, 1024);
    recorder.mark({ sends: false, begins: false });
    recorder.beginStep();
    steps(rig, recorder, 0, 100);
    rig.collector.flush();
    expect(names(rig.batches)).toEqual([]);
    const sum = (table: 'steps' | 'phases') => rig.batches.reduce((sum, { tables }) => sum + tables[table].length, 0);
    expect([sum('steps'), sum('phases')]).toEqual([100, 100]);
  });

  test('stays here, but not where the thread is: that goes out with what it is in the middle of', () => {
    const rig = new Rig();
    const { recorder } = rig.thread(0, 1024);
    recorder.mark({ sends: false, begins: false });
    recorder.beginStep();
    steps(rig, recorder, 0, 3);
    const reported = (): (Running | undefined)[] => {
      const batches = rig.batches.splice(0);
      return batches.flatMap(({ strings, tables: { metadata } }) =>
        [...metadata.columns.key.subarray(0, metadata.length)].flatMap((key, row) =>
          strings[key] === runningKey ? [readRunning(strings[metadata.columns.value[row] as number] ?? '')] : [],
        ),
      );
    };
    reported();
    const forward = recorder.openScope('forward');
    rig.tick(300);
    const since = 1030e6;
    expect(reported()).toEqual([{ step: 3, phase: 'forward', since }]);
    rig.tick(300);
    expect(reported()).toEqual([]);
    // It stays there.
    rig.tick(1000);
    rig.tick(3000);
    expect(reported()).toEqual([{ step: 3, phase: 'forward', since, entered: [] }]);
    if (forward !== undefined) recorder.closeScope(forward);
    rig.tick(300);
    expect(reported()).toEqual([{ step: 3, after: 'forward' }]);
    recorder.step();
    rig.tick(300);
    expect(reported()).toEqual([{ step: 4 }]);
    recorder.close();
    rig.collector.flush(true);
    expect(reported()).toEqual([]);
  });

  test('is sent for the last steps when it is pulled, once, and merges into its own time', () => {
    const rig = new Rig();
    const { recorder } = rig.thread(0, 1024);
    recorder.mark({ sends: false, begins: false });
    recorder.beginStep();
    steps(rig, recorder, 0, 100);
    rig.collector.pull(97, 98);
    const some = names(rig.batches).length;
    // Held in batches: neighbouring spans may come with them.
    expect(some).toBeGreaterThanOrEqual(2);
    expect(some).toBeLessThan(60);
    rig.collector.pull();
    rig.collector.pull();
    const all = names(rig.batches).length;
    expect(all).toBeGreaterThan(4);
    expect(all).toBeLessThan(60);
    steps(rig, recorder, 100, 101);
    recorder.close();
    rig.collector.flush(true);
    const { lines, totals } = merged(rig.batches);
    expect(lines).toHaveLength(all);
    expect(lines.at(-1)).toBe('whole work 1990 +4');
    expect([...lines].sort((a, b) => Number(a.split(' ')[2]) - Number(b.split(' ')[2]))).toEqual(lines);
    expect(totals.late).toBe(0);
    // The span at the edge of the pull is there but not counted.
    expect(totals.counts.span - (totals.recorded?.span ?? 0)).toBeLessThanOrEqual(1);
  });

  test('goes over into what is sent with spans that run across the change, each once', () => {
    const rig = new Rig();
    const { recorder } = rig.thread(0, 1024);
    recorder.mark({ sends: false, begins: false });
    recorder.beginStep();
    const outer = recorder.openScope('outer');
    rig.tick(300);
    recorder.mark({ sends: true, begins: true });
    steps(rig, recorder, 0, 3);
    rig.tick(300);
    recorder.mark({ sends: false, begins: false });
    const inner = recorder.openScope('inner');
    rig.tick(300);
    if (inner !== undefined) recorder.closeScope(inner);
    rig.tick(300);
    recorder.mark({ sends: true, begins: true });
    steps(rig, recorder, 3, 4);
    rig.tick(300);
    if (outer !== undefined) recorder.closeScope(outer);
    recorder.close();
    rig.collector.flush(true);
    const { lines, totals } = merged(rig.batches);
    expect(lines).toEqual([
      'open outer 1000',
      'whole work 1300 +4',
      'whole work 1310 +4',
      'whole work 1320 +4',
      'whole work 2230 +4',
      'close outer 1000',
    ]);
    expect(totals).toMatchObject({ late: 0, counts: totals.recorded });
  });

  test('results are those of the last active steps, and say when they are not complete', () => {
    const rig = new Rig();
    const { recorder } = rig.thread(0, 1024);
    recorder.beginStep();
    recorder.mark({ sends: true, begins: true });
    steps(rig, recorder, 0, 50);
    recorder.mark({ sends: false, begins: false });
    steps(rig, recorder, 50, 90);
    const { since, until, batches, complete } = rig.collector.results();
    expect([since, until, complete]).toEqual([1e9, 1.5e9, true]);
    const bodies = batches.map(({ body }) => decodeBody(body, (deflated, max) => inflateRawSync(deflated, { maxOutputLength: max })));
    const starts = bodies.flatMap(({ tables: { spans } }) => [...spans.columns.start.subarray(0, spans.length)]);
    // A span that ran during a cut has both an `open` and a `close` row.
    expect(new Set(starts.filter((start) => start >= since && start < until)).size).toBe(50);
  });
});

describe('steps that are asked for by number', () => {
  /** A training thread whose schedule records nothing, `perStep` spans of 1 ms in each of its steps, 2 ms apart. */
  const seenUntil = (time: number) => ({ seenUntil: time, busyFrom: Number.POSITIVE_INFINITY });

  class Training {
    readonly rig: Rig;
    readonly recorder: Recorder;
    readonly #asked = new AskedSteps(captureWords(session));
    readonly #work: number;
    #captures = false;

    constructor(flightRecorderSteps?: number) {
      this.rig = new Rig(flightRecorderSteps);
      this.recorder = this.rig.thread(0, 4096).recorder;
      this.#work = this.recorder.name('work');
      this.recorder.mark({ sends: false, begins: false });
      this.recorder.beginStep();
    }

    runTo(step: number): void {
      while (this.recorder.stepNum < step) {
        this.recorder.begin(this.#work);
        this.rig.tick(4);
        this.recorder.end();
        this.rig.tick(6);
        this.recorder.step();
        const captures = this.#asked.step(this.recorder.stepNum);
        if (captures !== this.#captures) this.recorder.mark({ sends: captures, begins: false });
        this.#captures = captures;
      }
    }

    /** Work that a device reports now: launched in the midst of a step, it begins `ms` later. */
    reports(step: number, ms = 0): void {
      const launched = 1e9 + (step + 0.2) * 1e7;
      const builder = this.rig.collector.builderAt(launched + ms * 1e6, launched);
      builder.appendSpan(launched + ms * 1e6, 1000, 77, builder.string(`of step ${step}`), 0, 0, 0, 0);
      this.rig.collector.added();
      this.rig.collector.device = seenUntil(launched);
    }

    /** Names of what devices did, as far as it was sent. */
    get devices(): string[] {
      return this.rig.batches.flatMap(({ strings, tables: { spans } }) =>
        Array.from(spans.columns.name.subarray(0, spans.length), (name) => strings[name] as string).filter((name) =>
          name.startsWith('of '),
        ),
      );
    }

    answers(): (Captured | undefined)[] {
      return this.facts(capturedKey).map(readCaptured);
    }

    facts(key: string): string[] {
      return this.rig.batches.flatMap(({ strings, tables: { metadata } }) =>
        Array.from({ length: metadata.length }, (_, row) => row).flatMap((row) =>
          strings[metadata.columns.key[row] as number] === key ? [strings[metadata.columns.value[row] as number] as string] : [],
        ),
      );
    }

    /** The steps of the spans that were sent. */
    steps(): number[] {
      const starts = this.rig.batches.flatMap(({ tables: { spans } }) => [...spans.columns.start.subarray(0, spans.length)]);
      return [...new Set(starts.map((start) => Math.floor((start - 1e9) / 1e7)))].sort((a, b) => a - b);
    }
  }

  test('are sent, those alone, and answered for at once', () => {
    const training = new Training();
    training.runTo(20);
    training.rig.collector.record(22, 25);
    training.runTo(26);
    training.rig.tick(20);
    expect(training.answers()).toEqual([{ fromStep: 22, toStep: 25, firstStep: 22, lastStep: 25 }]);
    training.runTo(60);
    training.rig.collector.flush(true);
    expect(training.steps()).toEqual([22, 23, 24, 25]);
    expect(training.answers()).toHaveLength(1);
  });

  test('are answered for once a device has come past them, or has had time enough', () => {
    for (const comes of [true, false]) {
      const training = new Training();
      training.runTo(20);
      const { rig } = training;
      // A device that has reported nothing yet may work in these steps for the first time.
      rig.collector.device = seenUntil(Number.NEGATIVE_INFINITY);
      rig.collector.record(22, 25);
      training.runTo(27);
      rig.tick(20);
      expect(training.answers()).toEqual([]);
      expect(rig.collector.awaitsDevice).toBe(true);
      if (comes) rig.collector.device = seenUntil(1e15);
      rig.tick(comes ? 20 : recordingLimits.deviceWaitMs);
      expect(training.answers()).toEqual([{ fromStep: 22, toStep: 25, firstStep: 22, lastStep: 25 }]);
      expect(rig.collector.awaitsDevice).toBe(false);
    }
  });

  test('are answered for later while launched work is known to run', () => {
    const training = new Training();
    training.runTo(20);
    const { rig } = training;
    rig.collector.device = { seenUntil: 0, busyFrom: 0 };
    rig.collector.record(22, 25);
    training.runTo(27);
    rig.tick(20);
    rig.tick(recordingLimits.deviceWaitMs);
    expect(training.answers()).toEqual([]);
    rig.tick(recordingLimits.deviceBusyMsMax);
    expect(training.answers()).toHaveLength(1);
  });

  test('have all work of devices that was launched in them, and no other, however late it comes', () => {
    const training = new Training();
    training.runTo(5);
    training.rig.collector.recordDevices('now');
    training.runTo(20);
    training.rig.collector.record(22, 25);
    training.runTo(24);
    for (const step of [20, 21, 22, 23]) training.reports(step);
    training.runTo(28);
    training.reports(24, 25);
    training.reports(25, 35);
    training.reports(26);
    training.runTo(40);
    training.rig.collector.flush(true);
    expect(training.devices).toEqual(['of step 22', 'of step 23', 'of step 24', 'of step 25']);
    expect(training.facts(deviceStepsKey).at(-1)).toBe('[[22,25]]');
  });

  test('have all their work where the device reports it after further windows', () => {
    const training = new Training();
    training.rig.collector.recordDevices('begin');
    for (const first of [5, 10, 15]) {
      training.rig.collector.record(first, first + 1);
      training.runTo(first + 4);
    }
    for (let step = 0; step < 19; step++) training.reports(step, 200);
    training.rig.collector.flush(true);
    expect(training.devices).toEqual([5, 6, 10, 11, 15, 16].map((step) => `of step ${step}`));
    expect(training.facts(deviceStepsKey).at(-1)).toBe('[[5,6],[10,11],[15,16]]');
  });

  test('are not whole where they are past and no flight recorder held their work', () => {
    const training = new Training(0);
    training.rig.collector.recordDevices('begin');
    training.runTo(20);
    training.reports(18);
    training.reports(20);
    training.rig.collector.pull(17, 19);
    training.rig.collector.flush();
    expect(training.facts(deviceStepsKey).at(-1)).toBe('[]');
  });

  test('are whole up to the last launch that was reported, where recording of devices ends', () => {
    const training = new Training();
    training.rig.collector.recordDevices('begin');
    training.recorder.mark({ sends: true, begins: false });
    training.runTo(8);
    for (const step of [0, 1, 2, 3, 4, 5]) training.reports(step);
    training.rig.collector.recordDevices('never');
    training.runTo(10);
    training.rig.collector.recordDevices('now');
    training.runTo(13);
    training.rig.collector.flush(true);
    expect(training.facts(deviceStepsKey).at(-1)).toBe('[[0,4],[10,12]]');
  });

  test('that are past have what devices report of them after they were sent', () => {
    const training = new Training();
    training.rig.collector.recordDevices('begin');
    training.runTo(20);
    training.reports(17);
    training.rig.collector.record(17, 21);
    training.runTo(22);
    expect(training.devices).toEqual(['of step 17']);
    training.reports(18, 30);
    training.reports(20, 30);
    training.reports(21);
    training.reports(22);
    training.runTo(23);
    expect(training.devices).toEqual(expect.arrayContaining(['of step 17', 'of step 18', 'of step 20', 'of step 21']));
    expect(training.answers()).toEqual([{ fromStep: 17, toStep: 21, firstStep: 17, lastStep: 21 }]);
    // A batch that was held is sent whole, with some of the step after them.
    expect(training.facts(deviceStepsKey).at(-1)).toBe('[[17,21]]');
  });

  test('and are past in part: the rest of them comes from the flight recorder', () => {
    const training = new Training();
    training.runTo(23);
    training.rig.collector.record(22, 25);
    training.runTo(30);
    expect(training.answers()).toEqual([{ fromStep: 22, toStep: 25, firstStep: 22, lastStep: 25 }]);
    expect(training.steps()).toEqual(expect.arrayContaining([22, 23, 24, 25]));
  });

  test('and are over: as many as the flight recorder still has, without another step', () => {
    const training = new Training();
    training.runTo(30);
    training.rig.tick(20);
    training.rig.collector.record(20, 27);
    training.rig.tick(20);
    expect(training.answers()).toEqual([{ fromStep: 20, toStep: 27, firstStep: 26, lastStep: 27 }]);
    training.rig.collector.record(3, 5);
    training.rig.tick(20);
    expect(training.answers().at(-1)).toEqual({ fromStep: 3, toStep: 5, firstStep: null, lastStep: null });
  });

  test('and do not all come: the last batch says how far it came', () => {
    const training = new Training();
    training.rig.collector.record(5, 100);
    training.rig.collector.record(50, 100);
    training.runTo(10);
    training.recorder.close();
    training.rig.collector.flush(true);
    expect(training.answers()).toEqual([
      { fromStep: 5, toStep: 100, firstStep: 5, lastStep: 9 },
      { fromStep: 50, toStep: 100, firstStep: null, lastStep: null },
    ]);
  });

  test('and lie around active steps: results are of those alone', () => {
    const rig = new Rig();
    const { recorder } = rig.thread(0, 1024);
    recorder.mark({ sends: true, begins: false });
    rig.tick(10);
    recorder.mark({ sends: true, begins: true });
    rig.tick(10);
    recorder.mark({ sends: true, begins: false, ends: true });
    rig.tick(10);
    recorder.mark({ sends: false, begins: false });
    rig.tick(10);
    expect(rig.collector.results()).toMatchObject({ since: 1.01e9, until: 1.02e9 });
  });

  test('are there already where everything is sent', () => {
    const rig = new Rig();
    const { recorder } = rig.thread(0, 1024);
    recorder.beginStep();
    for (let step = 0; step < 50; step++) {
      rig.tick(10);
      recorder.step();
    }
    rig.tick(20);
    rig.collector.record(3, 5);
    rig.tick(20);
    const { strings, tables } = rig.last;
    const value = strings[tables.metadata.columns.value[0] as number] as string;
    expect(readCaptured(value)).toEqual({ fromStep: 3, toStep: 5, firstStep: 3, lastStep: 5 });
  });
});

test('however much is held, sent and pulled, every span is there once and whole (seed 11)', () => {
  const action = fc.oneof(
    fc.record({ do: fc.constant('span' as const), ms: fc.integer({ min: 0, max: 30 }) }),
    fc.record({ do: fc.constant('mark' as const), sends: fc.boolean() }),
    fc.constant({ do: 'pull' as const }),
    fc.constant({ do: 'flush' as const }),
    fc.record({ do: fc.constant('open' as const) }),
    fc.record({ do: fc.constant('close' as const), at: fc.nat(5) }),
    fc.record({ do: fc.constant('step' as const), ms: fc.integer({ min: 1, max: 200 }) }),
  );
  fc.assert(
    fc.property(fc.array(action, { maxLength: 60 }), (actions) => {
      const rig = new Rig();
      const { recorder } = rig.thread(0, 4096);
      recorder.mark({ sends: false, begins: false });
      recorder.beginStep();
      const open: OpenScope[] = [];
      let count = 0;
      for (const given of actions) {
        if (given.do === 'span') {
          recorder.begin(recorder.name(`s${count++}`));
          rig.ns += BigInt(given.ms) * 1_000_000n;
          recorder.end();
        } else if (given.do === 'mark') recorder.mark({ sends: given.sends, begins: given.sends });
        else if (given.do === 'pull') rig.collector.pull();
        else if (given.do === 'flush') rig.collector.flush();
        else if (given.do === 'open') open.push(recorder.openScope(`o${count++}`) as OpenScope);
        else if (given.do === 'close') {
          const [scope] = open.splice(given.at % Math.max(1, open.length), 1);
          if (scope !== undefined) recorder.closeScope(scope);
        } else {
          rig.tick(given.ms);
          recorder.step();
        }
        rig.ns += 1_000n;
      }
      for (let scope = open.pop(); scope !== undefined; scope = open.pop()) recorder.closeScope(scope);
      // Pull everything in the end, except evicted batches: no event may be there twice or in pieces.
      rig.collector.pull();
      recorder.close();
      rig.collector.flush(true);
      const { lines, totals } = merged(rig.batches);
      const wholes = lines.filter((line) => line.startsWith('whole')).map((line) => line.split(' ')[1]);
      const opened = lines.filter((line) => line.startsWith('open')).map((line) => line.split(' ')[1]);
      const closed = lines.filter((line) => line.startsWith('close')).map((line) => line.split(' ')[1]);
      expect(new Set([...wholes, ...opened]).size).toBe(wholes.length + opened.length);
      for (const name of closed) expect(opened).toContain(name);
      expect(totals.late).toBe(0);
      expect(totals.counts.span).toBeGreaterThanOrEqual(totals.recorded?.span ?? 0);
      expect(totals.counts.step).toBe(totals.recorded?.step);
    }),
    { seed: 11, numRuns: runCount(300) },
  );
});

test('says how full the fullest ring was since it was asked last', () => {
  const rig = new Rig();
  const { recorder } = rig.thread(0);
  rig.thread(1);
  for (let at = 0; at < 15; at++) recorder.instant('x');
  rig.tick(10);
  // 15 records and the name of two cells, of 64.
  expect(rig.collector.sampleRings()).toEqual({ name: 'ring fill', value: (100 * 17) / 64, unit: '%' });
  rig.tick(10);
  expect(rig.collector.sampleRings().value).toBe(0);
});

test.each([2 ** 31, 2 ** 32 - 1, 2 ** 32 + 7, 2 ** 40 + 2 ** 31])(
  'a buffer has its own address, %d, after however many others',
  (address) => {
    const rig = new Rig();
    const { recorder } = rig.thread(0);
    recorder.memory(4096, 4096, address, 1);
    recorder.memoryCategory(address, 2, 4096, 1);
    recorder.memory(-4096, 0, address + 1, 0);
    recorder.instant('published with it');
    rig.tick(1000);
    const { columns, length } = rig.last.tables.memory;
    expect([...columns.address.subarray(0, length)]).toEqual([address, address, address + 1]);
    expect([...columns.device.subarray(0, length)]).toEqual([1, 1, 0]);
    expect(rig.last.header.dropped).toMatchObject({ events: 0, batches: 0 });
  },
);

test('a batch that cannot be encoded is lost, and a batch in its stead counts it and its events, also at the end', () => {
  const rig = new Rig();
  const { recorder } = rig.thread(0);
  recorder.mark({ sends: true, begins: true });
  rig.tick(1000);
  const spoil = () => {
    recorder.instant('x');
    // No whole number of ns.
    rig.collector.addSamples([{ name: 'c', value: 1, unit: '' }], 0.5);
  };
  spoil();
  rig.tick(1000);
  expect(rig.batches).toHaveLength(2);
  expect(rig.last.header).toMatchObject({ sequence: 1, dropped: { events: 2, batches: 1 } });
  expect(rig.collector.results().complete).toBe(false);
  spoil();
  recorder.close();
  rig.collector.flush(true);
  expect(rig.last.header).toMatchObject({ last: true, dropped: { events: 4, batches: 2 } });
  const { totals } = merged(rig.batches);
  expect(totals).toMatchObject({ ended: true, recorded: { instant: 0 }, counts: { instant: 0 } });
});

test('a rank is heard, with its place, each second, however long its events wait for their batch', () => {
  const rig = new Rig(4, 60_000);
  const { recorder } = rig.thread(0, 1024);
  recorder.beginStep();
  const beats: number[] = [];
  for (let ms = 0; ms < 60_000; ms += 100) {
    const before = rig.batches.length;
    recorder.record('work', undefined, () => rig.tick(100));
    recorder.step();
    if (rig.batches.length > before) beats.push(rig.last.tables.spans.length);
  }
  expect(beats.length).toBeGreaterThanOrEqual(59);
  expect(beats.slice(1)).toEqual(Array.from({ length: beats.length - 1 }, () => 0));
  const [first, second] = rig.batches;
  expect(second?.header).toMatchObject({ sequence: 1, watermark: first?.header.watermark });
  expect(second?.strings).toContain(runningKey);
  recorder.close();
  rig.collector.flush(true);
  const { lines, totals } = merged(rig.batches);
  expect(lines.filter((line) => line.startsWith('whole') || line.startsWith('close'))).toHaveLength(600);
  expect(totals).toMatchObject({ late: 0, missing: 0, counts: { step: 600 }, recorded: { step: 600 } });
});

test.each([-1, -2, 0.5, Number.NaN])('a peer that is no rank, %d, is lost and counted, and the group enters nothing', (peer) => {
  const rig = new Rig();
  const { recorder } = rig.thread(0);
  recorder.beginStep();
  recorder.collective({ op: 'recv', group: 'pp', peer, bytes: 64 }, () => rig.tick(1000));
  // Collectives that were entered are reported once the rank stays where it is.
  for (let second = 0; second < 4; second++) rig.tick(1000);
  expect(rig.last.header.dropped).toMatchObject({ arguments: 1, events: 0 });
  const entered = rig.batches.flatMap(({ strings }) => strings.flatMap((text) => readRunning(text)?.entered ?? []));
  expect(entered).toEqual([]);
});

test('what a step took to record counts in the step that it began', () => {
  const rig = new Rig();
  const { recorder } = rig.thread(0);
  recorder.beginStep();
  rig.tick(10);
  recorder.step();
  rig.tick(2);
  recorder.countSinceStep();
  expect([recorder.stepsMs, recorder.overheadMs]).toEqual([10, 0]);
  rig.tick(8);
  recorder.step();
  expect([recorder.stepsMs, recorder.overheadMs]).toEqual([20, 2]);
  // No reader: most steps find no room, and count all the same.
  for (let step = 0; step < 200; step++) {
    recorder.countSinceStep();
    rig.ns += 10_000_000n;
    recorder.step();
  }
  expect([recorder.stepsMs, recorder.overheadMs]).toEqual([2020, 2]);
});
