// Whatever a page sends, the service answers it once and continues.

import { limits as messageLimits } from '@ranktrace/protocol';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { HttpService } from '../http/http-service.ts';
import { ExampleRuns } from '../testing/example-runs.ts';
import { ViewPage } from '../testing/view-page.ts';
import { waitUntil } from '../testing/wait-until.ts';

const number = fc.oneof(
  fc.integer({ min: 0, max: 3 }),
  fc.integer({ min: 0, max: 2 ** 32 - 1 }),
  fc.integer({ min: Number.MIN_SAFE_INTEGER, max: Number.MAX_SAFE_INTEGER }),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
);
const track = fc.oneof({ weight: 4, arbitrary: fc.constant(0) }, number);
const time = fc.oneof(fc.integer({ min: -1e6, max: 4e6 }), number);
const tile = fc.record({
  track,
  level: fc.oneof(fc.integer({ min: 0, max: 52 }), number),
  index: fc.oneof(fc.integer({ min: -3, max: 30 }), number),
});
const fields = {
  run: fc.constantFrom('demo', 'demo', 'demo', 'other', ''),
  tiles: fc.array(tile, { maxLength: 20 }),
  track,
  event: fc.oneof(fc.integer({ min: 0, max: 2100 }), number),
  from: time,
  until: time,
  time,
  tracks: fc.array(track, { maxLength: 3 }),
  text: fc.oneof(fc.constant('e'), fc.string()),
  names: fc.array(fc.oneof(fc.integer({ min: 0, max: 4 }), number), { maxLength: 4 }),
  direction: fc.constantFrom('next', 'previous', 'up'),
  request: number,
  other: fc.oneof(fc.constant('demo'), fc.string()),
  offset: number,
  failOn: fc.oneof(fc.constant(0.03), number),
};

/** The fields of each request. */
const requests: Readonly<Record<string, readonly (keyof typeof fields)[]>> = {
  runs: [],
  open: ['run'],
  close: ['run'],
  tiles: ['run', 'tiles'],
  event: ['run', 'track', 'event'],
  links: ['run', 'from', 'until', 'tracks'],
  area: ['run', 'from', 'until', 'tracks'],
  flame: ['run', 'from', 'until', 'tracks'],
  search: ['run', 'text'],
  diff: ['run', 'other', 'offset', 'failOn'],
  find: ['run', 'names', 'tracks', 'time', 'direction'],
  cancel: ['request'],
};

const request = fc.constantFrom(...Object.keys(requests)).chain((type) => {
  const needed = Object.fromEntries((requests[type] ?? []).map((name) => [name, fields[name]] as const));
  return fc
    .tuple(
      fc.record(needed),
      fc.oneof({ weight: 9, arbitrary: fc.constant({}) }, fc.record({ [type === 'runs' ? 'more' : 'run']: fc.anything() })),
    )
    .map(([right, wrong]) => ({ type, ...right, ...wrong }));
});

test('any request is answered once, and by nothing that went wrong in here (seed 20260)', async () => {
  const runs = new ExampleRuns('demo');
  const demo = runs.runs.get('demo');
  demo?.addSpans(2000);
  const notices: string[] = [];
  const service = await HttpService.listen({ listen: {}, view: runs, onNotice: (notice) => notices.push(notice) });
  try {
    await fc.assert(
      fc.asyncProperty(fc.array(request, { minLength: 1, maxLength: 40 }), async (asked) => {
        notices.length = 0;
        await using page = await ViewPage.connect(service.address);
        const open = page.send({ type: 'open', run: 'demo' });
        const ids = asked.flatMap((one) => {
          const id = page.send(one);
          return one.type === 'cancel' ? [] : [id];
        });
        await waitUntil('all are answered', () => [open, ...ids].every((id) => page.answerTo(id) !== undefined));
        for (const id of ids)
          expect(page.messages.filter((message) => 'id' in message && message.id === id && message.type !== 'progress')).toHaveLength(1);
        expect(page.messages.filter((message) => message.type === 'error' && message.code === 'failed')).toEqual([]);
        expect(notices).toEqual([]);
      }),
      { seed: 20260, numRuns: 150 },
    );
    await waitUntil('all is given back', () => demo?.views === 0 && demo.listeners === 0);
  } finally {
    await service.close();
  }
});

test('any text closes the connection or is answered, and others go on (seed 20261)', async () => {
  const service = await HttpService.listen({ listen: {}, view: new ExampleRuns('demo'), onNotice: () => undefined });
  try {
    await using other = await ViewPage.connect(service.address);
    const text = fc.oneof(
      fc.string(),
      fc.json(),
      fc.string({ minLength: messageLimits.messageBytesMax, maxLength: messageLimits.messageBytesMax + 9 }),
    );
    await fc.assert(
      fc.asyncProperty(text, async (text) => {
        await using page = await ViewPage.connect(service.address);
        page.socket.send(text);
        await waitUntil('it is answered or closed', () => page.messages.length > 0 || page.socket.readyState !== page.socket.OPEN);
      }),
      { seed: 20261, numRuns: 100 },
    );
    expect(await other.ask({ type: 'runs' })).toHaveLength(1);
  } finally {
    await service.close();
  }
});
