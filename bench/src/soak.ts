// Soak: an hour and a half of a 64-rank job in fifteen minutes. Memory and descriptors must be flat, the store and the stream within their bounds.
//
//   simulated cluster, 64 ranks, 6 × ──► nats-server ──► ranktrace serve --store-max ──► Chromium: overview, timeline, overview, …
//   two real ranks of a run of their own ──┘
//
// Batches are those of the SDK: five a second of each rank, at 6 × the speed. Batches that the broker refuses for now are sent later, so a slow
// machine soaks less of the job: a figure states how much. A verdict rests on the second half of a whole run; the first fills bounded parts.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { deflateRawSync } from 'node:zlib';
import { batchId, batchSubject, encodeBatch, streamName } from '@ranktrace/protocol';
import { ClusterSimulation } from '@ranktrace/trace/simulate';
import { type ConsumerInfo, connect, type NatsConnection } from 'nats';
import type { Browser } from 'playwright-core';
import { findProgram } from '../../test/setup/real-programs.mjs';
import { heapBytes, launchChromium, type MeasuredTab, openTab } from './chromium.ts';
import { type Figure, figure, median, type NotMeasured } from './figure.ts';
import { freePort } from './free-port.ts';
import { type Sample, trendOf } from './trend.ts';
import { progress } from './turns.ts';

const commandLine = fileURLToPath(new URL('../../packages/cli/dist/main.js', import.meta.url));
const rankProgram = fileURLToPath(new URL('./soak-rank.js', import.meta.url));
const ranks = 64;
const realRanks = 2;
const stepMs = 200;
const flushMs = 200;
const speed = 6;
/** The service's caches of a followed run take six minutes to fill. */
const secondsDefault = 900;
const run = 'soak';
const brokerName = 'nats-server';
const inFlightMax = 512;
const storeMiBMax = 128;
/** The service never prunes the segment that it writes. */
const segmentMiB = 64;
/** It prunes once a minute; a busy machine takes longer. */
const pruneMsMax = 300_000;
const lookMs = 2000;
/** Between two looks at the page, the store's files and the stream, in looks. */
const seldom = 5;
/** For a trend. */
const looksMin = 5;
const mib = 2 ** 20;

export interface SoakOptions {
  /** Its length; fifteen minutes by default. */
  readonly seconds?: number | undefined;
}

export async function soak({ seconds = secondsDefault }: SoakOptions): Promise<(Figure | NotMeasured)[]> {
  const broker = findProgram('NATS_SERVER_BIN');
  if (broker === undefined) {
    return [
      { notMeasured: 'the soak', why: 'nats-server is neither in NATS_SERVER_BIN nor in PATH (Debian: apt-get install nats-server)' },
    ];
  }
  const directory = mkdtempSync(join(tmpdir(), 'ranktrace-soak-'));
  const children: ChildProcess[] = [];
  let browser: Browser | undefined;
  try {
    const port = await freePort();
    const url = `nats://127.0.0.1:${port}`;
    const server = spawn(broker, ['-js', '-a', '127.0.0.1', '-p', `${port}`, '-sd', join(directory, 'nats')], { stdio: 'ignore' });
    children.push(server);
    const client = await connect({ servers: url, waitOnFirstConnect: true, maxReconnectAttempts: 100, reconnectTimeWait: 50 });
    const out = join(directory, 'out');
    mkdirSync(out);
    const address = `127.0.0.1:${await freePort()}`;
    const service = startService(['serve', '--listen', address, '--nats', url, '--out', out, '--store-max', `${storeMiBMax}M`]);
    children.push(service);
    await said(service, 'listening on');
    const real = Array.from({ length: realRanks }, (_, rank) => startRank(rank, url, directory));
    children.push(...real);
    const chromium = findProgram('CHROMIUM_BIN');
    browser = chromium === undefined ? undefined : await launchChromium(chromium);
    const tab = browser && (await openTab(browser));
    await tab?.page.goto(`http://${address}#/overview?run=${run}`);
    const watch = new Watch({ rank: real[0] as ChildProcess, aggregator: service, [brokerName]: server }, { out, client, tab });
    const [sent] = await Promise.all([send(client, seconds), watch.look(seconds)]);
    const { lost, waiting } = await left(client, address, sent.batches);
    await client.close();
    const store = await prunedBytes(out);
    return [
      figure({ name: `of the job, sent in ${seconds} s`, value: sent.jobSeconds, unit: 'simulated s' }),
      figure({ name: 'batches that the service had not yet stored at the end', value: waiting, unit: 'batches' }),
      figure({ name: 'batches missing, dropped or refused', value: lost, unit: 'batches', target: { at: 'most', value: 0, of: 'value' } }),
      ...watch.figures(seconds >= secondsDefault),
      figure({
        name: `store, when pruning has caught up, of --store-max ${storeMiBMax}M and the segment being written`,
        value: (100 * store) / mib / (storeMiBMax + segmentMiB),
        unit: '%',
        target: { at: 'most', value: 100, of: 'value' },
      }),
    ];
  } finally {
    await browser?.close();
    await Promise.all(children.map(end));
    rmSync(directory, { recursive: true, force: true });
  }
}

