// Runs that nobody planned: ranks with several lives, steps that jump, repeat, last no time or for minutes, phases longer than their steps, collectives
// that some ranks leave out or never end, device work without its launch, counters without a value.

import { nanos, traceTime } from '@ranktrace/protocol';
import type { TraceEvent, TraceHeader, TraceLane, TraceProcess, TraceSink } from '../model/trace-sink.ts';
import { Random } from '../simulate/random.ts';
import { exact, processTotals, sampled, traceEvent, traceHeader, traceLane, traceProcess, unaligned } from './trace-events.ts';

const phaseNames = ['data', 'forward', 'backward', 'all_reduce', 'synchronize', 'optimizer', 'evaluate', '', 'x'.repeat(60)];
const collectives = ['all_reduce', 'all_gather', 'broadcast', 'send', 'recv'];
const groups = ['world', '', 'tensor'];
const deviceWork = [
  ['gemm', 'kernel'],
  ['ncclDevKernel_AllReduce', 'kernel'],
  ['Memcpy HtoD (Pinned -> Device)', 'gpu_memcpy'],
  ['Memset (Device)', 'gpu_memset'],
  ['', 'overhead'],
] as const;

export interface OddRun {
  readonly header: TraceHeader;
  readonly lanes: readonly TraceLane[];
  /** By time. */
  readonly events: readonly TraceEvent[];
}

interface Shape {
  /** Share of what is odd; 0: a plain loop. */
  readonly odd: number;
  readonly steps: number;
  readonly phases: readonly string[];
  readonly hasCollectives: boolean;
  readonly hasDevices: boolean;
  readonly hasCalls: boolean;
}

/** A run by its seed; each is different in what it has and in how odd it is. */
export function oddRun(seed: number): OddRun {
  const random = new Random(seed, 'odd run');
  const shape: Shape = {
    odd: random.chance(0.4) ? 0 : random.uniform(0, 0.5),
    steps: 1 + random.whole(random.chance(0.3) ? 300 : 40),
    phases: random.chance(0.8) ? phaseNames.filter(() => random.chance(0.4)) : [],
    hasCollectives: random.chance(0.7),
    hasDevices: random.chance(0.4),
    hasCalls: random.chance(0.2),
  };
  const lives = 1 + random.whole(6);
  const ranks = Array.from({ length: lives }, () => random.whole(lives)).sort((a, b) => a - b);
  const processes = ranks.map((rank, at) => oddProcess(random, at + 1, rank));
  const making = new OddEvents(random, shape);
  for (const process of processes) making.life(process);
  const unixEpoch = random.chance(0.5) ? 1_766_000_000_000_000_000n : undefined;
  return { header: traceHeader(processes, { worldSize: random.whole(lives + 2), unixEpoch }), lanes: making.lanes, events: making.inOrder };
}

/** Plays the run into `sink`, to its end. */
export function playRun({ header, lanes, events }: OddRun, sink: TraceSink): void {
  sink.begin(header);
  for (const lane of lanes) sink.lane(lane);
  for (const event of events) sink.event(event);
  sink.end(
    header.processes.map((process) => {
      const at = process.index;
      return processTotals({ process, ended: at % 3 > 0, missing: at % 2, ...(at % 2 > 0 && { until: traceTime(1e9 * at) }) });
    }),
  );
}

function oddProcess(random: Random, index: number, rank: number): TraceProcess {
  const host = random.whole(3);
  return traceProcess({
    ...{ index, rank, incarnation: `life-${index}`, host: `boot-${host}`, hostName: `host-${host}`, pid: 100 + index },
    alignment: [exact, sampled(random.whole(1e7)), unaligned][random.whole(3)] as TraceProcess['alignment'],
    metadata: new Map(random.chance(0.2) ? [['stage', `${random.whole(2)}`]] : []),
  });
}

/** ns. */
const usualStep = 10e6;

class OddEvents {
  readonly lanes: TraceLane[] = [];
  readonly #random: Random;
  readonly #shape: Shape;
  readonly #events: (readonly [at: number, event: TraceEvent])[] = [];
  readonly #flows = new Map<string, bigint>();

  constructor(random: Random, shape: Shape) {
    this.#random = random;
    this.#shape = shape;
  }

  get inOrder(): TraceEvent[] {
    return this.#events.sort(([a], [b]) => a - b).map(([, event]) => event);
  }

