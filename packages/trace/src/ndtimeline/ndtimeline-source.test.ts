// Timelines of simulated pipeline jobs: the blame matches that of the job itself, whether the timelines are drawn with waits or without.

import { describe, expect, it } from 'vitest';
import { someSeeds } from '../../../../test/setup/seeds.ts';
import { type Blame, blameOfWindow } from '../blame/blame.ts';
import { StepBlameSink } from '../blame/step-blame-sink.ts';
import { mergeRun } from '../merge/merge-run.ts';
import { TraceError } from '../model/errors.ts';
import { expectExactParts } from '../testing/expect-blame.ts';
import { type TimelineOptions, timelineOf } from '../testing/ndtimeline-timeline.ts';
import { ndtimelineWindow } from '../testing/ndtimeline-window.ts';
import { pipelineJob } from '../testing/pipeline-job.ts';
import { KinetoReader } from '../torch/kineto-reader.ts';
import type { KinetoTable } from '../torch/kineto-table.ts';
import { isNdtimeline, looksLikeNdtimeline, ndtimelineSources } from './ndtimeline-source.ts';

function read(text: string): KinetoTable {
  const reader = new KinetoReader({ keep: 'all' });
  reader.push(new TextEncoder().encode(text));
  return reader.finish();
}

function merged(text: string): { readonly sink: StepBlameSink; readonly blame: Blame } {
  const sink = new StepBlameSink();
  for (const _ of mergeRun(ndtimelineSources(read(text), 'job'), sink));
  return { sink, blame: sink.blame };
}

const drawn: readonly (readonly [string, TimelineOptions])[] = [
  ['without waits', {}],
  ['with waits', { hasWaits: true }],
  ['without waits and without space between steps', { space: 0 }],
];

/** What `make` gives for these options, made once: each drawing is of the same jobs. */
function once<Options, Value>(make: (options: Options) => Value): (options: Options) => Value {
  const made = new Map<string, Value>();
  return (options) => {
    const key = JSON.stringify(options);
    const value = made.get(key) ?? make(options);
    made.set(key, value);
    return value;
  };
}
const jobOf = once(pipelineJob);
const verdictOf = once((csv: string) => blameOfWindow(ndtimelineWindow(csv)).verdict);

describe.each(drawn)('a timeline drawn %s', (_, options) => {
  it.each(someSeeds([2, 3, 7, 41]))('names the slow worker, and what it costs (seed %i)', (seed) => {
    const [stage, dp] = [seed % 4, (seed >> 1) % 4];
    const slow = jobOf({ seed, slow: { stage, dp, factor: 2.1 } });
    const healthy = jobOf({ seed });
    const { blame } = merged(timelineOf(slow.csv, options));
    expect(blame.verdict).toBe('straggler');
    expect(blame.findings[0]).toMatchObject({ kind: 'straggler', ranks: [stage * 4 + dp] });
    // Space between steps takes as long with the fault as without.
    const { space = 0.1 } = options;
    const spaced = slow.stepSeconds * (1 + space);
    const truth = spaced / (spaced - (slow.stepSeconds - healthy.stepSeconds));
    expect(Math.abs((blame.whatIf[0]?.slowdown ?? 0) / truth - 1)).toBeLessThan(0.05);
    expectExactParts(blame);
  });

  it.each(someSeeds([5, 6]))('blames no rank in a balanced job (seed %i)', (seed) => {
    const { csv } = jobOf({ seed });
    const { blame } = merged(timelineOf(csv, options));
    expect(blame.verdict).toBe(verdictOf(csv));
    expect(blame.findings.filter(({ kind }) => kind === 'straggler')).toEqual([]);
  });

  it('distinguishes sequences of different lengths from a slow worker (seed 9)', () => {
    const { csv } = jobOf({ seed: 9, lengths: 0.35 });
    const { blame } = merged(timelineOf(csv, options));
    expect(blame.verdict).toBe(verdictOf(csv));
    expect(blame.findings.filter(({ kind }) => kind === 'straggler')).toEqual([]);
  });
});

