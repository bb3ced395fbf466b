// torch's API on a real profile: a real shipper thread, real files; the schedule decides what they contain.

import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { gunzipSync } from 'node:zlib';
import { functionAverages, functionEvents, readKineto } from '@ranktrace/trace/torch';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { readRun } from '../../../../test/setup/trace-events.ts';
import { SdkError } from '../model/errors.ts';
import type { ProfileOptions } from '../model/options.ts';
import { ProfilerAction, ProfilerActivity, schedule } from '../model/schedule.ts';
import { type Profile, type ProfileCallbacks, profile } from './profile.ts';
import { recordFunction } from './record-function.ts';
import { tensorboardTraceHandler } from './tensorboard-trace-handler.ts';

let directory: string;
let running: Profile | undefined;
const warnings: string[] = [];
const warned = (warning: Error): void => {
  if (warning.name === 'RanktraceWarning') warnings.push(warning.message);
};

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'ranktrace-profile-'));
  warnings.length = 0;
  process.on('warning', warned);
});
afterEach(async () => {
  await running?.stop();
  process.off('warning', warned);
  rmSync(directory, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
});

function start(options: ProfileOptions & ProfileCallbacks = {}): Profile {
  running = profile({ run: 'test', rank: 0, worldSize: 1, directory: join(directory, 'out'), sampleIntervalMs: 0, ...options }).start();
  return running;
}

/** Steps `from` to `to − 1`, each with a span named after it and one inside. */
function train(prof: Profile, from: number, to: number): void {
  for (let step = from; step < to; step++) {
    recordFunction(`work ${step}`, () => recordFunction('inner', () => {}));
    prof.step();
  }
}

const names = (prof: Profile): string[] => [...prof.events()].map((event) => event.name);

/** The error's code and text. */
function refused(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (error instanceof SdkError) return `${error.code}: ${error.message}`;
    throw error;
  }
  return 'nothing was refused';
}

