import { traceTime } from '@ranktrace/protocol';
import { expect, it } from 'vitest';
import { traceEvent, traceLane, traceProcess } from '../testing/trace-events.ts';
import { LaunchTimes } from './launch-times.ts';
import { limits } from './limits.ts';

const lanesOf = (index: number) => {
  const process = traceProcess({ index, rank: index });
  return { host: traceLane({ index: 2 * index, process }), stream: traceLane({ index: 2 * index + 1, process, kind: 'stream' }) };
};
const lanes = [lanesOf(1), lanesOf(2)] as const;
const [{ host, stream }, other] = lanes;
const withNumber = (correlation: number): ReadonlyMap<string, number> => new Map([['correlation', correlation]]);
const call = (correlation: number, start: number, lane = host) =>
  traceEvent({ lane, category: 'cuda_runtime', start: traceTime(start), arguments: withNumber(correlation) });
const work = (correlation: number, lane = stream, start = 1000) =>
  traceEvent({ lane, category: 'kernel', start: traceTime(start), arguments: withNumber(correlation) });

it('knows when the call began that launched a piece of work, of each process for itself', () => {
  const launches = new LaunchTimes();
  for (const event of [call(7, 100), call(8, 200), call(0, 300), call(7, 400, other.host)])
    expect(launches.launchOf(event)).toBeUndefined();
  expect([work(7), work(8), work(8), work(6), work(0), work(7, other.stream)].map((event) => launches.launchOf(event))).toEqual([
    ...[100, 200, 200],
    ...[undefined, undefined, 400],
  ]);
  launches.launchOf(call(7, 500));
  expect(launches.launchOf(work(7))).toBe(500);
});

it('forgets the oldest calls beyond its limit', () => {
  const launches = new LaunchTimes();
  for (let at = 1; at <= limits.launchesMax + 1; at++) launches.launchOf(call(at, at));
  expect([1, 2, limits.launchesMax + 1].map((at) => launches.launchOf(work(at)))).toEqual([undefined, 2, limits.launchesMax + 1]);
});

it('takes work that begins before its call, by the clocks, to be launched then; not work of calls that were never recorded', () => {
  const launches = new LaunchTimes();
  // Its call may have been before the recording.
  expect(launches.launchOf(work(7, stream, 90))).toBeUndefined();
  launches.launchOf(call(10, 100));
  expect([work(11, stream, 150), work(266, stream, 160)].map((event) => launches.launchOf(event))).toEqual([150, 160]);
  launches.launchOf(call(11, 170));
  expect(launches.launchOf(work(11, stream, 180))).toBe(170);
  // A second window: what its first steps find on the device was launched when nothing was recorded.
  expect(launches.launchOf(work(5000, stream, 900))).toBeUndefined();
  launches.launchOf(call(5100, 910));
  expect(launches.launchOf(work(5050, stream, 920))).toBeUndefined();
});
