// The page on large runs: time to the first picture, smoothness, and the memory of the page and its service.
//
//   generate a store ─► `ranktrace view`, a process of its own ─► Chromium: open, pan, zoom; an empty page and a bare fill between them
//                                                              └► a WebSocket of ours: tiles, one at a time
//
// Two runs: 10 M events of 64 ranks on one clock, dense with operators, and 1024 ranks on 128 clocks.

import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { deflateRawSync } from 'node:zlib';
import { RunStore } from '@ranktrace/aggregator';
import { decodeTiles, encodeBatch, type Overview, type RunModel, tileWidth } from '@ranktrace/protocol';
import type { Browser, Page } from 'playwright-core';
import { WebSocket } from 'ws';
import { findProgram } from '../../test/setup/real-programs.mjs';
import { bareFillFrames, blankPageMs, type Frames, framesWhile, heapBytes, launchChromium, openTab, quantile } from './chromium.ts';
import { type Baseline, type Figure, figure, median, type NotMeasured } from './figure.ts';
import { eventsPerStep, generateRank } from './generated-cluster.ts';
import { progress } from './turns.ts';

const commandLine = fileURLToPath(new URL('../../packages/cli/dist/main.js', import.meta.url));
const dense = { ranks: 64, events: 10_000_000 };
const wide = { ranks: 1024, steps: 300 };
const movedMs = 2500;
const tilesAsked = 400;
const pictureMsMax = 60_000;
/** Several ranks have one line each until they are unfolded: frames are measured with all lanes. */
const openRanks = Array.from({ length: dense.ranks }, (_, rank) => `r${rank}`).join(',');

export async function viewer(): Promise<(Figure | NotMeasured)[]> {
  const chromium = findProgram('CHROMIUM_BIN');
  if (chromium === undefined) {
    return [{ notMeasured: 'the page', why: 'Chromium is neither in CHROMIUM_BIN nor in PATH (Debian: apt-get install chromium)' }];
  }
  const directory = mkdtempSync(join(tmpdir(), 'ranktrace-bench-'));
  const browser = await launchChromium(chromium);
  try {
    progress(`viewer: generating ${dense.events / 1e6} M events of ${dense.ranks} ranks`);
    const events = await storeDense(directory);
    progress(`viewer: generating ${wide.steps} steps of ${wide.ranks} ranks`);
    const simulated = execFileSync(
      process.execPath,
      [commandLine, 'simulate', '--ranks', `${wide.ranks}`, '--steps', `${wide.steps}`, '--out', directory, '--run', 'wide', '--json'],
      { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] },
    );
    return [
      ...(await figuresOf(browser, 'dense', { ...dense, events, store: join(directory, 'dense') })),
      ...(await figuresOf(browser, 'wide', { ranks: wide.ranks, ...(JSON.parse(simulated) as { events: number; store: string }) })),
    ];
  } finally {
    await browser.close();
    rmSync(directory, { recursive: true });
  }
}

interface Store {
  readonly ranks: number;
  readonly events: number;
  readonly store: string;
}

async function figuresOf(browser: Browser, run: string, { ranks, events, store }: Store): Promise<Figure[]> {
  const size = `${(events / 1e6).toFixed(1)} M events, ${ranks} ranks`;
  progress(`viewer: ${size}: indexing and first pictures`);
  await using service = await startService(store);
  const first = await firstPictures(browser, service.address, run);
  progress(`viewer: ${size}: looking for causes`);
  const analysed = await analysedSeconds(service.address, run);
  progress(`viewer: ${size}: pan and zoom`);
  const filledBefore = await bareFillFrames(browser, movedMs);
  const moved = await movement(browser, service.address, run);
  const filled = joined(filledBefore, await bareFillFrames(browser, movedMs));
  const tiles = await tileTimes(service.address, run);
  const fill = (frames: readonly number[]): Baseline => ({ name: 'a bare fill of as many pixels', value: quantile(frames, 0.95) });
  const smooth = (name: string, frames: Frames): Figure[] => [
    figure({
      name: `${name}, p95 frame on the main thread (${size})`,
      value: quantile(frames.work, 0.95),
      unit: 'ms',
      baseline: fill(filled.work),
      // 16 ms, where such a fill takes 1 ms.
      target: { at: 'most', value: 16, of: 'ratio' },
    }),
    figure({
      name: `${name}, p95 from frame to frame (${size})`,
      value: quantile(frames.interval, 0.95),
      unit: 'ms',
      baseline: fill(filled.interval),
    }),
  ];
  const picture = (name: string, seconds: number): Figure =>
    figure({
      name: `first picture of the ${name} (${size})`,
      value: seconds,
      unit: 's',
      baseline: { name: 'an empty page', value: first.blank },
      // 1 s, where an empty page takes 50 ms.
      target: { at: 'most', value: 20, of: 'ratio' },
    });
  return [
    figure({ name: `indexing (${size})`, value: events / service.indexedSeconds / 1e6, unit: 'M events/s' }),
    picture('overview', first.overview),
    picture('timeline', first.timeline),
    ...smooth('pan', moved.pan),
    ...smooth('zoom', moved.zoom),
    figure({ name: `drawing a frame, script alone, p95 (${size})`, value: quantile(moved.script, 0.95), unit: 'ms' }),
    figure({ name: `a tile, p50 (${size})`, value: quantile(tiles, 0.5), unit: 'ms' }),
    figure({ name: `a tile, p95 (${size})`, value: quantile(tiles, 0.95), unit: 'ms' }),
    figure({
      name: `memory of the page: objects and buffers (${size})`,
      value: moved.heap / 2 ** 20,
      unit: 'MiB',
      target: { at: 'most', value: 300, of: 'value' },
    }),
    figure({ name: `looking for causes, after indexing and the first pictures (${size})`, value: analysed, unit: 's' }),
    figure({ name: `peak memory of the service (${size})`, value: service.peakBytes() / 2 ** 20, unit: 'MiB' }),
  ];
}

