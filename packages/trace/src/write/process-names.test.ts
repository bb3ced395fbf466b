import { nanos, traceTime } from '@ranktrace/protocol';
import { describe, expect, it } from 'vitest';
import type { Alignment, TraceProcess } from '../model/trace-sink.ts';
import { traceHeader, traceProcess } from '../testing/trace-events.ts';
import { alignmentText, processNames } from './process-names.ts';

describe('alignmentText', () => {
  const cases: readonly (readonly [string, Alignment])[] = [
    ['clock exact', { method: 'exact', bound: nanos(0) }],
    ['clock ±0.012 ms', { method: 'sampled', bound: nanos(12_345) }],
    ['clock ±0.050 ms by messages', { method: 'messages', bound: nanos(50_000) }],
    ['clock as recorded ±0.030 ms', { method: 'shared', bound: nanos(30_000) }],
    ['clock unaligned', { method: 'unaligned', bound: undefined }],
    [
      'clock ±0.400 ms, stepped at 12.400 s, shown up to 0.275 ms late from 12.000 s on',
      {
        method: 'sampled',
        bound: nanos(400_000),
        clockSteps: [traceTime(12.4e9)],
        shifted: [
          { from: traceTime(12e9), until: traceTime(12.01e9), most: nanos(20_000) },
          { from: traceTime(13e9), until: traceTime(13.01e9), most: nanos(275_000) },
        ],
      },
    ],
  ];

  it.each(cases)('says %s', (text, alignment) => {
    expect(alignmentText(alignment)).toBe(text);
  });
});

describe('processNames', () => {
  it('numbers the lives of a rank, and names what was recorded beside one', () => {
    const process = (index: number, rank: number, incarnation: string): TraceProcess =>
      traceProcess({ index, rank, incarnation, hostName: 'a' });
    const processes = [process(0, 0, 'by-1'), process(1, 0, 'm1'), process(2, 0, 'm2'), process(3, 1, 'm1')];
    const names = processNames(traceHeader(processes));
    expect(processes.map((one) => names.get(one))).toEqual(['rank 0 · a · PyTorch', 'rank 0 · a', 'rank 0 · a · restart 1', 'rank 1 · a']);
  });
});
