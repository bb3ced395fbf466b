// A simulated cluster for judging clock alignment: the readings of its hosts' clocks, and the pings, calls and collectives through them.
//
// Our own model, after a prototype in Python (`sim`, `sim2`): same distributions, own
// generator, so figures agree in the mean of seeds and never number by number. Per host: an offset of ±5 ms, a drift of 10 ppm that
// wanders by 0.01 ppm a second and breathes by 0.5 ppm with the room's temperature, a ping path that is up to `asymmetry` longer out
// than back, a broker whose queue is exponential with a log-normal tail and stalls of 1–8 ms. Differences, on purpose: a clock step is
// abrupt (the prototype smeared it over its 1 s grid), and the eight ranks of a host do not depend on the rate of pings.
//
// Invariant, in true time: nothing is received before it was sent, and no collective is left before its last rank has entered.
// All times are ns in doubles; after an hour a double still resolves 0.5 ps.

import { Random } from '@ranktrace/trace/simulate';

export interface ClockNoiseOptions {
  readonly seed: number;
  /** 16; calls need two. */
  readonly hosts?: number;
  /** Clock pings of each host per second; 8. */
  readonly pingsPerSecond?: number;
  /** Length of the run; 600. */
  readonly seconds?: number;
  /** ns that a host's way out is at most longer (or shorter) than half of the round trip, uniform per host; 30_000. */
  readonly asymmetry?: number;
  /** ns by which a host sees a collective's end late, always: uniform in 0…2·exitBias per host; 10_000. 0 and no noise: the prototype's `sim`. */
  readonly exitBias?: number;
  /** ns, mean of the additional delay of each exit, exponential; 20_000. */
  readonly exitNoise?: number;
  /** Remote calls of the whole cluster per second; 60. */
  readonly rpcsPerSecond?: number;
  /** Collectives of the whole cluster per second, with every rank; 5. */
  readonly collectivesPerSecond?: number;
  /** One host's clock jumps: from true time `at` (ns) on it reads `by` ns more. */
  readonly step?: { readonly host: number; readonly at: number; readonly by: number };
}

/** One host's pings of the aggregator, whose clock is the truth. One entry a ping, in order of (true) time. */
export interface NoisePings {
  /** Local clock. */
  readonly sent: Float64Array;
  /** True time. */
  readonly remoteReceived: Float64Array;
  /** True time. */
  readonly remoteSent: Float64Array;
  /** Local clock. */
  readonly received: Float64Array;
}

/** Calls between hosts, one entry a call, in order of `time`; each timestamp on the clock of the host that took it. */
export interface NoiseRpcs {
  readonly client: Uint16Array;
  readonly server: Uint16Array;
  readonly clientStart: Float64Array;
  readonly serverStart: Float64Array;
  readonly serverEnd: Float64Array;
  readonly clientEnd: Float64Array;
  /** True time of `clientStart`. */
  readonly time: Float64Array;
}

export interface NoiseCollectives {
  readonly count: number;
  /** count × hosts: local time of the latest entry of the host's ranks. */
  readonly entries: Float64Array;
  /** count × hosts: local time of the earliest exit of the host's ranks. */
  readonly exits: Float64Array;
  /** True time before which no rank entered. */
  readonly time: Float64Array;
}

export interface ClockNoise {
  readonly hosts: number;
  readonly seconds: number;
  /** The reading of `host`'s clock (ns) at true time `time` (ns). */
  clock(host: number, time: number): number;
  /** By host. */
  readonly pings: readonly NoisePings[];
  readonly rpcs: NoiseRpcs;
  readonly collectives: NoiseCollectives;
}

type Clock = (host: number, time: number) => number;

const microsecond = 1e3;
const millisecond = 1e6;
const second = 1e9;
const ranksPerHost = 8;
/** ns the collective itself takes: latency-bound, middling, large. */
const transfers = [40 * microsecond, 300 * microsecond, 2 * millisecond];

/** The same options give the same cluster, bit for bit. Some 0.2 s and 6 MB at the defaults. */
export function clockNoise(options: ClockNoiseOptions): ClockNoise {
  const { seed, hosts = 16, pingsPerSecond = 8, seconds = 600, asymmetry = 30 * microsecond } = options;
  const { exitBias = 10 * microsecond, exitNoise = 20 * microsecond, rpcsPerSecond = 60, collectivesPerSecond = 5 } = options;
  const random = new Random(seed);
  const clock = clocksOf(random, hosts, seconds, options.step);
  const pings = Array.from({ length: hosts }, (_, host) =>
    pingsOf(random, clock, host, sortedTimes(random, seconds * pingsPerSecond, seconds - 1), asymmetry),
  );
  const rpcs = rpcsOf(random, clock, hosts, sortedTimes(random, seconds * rpcsPerSecond, seconds - 2));
  const collectives = collectivesOf(random, clock, hosts, sortedTimes(random, seconds * collectivesPerSecond, seconds - 2));
  // A generator of its own, so that clocks and messages stay the same whatever the exits draw.
  delayExits(new Random(seed, 'exits'), collectives.exits, hosts, exitBias, exitNoise);
  return { hosts, seconds, clock, pings, rpcs, collectives };
}