describe('a schedule', () => {
  test('decides which steps are in the results, and calls when they are ready', () => {
    const cycles: { step: number; names: string[]; action: number }[] = [];
    const prof = start({
      schedule: schedule({ wait: 1, warmup: 1, active: 2, repeat: 2 }),
      onTraceReady: (prof) => cycles.push({ step: prof.stepNum, names: names(prof), action: prof.currentAction }),
    });
    train(prof, 0, 10);
    const cycle = (first: number) => ['ProfilerStep*', `work ${first}`, 'inner', 'ProfilerStep*', `work ${first + 1}`, 'inner'];
    expect(cycles).toEqual([
      { step: 4, names: cycle(2), action: ProfilerAction.NONE },
      { step: 8, names: cycle(6), action: ProfilerAction.NONE },
    ]);
    expect(names(prof)).toEqual(cycle(6));
    expect(prof.stepNum).toBe(10);
  });

  test('counts from the first step of a training that goes on from a checkpoint', async () => {
    const first = 2 ** 30 - 100;
    const cycles: { step: number; names: string[] }[] = [];
    const prof = start({
      firstStep: first,
      schedule: schedule({ wait: 1, warmup: 0, active: 1 }),
      onTraceReady: (prof) => cycles.push({ step: prof.stepNum, names: names(prof) }),
    });
    expect(prof.stepNum).toBe(first);
    train(prof, 0, 4);
    expect(cycles).toEqual([1, 3].map((step) => ({ step: first + step + 1, names: ['ProfilerStep*', `work ${step}`, 'inner'] })));
    await prof.stop();
    expect(prof.stepNum).toBe(first + 4);
    const { events } = await readRun(join(directory, 'out/test'), 'test');
    expect(events.filter(({ kind }) => kind === 'step').map(({ step }) => step)).toEqual([0, 1, 2, 3].map((step) => first + step));
  });

  test('of one step records it and each after it on its own', async () => {
    const cycles: string[][] = [];
    const prof = start({
      schedule: schedule({ wait: 0, warmup: 0, active: 1 }),
      onTraceReady: (prof) => cycles.push(names(prof)),
    });
    train(prof, 0, 3);
    expect(cycles).toEqual([0, 1, 2].map((step) => ['ProfilerStep*', `work ${step}`, 'inner']));
    await sleep(0);
    expect(warnings.join()).toContain("Profiler won't be using warmup");
    expect(warnings.filter((text) => text.startsWith('Profiler clears events'))).toHaveLength(1);
  });

  test('with accEvents keeps the events of all cycles', () => {
    const prof = start({ schedule: schedule({ wait: 1, warmup: 0, active: 1 }), accEvents: true });
    train(prof, 0, 6);
    expect(names(prof).filter((name) => name.startsWith('work'))).toEqual(['work 1', 'work 3', 'work 5']);
    expect(warnings.filter((text) => text.startsWith('Profiler clears events'))).toEqual([]);
  });

  test('given as arguments is the same as made of them', () => {
    const prof = start({ schedule: { wait: 1, warmup: 1, active: 1, repeat: 1 } });
    train(prof, 0, 5);
    expect(names(prof)).toEqual(['ProfilerStep*', 'work 2', 'inner']);
  });

  test('that fails at the start refuses it, and leaves nothing behind', async () => {
    const nonsense = () => start({ schedule: (() => 'soon') as never });
    expect(refused(nonsense)).toMatch(/^bad_option: /);
    const prof = start();
    train(prof, 0, 1);
    await prof.stop();
    expect(names(prof)).toEqual(['work 0', 'inner']);
  });

  test.each<[string, ProfileOptions]>([
    ['without active steps', { schedule: { wait: 1, warmup: 1, active: 0 } }],
    ['of nothing', { schedule: {} as never }],
    ['that is right, with a directory that no system allows', { tensorboardDirectory: 'a\0b' }],
  ])('%s refuses the start, and leaves nothing behind', async (_, options) => {
    expect(refused(() => start(options))).toMatch(/^bad_option: /);
    const prof = start();
    train(prof, 0, 1);
    await prof.stop();
    expect(names(prof)).toEqual(['work 0', 'inner']);
  });

  test.each<[unknown, RegExp]>([
    [{ onTraceReady: 5 }, /^bad_option: Bad option onTraceReady: it must be a function, got 5$/],
    [{ customTraceIdCallback: 'a' }, /^bad_option: Bad option customTraceIdCallback: it must be a function, got "a"$/],
    [
      { tf: { default: {} } },
      /^bad_option: Bad option tf: it must be TensorFlow\.js, as import \* as tf gives it, got \{"default":\{\}\}$/,
    ],
    [null, /^bad_option: Bad options of a profile: they must be an object such as .*, got null$/],
    ['night-42', /^bad_option: Bad options of a profile: .*, got text of 8 characters$/],
  ])('%o refuses the start', (options, message) => {
    expect(refused(() => profile(options as never).start())).toMatch(message);
  });

  test('without results says why there are none', async () => {
    const why = (prof: Profile): string => refused(() => prof.events()).replace('no_results: Cannot give events: ', '');
    expect(why(profile())).toBe('the profile has not started');
    const prof = start({ schedule: schedule({ wait: 1, warmup: 1, active: 1 }) });
    train(prof, 0, 2);
    expect(why(prof)).toMatch(/^no active steps have ended yet; /);
    train(prof, 2, 5);
    expect(prof.currentAction).toBe(ProfilerAction.RECORD_AND_SAVE);
    expect(why(prof)).toMatch(/^the next active steps have begun, which clears the results of the last ones; /);
  });

  test('has no step for one that stop cuts short, but its spans', async () => {
    const prof = start({ schedule: schedule({ wait: 1, warmup: 0, active: 5 }) });
    train(prof, 0, 2);
    recordFunction('work 2', () => {});
    await prof.stop();
    expect(names(prof)).toEqual(['ProfilerStep*', 'work 1', 'inner', 'work 2']);
  });

  test('that ends before its active steps says so', async () => {
    const prof = start({ schedule: schedule({ wait: 9, warmup: 1, active: 1 }) });
    train(prof, 0, 2);
    await prof.stop();
    expect(refused(() => prof.events())).toBe('no_results: Cannot give events: no active steps were recorded before the profile ended');
  });

  test('that fails later, and a handler that does, do not stop the training', async () => {
    const prof = start({
      schedule: (step) => (step < 2 ? ProfilerAction.RECORD_AND_SAVE : (undefined as never)),
      onTraceReady: () => {
        throw new Error('disk full');
      },
    });
    train(prof, 0, 5);
    await sleep(0);
    expect(warnings.filter((text) => text.includes('disk full'))).toHaveLength(2);
    expect(warnings.some((text) => text.includes('undefined'))).toBe(true);
  });
});

