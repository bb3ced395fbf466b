import { expect, test } from 'vitest';
import { type MemoryTimeline, memoryCategories } from './memory-timeline.ts';
import { memoryTimelinePage } from './memory-timeline-page.ts';

/** Sizes by category at each time, µs. */
const timelineOf = (
  times: readonly number[],
  sizes: Partial<Record<(typeof memoryCategories)[number], readonly number[]>>,
): MemoryTimeline => ({
  device: 'cpu',
  epoch: 0n,
  events: [],
  times: Float64Array.from(times),
  sizes: memoryCategories.map((category) => Float64Array.from(times, (_, step) => sizes[category]?.[step] ?? 0)),
});

const megabyte = 1024 ** 2;
const small = timelineOf([5_000, 7_000, 15_000], {
  PARAMETER: [megabyte, megabyte, megabyte],
  GRADIENT: [0, 3 * megabyte, 0],
});

test('draws an area for each category on those before it, in steps', () => {
  const page = memoryTimelinePage(small);
  const areas = [...page.matchAll(/<polygon fill="(\w+)" fill-opacity="0.7" points="([^"]+)"><title>(\w+)<\/title>/g)].map(
    ([, color, points, category]) => ({ color, points, category }),
  );
  // 10 ms span 1080 px from x = 90 on, 4 MiB span 520 px from y = 540 up.
  expect(areas).toEqual([
    {
      color: 'darkgreen',
      category: 'PARAMETER',
      points:
        '90.0,410.0 306.0,410.0 306.0,410.0 1170.0,410.0 1170.0,410.0 1170.0,410.0 1170.0,540.0 1170.0,540.0 1170.0,540.0 306.0,540.0 306.0,540.0 90.0,540.0',
    },
    {
      color: 'mediumblue',
      category: 'GRADIENT',
      points:
        '90.0,410.0 306.0,410.0 306.0,20.0 1170.0,20.0 1170.0,410.0 1170.0,410.0 1170.0,410.0 1170.0,410.0 1170.0,410.0 306.0,410.0 306.0,410.0 90.0,410.0',
    },
  ]);
});

test('says the most memory, where it was, and what the axes are', () => {
  const page = memoryTimelinePage(small);
  const texts = [...page.matchAll(/<text [^>]*>([^<]*)<\/text>/g)].map(([, text]) => text);
  expect(texts.slice(0, 16)).toEqual(['0', '1', '2', '3', '4', ...[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(String)]);
  expect(texts.slice(16)).toEqual(['max 4.00 MiB at 2 ms', 'Time (ms)', 'Memory (MiB)', ...memoryCategories]);
  expect(page).toContain('<p>Max memory allocated: 4.00 MiB of host memory</p>');
  expect(page).toContain('<circle cx="306.0" cy="20.0" r="4"');
});

test('escapes what it is given, and asks nothing of the network', () => {
  const page = memoryTimelinePage(small, { title: `<script>alert("1")</script> & 'rank 3'` });
  expect(page).toContain('<h1>&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &amp; &#39;rank 3&#39;</h1>');
  expect(page).not.toMatch(/<script|https?:|src=|href=|@import|url\(/);
});

test('a long recording keeps its peak and a bounded size', () => {
  const times = Array.from({ length: 200_000 }, (_, step) => step * 3);
  const page = memoryTimelinePage(timelineOf(times, { TEMPORARY: times.map((_, step) => (step === 123_457 ? 9_000 : step % 1_000)) }));
  expect(page).toContain('max 8.79 KiB at 370.4 ms');
  expect(page.length).toBeLessThan(200_000);
});

test('of nothing, and of one moment', () => {
  expect(memoryTimelinePage(timelineOf([], {}), { title: 'Run 7' })).toBe(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Run 7</title>
<style>
body { font-family: sans-serif; margin: 16px; color: #222; background: #fff; }
h1 { font-size: 20px; margin: 0 0 4px; }
p { margin: 0 0 8px; }
svg { max-width: 100%; height: auto; }
text { font-size: 13px; fill: #222; }
</style>
</head>
<body>
<h1>Run 7</h1>
<p>No allocation was recorded.</p>
</body>
</html>
`);
  const page = memoryTimelinePage(timelineOf([5], { INPUT: [0] }));
  expect(page).toContain('max 0.00 B at 0 ms');
  expect(page).not.toContain('NaN');
});