it('has the steps, the ops and their lengths of the recording, each worker as a rank', () => {
  const { csv } = pipelineJob({ seed: 3, stages: 2, replicas: 3, microbatches: 4, steps: 2 });
  const sources = ndtimelineSources(read(timelineOf(csv, { hasWaits: true, space: 0 })), 'job');
  const rows = csv
    .trim()
    .split('\n')
    .slice(1)
    .map((line) => line.split(','));
  expect(sources.map(({ rank, count }) => [rank, count])).toEqual([0, 1, 2, 3, 4, 5].map((rank) => [rank, 2]));
  for (const { rank, batch } of sources.map((source) => ({ rank: source.rank, batch: source.batch(0) }))) {
    const [stage, dp] = [Math.floor(rank / 3), rank % 3];
    const own = rows.filter((row) => row[0] === `${dp}` && row[1] === `${stage}` && row[3] === '0');
    expect(batch?.tables.spans.length).toBe(own.length);
    const total = own.reduce((sum, row) => sum + Number(row[6]), 0);
    const lengths = Array.from(batch?.tables.spans.columns.length ?? []).slice(0, own.length);
    expect(lengths.reduce((sum, length) => sum + length, 0) / 1e9).toBeCloseTo(total, 4);
    expect(batch?.header).toMatchObject({ worldSize: 6, hostName: `PP ${stage} DP ${dp}` });
  }
});

describe('an op that runs on into later steps', () => {
  const [names, micros] = [['forward-compute', 'backward-compute', 'checkpoint'] as const, 1000];
  const op = (step: number, name: string, ts: number, dur: number) => {
    return { name, ph: 'X', pid: 0, tid: name === 'checkpoint' ? 1 : 0, ts, dur, args: { step, seq_id: 0 } };
  };
  /** Steps of 850 µs, one a ms; the op of step 4 begins at its end, and takes `long` µs. */
  const stepsWith = (long: number) => {
    const events = Array.from({ length: 12 }, (_, step) => [
      op(step, names[0], step * micros, 400),
      op(step, names[1], step * micros + 450, 400),
      ...(step === 4 ? [op(step, names[2], 4 * micros + 860, long)] : []),
    ]).flat();
    const about = [0, 1].map((tid) => ({ name: 'thread_name', ph: 'M', pid: 0, tid, args: { name: `PP rank 0, TP rank 0, ${tid}` } }));
    const text = JSON.stringify([{ name: 'process_name', ph: 'M', pid: 0, args: { name: 'DP rank [0]' } }, ...about, ...events]);
    const starts: number[] = [];
    const steps = new Map<number, readonly [start: number, length: number]>();
    let late: number | undefined;
    const merge = mergeRun(ndtimelineSources(read(text), 'job'), {
      begin: () => {},
      lane: () => {},
      event: ({ kind, step, start, length }) => {
        if (kind === 'span') starts.push(start);
        if (kind === 'step') steps.set(step, [start, length]);
      },
      end: ([first]) => {
        late = first?.late;
      },
    });
    for (const _ of merge);
    return { starts, late, steps };
  };

  it.each([200, 3000])('is in order and on time, and no step is shorter than none (%i µs)', (long) => {
    const { starts, late, steps } = stepsWith(long);
    expect(late).toBe(0);
    expect(starts).toEqual(starts.toSorted((a, b) => a - b));
    expect(Math.min(...[...steps.values()].map(([, length]) => length))).toBeGreaterThan(0);
  });

  it('puts the next step off by as much as it takes of that, but ends its own step where it takes most of the next', () => {
    expect([4, 5].map((step) => stepsWith(200).steps.get(step))).toEqual([
      [4e6, 1_060_000],
      [5_060_000, 790_000],
    ]);
    expect([4, 5, 6].map((step) => stepsWith(3000).steps.get(step))).toEqual([
      [4e6, 1e6],
      [5e6, 850_000],
      [6e6, 850_000],
    ]);
  });
});

it('distinguishes tensor-parallel ranks where the timeline does', () => {
  const { csv } = pipelineJob({ seed: 3, stages: 2, replicas: 2, microbatches: 3, steps: 1 });
  const events = JSON.parse(timelineOf(csv)) as { name: string; tid: number; args: { name?: string } }[];
  const twice = [0, 1].flatMap((tp) =>
    events.map((event) => ({
      ...event,
      tid: event.tid + 1000 * tp,
      ...(event.args.name?.startsWith('PP') === true ? { args: { name: event.args.name.replace('TP rank 0', `TP rank ${tp}`) } } : {}),
    })),
  );
  const sources = ndtimelineSources(read(JSON.stringify(twice)), 'job');
  expect(sources).toHaveLength(8);
  const batch = sources[1]?.batch(0);
  expect(batch?.header.hostName).toBe('PP 0 DP 0 TP 1');
  expect(new Set(Array.from(batch?.tables.collectives.columns.group ?? [], (group) => batch?.strings[group]))).toContain('stages-0-1 tp 1');
});

