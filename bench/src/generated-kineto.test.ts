import { readKineto } from '@ranktrace/trace/torch';
import { describe, expect, it } from 'vitest';
import { generateKineto, kinetoText } from './generated-kineto.ts';
import { kinetoSpans, timeEntropy } from './kineto-spans.ts';

describe('generateKineto', () => {
  const events = generateKineto(0);

  it('holds as much entropy in its times as a real rank, 3.8 bytes a span', () => {
    expect(timeEntropy(kinetoSpans(events))).toBeGreaterThan(3.8 * 0.95);
    expect(timeEntropy(kinetoSpans(events))).toBeLessThan(3.8 * 1.05);
  });

  it('is the same for a rank every time, and another for each rank', () => {
    expect(kinetoText(generateKineto(0)) === kinetoText(events)).toBe(true);
    const other = generateKineto(1);
    expect(other.every(({ name }, at) => name === events[at]?.name)).toBe(true);
    expect(other.every(({ ts }, at) => ts === events[at]?.ts)).toBe(false);
  });

  it('starts a kernel after its launch, and one after the other on a stream', () => {
    const launches = new Map(
      events.flatMap((event) => (event.cat.startsWith('cuda_') ? [[event.args.correlation, event.ts] as const] : [])),
    );
    const ends = new Map<number, number>();
    for (const { args, ts, dur, tid } of events.filter(({ pid }) => pid === 0)) {
      expect(ts).toBeGreaterThan(launches.get(args.correlation) as number);
      expect(ts).toBeGreaterThanOrEqual(ends.get(tid) ?? 0);
      ends.set(tid, ts + dur - 0.002);
    }
    expect([...ends.keys()].sort((a, b) => a - b)).toEqual([7, 23]);
  });

  it('is read whole as a torch.profiler file', () => {
    expect(readKineto(Buffer.from(kinetoText(events))).events.length).toBe(events.length);
  });
});

describe('timeEntropy', () => {
  it('counts the octave and the place within it', () => {
    const span = (start: number, length: number) => ({ name: '', start, length, track: 0, event: { ts: 0 } });
    // Differences 4 and 4: one octave of two bits; lengths 1 and 2: two octaves, a bit to tell them, half a bit within.
    expect(timeEntropy([span(4, 1), span(8, 2)])).toBeCloseTo((2 + 1 + 0.5) / 8, 9);
  });
});
