// Misbehaving clocks with known truth, and their pings to a reference with true time on its clock.
//
// Any seed works with every kind: the seed draws the misbehaviour and its times.

import type { ClockEvidence, ClockSample } from '../align/clock-evidence.ts';
import { Random } from '../simulate/random.ts';

export const adverseKinds = [
  'plain',
  'steps',
  'many steps',
  'starved',
  'starved and steps',
  'drifts',
  'slewed',
  'lopsided',
  'few pings',
  'noisy ways',
] as const;
export type AdverseKind = (typeof adverseKinds)[number];

const second = 1e9;
/** The reference's clock at true time 0. */
export const referenceStart = 5_000_000_000_000n;

interface Stretch {
  readonly from: number;
  readonly until: number;
}

export class AdverseClock {
  readonly seconds: number;
  /** True times of its steps, and the ns of each jump ahead. */
  readonly steps: readonly { readonly at: number; readonly jump: number }[];
  readonly evidence: ClockEvidence;
  readonly #random: Random;
  readonly #offset: number;
  /** ns per ns, except during slews. */
  readonly drift: number;
  /** True times of stretches, and the deviation of its rate in each, ns per ns. */
  readonly slewed: readonly (Stretch & { readonly rate: number })[];
  readonly #starved: readonly (Stretch & { readonly there: number; readonly back: number })[];
  readonly #legs: readonly [number, number];
  readonly #queue: number;

  constructor(kind: AdverseKind, seed: number, seconds = 60) {
    const random = new Random(seed, 'adverse', adverseKinds.indexOf(kind));
    this.#random = random;
    this.seconds = seconds;
    const isKind = (word: string): boolean => kind.includes(word);
    const time = (): number => random.uniform(0.05, seconds - 0.05) * second;
    const stretch = (longest: number): Stretch => {
      const from = random.uniform(0, seconds) * second;
      return { from, until: from + random.uniform(0.1, longest) * second };
    };
    this.#offset = random.uniform(-2, 2) * second;
    this.drift = (isKind('drifts') ? random.uniform(-200, 200) : random.normal(0, 15)) * 1e-6;
    const count = isKind('many') ? 2 + Math.floor(random.uniform(0, 4)) : isKind('steps') ? 1 : 0;
    // Between two steps without a ping in between, the time is unknowable.
    this.steps = Array.from({ length: count }, (_, step) => ({
      at: count === 1 ? time() : ((step + random.uniform(0.05, 0.9)) * seconds * second) / count,
      // 1 µs to 10 s.
      jump: (random.chance(0.5) ? 1 : -1) * 10 ** random.uniform(3, 10),
    }));
    this.slewed = isKind('slewed')
      ? Array.from({ length: 3 }, (_, part) => {
          const from = ((part + random.uniform(0, 0.9)) * seconds * second) / 3;
          const until = Math.min(from + random.uniform(0.1, 20) * second, ((part + 1) * seconds * second) / 3);
          return { from, until, rate: (random.chance(0.5) ? 1 : -1) * 500e-6 };
        })
      : [];
    this.#starved = isKind('starved')
      ? Array.from({ length: 2 }, () => ({
          ...stretch(25),
          there: random.chance(0.5) ? 10 ** random.uniform(5, 9) : 0,
          back: random.chance(0.5) ? 10 ** random.uniform(5, 9) : 0,
        }))
      : [];
    const leg = 10 ** random.uniform(4.3, 5.3);
    this.#legs = isKind('lopsided') ? (random.chance(0.5) ? [leg, 10 * leg] : [10 * leg, leg]) : [leg, leg * random.uniform(0.8, 1.25)];
    this.#queue = isKind('noisy') ? 10 ** random.uniform(5, 6.5) : 40_000;
    this.evidence = this.#evidenceOf(isKind('few'));
  }

  /** The clock's reading at true time `time`, ns. */
  shows(time: number): number {
    let shown = time + this.#offset + this.drift * time;
    for (const { from, until, rate } of this.slewed) shown += rate * Math.max(0, Math.min(time, until) - from);
    for (const { at, jump } of this.steps) if (time >= at) shown += jump;
    return Math.floor(shown);
  }

  #evidenceOf(hasFew: boolean): ClockEvidence {
    const epoch = this.shows(0);
    const samples: ClockSample[] = [];
    if (hasFew) for (let ping = 0; ping < 5; ping++) samples.push(...this.#burst(this.#random.uniform(0, this.seconds) * second, epoch, 1));
    else for (let at = 0; at < this.seconds * second; at += second / 2) samples.push(...this.#burst(at, epoch, 4));
    samples.sort((a, b) => a.remoteReceived - b.remoteReceived);
    return {
      rank: 1,
      host: 'a',
      epoch: referenceStart + BigInt(epoch),
      samples,
      wallClock: undefined,
      until: this.shows(this.seconds * second) - epoch,
    };
  }

  /** A burst of pings, of which the better half is kept, as in the SDK. */
  #burst(from: number, epoch: number, count: number): ClockSample[] {
    const random = this.#random;
    const queue = (): number => random.exponential(this.#queue) + (random.chance(0.02) ? random.uniform(1e6, 8e6) : 0);
    let at = from;
    const samples = Array.from({ length: count }, () => {
      const starved = this.#starved.find(({ from: begin, until }) => at >= begin && at < until);
      const there = this.#legs[0] + queue() + (starved === undefined || starved.there === 0 ? 0 : random.exponential(starved.there));
      const back = this.#legs[1] + queue() + (starved === undefined || starved.back === 0 ? 0 : random.exponential(starved.back));
      const [arrived, received] = [at + there, at + there + 2000 + back];
      const sample = {
        sent: this.shows(at) - epoch,
        received: this.shows(received) - epoch,
        remoteReceived: Math.floor(arrived),
        remoteSent: Math.floor(arrived + 2000),
        remoteHost: 'reference',
        remoteEpoch: referenceStart,
      };
      at = received + 50_000;
      return { sample, way: there + back };
    });
    return samples
      .sort((a, b) => a.way - b.way)
      .slice(0, Math.ceil(count / 2))
      .map(({ sample }) => sample);
  }
}