describe('what looks like a timeline', () => {
  const { csv } = pipelineJob({ seed: 1, stages: 2, replicas: 1, microbatches: 2, steps: 1 });
  const events = (): Record<string, unknown>[] => JSON.parse(timelineOf(csv));

  it('is known by how it begins, or by its names', () => {
    const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
    expect(looksLikeNdtimeline(bytes(timelineOf(csv).slice(0, 2000)))).toBe(true);
    expect(looksLikeNdtimeline(bytes(JSON.stringify(events().reverse()).slice(0, 2000)))).toBe(true);
    expect(looksLikeNdtimeline(bytes('[{"name": "x", "ph": "X", "args": {"step": 3}}]'))).toBe(false);
    expect(isNdtimeline(read(timelineOf(csv)))).toBe(true);
    expect(isNdtimeline(read(JSON.stringify([...events(), { ph: 'M', name: 'process_name', pid: 99, args: { name: 'python' } }])))).toBe(
      false,
    );
    expect(isNdtimeline(read('[]'))).toBe(false);
  });

  it('has no events of no worker or no step: they are counted', () => {
    const stray = [
      { name: 'x', ph: 'X', pid: 0, tid: 77, ts: 1, dur: 1, args: { step: 0 } },
      { name: 'x', ph: 'X', pid: 0, tid: 0, ts: 1, dur: 1, args: { step: -1 } },
      { name: 'x', ph: 'X', pid: 0, tid: 0, ts: 1, dur: 1, args: { step: '7' } },
      { name: 'x', ph: 'X', pid: 0, tid: 0, ts: 1, dur: 1 },
      { name: 'x', ph: 'i', pid: 0, tid: 0, ts: 1 },
    ];
    const [first] = ndtimelineSources(read(JSON.stringify([...events(), ...stray])), 'job');
    const batch = first?.batch(0);
    const { key, value } = batch?.tables.metadata.columns ?? { key: [], value: [] };
    const reported = Array.from(key, (index, row) => [batch?.strings[index], batch?.strings[value[row] as number]]);
    expect(reported).toContainEqual(['ranktrace.left_out', '{"malformed":5,"otherKinds":0,"arguments":0,"metadata":0}']);
    expect(batch?.strings).not.toContain('x');
  });

  it('is an error where no event is of a step', () => {
    const names = events().filter(({ ph }) => ph === 'M');
    expect(() => ndtimelineSources(read(JSON.stringify(names)), 'job')).toThrow(TraceError);
  });

  it('may have workers that did nothing in a step', () => {
    const some = events().filter(({ ph, pid, tid }) => ph === 'M' || pid !== 0 || (tid as number) >= 5);
    const [idle, busy] = ndtimelineSources(read(JSON.stringify(some)), 'job');
    expect(idle?.batch(0)?.tables.steps.length).toBe(0);
    expect(busy?.batch(0)?.tables.steps.length).toBe(1);
  });

  it('may meet itself as often as a file can say, and a call of our own takes no more arguments than it may', () => {
    const many = Array.from({ length: 150_000 }, (_, index) => {
      return { name: 'optimizer-clip-main-grad', ph: 'X', pid: 0, tid: 0, ts: index, dur: 1, args: { step: 7, seq_id: 0 } };
    });
    const [first] = ndtimelineSources(read(JSON.stringify([...events(), ...many])), 'job');
    expect(first?.batch(1)?.tables.spans.length).toBe(150_000);
  });

  it('is too large where its workers times its steps are', () => {
    const named = Array.from({ length: 2000 }, (_, worker) => [
      { name: 'process_name', ph: 'M', pid: worker, args: { name: `DP rank [${worker}]` } },
      { name: 'thread_name', ph: 'M', pid: worker, tid: 0, args: { name: 'PP rank 0, TP rank 0, compute' } },
    ]).flat();
    const steps = Array.from({ length: 600 }, (_, step) => {
      return { name: 'forward-compute', ph: 'X', pid: 0, tid: 0, ts: step, dur: 1, args: { step } };
    });
    expect(() => ndtimelineSources(read(JSON.stringify([...named, ...steps])), 'job')).toThrow(
      'workers times steps may be 1048576, got 2000 workers in 600 steps',
    );
  });
});