/** Interleaved, as batches of a live run arrive. Gives the number of events. */
async function storeDense(directory: string): Promise<number> {
  await using store = new RunStore(directory, 'dense');
  const steps = Math.round(dense.events / dense.ranks / eventsPerStep);
  const sources = Array.from({ length: dense.ranks }, (_, rank) => generateRank(rank, dense.ranks, steps));
  for (let open = dense.ranks; open > 0; ) {
    open = 0;
    for (const source of sources) {
      const next = source.next();
      if (next.done === true) continue;
      open++;
      const { header } = next.value;
      store.append(
        encodeBatch({ ...next.value, header: { ...header, run: 'dense' } }, (body) => deflateRawSync(body, { level: 1 })),
        { ...header, run: 'dense' },
      );
    }
  }
  return steps * dense.ranks * eventsPerStep;
}

interface Service extends AsyncDisposable {
  readonly address: string;
  readonly indexedSeconds: number;
  peakBytes(): number;
}

/** Resolves when everything is indexed. */
async function startService(store: string): Promise<Service> {
  const child = spawn(process.execPath, [commandLine, 'view', '--no-open', store], { stdio: ['ignore', 'ignore', 'pipe'] });
  const said = await saidBy(child, /view: (\S+)[\s\S]*indexed in ([\d.]+) s/);
  return {
    address: said[1] as string,
    indexedSeconds: Number(said[2]),
    peakBytes: () => Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))?.[1]) * 1024,
    [Symbol.asyncDispose]: async () => {
      const ended = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGINT');
      await ended;
    },
  };
}

function saidBy(child: ChildProcess, wanted: RegExp): Promise<RegExpExecArray> {
  return new Promise((resolve, reject) => {
    let text = '';
    child.stderr?.setEncoding('utf8').on('data', (more: string) => {
      text += more;
      const match = wanted.exec(text);
      if (match !== null) resolve(match);
    });
    child.once('exit', (code) => reject(new Error(`ranktrace view ended with ${code}:\n${text}`)));
  });
}

/** A page without a browser: its requests, and the answers. */
interface Asker extends Disposable {
  ask(request: object): Promise<unknown>;
}

async function openSocket(address: string, run: string): Promise<Asker> {
  const socket = new WebSocket(new URL('/v1/view', address.replace(/^http/, 'ws')));
  const waiting = new Map<number, (answer: unknown) => void>();
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
  socket.on('message', (bytes: Buffer, isBinary) => {
    if (isBinary) return void decodeTiles(Uint8Array.from(bytes));
    const { id, type, answer, message } = JSON.parse(bytes.toString());
    if (type === 'error') throw new Error(message);
    if (type === 'answer') waiting.get(id)?.(answer);
  });
  let id = 0;
  return {
    ask: (request) =>
      new Promise((resolve) => {
        waiting.set(++id, resolve);
        socket.send(JSON.stringify({ id, run, ...request }));
      }),
    [Symbol.dispose]: () => socket.close(),
  };
}

/** Seconds until the service has also searched for causes, which it does after indexing. */
async function analysedSeconds(address: string, run: string): Promise<number> {
  using socket = await openSocket(address, run);
  const started = performance.now();
  await socket.ask({ type: 'open' });
  while (!((await socket.ask({ type: 'overview', bins: 1 })) as Overview).analysed) await setTimeout(100);
  return (performance.now() - started) / 1000;
}

