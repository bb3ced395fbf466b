// Other methods on the same pings, and the quality of any alignment: the peers of `npm run bench -- clock`.
//
// Each baseline follows its published rule and nothing more; none uses calls or collectives.
// Times are ns; an alignment is a function from a host's local clock to true time.

import { separatingLines } from './clock-hull.ts';
import type { ClockNoise, NoisePings } from './clock-noise.ts';

/** Local clock of `host` (ns) → true time (ns). */
export type ClockMap = (host: number, local: number) => number;

export interface ClockBaseline {
  readonly name: string;
  readonly fit: (noise: ClockNoise) => ClockMap;
}

export const clockBaselines: readonly ClockBaseline[] = [
  { name: 'Perfetto, mean of midpoints', fit: eachHost(meanOfMidpoints) },
  { name: 'Score-P, line from start to end', fit: eachHost(startEndLine) },
  { name: 'least squares', fit: eachHost(leastSquares) },
  { name: 'convex hull, one line', fit: eachHost(hullFit) },
  { name: 'NTP, least round trip of 64', fit: eachHost(leastRoundTrips) },
];

/** Local time (ns) → ns to add to it. */
type Correction = (local: number) => number;

function eachHost(correct: (pings: NoisePings) => Correction): (noise: ClockNoise) => ClockMap {
  return (noise) => {
    const corrections = noise.pings.map(correct);
    return (host, local) => local + (corrections[host] as Correction)(local);
  };
}

/** Midpoint of a ping on the local clock, and by how much the true clock is ahead there if both directions took equally long. */
interface Midpoint {
  readonly local: number;
  readonly ahead: number;
}

function midpoint(pings: NoisePings, index: number): Midpoint {
  const sent = pings.sent[index] as number;
  const received = pings.received[index] as number;
  const ahead = ((pings.remoteReceived[index] as number) - sent + ((pings.remoteSent[index] as number) - received)) / 2;
  return { local: (sent + received) / 2, ahead };
}

const midpoints = (pings: NoisePings): Midpoint[] => Array.from(pings.sent, (_, index) => midpoint(pings, index));

/** The ping of least round trip among `from`…`to` − 1. */
function leastRoundTrip(pings: NoisePings, from: number, to: number): Midpoint {
  const roundTrip = (index: number): number =>
    (pings.received[index] as number) -
    (pings.sent[index] as number) -
    ((pings.remoteSent[index] as number) - (pings.remoteReceived[index] as number));
  let best = from;
  for (let index = from + 1; index < to; index++) if (roundTrip(index) < roundTrip(best)) best = index;
  return midpoint(pings, best);
}

/** Perfetto's RemoteClockSync: one constant, the mean over all pings; no filter, no drift. */
function meanOfMidpoints(pings: NoisePings): Correction {
  const ahead = mean(midpoints(pings).map((point) => point.ahead));
  return () => ahead;
}

/** Score-P, Intel's collector, mpisync: the best of some pings at the start and at the end of the run (80 each), a line through both. */
function startEndLine(pings: NoisePings): Correction {
  const { length } = pings.sent;
  const start = leastRoundTrip(pings, 0, Math.min(80, length));
  const end = leastRoundTrip(pings, Math.max(0, length - 80), length);
  return line(start, (end.ahead - start.ahead) / (end.local - start.local));
}

/** Ordinary least squares through all midpoints. */
function leastSquares(pings: NoisePings): Correction {
  const points = midpoints(pings);
  const centre = { local: mean(points.map(({ local }) => local)), ahead: mean(points.map(({ ahead }) => ahead)) };
  let covariance = 0;
  let variance = 0;
  for (const { local, ahead } of points) {
    covariance += (local - centre.local) * (ahead - centre.ahead);
    variance += (local - centre.local) ** 2;
  }
  return line(centre, covariance / variance);
}

/**
 * Duda's hulls, one line for the run: each ping bounds the correction from above where it was sent and from below where it came back.
 * The line farthest from both clouds stands for the bisector, which does not exist once a wandering clock makes the hulls cross.
 * Whole ns, as recorded timestamps are, make the arithmetic exact.
 */
function hullFit(pings: NoisePings): Correction {
  const whole = (value: number): bigint => BigInt(Math.round(value));
  const points = (locals: Float64Array, remotes: Float64Array) =>
    Array.from(locals, (local, index) => ({ x: whole(local), y: whole(remotes[index] as number) - whole(local) }));
  const lines = separatingLines(points(pings.sent, pings.remoteReceived), points(pings.received, pings.remoteSent));
  if (lines === undefined) throw new Error('Cannot fit a hull: the pings sent and those received do not overlap in time');
  const { slope, offset } = lines.widest;
  const ahead = Number(offset.numerator) / Number(offset.denominator);
  return line({ local: 0, ahead }, Number(slope.numerator) / Number(slope.denominator));
}

