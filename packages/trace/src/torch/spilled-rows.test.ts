import { readdirSync, readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { runCount } from '../../../../test/setup/seeds.ts';
import { MemoryBlocks } from '../model/block-store.ts';
import { ReadBudget } from '../model/read-budget.ts';
import { gpuJob } from '../testing/gpu-job.ts';
import { differencesOfSpilled, spilledKineto } from '../testing/spilled-kineto.ts';
import { readKineto } from './kineto-reader.ts';

const data = new URL('../../../../test/data/kineto/', import.meta.url);
const bytesOf = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value));

describe('a file whose rows are on disk gives the batches of one in memory', () => {
  const names = readdirSync(data, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.json.gz'));

  it.each(names)('recording %s', (name) => {
    expect(differencesOfSpilled([gunzipSync(readFileSync(new URL(name, data)))], 256)).toBe('');
  });

  it.each([false, true])('a simulated job, whose collectives have numbers of torch: %s', (hasSeq) => {
    const files = gpuJob({ seed: 3, hasSeq }).files.map(({ text }) => new TextEncoder().encode(text));
    expect(differencesOfSpilled(files, 512)).toBe('');
  });

  test('any events, at few times and in any order', () => {
    const time = fc.integer({ min: 0, max: 40 });
    const track = { pid: fc.constantFrom(1, 2), tid: fc.constantFrom(1, 'stream 7') };
    const args = fc.record(
      {
        'External id': fc.integer({ min: 0, max: 9 }),
        correlation: fc.integer({ min: 0, max: 9 }),
        'Collective name': fc.constantFrom('allreduce', 'send'),
        'Process Group Name': fc.constantFrom('0', '1'),
        Seq: fc.integer({ min: 0, max: 9 }),
        'Input Dims': fc.array(fc.integer({ min: 1, max: 3 })),
        bytes: fc.integer(),
        text: fc.constantFrom('ä', '\u20ac', 'x', '😀'),
        'Phases (ns)': fc.constant({ forward: 3 }),
      },
      { requiredKeys: [] },
    );
    const names = [
      'ProfilerStep#1',
      'ProfilerStep#2',
      'ncclDevKernel_AllReduce_Sum',
      'nccl:all_reduce',
      'gloo:all_reduce',
      'aten::mm',
      'forward',
    ];
    const categories = ['user_annotation', 'kernel', 'cpu_op', 'cuda_runtime', 'collective_comm', 'gpu_user_annotation'];
    const span = fc.record({
      ...{ ph: fc.constant('X'), name: fc.constantFrom(...names), cat: fc.constantFrom(...categories) },
      ...{ ts: time, dur: fc.constantFrom(0, 0, 1, 5, 20), ...track, args },
    });
    const open = fc.record({ ph: fc.constantFrom('B', 'E'), name: fc.constantFrom(...names), ts: time, ...track, args });
    const point = fc.record({
      ph: fc.constant('i'),
      name: fc.constantFrom('[memory]', 'mark', '[memory category]'),
      ts: time,
      ...track,
      args,
    });
    const counter = fc.record({ ph: fc.constant('C'), name: fc.constant('loss'), ts: time, ...track, args });
    const flow = fc.record({
      ...{ ph: fc.constantFrom('s', 'f'), name: fc.constantFrom('fwdbwd', 'ac2g'), cat: fc.constant('flow') },
      ...{ id: fc.integer({ min: 1, max: 9 }), ts: time, ...track },
    });
    const events = fc.array(fc.oneof({ weight: 4, arbitrary: span }, open, point, counter, { weight: 2, arbitrary: flow }), {
      minLength: 1,
      maxLength: 120,
      size: 'max',
    });
    fc.assert(
      fc.property(events, fc.integer({ min: 1, max: 40 }), (traceEvents, rowsMax) => {
        const file = bytesOf({ traceEvents });
        let got: string;
        try {
          got = differencesOfSpilled([file, file], rowsMax);
        } catch (error) {
          // Nothing but flows, or begins without ends.
          got = (error as Error).message;
          expect(got).toContain('No batch');
          return;
        }
        expect(got).toBe('');
      }),
      { numRuns: runCount(60) },
    );
  });

  test('a file that is cut keeps what came before', () => {
    const whole = gpuJob({ seed: 1 }).files[0]?.text as string;
    const cut = new TextEncoder().encode(whole.slice(0, Math.floor(whole.length * 0.7)));
    expect(differencesOfSpilled([cut], 300)).toBe('');
    expect(spilledKineto(cut, 300).stopped).toContain('the file ends in the middle of its data');
  });

  test('rows leave memory early where other files take half of what the command may', () => {
    const file = bytesOf({ traceEvents: Array.from({ length: 2000 }, (_, ts) => ({ ph: 'X', name: 'a', pid: 1, ts, dur: 1 })) });
    const read = (heldByOthers: number) => {
      const budget = new ReadBudget(10e6);
      budget.take(heldByOthers);
      return readKineto(file, { keep: 'all', budget, spill: { store: () => new MemoryBlocks(), rowsMax: 8000 } });
    };
    expect(read(1e6).spilled).toBeUndefined();
    expect(read(6e6).spilled?.tally.rows.events).toBe(2000);
  });
});