/** Times of single tiles over a socket, at all levels and places, ms. */
async function tileTimes(address: string, run: string): Promise<number[]> {
  using socket = await openSocket(address, run);
  const model = (await socket.ask({ type: 'open' })) as RunModel;
  const tracks = model.tracks.filter(({ kind }) => kind !== 'counter');
  const times: number[] = [];
  for (let asked = 0; asked < tilesAsked; asked++) {
    // Golden-ratio steps: spread over tracks, levels and times, the same each time.
    const spread = (asked * 0.618033988749895) % 1;
    const level = 6 + (asked % 24);
    const time = model.from + spread * (model.until - model.from);
    const track = tracks[Math.floor(((asked * 0.754877666) % 1) * tracks.length)]?.track;
    const started = performance.now();
    await socket.ask({ type: 'tiles', tiles: [{ track, level, index: Math.floor(time / tileWidth(level)) }] });
    times.push(performance.now() - started);
  }
  return times;
}

interface FirstPictures {
  /** Seconds from the navigation's start. */
  readonly overview: number;
  readonly timeline: number;
  /** The same of empty pages, before, between and after. */
  readonly blank: number;
}

const settledMs = 400;

/** Each in a tab of its own, with nothing cached. */
async function firstPictures(browser: Browser, address: string, run: string): Promise<FirstPictures> {
  const timeOf = async (path: string, seen: string): Promise<number> => {
    await using tab = await openTab(browser, watchPictures);
    await tab.page.goto(`${address}#/${path}?run=${run}`);
    return (await nonZero(tab.page, `window.benchPictures.${seen}(${settledMs})`)) / 1000;
  };
  const blanks: number[] = [];
  const blank = async (): Promise<void> => {
    for (let page = 0; page < 3; page++) blanks.push((await blankPageMs(browser)) / 1000);
  };
  await blank();
  const overview = await timeOf('overview', 'overview');
  await blank();
  const timeline = await timeOf('timeline', 'timeline');
  await blank();
  return { overview, timeline, blank: median(blanks) };
}

/**
 * A string, for it runs in the page. The overview is there with its chart and its heat map; the timeline with the last frame after the tiles that
 * were asked for at first, which is known when none has come for a while.
 */
const watchPictures = `(() => {
  let overviewAt = 0;
  let tilesAt = 0;
  const Socket = window.WebSocket;
  window.WebSocket = class extends Socket {
    constructor(...args) {
      super(...args);
      this.addEventListener('message', ({ data }) => {
        if (typeof data !== 'string') tilesAt = performance.now();
      });
    }
  };
  const look = () => {
    if (document.querySelector('.heat-canvas')?.width > 0 && document.querySelector('.u-wrap canvas') !== null) {
      // The frame of this callback has them.
      requestAnimationFrame(() => (overviewAt = performance.now()));
    } else requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
  window.benchPictures = {
    overview: () => overviewAt,
    timeline: (settledMs) => {
      if (tilesAt === 0 || performance.now() - tilesAt < settledMs) return 0;
      const drawn = (window.ranktraceFrames ?? []).filter(({ at }) => at >= tilesAt).sort((a, b) => a.at - b.at)[0];
      return drawn === undefined ? 0 : drawn.at + drawn.script;
    },
  };
})()`;

interface Movement {
  readonly pan: Frames;
  readonly zoom: Frames;
  /** Script time of the page's own frames, ms. */
  readonly script: readonly number[];
  /** Bytes after all of it. */
  readonly heap: number;
}

/** Keys held down, as a person moves; zoomed in so far that every frame has other events. */
async function movement(browser: Browser, address: string, run: string): Promise<Movement> {
  await using tab = await openTab(browser);
  const { page, tools } = tab;
  await page.goto(`${address}#/timeline?run=${run}&open=${openRanks}`);
  await nonZero(page, '(window.ranktraceFrames ?? []).length');
  await page.waitForTimeout(1000);
  await page.getByRole('application').first().focus();
  const began = (await page.evaluate('performance.now()')) as number;
  const hold = async (key: string, ms: number): Promise<void> => {
    await page.keyboard.down(key);
    await page.waitForTimeout(ms);
    await page.keyboard.up(key);
  };
  const zoomIn = await framesWhile(page, () => hold('w', movedMs / 2));
  const right = await framesWhile(page, () => hold('d', movedMs));
  const left = await framesWhile(page, () => hold('a', movedMs / 2));
  const zoomOut = await framesWhile(page, () => hold('s', movedMs / 2));
  const script = (await page.evaluate(`window.ranktraceFrames.filter(({ at }) => at >= ${began}).map(({ script }) => script)`)) as number[];
  return { pan: joined(right, left), zoom: joined(zoomIn, zoomOut), script, heap: await heapBytes(tools) };
}

/** The value of an expression in the page as soon as it is not 0. `page.waitForFunction` would be stopped by the page's own security policy. */
async function nonZero(page: Page, expression: string): Promise<number> {
  for (let waited = 0; waited < pictureMsMax; waited += 50) {
    const value = (await page.evaluate(expression)) as number;
    if (value !== 0) return value;
    await page.waitForTimeout(50);
  }
  throw new Error(`The page must show something within ${pictureMsMax} ms`);
}

const joined = (a: Frames, b: Frames): Frames => ({ work: [...a.work, ...b.work], interval: [...a.interval, ...b.interval] });