/** NTP's filter over 64 pings, straight lines between the chosen ones, constant before the first and after the last. */
function leastRoundTrips(pings: NoisePings): Correction {
  const { length } = pings.sent;
  const knots: Midpoint[] = [];
  for (let from = 0; from < length; from += 64) knots.push(leastRoundTrip(pings, from, Math.min(from + 64, length)));
  return (local) => {
    let low = 0;
    for (let high = knots.length; low < high; ) {
      const half = (low + high) >>> 1;
      if ((knots[half] as Midpoint).local <= local) low = half + 1;
      else high = half;
    }
    const right = knots[Math.min(low, knots.length - 1)] as Midpoint;
    const left = knots[Math.max(low - 1, 0)] as Midpoint;
    if (left === right) return left.ahead;
    return left.ahead + ((local - left.local) / (right.local - left.local)) * (right.ahead - left.ahead);
  };
}

const line =
  (through: Midpoint, slope: number): Correction =>
  (local) =>
    through.ahead + slope * (local - through.local);

/** ns, of absolute values. */
export interface ErrorSpread {
  readonly median: number;
  readonly p99: number;
  readonly max: number;
}

export interface ClockScore {
  /** Against true time, over all hosts and instants. */
  readonly absolute: ErrorSpread;
  /** Against the mean error of all hosts at that instant: the error of comparisons between ranks. */
  readonly crossHost: ErrorSpread;
  /** Per million messages (two a call): received before sent. */
  readonly rpcViolations: number;
  /** Per million collectives: left by some host before another entered. */
  readonly barrierViolations: number;
}

/** The distance of `map` from the truth at 1000 instants (5 s of each end left out), and how often it reverses cause and effect. */
export function scoreClocks(noise: ClockNoise, map: ClockMap): ClockScore {
  const instants = 1000;
  const absolute = new Float64Array(noise.hosts * instants);
  const crossHost = new Float64Array(noise.hosts * instants);
  for (let instant = 0; instant < instants; instant++) {
    const time = (5 + (instant / (instants - 1)) * (noise.seconds - 10)) * 1e9;
    const errors = Array.from({ length: noise.hosts }, (_, host) => map(host, noise.clock(host, time)) - time);
    const common = mean(errors);
    for (const [host, error] of errors.entries()) {
      absolute[instant * noise.hosts + host] = Math.abs(error);
      crossHost[instant * noise.hosts + host] = Math.abs(error - common);
    }
  }
  return {
    absolute: spread(absolute),
    crossHost: spread(crossHost),
    rpcViolations: rpcViolations(noise, map),
    barrierViolations: barrierViolations(noise, map),
  };
}

function rpcViolations({ rpcs }: ClockNoise, map: ClockMap): number {
  let reversed = 0;
  for (const [index, client] of rpcs.client.entries()) {
    const server = rpcs.server[index] as number;
    if (map(client, rpcs.clientStart[index] as number) > map(server, rpcs.serverStart[index] as number)) reversed++;
    if (map(server, rpcs.serverEnd[index] as number) > map(client, rpcs.clientEnd[index] as number)) reversed++;
  }
  return perMillion(reversed, 2 * rpcs.client.length);
}

function barrierViolations({ hosts, collectives }: ClockNoise, map: ClockMap): number {
  let broken = 0;
  for (let index = 0; index < collectives.count; index++) {
    let lastEntry = Number.NEGATIVE_INFINITY;
    let firstExit = Number.POSITIVE_INFINITY;
    for (let host = 0; host < hosts; host++) {
      lastEntry = Math.max(lastEntry, map(host, collectives.entries[index * hosts + host] as number));
      firstExit = Math.min(firstExit, map(host, collectives.exits[index * hosts + host] as number));
    }
    if (lastEntry > firstExit) broken++;
  }
  return perMillion(broken, collectives.count);
}

const perMillion = (part: number, whole: number): number => (whole === 0 ? 0 : (part / whole) * 1e6);
const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

/** Quantiles between two values are interpolated, as numpy does. */
function spread(values: Float64Array): ErrorSpread {
  const sorted = values.toSorted();
  const at = (part: number): number => {
    const position = part * (sorted.length - 1);
    const low = sorted[Math.floor(position)] as number;
    return low + (position % 1) * ((sorted[Math.ceil(position)] as number) - low);
  };
  return { median: at(0.5), p99: at(0.99), max: at(1) };
}
