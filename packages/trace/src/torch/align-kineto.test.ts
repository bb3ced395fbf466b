// torch.profiler's files of jobs on one host keep their times; after each rank's clock was changed, alignment restores them.

import { readdirSync, readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { alignedJob, clocksApart, expectBroughtBack, expectOneClock, seenBy } from '../testing/aligned-kineto.ts';
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

  it('come back by their collectives alone from clocks of their own', () => {
    const apart = alignedJob(textsOf({ clocks: clocksApart(8) }));
    // 30 ppm of 15 ms.
    expect(expectBroughtBack(alignedJob(textsOf()), apart, 450)).toBeLessThanOrEqual(20_000);
  });
});
