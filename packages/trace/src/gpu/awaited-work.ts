// Waits of streams for each other, where a recording has the calls but not which event each of them waits for.
//
//   thread     launch a │ wait │ launch n                      n, on another stream, waits for a: the latest launched before the wait …
//              launch g │ launch h │ wait │ launch k │ wait │ launch l       … or the oldest that none waited for yet: k for g, l for h
//
// A stream is taken to wait for another one in one way in the whole recording: if no work ever began before the end of what it would have waited for, and
// some began just then. NCCL's stream waits for what its thread launched on the stream that it computes on, in torch for every collective; for that no
// call needs to be recorded, nor any work to have begun just then.

import type { RankWork, WorkStream } from './device-work.ts';
import { gpuLimits as limits } from './gpu-limits.ts';
import { classOf, kindOf } from './kernel-class.ts';

const waitCall = /^(?:cuda|hip|cu)StreamWaitEvent/;

/** By row of work: rows of work on other streams that it waits for. */
export function awaitedWork(of: RankWork): ReadonlyMap<number, readonly number[]> {
  const { host, work, names } = of;
  const { name, thread } = host.columns;
  const isWait = names.matching(waitCall);
  const launched: number[] = [];
  for (let row = 0; row < work.length; row++) if (work.columns.kind[row] !== kindOf.sync && of.callOf(row) >= 0) launched.push(row);
  launched.sort((a, b) => of.callOf(a) - of.callOf(b) || a - b);
  const ways = new WaysOfStreams(of);
  /** Threads that called for a wait since their last launch. */
  const waiting = new Set<number>();
  let at = 0;
  for (const row of launched) {
    const call = of.callOf(row);
    for (; at < call; at++) if (isWait[name[at] as number] === 1) waiting.add(thread[at] as number);
    ways.launch(row, thread[call] as number, waiting.delete(thread[call] as number));
  }
  return ways.taken();
}

/** One way in which a stream may wait for another. */
interface Way {
  readonly waits: { readonly row: number; readonly source: number }[];
  /** Some work began before the end of what it would have waited for. */
  isRefuted: boolean;
  /** How much work began when that ended. */
  seen: number;
}

/** For the latest work of the other stream, for its oldest one, or for what the thread launched last before communication. */
type Kind = 'latest' | 'oldest' | 'data';

class WaysOfStreams {
  readonly #work: RankWork;
  /** By stream: its work, in order of launch. */
  readonly #launched: readonly number[][];
  /** By waiting stream, awaited one and kind. */
  readonly #ways = new Map<string, Way>();
  /** By waiting stream and awaited one: how much of the latter's work was waited for. */
  readonly #counts = new Map<string, number>();
  /** By thread: the work that it launched last, without communication. */
  readonly #last = new Map<number, number>();

  constructor(work: RankWork) {
    this.#work = work;
    this.#launched = work.streams.map(() => []);
  }

  /** `hasWaited`: the thread called for a wait since its last launch. */
  launch(row: number, thread: number, hasWaited: boolean): void {
    const { columns } = this.#work.work;
    const stream = columns.stream[row] as number;
    const isCommunication = columns.class[row] === classOf.communication;
    if (hasWaited) for (let other = 0; other < this.#launched.length; other++) this.#wait(row, stream, other);
    const data = isCommunication ? this.#last.get(thread) : undefined;
    if (data !== undefined && columns.stream[data] !== stream) this.#add('data', row, data);
    this.#launched[stream]?.push(row);
    if (!isCommunication) this.#last.set(thread, row);
  }

  /** By row: what its stream's ways tell. */
  taken(): ReadonlyMap<number, readonly number[]> {
    const sources = new Map<number, number[]>();
    const seenOf = (key: string): number => {
      const way = this.#ways.get(key);
      return way === undefined || way.isRefuted ? 0 : way.seen;
    };
    for (const [key, { waits, isRefuted }] of this.#ways) {
      const [pair, kind] = key.split(' ');
      const [latest, oldest] = [seenOf(`${pair} latest`), seenOf(`${pair} oldest`)];
      // The way that explains more; of two that explain as much, the one that takes less for granted.
      const isTaken = kind === 'data' ? !isRefuted : kind === 'latest' ? latest > oldest : oldest > 0 && oldest >= latest;
      if (!isTaken) continue;
      for (const { row, source } of waits) {
        const known = sources.get(row);
        if (known === undefined) sources.set(row, [source]);
        else if (!known.includes(source)) known.push(source);
      }
    }
    return sources;
  }

  #wait(row: number, stream: number, other: number): void {
    const rows = this.#launched[other] as readonly number[];
    const { streams } = this.#work;
    const isOneDevice = (streams[stream] as WorkStream).device === (streams[other] as WorkStream).device;
    if (other === stream || rows.length === 0 || !isOneDevice) return;
    this.#add('latest', row, rows.at(-1) as number);
    const pair = `${stream},${other}`;
    const count = this.#counts.get(pair) ?? 0;
    if (count >= rows.length) return;
    this.#add('oldest', row, rows[count] as number);
    this.#counts.set(pair, count + 1);
  }

  #add(kind: Kind, row: number, source: number): void {
    const { start, end, stream } = this.#work.work.columns;
    const key = `${stream[row]},${stream[source]} ${kind}`;
    const way = this.#ways.get(key) ?? { waits: [], isRefuted: false, seen: 0 };
    this.#ways.set(key, way);
    way.waits.push({ row, source });
    const [began, ended] = [start[row] as number, end[source] as number];
    if (began < ended) way.isRefuted = true;
    const before = this.#launched[stream[row] as number]?.at(-1);
    const called = this.#work.host.columns.start[this.#work.callOf(row)] as number;
    const others = Math.max(called, before === undefined ? Number.NEGATIVE_INFINITY : (end[before] as number));
    if (ended > others && began - ended <= limits.gpuKernelGapNsMax) way.seen++;
  }
}
