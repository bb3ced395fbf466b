// Recorded times against true times: ranks get their hosts' clocks (RANKTRACE_TEST_CLOCK), and programs/network-rank.mjs writes
// the truth beside the recording. Errors are differences between hosts: the merge may choose the zero of the trace's axis.

import { inflateRawSync } from 'node:zlib';
import { openBatchLog } from '@ranktrace/aggregator';
import { decodeBatch, spanState } from '@ranktrace/protocol';
import type { ReadEvent, ReadRun } from './trace-events.ts';

/** Shows `true + true · ppm + offsetNs`. */
export interface KnownClock {
  readonly host: string;
  readonly offsetNs: bigint;
  readonly ppm: number;
}

/** ns of CLOCK_MONOTONIC after `KnownRun.zero`: readings just before and after each step mark, and at begin and end of each collective. */
export interface Truth {
  readonly steps: readonly (readonly [before: number, after: number])[];
  readonly collectives: readonly (readonly [before: number, inside: number, leaving: number, left: number])[];
}

export interface KnownRun {
  readonly run: string;
  readonly zero: bigint;
  /** By rank. */
  readonly truths: readonly Truth[];
  readonly clocks: readonly KnownClock[];
}

/** One recorded event: its trace time is ahead of the true time by `least` to `most` ns, plus one constant for all. */
export interface Residual {
  readonly host: string;
  readonly step: number;
  readonly least: number;
  readonly most: number;
  /** The trace's own bound of it, ± ns. */
  readonly bound: number;
  /** Its part of what the trace proves of two hosts, ± ns. */
  readonly apart: number;
  /** The instant that all ranks have in each step. */
  readonly at: 'mark' | 'entry' | 'exit';
}

/** All step marks, entries and exits. */
export function residualsOf({ events, processes }: ReadRun, { truths, clocks }: KnownRun): Residual[] {
  const residuals: Residual[] = [];
  for (const event of events) {
    const { steps, collectives } = truths[event.rank] as Truth;
    const { host } = clocks[event.rank] as KnownClock;
    const alignment = processes.find(({ rank }) => rank === event.rank)?.alignment;
    const add = (at: Residual['at'], step: number, time: typeof event.start, between: readonly [number, number]): void => {
      const bound = alignment?.boundAt?.(time) ?? alignment?.bound ?? 0;
      const apart = alignment?.apartAt?.(time) ?? Number.POSITIVE_INFINITY;
      residuals.push({ host, step, least: time - between[1], most: time - between[0], bound, apart, at });
    };
    if (event.kind === 'step') add('mark', event.step, endOf(event), steps[event.step] as Truth['steps'][number]);
    if (event.kind !== 'collective') continue;
    const [before, inside, leaving, left] = collectives[event.sequence] as Truth['collectives'][number];
    add('entry', event.sequence, event.start, [before, inside]);
    add('exit', event.sequence, endOf(event), [leaving, left]);
  }
  return residuals;
}

/** For each step, the distance of the hosts, ns, by the most exact readings. */
export function errorsOf(residuals: readonly Residual[]): number[] {
  const steps = new Map<number, Map<string, Residual>>();
  for (const residual of residuals) {
    const hosts = steps.get(residual.step) ?? new Map<string, Residual>();
    const best = hosts.get(residual.host);
    if (best === undefined || residual.most - residual.least < best.most - best.least) hosts.set(residual.host, residual);
    steps.set(residual.step, hosts);
  }
  return [...steps.values()].map((hosts) => spread([...hosts.values()].map(({ least, most }) => (least + most) / 2)));
}

/** By how much the hosts contradict their bounds, ns: no zero of the axis satisfies all of them. 0: all hold. */
export function brokenBy(residuals: readonly Residual[]): number {
  let [highest, lowest] = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (const { least, most, bound } of residuals) {
    highest = Math.max(highest, least - bound);
    lowest = Math.min(lowest, most + bound);
  }
  return Math.max(0, highest - lowest);
}

/** By how much two hosts are further apart than the trace proves, ns, and what it proves of two hosts in the median, ± ns. */
export function apartOf(residuals: readonly Residual[]): { readonly broken: number; readonly median: number } {
  const instants = new Map<string, Residual[]>();
  for (const residual of residuals) {
    const key = `${residual.step} ${residual.at}`;
    instants.set(key, [...(instants.get(key) ?? []), residual]);
  }
  const proven: number[] = [];
  let broken = 0;
  for (const together of instants.values()) {
    for (const a of together) {
      for (const b of together) {
        if (a.host === b.host) continue;
        proven.push(a.apart + b.apart);
        broken = Math.max(broken, a.least - b.most - a.apart - b.apart);
      }
    }
  }
  return { broken, median: proven.sort((a, b) => a - b)[proven.length >> 1] as number };
}