describe('without a schedule', () => {
  test('all is recorded, and there are no step markers', async () => {
    const prof = start();
    expect(refused(() => prof.events())).toMatch(/^no_results: Cannot give events: no active steps have ended yet/);
    train(prof, 0, 2);
    const stopped = prof.stop();
    expect(names(prof)).toEqual(['work 0', 'inner', 'work 1', 'inner']);
    await stopped;
    expect(prof.keyAverages().table({ rowLimit: 1 })).toContain('work 0');
    expect(prof.keyAverages().length).toBe(3);
    expect(prof.events().selfCpuTimeTotal).toBeGreaterThan(0);
  });

  test('what the ring had no room for is told by table, warning and exported files', async () => {
    const prof = start({ ringBytes: 65_536, schedule: schedule({ wait: 1, warmup: 0, active: 1, repeat: 1 }) });
    await sleep(100);
    train(prof, 0, 1);
    for (let count = 0; count < 20_000; count++) recordFunction('work', () => {});
    prof.step();
    await prof.stop();
    const table = prof.keyAverages().table();
    const [, dropped] = /\n(\d+) events were dropped while these were recorded: /.exec(table) ?? [];
    const kept = names(prof).filter((name) => name === 'work').length;
    expect(Number(dropped) + kept).toBe(20_000);
    await sleep(0);
    expect(warnings.join()).toContain(`results are not complete: ${dropped} events were dropped`);
    prof.exportChromeTrace(join(directory, 'trace.json'));
    const file = JSON.parse(readFileSync(join(directory, 'trace.json'), 'utf8')) as { ranktrace: { dropped: { events: number } } };
    expect(file.ranktrace.dropped.events).toBe(Number(dropped));
  });

  test('traceOnly keeps no results', async () => {
    const prof = start({ experimentalConfig: { traceOnly: true } });
    train(prof, 0, 2);
    expect(refused(() => prof.keyAverages())).toMatch(/^no_results: .*traceOnly/);
    await prof.stop();
    expect(refused(() => prof.keyAverages())).toMatch(/^no_results: .*traceOnly/);
  });

  test('activities without the host record steps alone', async () => {
    const prof = start({ activities: [ProfilerActivity.CUDA] });
    train(prof, 0, 2);
    await prof.stop();
    expect(names(prof)).toEqual([]);
  });

  test('toggling switches the host off and on again', async () => {
    const prof = start();
    train(prof, 0, 1);
    prof.toggleCollectionDynamic(false, [ProfilerActivity.CPU]);
    train(prof, 1, 2);
    prof.toggleCollectionDynamic(true, [ProfilerActivity.CPU]);
    train(prof, 2, 3);
    await prof.stop();
    expect(names(prof)).toEqual(['work 0', 'inner', 'work 2', 'inner']);
  });

  test('a step from inside of onTraceReady is in no recording', async () => {
    const prof = start({ schedule: schedule({ wait: 1, warmup: 0, active: 2, repeat: 2 }), onTraceReady: (inside) => inside.step() });
    train(prof, 0, 8);
    expect(prof.stepNum).toBe(8);
    expect(names(prof)).toEqual(['ProfilerStep*', 'work 4', 'inner', 'ProfilerStep*', 'work 5', 'inner']);
    await prof.stop();
    expect(warnings).toContain('A step from inside of the schedule or of onTraceReady is not counted');
  });

  test('toggling an unknown activity switches nothing, and says so', async () => {
    const prof = start();
    prof.toggleCollectionDynamic(false, ['cpux']);
    prof.toggleCollectionDynamic(false, 'cpu' as never);
    prof.toggleCollectionDynamic(false, undefined as never);
    train(prof, 0, 1);
    await prof.stop();
    expect(names(prof)).toEqual(['work 0', 'inner']);
    expect(warnings).toEqual([
      'toggleCollectionDynamic leaves out "cpux": it is no activity',
      'toggleCollectionDynamic takes a list of activities, such as [ProfilerActivity.CUDA]',
      'toggleCollectionDynamic takes a list of activities, such as [ProfilerActivity.CUDA]',
    ]);
  });

  test('an empty set of activities, or an unknown one, is refused', () => {
    expect(refused(() => start({ activities: [] }))).toMatch(/^bad_option: .*no valid profiler activities/);
    expect(refused(() => start({ activities: ['tpu'] }))).toMatch(/^bad_option: Bad option activities: .*got "tpu"/);
    expect(refused(() => start({ activities: { cpu: ['python_function'] } }))).toMatch(/^bad_option: .*got "python_function"/);
  });
});