  life(process: TraceProcess): void {
    const { odd, hasDevices, hasCalls } = this.#shape;
    const random = this.#random;
    const [main, steps, counter] = [
      this.#lane(process, 'thread', 'main'),
      this.#lane(process, 'steps', 'ProfilerSteps'),
      this.#lane(process, 'counter', 'cpu wait'),
    ];
    const streams = hasDevices ? [this.#lane(process, 'stream', 'stream 7'), this.#lane(process, 'stream', 'stream 9')] : [];
    const isRestarted = random.chance(0.4);
    const count = random.chance(0.7) ? this.#shape.steps : random.whole(this.#shape.steps);
    let [at, step] = isRestarted ? [random.whole(this.#shape.steps * usualStep), random.whole(this.#shape.steps)] : [random.whole(1000), 0];
    const sequences = new Map<string, number>();
    for (let made = 0; made < count; made++, step++) {
      if (random.chance(odd / 5)) step = Math.max(0, step + random.whole(20) - 5);
      if (random.chance(odd / 5)) at += random.whole(1e9);
      const length = this.#length();
      const phases = this.#phases(main, at, length);
      if (this.#shape.hasCollectives) this.#collectives(streams[0] ?? main, main, { at, length }, sequences);
      for (const stream of streams) this.#deviceWork(stream, main, at, length);
      if (hasCalls) this.#call(main, at, step);
      if (random.chance(0.5)) {
        const value = random.chance(0.1) ? Number.NaN : random.uniform(0, 100);
        this.#add(at, { kind: 'counter', lane: counter, name: 'cpu wait', value });
      }
      const about = { kind: 'step', lane: steps, step, name: `ProfilerStep#${step}`, start: traceTime(at), length: nanos(length) } as const;
      if (random.chance(0.97)) this.#add(at + length, { ...about, phases: random.chance(1 - odd / 3) ? phases : undefined });
      at += length + (random.chance(0.2) ? random.whole(1e6) : 0);
    }
  }

  #lane(process: TraceProcess, kind: TraceLane['kind'], name: string): TraceLane {
    const unit = kind === 'counter' ? '%' : '';
    const lane = traceLane({ index: this.lanes.length + 1, process, kind, name, tid: this.lanes.length, unit });
    this.lanes.push(lane);
    return lane;
  }

  #add(at: number, about: Partial<TraceEvent>): void {
    this.#events.push([at, traceEvent({ start: traceTime(at), ...about })]);
  }

  /** The length of a step or a phase, ns. */
  #length(): number {
    const random = this.#random;
    if (!random.chance(this.#shape.odd)) return Math.round(usualStep * random.lognormal(1, 0.05));
    return [0, random.whole(100), random.whole(1e12), Math.round(usualStep * random.lognormal(1, 0.8))][random.whole(4)] as number;
  }

  #phases(lane: TraceLane, at: number, length: number): ReadonlyMap<string, ReturnType<typeof nanos>> {
    const random = this.#random;
    const lengths = new Map<string, ReturnType<typeof nanos>>();
    let [from, rest] = [at, length];
    for (const name of this.#shape.phases) {
      const phase = random.chance(this.#shape.odd / 5) ? this.#length() : Math.floor(rest * random.uniform(0, 0.5));
      lengths.set(name, nanos(phase));
      if (random.chance(0.8)) this.#add(from, { lane, name, length: nanos(phase), category: random.chance(0.7) ? '' : 'cpu_op' });
      from += phase;
      rest = Math.max(0, rest - phase);
    }
    return lengths;
  }

  #collectives(device: TraceLane, main: TraceLane, step: { readonly at: number; readonly length: number }, sequences: Map<string, number>) {
    const random = this.#random;
    const { odd } = this.#shape;
    for (let left = random.whole(4); left > 0; left--) {
      const group = groups[random.chance(odd) ? random.whole(groups.length) : 0] as string;
      const sequence = (sequences.get(group) ?? 0) + (random.chance(odd / 10) ? random.whole(3) : 1);
      sequences.set(group, sequence);
      const key = `${group} ${sequence}`;
      const flow = this.#flows.get(key) ?? BigInt(this.#flows.size + 1);
      this.#flows.set(key, flow);
      const at = step.at + random.whole(Math.max(1, step.length));
      const length = nanos(random.chance(odd / 5) ? this.#length() : random.whole(Math.max(1, step.length / 4)));
      const about = {
        ...({ kind: 'collective', lane: random.chance(0.5) ? device : main, group, sequence, start: traceTime(at) } as const),
        name: collectives[random.chance(odd) ? random.whole(collectives.length) : 0] as string,
        ...{ bytes: random.whole(1e9), peerRank: random.whole(4) - 1, flow: random.chance(odd / 2) ? undefined : flow },
      };
      if (!random.chance(odd / 3)) this.#add(at, { ...about, length });
      else {
        this.#add(at, { ...about, state: 'open' });
        if (random.chance(0.6)) this.#add(at + length, { ...about, state: 'close', length });
      }
    }
  }

  #deviceWork(lane: TraceLane, host: TraceLane, from: number, step: number): void {
    const random = this.#random;
    let at = from;
    for (let left = random.whole(5); left > 0; left--) {
      at += random.whole(Math.max(1, step / 5));
      const length = random.chance(this.#shape.odd / 10) ? this.#length() : random.whole(Math.max(1, step / 3));
      const correlation = random.whole(1000);
      const [name, category] = deviceWork[random.chance(0.5) ? 0 : random.whole(deviceWork.length)] as (typeof deviceWork)[number];
      const of = new Map([
        ['correlation', correlation],
        ['bytes', random.whole(1e9)],
      ]);
      this.#add(at, { lane, name, category, length: nanos(length), arguments: of });
      const launched = Math.max(0, at - random.whole(1e6));
      const launch = { name: 'cudaLaunchKernel', category: 'cuda_runtime', length: nanos(random.whole(10_000)) };
      if (random.chance(0.9)) this.#add(launched, { lane: host, ...launch, arguments: new Map([['correlation', correlation]]) });
      at += length;
    }
  }

  #call(lane: TraceLane, at: number, step: number): void {
    const random = this.#random;
    const [side, status] = [random.chance(0.5) ? 'client' : 'server', random.chance(0.9) ? 'ok' : 'error'];
    const ids = { traceId: `${step}`.padStart(32, '1'), spanId: `${step}`.padStart(16, '1'), flow: BigInt(step + 1e6) };
    this.#add(at, { kind: 'rpc', lane, name: 'call', peer: 'rank 1', length: nanos(this.#length()), side, status, ...ids });
  }
}