/** The other observed places, beside processes. */
interface Around {
  readonly out: string;
  readonly client: NatsConnection;
  readonly tab: MeasuredTab | undefined;
}

/** Memory, CPU time and folder sizes, sampled while the job runs. */
class Watch {
  readonly #processes: Readonly<Record<string, ChildProcess>>;
  readonly #around: Around;
  readonly #memory = new Map<string, Sample[]>();
  readonly #descriptors = new Map<string, Sample[]>();
  readonly #store: Sample[] = [];
  readonly #stream: (Sample & { readonly bound: number })[] = [];

  constructor(processes: Readonly<Record<string, ChildProcess>>, around: Around) {
    this.#processes = processes;
    this.#around = around;
  }

  async look(seconds: number): Promise<void> {
    const started = performance.now();
    for (let looks = 1; performance.now() - started < 1000 * seconds; looks++) {
      const at = (performance.now() - started) / 1000;
      for (const [name, { pid }] of Object.entries(this.#processes)) {
        add(this.#memory, name, { at, value: residentBytes(pid as number) / mib });
        add(this.#descriptors, name, { at, value: readdirSync(`/proc/${pid}/fd`).length });
      }
      if (looks % seldom === 0) await this.#lookAround(at);
      if (looks % 30 === 0) progress(`soak: ${at.toFixed(0)} of ${seconds} s: ${this.#now()}`);
      await setTimeout(lookMs);
    }
  }

  async #lookAround(at: number): Promise<void> {
    const { out, client, tab } = this.#around;
    this.#store.push({ at, value: bytesBelow(out) / mib });
    const { state, config } = await (await client.jetstreamManager()).streams.info(streamName);
    this.#stream.push({ at, value: state.bytes / mib, bound: config.max_bytes / mib });
    if (tab === undefined) return;
    // A person switches views; memory is compared on the timeline.
    await tab.page.evaluate(`location.hash = '#/overview?run=${run}'`);
    await tab.page.waitForTimeout(1000);
    await tab.page.evaluate(`location.hash = '#/timeline?run=${run}'`);
    await tab.page.waitForTimeout(1000);
    // A page without the run would stay small.
    if ((await tab.page.locator('canvas').count()) === 0) throw new Error('The page does not draw the run');
    add(this.#memory, 'page', { at, value: (await heapBytes(tab.tools)) / mib });
  }

  /** `isWhole`: it lasted so long that everything bounded is full. */
  figures(isWhole: boolean): (Figure | NotMeasured)[] {
    const figures: (Figure | NotMeasured)[] = [];
    for (const [name, samples] of this.#memory) figures.push(...flatness(name, samples, isWhole));
    if (this.#around.tab === undefined)
      figures.push({ notMeasured: 'memory of the page', why: 'Chromium is neither in CHROMIUM_BIN nor in PATH' });
    for (const [name, samples] of this.#descriptors) {
      const [first, second] = halves(samples);
      figures.push(
        figure({
          name: `descriptors of the ${name}, most in the second half`,
          value: highest(second),
          unit: 'descriptors',
          baseline: { name: 'most in the first half', value: highest(first) },
          target: { at: 'most', value: 1.1, of: 'ratio' },
        }),
      );
    }
    // Pruning takes a core some 10 s for each segment, so a machine that is busy falls behind at 6 × the speed: no target.
    figures.push(
      figure({ name: `store, most of it while the job ran (--store-max ${storeMiBMax}M)`, value: highest(this.#store), unit: 'MiB' }),
    );
    const bound = this.#stream.at(-1)?.bound ?? -1;
    figures.push(
      bound <= 0
        ? { notMeasured: `the stream against its bound (${highest(this.#stream).toFixed(0)} MiB at the end)`, why: 'it has no max_bytes' }
        : figure({
            name: 'stream, most of it, of its max_bytes',
            value: (100 * highest(this.#stream)) / bound,
            unit: '%',
            target: { at: 'most', value: 100, of: 'value' },
          }),
    );
    return figures;
  }

  #now(): string {
    const last = [...this.#memory].map(([name, samples]) => `${name} ${samples.at(-1)?.value.toFixed(0)} MiB`);
    return [...last, `store ${this.#store.at(-1)?.value.toFixed(0)} MiB`, `stream ${this.#stream.at(-1)?.value.toFixed(0)} MiB`].join(', ');
  }
}

/** The bytes in the second half, and how many of them certainly came during that half. */
function flatness(name: string, samples: readonly Sample[], isWhole: boolean): (Figure | NotMeasured)[] {
  const [first, second] = halves(samples);
  if (second.length < looksMin) return [{ notMeasured: `memory of the ${name}`, why: `it was looked at ${samples.length} times alone` }];
  const { median: middle, slope, least } = trendOf(second);
  const lasted = (second.at(-1)?.at ?? 0) - (second[0]?.at ?? 0);
  progress(
    `soak: ${name}: slope ${((60 * slope * 100) / middle).toFixed(2)} % a minute, at least ${((60 * least * 100) / middle).toFixed(2)} %`,
  );
  return [
    figure({
      name: `memory of the ${name}, second half`,
      value: middle,
      unit: 'MiB',
      baseline: { name: 'second quarter', value: median(first.slice(first.length >> 1).map(({ value }) => value)) },
    }),
    figure({
      name: `growth of it over the second half, beyond its noise (${name})`,
      value: (100 * Math.max(0, least * lasted)) / middle,
      unit: '%',
      // A short run is still filling bounded parts; the broker's memory is its own: it indexes its stream.
      ...(isWhole && name !== brokerName && { target: { at: 'most', value: 2, of: 'value' } }),
    }),
  ];
}

/** Sends the job; gives its sent share, and the number of batches. */
async function send(client: NatsConnection, seconds: number): Promise<{ jobSeconds: number; batches: number }> {
  const jobSeconds = seconds * speed;
  const simulation = new ClusterSimulation({ run, ranks, stepMs, flushMs, seconds: jobSeconds });
  const stream = client.jetstream({ timeout: 60_000 });
  let inFlight = 0;
  let answered: () => void = () => {};
  const untilAnswered = (): Promise<void> =>
    new Promise((resolve) => {
      answered = resolve;
    });
  const started = performance.now();
  let batches = 0;
  for (const batch of simulation.batches()) {
    if (batch === undefined) {
      const ahead = (simulation.progress * jobSeconds * 1000) / speed - (performance.now() - started);
      if (ahead > 1) await setTimeout(ahead);
      if (performance.now() - started > 1000 * seconds) break;
      continue;
    }
    const { header } = batch;
    inFlight++;
    stream.publish(batchSubject(run, header.rank), encodeBatch(batch, deflateRawSync), { msgID: batchId(header) }).then(
      () => {
        inFlight--;
        answered();
      },
      // Counted as sent and never stored: the figures show it.
      ({ message }: Error) => {
        inFlight--;
        progress(`soak: a batch was not taken: ${message}`);
        answered();
      },
    );
    batches++;
    if (inFlight >= inFlightMax) await untilAnswered();
  }
  while (inFlight > 0) await untilAnswered();
  return { jobSeconds: simulation.progress * jobSeconds, batches };
}

interface StatusRank {
  readonly batches: number;
  readonly missing: number;
  readonly dropped: { readonly batches: number; readonly events: number };
}

/** The batches that the service had yet to store, and those that it reports as lost, once it has all. */
async function left(client: NatsConnection, address: string, sent: number): Promise<{ waiting: number; lost: number }> {
  const status = async (): Promise<{ stored: number; lost: number }> => {
    const { runs, quarantined } = (await (await fetch(`http://${address}/status`)).json()) as {
      runs: { run: string; ranks: StatusRank[] }[];
      quarantined: number;
    };
    const all = runs.flatMap((one) => one.ranks);
    const stored = (runs.find((one) => one.run === run)?.ranks ?? []).reduce((sum, { batches }) => sum + batches, 0);
    return { stored, lost: quarantined + all.reduce((sum, { missing, dropped }) => sum + missing + dropped.batches + dropped.events, 0) };
  };
  const waiting = sent - (await status()).stored;
  const manager = await client.jetstreamManager();
  const isWaiting = async (): Promise<boolean> => {
    // Servers list a consumer that is being made or deleted as null.
    const consumers: readonly (ConsumerInfo | null)[] = await manager.consumers.list(streamName).next();
    return consumers.some((one) => one === null || one.num_pending + one.num_ack_pending > 0);
  };
  // The real ranks continue meanwhile: only the simulated ones' batches count.
  while ((await status()).stored < sent && (await isWaiting())) await setTimeout(200);
  return { waiting, lost: (await status()).lost };
}

/** Bytes of the store once they are within their bound, or after `pruneMsMax`. */
async function prunedBytes(out: string): Promise<number> {
  const started = performance.now();
  let bytes = bytesBelow(out);
  for (; bytes > (storeMiBMax + segmentMiB) * mib && performance.now() - started < pruneMsMax; bytes = bytesBelow(out))
    await setTimeout(lookMs);
  return bytes;
}

function startService(args: readonly string[]): ChildProcess {
  return spawn(process.execPath, [commandLine, ...args], { stdio: ['ignore', 'ignore', 'pipe'] });
}

function startRank(rank: number, url: string, directory: string): ChildProcess {
  const variables = {
    RANK: `${rank}`,
    WORLD_SIZE: `${realRanks}`,
    LOCAL_RANK: `${rank}`,
    RANKTRACE_RUN: `${run}-real`,
    RANKTRACE_URL: url,
    // The flight recorder fills by about 1 MiB a minute, which is no leak: so it is full before memory is judged, not after an hour (64 MiB).
    RANKTRACE_FLIGHT_RECORDER_BYTES: `${1024 * 1024}`,
  };
  // Nothing is shed: a rank that records less in the second half would hide a growth.
  const env = { ...process.env, ...variables, RANKTRACE_SPOOL_DIRECTORY: join(directory, 'spool'), RANKTRACE_OVERHEAD_BUDGET: '1' };
  return spawn(process.execPath, [rankProgram, `${stepMs / speed}`], { env, stdio: ['ignore', 'ignore', 'inherit'] });
}

async function said(child: ChildProcess, wanted: string): Promise<void> {
  let text = '';
  await new Promise<void>((resolve, reject) => {
    child.stderr?.setEncoding('utf8').on('data', (more: string) => {
      text = (text + more).slice(-65_536);
      if (text.includes(wanted)) resolve();
    });
    child.once('exit', (code) => reject(new Error(`ranktrace serve ended with ${code}:\n${text}`)));
  });
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}

const residentBytes = (pid: number): number => Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024;

function bytesBelow(directory: string): number {
  let bytes = 0;
  // Pruning removes files meanwhile.
  for (const name of readdirSync(directory, { recursive: true }))
    bytes += statSync(join(directory, String(name)), { throwIfNoEntry: false })?.size ?? 0;
  return bytes;
}

const halves = (samples: readonly Sample[]): [readonly Sample[], readonly Sample[]] => [
  samples.slice(0, samples.length >> 1),
  samples.slice(samples.length >> 1),
];

const highest = (samples: readonly Sample[]): number => Math.max(0, ...samples.map(({ value }) => value));

function add(to: Map<string, Sample[]>, name: string, sample: Sample): void {
  const samples = to.get(name);
  if (samples === undefined) to.set(name, [sample]);
  else samples.push(sample);
}