describe('recordFunction', () => {
  test('is a wrapper, a decorator and a scope', async () => {
    const prof = start();
    const doubled = recordFunction('doubled')((value: number) => 2 * value);
    expect(doubled(21)).toBe(42);
    const method = recordFunction('method');
    class Trainer {
      readonly factor = 3;
      triple(value: number): number {
        return this.factor * value;
      }
    }
    Object.defineProperty(
      Trainer.prototype,
      'triple',
      method(Trainer.prototype, 'triple', Object.getOwnPropertyDescriptor(Trainer.prototype, 'triple') as PropertyDescriptor),
    );
    expect(new Trainer().triple(2)).toBe(6);
    {
      using _outer = recordFunction('outer');
      using _inner = recordFunction('inner');
    }
    await prof.stop();
    const events = [...prof.events()];
    expect(events.map((event) => `${event.name} < ${event.cpuParent?.name}`)).toEqual([
      'doubled < undefined',
      'method < undefined',
      'outer < undefined',
      'inner < outer',
    ]);
  });

  test('decorates accessors as methods', async () => {
    const prof = start();
    class Model {
      #rate = 1;
      get rate(): number {
        return this.#rate;
      }
      set rate(rate: number) {
        this.#rate = rate;
      }
      get size(): number {
        return 7 * this.#rate;
      }
    }
    for (const name of ['rate', 'size']) {
      const descriptor = Object.getOwnPropertyDescriptor(Model.prototype, name) as PropertyDescriptor;
      Object.defineProperty(Model.prototype, name, recordFunction(name)(Model.prototype, name, descriptor));
    }
    const model = new Model();
    model.rate = 6;
    expect(model.size).toBe(42);
    expect(model.rate).toBe(6);
    await prof.stop();
    expect([...prof.events()].map((event) => event.name)).toEqual(['rate', 'size', 'rate']);
  });

  test('a scope that outlives its turn is async from there on, and others do not lie inside of it', async () => {
    const prof = start();
    const wait = async (name: string, ms: number): Promise<void> => {
      using _ = recordFunction(name);
      recordFunction(`${name} at once`, () => {});
      await sleep(ms);
    };
    const both = Promise.all([wait('a', 30), wait('b', 10)]);
    recordFunction('beside', () => {});
    await both;
    await prof.stop();
    const events = Object.fromEntries([...prof.events()].map((event) => [event.name, event]));
    expect(events.a?.isAsync).toBe(true);
    expect(events.a?.timeRange.elapsedUs).toBeGreaterThan(events.b?.timeRange.elapsedUs as number);
    expect(events.beside?.cpuParent).toBeUndefined();
  });

  test('an exception ends its span and goes on to the caller', async () => {
    const prof = start();
    expect(() =>
      recordFunction('outer', () =>
        recordFunction('inner', () => {
          throw new RangeError('no');
        }),
      ),
    ).toThrow(RangeError);
    await expect(recordFunction('later', () => Promise.reject(new TypeError('no')))).rejects.toThrow(TypeError);
    recordFunction('after', () => {});
    await prof.stop();
    const events = Object.fromEntries([...prof.events()].map((event) => [event.name, event]));
    expect(events.inner?.cpuParent?.name).toBe('outer');
    expect(events.after?.cpuParent).toBeUndefined();
  });
});

