import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { AreaTable, RunDifference, RunModel } from '@ranktrace/protocol';
import { expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { HttpService } from '../http/http-service.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';
import { ExampleRuns } from '../testing/example-runs.ts';
import { ViewPage } from '../testing/view-page.ts';
import { waitUntil } from '../testing/wait-until.ts';
import { ViewSockets } from './view-sockets.ts';

async function withRuns(runs: ExampleRuns, use: (address: string, notices: string[]) => Promise<void>): Promise<void> {
  const notices: string[] = [];
  const service = await HttpService.listen({ listen: {}, view: runs, onNotice: (notice) => notices.push(notice) });
  try {
    await use(service.address, notices);
  } finally {
    await service.close();
  }
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

test('reports which runs there are, and again when that changes', () => {
  const runs = new ExampleRuns('one');
  return withRuns(runs, async (address) => {
    await using page = await ViewPage.connect(address);
    expect(await page.ask({ type: 'runs' })).toEqual([{ run: 'one', worldSize: 1, ranks: 1 }]);
    expect(await page.ask({ type: 'runs' })).toHaveLength(1);
    for (let run = 0; run < 50; run++) runs.add(`more-${run}`);
    const reported = () => page.messages.flatMap((message) => (message.type === 'runs' ? [message.runs.length] : []));
    await waitUntil('all are reported', () => reported().at(-1) === 51);
    expect(reported().length).toBeLessThanOrEqual(2);
    await page[Symbol.asyncDispose]();
    await waitUntil('nobody listens any more', () => runs.listeners === 0);
  });
});

test('follows a run from the model on, until it is closed as often as it was opened', () => {
  const runs = new ExampleRuns('demo');
  const demo = runs.runs.get('demo');
  if (demo === undefined) throw new Error('no run');
  return withRuns(runs, async (address) => {
    await using page = await ViewPage.connect(address);
    demo.addNames('before');
    const model = await page.ask<RunModel>({ type: 'open', run: 'demo' });
    expect(model).toMatchObject({ run: 'demo', epoch: 'example', names: ['before'] });
    await page.ask({ type: 'open', run: 'demo' });
    expect([demo.views, demo.listeners]).toEqual([1, 1]);
    demo.addNames('forward');
    const growths = () => page.messages.filter(({ type }) => type === 'grown');
    await waitUntil('the growth is reported', () => growths().length === 1);
    expect(growths()[0]).toMatchObject({ type: 'grown', run: 'demo', namesFrom: 1, names: ['forward'] });
    expect(await page.ask({ type: 'close', run: 'demo' })).toEqual({});
    demo.addNames('backward');
    await waitUntil('it is still followed', () => growths().length === 2);
    expect(await page.ask({ type: 'close', run: 'demo' })).toEqual({});
    await waitUntil('it is given back', () => demo.views === 0 && demo.listeners === 0);
    demo.addNames('unheard');
    expect(await page.ask({ type: 'close', run: 'demo' })).toEqual({});
    await sleep(limits.viewGrowthIntervalMs + 50);
    expect(growths()).toHaveLength(2);
    // Open runs are released when the page goes, too.
    await page.ask({ type: 'open', run: 'demo' });
    expect(demo.views).toBe(1);
    await page[Symbol.asyncDispose]();
    await waitUntil('it is given back', () => demo.views === 0 && demo.listeners === 0);
  });
});

test('growth is reported at a pace, however fast the run grows, and the last state comes', () => {
  const runs = new ExampleRuns('demo');
  const demo = runs.runs.get('demo');
  if (demo === undefined) throw new Error('no run');
  return withRuns(runs, async (address) => {
    await using page = await ViewPage.connect(address);
    await page.ask({ type: 'open', run: 'demo' });
    const end = performance.now() + 600;
    let name = 0;
    while (performance.now() < end) {
      demo.addNames(`name ${name++}`);
      await sleep(1);
    }
    await waitUntil('all is reported', () => page.namesOf('demo').length === name);
    expect(page.namesOf('demo').at(-1)).toBe(`name ${name - 1}`);
    expect(page.messages.filter(({ type }) => type === 'grown').length).toBeLessThanOrEqual(4);
  });
});

test('a page that does not read costs a bound, and has the last state when it reads again', () => {
  const runs = new ExampleRuns('demo');
  const demo = runs.runs.get('demo');
  if (demo === undefined) throw new Error('no run');
  return withRuns(runs, async (address) => {
    await using page = await ViewPage.connect(address);
    await using other = await ViewPage.connect(address);
    await page.ask({ type: 'open', run: 'demo' });
    await other.ask({ type: 'open', run: 'demo' });
    page.socket.pause();
    // 80 MB of names, in 10 growths; the system's own buffers hold some MB.
    const names = Array.from({ length: 10 }, (_, index) => String(index).padEnd(8_000_000, '.'));
    const growthsBefore = demo.growthsMade;
    for (const name of names) {
      demo.addNames(name);
      await waitUntil('the other page has it', () => other.namesOf('demo').at(-1) === name);
    }
    const growthsOfOther = other.messages.filter(({ type }) => type === 'grown').length;
    // The deaf page's messages fit the system's buffers.
    expect(demo.growthsMade - growthsBefore - growthsOfOther).toBeLessThan(6);
    page.socket.resume();
    await waitUntil('it has all', () => page.namesOf('demo').length === names.length);
    expect(page.namesOf('demo')).toEqual(names);
  });
});

test('refuses what is not valid, by its number where it has one', () =>
  withRuns(new ExampleRuns('demo'), async (address) => {
    await using page = await ViewPage.connect(address);
    expect(await page.ask({ type: 'dance' })).toMatch(/^bad_request: Cannot decode message: "type"/);
    expect(await page.ask({ type: 'open' })).toMatch(/^bad_request: Cannot decode message: "run"/);
    expect(await page.ask({ type: 'open', run: 'demo', more: 1 })).toMatch(/^bad_request: /);
    expect(await page.ask({ type: 'open', run: 'other' })).toBe('no_such_run: Cannot open run "other": there is demo');
    expect(await page.ask({ type: 'search', run: 'demo', text: 'a' })).toBe('no_such_run: Cannot look into run "demo": it is not open');
    expect(await page.ask({ type: 'open', run: 'demo' })).toMatchObject({ run: 'demo' });
    for (const [message, code] of [
      ['not JSON', 1008],
      ['{"type":"runs"}', 1008],
      ['{"id":-1,"type":"runs"}', 1008],
      ['null', 1008],
      ['[]', 1008],
      [Buffer.from('{"id":1,"type":"runs"}'), 1003],
      ['x'.repeat(70_000), 1009],
    ] as const) {
      await using hostile = await ViewPage.connect(address);
      hostile.socket.send(message);
      const [closed] = await once(hostile.socket, 'close');
      expect([message.slice(0, 30), closed]).toEqual([message.slice(0, 30), code]);
    }
    expect(await page.ask({ type: 'runs' })).toHaveLength(1);
  }));

test('a failure of ours is one answer and one notice', () =>
  withRuns(new ExampleRuns('demo'), async (address, notices) => {
    await using page = await ViewPage.connect(address);
    await page.ask({ type: 'open', run: 'demo' });
    const line = 'Cannot answer "overview" about run "demo": there are no steps';
    expect(await page.ask({ type: 'overview', run: 'demo', bins: 8 })).toBe(`failed: ${line}`);
    expect(notices).toEqual([line]);
    expect(await page.ask({ type: 'runs' })).toHaveLength(1);
  }));

test('a page may have so many runs open, and so many requests under way', () => {
  const runs = new ExampleRuns(...Array.from({ length: 20 }, (_, index) => `run-${index}`));
  return withRuns(runs, async (address) => {
    await using page = await ViewPage.connect(address);
    for (let run = 0; run < 16; run++) expect(await page.ask({ type: 'open', run: `run-${run}` })).toMatchObject({ run: `run-${run}` });
    expect(await page.ask({ type: 'open', run: 'run-16' })).toBe('too_many: Cannot open run "run-16": 16 runs are open; close one first');
    await page.ask({ type: 'close', run: 'run-3' });
    expect(await page.ask({ type: 'open', run: 'run-16' })).toMatchObject({ run: 'run-16' });
    const ids = Array.from({ length: 500 }, () => page.send({ type: 'runs' }));
    await waitUntil('all are answered', () => ids.every((id) => page.answerTo(id) !== undefined));
    const refused = ids.map((id) => page.answerTo(id)).filter((answer) => answer?.type === 'error');
    expect(refused.length).toBeGreaterThan(0);
    expect(refused.every((answer) => answer?.type === 'error' && answer.code === 'too_many')).toBe(true);
    expect(page.answerTo(ids[31] ?? 0)?.type).toBe('answer');
    await using other = await ViewPage.connect(address);
    expect(await other.ask({ type: 'open', run: 'run-16' })).toMatchObject({ run: 'run-16' });
  });
});

/** The sockets alone, and the service's ends of their connections. */
async function withSockets(
  silenceMsMax: number | undefined,
  use: (sockets: ViewSockets, address: string, ends: Socket[]) => Promise<void>,
): Promise<void> {
  const sockets = new ViewSockets({ runs: new ExampleRuns('demo'), onNotice: () => undefined, silenceMsMax });
  const ends: Socket[] = [];
  const server = createServer().listen(0, '127.0.0.1');
  server.on('upgrade', (request, socket, head) => {
    ends.push(request.socket);
    sockets.accept(request, socket, head);
  });
  await once(server, 'listening');
  try {
    await use(sockets, `http://127.0.0.1:${(server.address() as AddressInfo).port}`, ends);
  } finally {
    sockets.close();
    server.close();
  }
}

test('a page that asks without end and reads nothing is not read from', () =>
  withSockets(undefined, async (_sockets, address, ends) => {
    await using page = await ViewPage.connect(address);
    page.socket.pause();
    // The refusals exceed the system's buffers plus ours.
    const bad = JSON.stringify({ id: 7, type: 'x'.repeat(1000) });
    const count = 100_000;
    for (let sent = 0; sent < count; sent++) page.socket.send(bad);
    const read = (): number => ends[0]?.bytesRead ?? 0;
    await waitUntil('it stands still', async () => {
      const before = read();
      await sleep(300);
      return read() === before;
    });
    expect(read()).toBeGreaterThan(1e6);
    expect(read()).toBeLessThan(0.9 * count * bad.length);
    await using other = await ViewPage.connect(address);
    expect(await other.ask({ type: 'runs' })).toHaveLength(1);
    page.socket.resume();
    // A starved machine needs minutes for all of them.
    for (let known = 0; known < count; known = page.messages.length) {
      await waitUntil('more are refused', () => page.messages.length > known);
    }
    expect(page.messages).toHaveLength(count);
    expect(page.messages.every((message) => message.type === 'error' && message.code === 'bad_request')).toBe(true);
  }));

test('a page that reads nothing is closed in time, one that says nothing is not', () =>
  withSockets(600, async (sockets, address) => {
    await using quiet = await ViewPage.connect(address);
    await using deaf = await ViewPage.connect(address);
    await using chatty = await ViewPage.connect(address);
    deaf.socket.pause();
    expect(sockets.connections).toBe(3);
    const talking = setInterval(() => chatty.send({ type: 'runs' }), 100);
    await waitUntil('the deaf one is closed', () => sockets.connections === 2);
    await sleep(1500);
    clearInterval(talking);
    expect(sockets.connections).toBe(2);
    expect([quiet, chatty].map(({ socket }) => socket.readyState)).toEqual([WebSocket.OPEN, WebSocket.OPEN]);
    sockets.close();
    await waitUntil('they are closed', () => sockets.connections === 0);
  }));

test('tiles come in frames of their request, then its answer', () => {
  const runs = new ExampleRuns('demo');
  const demo = runs.runs.get('demo');
  demo?.addSpans(100_000);
  return withRuns(runs, async (address) => {
    await using page = await ViewPage.connect(address);
    await page.ask({ type: 'open', run: 'demo' });
    // 512 tiles of 2^17 ns, each with the ~131 spans that begin in it.
    const track = demo?.timeline.tracks[0]?.id ?? -1;
    const tiles = Array.from({ length: limits.viewRequestsPerPageMax * 16 }, (_, index) => ({ track, level: 7, index }));
    const id = page.send({ type: 'tiles', run: 'demo', tiles });
    await waitUntil('it is answered', () => page.answerTo(id) !== undefined);
    expect(page.answerTo(id)).toEqual({ id, type: 'answer', answer: {} });
    expect(page.frames.length).toBeGreaterThan(1);
    for (const { request, bytes } of page.frames) {
      expect(request).toBe(id);
      expect(bytes).toBeLessThanOrEqual(limits.viewFrameBytesMax + 16);
    }
    const got = page.frames.flatMap((frame) => frame.tiles);
    expect(got.map(({ index }) => index)).toEqual(tiles.map(({ index }) => index));
    const expected = demo?.timeline.tile({ track, level: 7, index: 3 });
    expect(got[3]).toEqual(expected);
    expect(await page.ask({ type: 'tiles', run: 'demo', tiles: [{ track: 4_000_000, level: 7, index: 0 }] })).toBe(
      'no_such_track: Cannot show track 4000000: the run has no such track',
    );
  });
});

test('a page that reads slowly gets its tiles all the same, and what waits for it is bounded', () => {
  const runs = new ExampleRuns('demo');
  const demo = runs.runs.get('demo');
  demo?.addSpans(100_000);
  return withRuns(runs, async (address) => {
    await using page = await ViewPage.connect(address);
    await page.ask({ type: 'open', run: 'demo' });
    page.socket.pause();
    const track = demo?.timeline.tracks[0]?.id ?? -1;
    // 32 × 512 tiles of 1000 spans or more each: 600 MB if the service kept them.
    const index = Array.from({ length: 512 }, (_, index) => ({ track, level: 10, index: index % 90 }));
    const before = process.memoryUsage().arrayBuffers;
    const ids = Array.from({ length: 32 }, () => page.send({ type: 'tiles', run: 'demo', tiles: index }));
    await sleep(1000);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(120e6);
    // The others wait until it reads; another page need not.
    await using other = await ViewPage.connect(address);
    await other.ask({ type: 'open', run: 'demo' });
    expect(await other.ask({ type: 'tiles', run: 'demo', tiles: [{ track, level: 10, index: 0 }] })).toEqual({});
    for (const id of ids.slice(1)) page.send({ type: 'cancel', request: id });
    page.socket.resume();
    await waitUntil('all are answered', () => ids.every((id) => page.answerTo(id) !== undefined));
    expect(page.answerTo(ids[0] ?? 0)?.type).toBe('answer');
    expect(page.frames.filter(({ request }) => request === ids[0]).flatMap(({ tiles }) => tiles)).toHaveLength(512);
    expect(page.answerTo(ids[31] ?? 0)).toMatchObject({ type: 'error', code: 'cancelled' });
  });
});

test('questions about a run are answered by its timeline', () => {
  const runs = new ExampleRuns('demo');
  const demo = runs.runs.get('demo');
  demo?.addSpans(1000);
  return withRuns(runs, async (address) => {
    await using page = await ViewPage.connect(address);
    page.send({ type: 'open', run: 'demo' });
    // Asked before the run is open: it waits.
    const area = await page.ask<AreaTable>({ type: 'area', run: 'demo', from: 0, until: 1e9, tracks: [] });
    if (typeof area === 'string') throw new Error(area);
    expect(area.rows.map(({ name, count, total }) => [name, count, total]).sort()).toEqual([
      ['even', 500, 450_000],
      ['odd', 500, 450_000],
    ]);
    const track = demo?.timeline.tracks[0]?.id ?? -1;
    expect(await page.ask({ type: 'event', run: 'demo', track, event: 3 })).toMatchObject({ name: 'odd', start: 3000, length: 900 });
    expect(await page.ask({ type: 'event', run: 'demo', track, event: 5000 })).toBe(
      `no_such_event: Cannot show event 5000 of track ${track}: there is no such event`,
    );
    expect(await page.ask({ type: 'event', run: 'demo', track: 99, event: 0 })).toMatch(/^no_such_track: /);
    expect(await page.ask({ type: 'links', run: 'demo', from: 5, until: 4, tracks: [] })).toBe(
      'bad_request: Cannot answer "links": until (4) is before from (5)',
    );
    const found = { type: 'find', run: 'demo', tracks: [], time: 500_500, direction: 'next' };
    const search = await page.ask<{ names: { name: number }[] }>({ type: 'search', run: 'demo', text: 'EVE' });
    if (typeof search === 'string') throw new Error(search);
    const names = search.names.map(({ name }) => name);
    expect(await page.ask({ ...found, names })).toMatchObject({ name: 'even', start: 502_000 });
    expect(await page.ask({ ...found, names, time: 1e12 })).toBeNull();
    expect(await page.ask({ ...found, names: [], tracks: [track], depth: 0 })).toMatchObject({ name: 'odd', start: 501_000, depth: 0 });
    expect(await page.ask({ type: 'flame', run: 'demo', from: 0, until: 1e9, tracks: [track] })).toMatchObject({ total: 900_000 });
  });
});

test('two open runs are compared, and one that is not open is not', () => {
  const runs = new ExampleRuns('demo', 'more', 'closed');
  runs.runs.get('demo')?.addSpans(1000);
  runs.runs.get('more')?.addSpans(1500);
  return withRuns(runs, async (address) => {
    await using page = await ViewPage.connect(address);
    await page.ask({ type: 'open', run: 'demo' });
    await page.ask({ type: 'open', run: 'more' });
    const asked = { type: 'diff', run: 'demo', offset: 0, failOn: 0.03 };
    const difference = await page.ask<RunDifference>({ ...asked, other: 'more' });
    if (typeof difference === 'string') throw new Error(difference);
    expect(difference).toMatchObject({ verdict: null, a: { run: 'demo', steps: 0 }, b: { run: 'more' } });
    // Without steps the whole recording is one: 500 and 750 spans of 900 ns.
    expect(difference.names.map(({ name, more, status }) => [name, more, status])).toEqual([
      ['even', 225_000, 'unknown'],
      ['odd', 225_000, 'unknown'],
    ]);
    expect(await page.ask({ ...asked, other: 'closed' })).toBe('no_such_run: Cannot look into run "closed": it is not open');
    expect(await page.ask({ ...asked, other: 'more', fromStep: 5, toStep: 4 })).toMatch(/^bad_request: Cannot answer "diff": toStep/);
  });
});

test('what takes long reports how far it is, and gives others their turn', () => {
  const runs = new ExampleRuns('demo');
  runs.runs.get('demo')?.addSpans(500_000);
  return withRuns(runs, async (address) => {
    await using page = await ViewPage.connect(address);
    await using other = await ViewPage.connect(address);
    await page.ask({ type: 'open', run: 'demo' });
    await other.ask({ type: 'open', run: 'demo' });
    const ids = Array.from({ length: 32 }, () => page.send({ type: 'area', run: 'demo', from: 500, until: 499e6, tracks: [] }));
    expect(await other.ask({ type: 'search', run: 'demo', text: 'odd' })).toMatchObject({ leftOut: 0 });
    expect(ids.some((id) => page.answerTo(id) === undefined)).toBe(true);
    await waitUntil('all are answered', () => ids.every((id) => page.answerTo(id) !== undefined));
    const reported = page.messages.filter((message) => message.type === 'progress');
    expect(reported.length).toBeGreaterThan(0);
    for (const { id, done, total } of reported) {
      expect(ids).toContain(id);
      expect(done).toBeGreaterThan(0);
      expect(done).toBeLessThanOrEqual(total);
    }
  });
});

test('a request is given up when it is cancelled, or its run is closed, and the number is free again', () => {
  const runs = new ExampleRuns('demo');
  const demo = runs.runs.get('demo');
  demo?.addSpans(10_000);
  return withRuns(runs, async (address) => {
    await using page = await ViewPage.connect(address);
    await page.ask({ type: 'open', run: 'demo' });
    const area = { type: 'area', run: 'demo', from: 0, until: 1e9, tracks: [] };
    const id = page.send(area);
    page.send({ type: 'cancel', request: id });
    await waitUntil('it is answered', () => page.answerTo(id) !== undefined);
    expect(page.answerTo(id)).toEqual({ id, type: 'error', code: 'cancelled', message: `Request ${id} was given up` });
    const second = page.send(area);
    page.send({ type: 'close', run: 'demo' });
    await waitUntil('it is answered', () => page.answerTo(second) !== undefined);
    expect(page.answerTo(second)).toMatchObject({ type: 'error', code: 'cancelled' });
    await page.ask({ type: 'open', run: 'demo' });
    page.messages.length = 0;
    page.socket.send(JSON.stringify({ id, ...area }));
    page.socket.send(JSON.stringify({ id, ...area }));
    await waitUntil('both are answered', () => page.messages.length === 2);
    expect(page.messages[0]).toMatchObject({ id, type: 'error', code: 'bad_request' });
    expect(page.messages[1]).toMatchObject({ id, type: 'answer' });
  });
});
