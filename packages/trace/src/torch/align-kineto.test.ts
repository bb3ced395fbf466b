// torch.profiler's files of jobs on one host keep their times; after each rank's clock was changed, alignment restores them.

import { readdirSync, readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import {
  type AlignedEvent,
  type AlignedJob,
  alignedJob,
  clocksApart,
  expectBroughtBack,
  expectOneClock,
  methodsOf,
  seenBy,
  violations,
} from '../testing/aligned-kineto.ts';
import { gpuJob } from '../testing/gpu-job.ts';

const data = new URL('../../../../test/data/kineto/ddp-4rank/', import.meta.url);

describe.each(['balanced', 'rank1_forward', 'rank2_data_load'])('the files of %s', (job) => {
  const files = readdirSync(new URL(`${job}/`, data)).filter((name) => name.endsWith('.json.gz'));
  const texts = files.map((name) => gunzipSync(readFileSync(new URL(`${job}/${name}`, data))).toString());

  it('stay as they are: nothing contradicts that they read one clock', () => expectOneClock(texts));

  it('come back by their collectives alone after each rank got a clock of its own', () => {
    const clocks = clocksApart(texts.length);
    const apart = texts.map((text, rank) => seenBy(text, clocks[rank] as (typeof clocks)[number]));
    // 30 ppm of less than half a second.
    expectBroughtBack(alignedJob(texts), alignedJob(apart), 15_000);
  });
});

describe.each([1, 2])('the files of a simulated job on 8 GPUs (seed %i)', (seed) => {
  const textsOf = (options: Partial<Parameters<typeof gpuJob>[0]> = {}): string[] =>
    gpuJob({ seed, ...options }).files.map(({ text }) => text);

  it.each([false, true])('stay as they are, with numbers of torch: %s', (hasSeq) => expectOneClock(textsOf({ hasSeq })));

  describe('and of a second attempt of it, 100 s later', () => {
    const later = { laterNs: 100n * 1_000_000_000n } as const;
    const both = (job: AlignedJob) =>
      [false, true].map((isLater) => ({ ...job, events: job.events.filter(({ start }) => start > 50e9 === isLater) }));

    it('stay as they are, 100 s apart', () => {
      const job = alignedJob(textsOf(), textsOf(later));
      expect(methodsOf(job)).toEqual(['exact', ...Array(15).fill('shared')]);
      const [first, second] = both(job).map(({ events }) => events) as [AlignedEvent[], AlignedEvent[]];
      expect(second).toEqual(first.map(({ start, end, ...event }) => ({ ...event, start: start + 100e9, end: end + 100e9 })));
    });

    it('come back each by its own collectives, whatever numbers they have', () => {
      for (const hasSeq of [false, true]) {
        const clocks = clocksApart(8);
        const apart = alignedJob(textsOf({ clocks, hasSeq }), textsOf({ ...later, clocks: clocks.toReversed(), hasSeq }));
        // By rank, then by attempt.
        expect(methodsOf(apart)).toEqual(['exact', 'shared', ...Array(14).fill('messages')]);
        expect(both(apart).map(violations)).toEqual([0, 0]);
      }
    });
  });

  it('come back by their collectives alone from clocks of their own', () => {
    const apart = alignedJob(textsOf({ clocks: clocksApart(8) }));
    // 30 ppm of 15 ms.
    expect(expectBroughtBack(alignedJob(textsOf()), apart, 450)).toBeLessThanOrEqual(20_000);
  });
});