describe('exports', () => {
  test('the trace has torch’s form, and reads back to the same averages', async () => {
    const prof = start({ schedule: schedule({ wait: 0, warmup: 1, active: 2, repeat: 1 }), recordShapes: true });
    prof.addMetadata('backend', 'wasm');
    prof.addMetadataJson('layers', '[784, 10]');
    prof.addMetadataJson('broken', '{');
    train(prof, 0, 4);
    for (const name of ['a.json', 'b.json.gz', 'c.pftrace', 'd.pftrace.gz']) prof.exportChromeTrace(join(directory, name));
    const text = readFileSync(join(directory, 'a.json'), 'utf8');
    expect(
      gunzipSync(readFileSync(join(directory, 'b.json.gz')))
        .toString()
        .replaceAll('b.json.gz', 'a.json'),
    ).toBe(text);
    expect(JSON.parse(text)).toMatchObject({
      schemaVersion: 1,
      record_shapes: 1,
      backend: 'wasm',
      layers: [784, 10],
      distributedInfo: { rank: 0, world_size: 1 },
      trace_id: prof.getTraceId(),
    });
    expect(prof.getTraceId()).toMatch(/^[0-9A-F]{32}$/);
    const read = functionAverages(functionEvents(readKineto(Buffer.from(text))));
    expect(read).toEqual([...prof.keyAverages()]);
    expect(refused(() => prof.exportChromeTrace(join(directory, 'a.txt')))).toMatch(/^bad_option: .*must end in \.json or \.pftrace/);
    expect(refused(() => prof.exportChromeTrace(join(directory, 'no', 'a.json')))).toMatch(/^file_unwritable: .*ENOENT/);
    await sleep(0);
    expect(warnings.some((warning) => warning.includes('"broken"'))).toBe(true);
  });

  test.each([
    ['a directory of option tensorboardDirectory', 'tb', 2],
    ['one that cannot be made', join('file', 'tb'), 0],
  ])('%s leaves the program its onTraceReady', async (_what, name, files) => {
    writeFileSync(join(directory, 'file'), '');
    const tensorboardDirectory = join(directory, name);
    let calls = 0;
    const prof = start({
      schedule: schedule({ wait: 1, warmup: 0, active: 1, repeat: 2 }),
      tensorboardDirectory,
      onTraceReady: () => calls++,
    });
    train(prof, 0, 6);
    await prof.stop();
    expect(calls).toBe(2);
    expect(existsSync(tensorboardDirectory) ? readdirSync(tensorboardDirectory) : []).toHaveLength(files);
    await sleep(0);
    expect(warnings.some((warning) => warning.includes('no trace in tensorboardDirectory'))).toBe(files === 0);
  });

  test('the TensorBoard handler writes a file for each cycle', () => {
    const prof = start({
      schedule: schedule({ wait: 1, warmup: 0, active: 1, repeat: 2 }),
      onTraceReady: tensorboardTraceHandler(join(directory, 'tb'), { workerName: 'rank0' }),
    });
    train(prof, 0, 5);
    expect(existsSync(join(directory, 'tb'))).toBe(true);
  });

  test('the trace id may be the program’s own, one per cycle', () => {
    const ids: string[] = [];
    let cycle = 0;
    const prof = start({
      schedule: schedule({ wait: 1, warmup: 0, active: 1, repeat: 2 }),
      customTraceIdCallback: () => `night-${cycle++}`,
      onTraceReady: (prof) => ids.push(prof.getTraceId()),
    });
    train(prof, 0, 5);
    expect(ids).toEqual(['night-0', 'night-1']);
  });

  test('stacks and memory need their options', async () => {
    const prof = start();
    train(prof, 0, 1);
    await prof.stop();
    expect(refused(() => prof.exportStacks(join(directory, 's.txt')))).toMatch(/^bad_option: .*withStack/);
    expect(refused(() => prof.exportMemoryTimeline(join(directory, 'm.html')))).toMatch(/^bad_option: .*profileMemory/);
  });
});