function clocksOf(random: Random, hosts: number, seconds: number, step: ClockNoiseOptions['step']): Clock {
  const offsets = Array.from({ length: hosts }, () => offsetEachSecond(random, Math.trunc(seconds) + 2));
  return (host, time) => {
    const offset = offsets[host] as Float64Array;
    const at = Math.min(Math.max(time / second, 0), offset.length - 1);
    const before = Math.min(Math.trunc(at), offset.length - 2);
    const low = offset[before] as number;
    const jump = step !== undefined && step.host === host && time >= step.at ? step.by : 0;
    return time + low + (at - before) * ((offset[before + 1] as number) - low) + jump;
  };
}

/** ns that a clock is ahead, at each whole second. */
function offsetEachSecond(random: Random, length: number): Float64Array {
  const drift = random.normal(0, 10e-6);
  const period = random.uniform(150, 600);
  const phase = random.uniform(0, 2 * Math.PI);
  const offset = new Float64Array(length);
  offset[0] = random.uniform(-5 * millisecond, 5 * millisecond);
  let wander = 0;
  for (let at = 1; at < length; at++) {
    wander += random.normal(0, 0.01e-6);
    const warmth = 0.5e-6 * Math.sin((2 * Math.PI * (at - 1)) / period + phase);
    offset[at] = (offset[at - 1] as number) + (drift + wander + warmth) * second;
  }
  return offset;
}

function pingsOf(random: Random, clock: Clock, host: number, times: Float64Array, asymmetry: number): NoisePings {
  const sent = new Float64Array(times.length);
  const remoteReceived = new Float64Array(times.length);
  const remoteSent = new Float64Array(times.length);
  const received = new Float64Array(times.length);
  const longer = random.uniform(-asymmetry, asymmetry);
  for (const [index, time] of times.entries()) {
    const arrival = time + 90 * microsecond + longer + queueing(random, 60 * microsecond);
    const answer = arrival + random.exponential(40 * microsecond);
    const back = answer + 90 * microsecond - longer + queueing(random, 60 * microsecond);
    // 50 ns: cost and jitter of reading a clock.
    sent[index] = clock(host, time) + random.normal(0, 50);
    remoteReceived[index] = arrival + random.normal(0, 50);
    remoteSent[index] = answer + random.normal(0, 50);
    received[index] = clock(host, back) + random.normal(0, 50);
  }
  return { sent, remoteReceived, remoteSent, received };
}

function rpcsOf(random: Random, clock: Clock, hosts: number, time: Float64Array): NoiseRpcs {
  const client = new Uint16Array(time.length);
  const server = new Uint16Array(time.length);
  const clientStart = new Float64Array(time.length);
  const serverStart = new Float64Array(time.length);
  const serverEnd = new Float64Array(time.length);
  const clientEnd = new Float64Array(time.length);
  for (const [index, start] of time.entries()) {
    const from = random.whole(hosts);
    const to = (from + 1 + random.whole(hosts - 1)) % hosts;
    const arrival = start + 20 * microsecond + queueing(random, 25 * microsecond);
    const answer = arrival + random.exponential(300 * microsecond);
    const back = answer + 20 * microsecond + queueing(random, 25 * microsecond);
    client[index] = from;
    server[index] = to;
    clientStart[index] = clock(from, start);
    serverStart[index] = clock(to, arrival);
    serverEnd[index] = clock(to, answer);
    clientEnd[index] = clock(from, back);
  }
  return { client, server, clientStart, serverStart, serverEnd, clientEnd, time };
}

function collectivesOf(random: Random, clock: Clock, hosts: number, time: Float64Array): NoiseCollectives {
  const entries = new Float64Array(time.length * hosts);
  const exits = new Float64Array(time.length * hosts);
  for (const [index, start] of time.entries()) {
    let last = start;
    for (let host = 0; host < hosts; host++) {
      let entry = start;
      for (let rank = 0; rank < ranksPerHost; rank++) entry = Math.max(entry, start + random.exponential(1.5 * millisecond));
      entries[index * hosts + host] = clock(host, entry);
      last = Math.max(last, entry);
    }
    const end = last + (transfers[random.whole(transfers.length)] as number);
    for (let host = 0; host < hosts; host++) {
      let exit = Number.POSITIVE_INFINITY;
      for (let rank = 0; rank < ranksPerHost; rank++) exit = Math.min(exit, end + random.exponential(8 * microsecond));
      exits[index * hosts + host] = clock(host, exit);
    }
  }
  return { count: time.length, entries, exits, time };
}

function delayExits(random: Random, exits: Float64Array, hosts: number, bias: number, noise: number): void {
  const late = Array.from({ length: hosts }, () => random.uniform(0, 2 * bias));
  for (let at = 0; at < exits.length; at++) exits[at] = (exits[at] as number) + (late[at % hosts] as number) + random.exponential(noise);
}

/** ns in a queue: exponential, now and then a log-normal tail, rarely an event loop that stalls. */
function queueing(random: Random, mean: number): number {
  let wait = random.exponential(mean);
  if (random.uniform(0, 1) < 0.15) wait += 300 * microsecond * Math.exp(random.normal(0, 1.2));
  if (random.uniform(0, 1) < 0.01) wait += random.uniform(1 * millisecond, 8 * millisecond);
  return wait;
}

function sortedTimes(random: Random, count: number, seconds: number): Float64Array {
  return new Float64Array(Math.trunc(count)).map(() => random.uniform(0, seconds * second)).sort();
}