/** Collectives that a rank leaves before all have entered, and calls that arrive before they were sent, as text. */
export function reversedIn({ events }: ReadRun, worldSize: number): string[] {
  const byKey = new Map<string, ReadEvent[]>();
  for (const event of events) {
    if (event.kind !== 'collective' && event.kind !== 'rpc') continue;
    const key = event.kind === 'collective' ? `collective ${event.sequence}` : `call ${event.traceId}`;
    byKey.set(key, [...(byKey.get(key) ?? []), event]);
  }
  const reversed: string[] = [];
  for (const [key, parts] of byKey) {
    const [client, server] = [parts.find(({ side }) => side === 'client'), parts.find(({ side }) => side === 'server')];
    const late =
      client === undefined || server === undefined
        ? Math.max(...parts.map(({ start }) => start)) - Math.min(...parts.map(endOf))
        : Math.max(client.start - server.start, endOf(server) - endOf(client));
    if (parts.length !== (key.startsWith('call') ? 2 : worldSize)) reversed.push(`${key} has ${parts.length} parts`);
    else if (late > 0) reversed.push(`${key} by ${late} ns`);
  }
  return reversed;
}

export interface OwnClocks {
  /** For each collective, the distance of its exits by the ranks' own clocks, ns. */
  readonly exitSpreads: readonly number[];
  /** The largest distance of a recorded exit from the readings of the host's clock around it, ns. */
  readonly worst: number;
  /** The distance of hosts when each uses the middle of its shortest ping, ns: NTP's rule. */
  readonly byShortestPing: number;
}

/** The stored batches, without alignment. */
export function ownClocksOf(path: string, { run, zero, truths, clocks }: KnownRun): OwnClocks {
  using log = openBatchLog(path);
  const exits: number[][] = [];
  const shortest = new Map<string, { way: number; error: number }>();
  let worst = Number.NEGATIVE_INFINITY;
  for (const source of log.run(run).sources()) {
    for (let index = 0; index < source.count; index++) {
      const { header, strings, tables } = decodeBatch(source.read(index) as Uint8Array, (body, max) =>
        inflateRawSync(body, { maxOutputLength: max }),
      );
      const clock = clocks[header.rank] as KnownClock;
      const { collectives, clockSamples } = tables;
      for (let row = 0; row < collectives.length; row++) {
        const { state, start, length, sequence } = collectives.columns;
        if (state[row] === spanState.open) continue;
        const exit = BigInt(header.epoch) + BigInt((start[row] as number) + (length[row] as number));
        const [, , leaving, left] = (truths[header.rank] as Truth).collectives[sequence[row] as number] as Truth['collectives'][number];
        const [early, late] = [shownBy(clock, zero + BigInt(leaving)) - exit, exit - shownBy(clock, zero + BigInt(left))];
        worst = Math.max(worst, Number(early), Number(late));
        exits[sequence[row] as number] ??= [];
        exits[sequence[row] as number]?.push(Number(exit - zero));
      }
      for (let row = 0; row < clockSamples.length; row++) {
        const at = (column: keyof typeof clockSamples.columns): number => clockSamples.columns[column][row] as number;
        const way = at('received') - at('sent') - (at('remoteSent') - at('remoteReceived'));
        if (way >= (shortest.get(clock.host)?.way ?? Number.POSITIVE_INFINITY)) continue;
        const remote = BigInt(strings[at('hostEpoch')] as string) + BigInt(Math.round((at('remoteReceived') + at('remoteSent')) / 2));
        const own = BigInt(header.epoch) + BigInt(Math.round((at('sent') + at('received')) / 2));
        shortest.set(clock.host, { way, error: Number(own - shownBy(clock, remote)) });
      }
    }
  }
  return { exitSpreads: exits.map(spread), worst, byShortestPing: spread([...shortest.values()].map(({ error }) => error)) };
}

/** From the last entry of a collective to its last exit, ns: the median, by the true times. Long where ranks wait for a CPU. */
export function typicalWay({ truths }: KnownRun): number {
  const ways = (truths[0] as Truth).collectives.map((_, index) => {
    const parts = truths.map(({ collectives }) => collectives[index] as Truth['collectives'][number]);
    return Math.max(...parts.map(([, , leaving]) => leaving)) - Math.max(...parts.map(([, inside]) => inside));
  });
  return ways.sort((a, b) => a - b)[Math.floor(ways.length / 2)] as number;
}

const endOf = ({ start, length }: ReadEvent): typeof start => (start + length) as typeof start;

/** The clock's reading at `monotonic`, ns. */
export const shownBy = ({ offsetNs, ppm }: KnownClock, monotonic: bigint): bigint =>
  monotonic + offsetNs + (monotonic * BigInt(Math.round(ppm * 1000))) / 1_000_000_000n;

const spread = (values: readonly number[]): number => Math.max(...values) - Math.min(...values);