test('counters of the host tell of windows and runs shorter than the interval at which they are sampled', async () => {
  const path = join(directory, 'trace.json');
  const inWindows: number[] = [];
  const prof = start({
    sampleIntervalMs: 60_000,
    schedule: schedule({ wait: 0, warmup: 0, active: 2, repeat: 2 }),
    onTraceReady: (ready) => {
      ready.exportChromeTrace(path);
      const { traceEvents } = JSON.parse(readFileSync(path, 'utf8')) as { traceEvents: { name: string; ph: string }[] };
      inWindows.push(traceEvents.filter(({ name, ph }) => ph === 'C' && name.includes('process cpu')).length);
    },
  });
  // The first sample is taken before the first batch is written. A rate needs some time after it.
  await expect
    .poll(() => readdirSync(directory, { recursive: true }).some((name) => String(name).endsWith('.seg')), { timeout: 60_000 })
    .toBe(true);
  for (const step of [0, 2]) {
    await sleep(5);
    train(prof, step, step + 2);
  }
  expect(inWindows).toEqual([1, 1]);
  await sleep(5);
  await prof.stop();
  const { events } = await readRun(join(directory, 'out'), 'test');
  const values = events.filter(({ kind, name }) => kind === 'counter' && name === 'process cpu').map(({ value }) => value);
  // As the windows end, and the run.
  expect(values.length).toBe(3);
  expect(Math.min(...values)).toBeGreaterThanOrEqual(0);
});

describe('one profile at a time', () => {
  test('a second one is refused while the first runs, and a stopped one does not start again', async () => {
    const prof = start();
    expect(refused(() => profile({ directory: join(directory, 'other') }).start())).toMatch(/^already_running/);
    train(prof, 0, 1);
    await prof.stop();
    expect(refused(() => prof.start())).toMatch(/^already_stopped/);
    expect(names(prof)).toEqual(['work 0', 'inner']);
    start();
    expect(names(prof)).toEqual(['work 0', 'inner']);
  });

  test('`using` stops it, and its results are there', () => {
    let prof: Profile;
    {
      using started = start();
      prof = started;
      train(started, 0, 1);
    }
    expect(names(prof)).toEqual(['work 0', 'inner']);
  });
});

test('over its budget, recording sheds detail that nobody asked for, and says so', async () => {
  const prof = start({ overheadBudget: 0 });
  const reports = (): string[] => warnings.filter((text) => text.includes('not recorded any more'));
  const until = performance.now() + 100_000;
  let steps = 0;
  while (reports().length === 0 && performance.now() < until) {
    for (let i = 0; i < 100; i++) recordFunction('outer', () => recordFunction('inner', () => {}));
    prof.step();
    steps++;
    if (steps % 100 === 0) await sleep(1);
  }
  const remedy = 'to keep within it set fewer spans inside of others (recordFunction); to record all the same set overheadBudget: ';
  const reported = reports();
  expect(reported).toHaveLength(1);
  expect(reported[0]).toMatch(
    /^nested spans are not recorded any more: recording took \d+\.\d\d % of the steps, over overheadBudget, 0.00 %; /,
  );
  expect(reported[0]).toContain(remedy);
});
