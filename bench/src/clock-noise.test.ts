import { describe, expect, it } from 'vitest';
import { type ClockNoise, clockNoise } from './clock-noise.ts';

const second = 1e9;
const noise = clockNoise({ seed: 1 });

/** True time at which the clock of `host` reads `local`: drifts are some ppm, so four rounds leave less than a double's resolution. */
function trueTime({ clock }: ClockNoise, host: number, local: number): number {
  let time = local;
  for (let round = 0; round < 4; round++) time += local - clock(host, time);
  return time;
}

const mean = (values: ArrayLike<number>): number => Array.from(values).reduce((sum, value) => sum + value, 0) / values.length;

describe('the simulated cluster', () => {
  it('has the sizes of its options', () => {
    expect(noise.pings.map(({ sent }) => sent.length)).toEqual(Array(16).fill(4800));
    expect(noise.rpcs.time).toHaveLength(36_000);
    expect(noise.collectives).toMatchObject({ count: 3000 });
    expect(noise.collectives.entries).toHaveLength(3000 * 16);
    const small = clockNoise({ seed: 1, hosts: 3, pingsPerSecond: 2, seconds: 20, rpcsPerSecond: 5, collectivesPerSecond: 1 });
    expect([small.hosts, small.seconds, small.pings[2]?.sent.length, small.rpcs.time.length, small.collectives.exits.length]).toEqual([
      3, 20, 40, 100, 60,
    ]);
  });

  it('is the same for the same seed and another for another', () => {
    const facts = ({ pings, rpcs, collectives }: ClockNoise) => ({ pings, rpcs, collectives });
    const options = { hosts: 4, seconds: 30, step: { host: 1, at: 10 * second, by: 50_000 } };
    expect(facts(clockNoise({ seed: 7, ...options }))).toEqual(facts(clockNoise({ seed: 7, ...options })));
    expect(clockNoise({ seed: 8, ...options }).pings[0]?.sent[0]).not.toBe(clockNoise({ seed: 7, ...options }).pings[0]?.sent[0]);
  });

  it('drifts by some 10 ppm from ±5 ms and wanders by less than 1 ppm a minute', () => {
    const offsets = Array.from(
      { length: 200 },
      (_, seed) => clockNoise({ seed, hosts: 1, pingsPerSecond: 0, rpcsPerSecond: 0, collectivesPerSecond: 0 }).clock,
    );
    const start = offsets.map((clock) => clock(0, 0));
    expect(Math.max(...start.map(Math.abs))).toBeLessThan(5e6);
    expect(Math.max(...start.map(Math.abs))).toBeGreaterThan(4.5e6);
    const drifts = offsets.map((clock) => (clock(0, 60 * second) - clock(0, 0)) / (60 * second) - 1);
    expect(Math.abs(mean(drifts))).toBeLessThan(2.5e-6);
    const deviation = Math.sqrt(mean(drifts.map((drift) => drift ** 2)));
    expect(deviation).toBeGreaterThan(8.5e-6);
    expect(deviation).toBeLessThan(11.5e-6);
    const later = offsets.map((clock) => (clock(0, 120 * second) - clock(0, 60 * second)) / (60 * second) - 1);
    expect(Math.max(...later.map((drift, at) => Math.abs(drift - (drifts[at] as number))))).toBeLessThan(1.5e-6);
  });

  it('delays pings as the prototype does: least, mean and asymmetry', () => {
    for (const [asymmetry, tolerance] of [
      [0, 0],
      [30_000, 30_000],
    ] as const) {
      const { pings, clock } = clockNoise({ seed: 3, asymmetry });
      for (const host of pings.keys()) {
        const { sent, remoteReceived, remoteSent, received } = pings[host] as (typeof pings)[number];
        const truth = { clock } as ClockNoise;
        const out = sent.map((local, at) => (remoteReceived[at] as number) - trueTime(truth, host, local));
        const back = received.map((local, at) => trueTime(truth, host, local) - (remoteSent[at] as number));
        const least = [Math.min(...out), Math.min(...back)] as const;
        // 90 µs each way, moved by the asymmetry, ±0.3 µs of clock reading and the shortest of the queue.
        expect(Math.abs(least[0] - 90_000)).toBeLessThan(tolerance + 500);
        expect(Math.abs(least[0] + least[1] - 180_000)).toBeLessThan(1000);
        // The queue: 60 µs, 0.15 · 300 µs · e^0.72, 0.01 · 4.5 ms; 4800 pings with a heavy tail are good for ±15 %.
        const queue = mean(out) - least[0];
        expect(queue).toBeGreaterThan(0.85 * 197_400);
        expect(queue).toBeLessThan(1.15 * 197_400);
      }
    }
  });

  it('keeps cause before effect in true time', () => {
    const { rpcs, collectives, hosts } = noise;
    let service = 0;
    for (const [index, client] of rpcs.client.entries()) {
      const server = rpcs.server[index] as number;
      const [start, arrival, answer, end] = [
        trueTime(noise, client, rpcs.clientStart[index] as number),
        trueTime(noise, server, rpcs.serverStart[index] as number),
        trueTime(noise, server, rpcs.serverEnd[index] as number),
        trueTime(noise, client, rpcs.clientEnd[index] as number),
      ] as const;
      if (client === server || Math.abs(start - (rpcs.time[index] as number)) > 0.01) expect.fail(`call ${index} starts elsewhere`);
      if (arrival - start < 19_999.9 || answer < arrival || end - answer < 19_999.9) expect.fail(`call ${index} is reversed`);
      service += answer - arrival;
    }
    expect(Math.abs(service / rpcs.client.length / 300_000 - 1)).toBeLessThan(0.03);
    const skews: number[] = [];
    for (let index = 0; index < collectives.count; index++) {
      const entries = Array.from({ length: hosts }, (_, host) =>
        trueTime(noise, host, collectives.entries[index * hosts + host] as number),
      );
      const exits = Array.from({ length: hosts }, (_, host) => trueTime(noise, host, collectives.exits[index * hosts + host] as number));
      const last = Math.max(...entries);
      if (Math.min(...exits) - last < 39_999.9) expect.fail(`collective ${index} is left before its last rank has entered`);
      if (Math.min(...entries) < (collectives.time[index] as number)) expect.fail(`collective ${index} is entered before its time`);
      skews.push(last - (collectives.time[index] as number));
    }
    // The last of 128 exponential entries comes after 1.5 ms · (1 + 1/2 + … + 1/128).
    expect(Math.abs(mean(skews) / (1.5e6 * 5.433) - 1)).toBeLessThan(0.03);
  });

  it('lets a host see exits late only when asked to, and changes nothing else', () => {
    const options = { seed: 5, seconds: 30, collectivesPerSecond: 100 };
    const plain = clockNoise({ ...options, exitBias: 0, exitNoise: 0 });
    const late = clockNoise(options);
    expect(late.pings).toEqual(plain.pings);
    expect(late.rpcs).toEqual(plain.rpcs);
    expect(late.collectives.entries).toEqual(plain.collectives.entries);
    // Earliest of 8 exits of 8 µs: 1 µs after the end in the mean, and the earliest of 16 hosts 1/16 µs.
    const exits = plain.collectives.exits.map((exit, at) => trueTime(plain, at % 16, exit));
    const spreads = exits.map((exit, at) => exit - Math.min(...exits.subarray(at - (at % 16), at - (at % 16) + 16)));
    expect(Math.abs(mean(spreads) / (15 / 16) / 1000 - 1)).toBeLessThan(0.03);
    const delays = late.collectives.exits.map((exit, at) => exit - (plain.collectives.exits[at] as number));
    const ofHost = Array.from({ length: 16 }, (_, host) => delays.filter((_, at) => at % 16 === host));
    for (const delay of ofHost) {
      const bias = Math.min(...delay);
      expect(bias).toBeGreaterThanOrEqual(0);
      expect(bias).toBeLessThan(20_100);
      expect(Math.abs(mean(delay) - bias - 20_000)).toBeLessThan(1500);
    }
    expect(new Set(ofHost.map((delay) => Math.round(Math.min(...delay) / 1000))).size).toBeGreaterThan(8);
  });

  it('jumps once, abruptly, on the host asked for', () => {
    const options = { seed: 2, hosts: 3, seconds: 20 };
    const [plain, stepped] = [clockNoise(options), clockNoise({ ...options, step: { host: 1, at: 10.5 * second, by: -70_000 } })];
    const jump = (host: number, time: number): number => stepped.clock(host, time) - plain.clock(host, time);
    expect([jump(1, 10.5 * second - 1), jump(1, 10.5 * second), jump(1, 19 * second), jump(0, 19 * second)]).toEqual([
      0, -70_000, -70_000, 0,
    ]);
    const sent = (noise: ClockNoise) => noise.pings[1]?.sent as Float64Array;
    expect(sent(stepped).filter((local, at) => local !== sent(plain)[at]).length).toBeGreaterThan(60);
  });
});
