// Shares of each step of a torch.profiler file's devices, computed from its text in the plainest way: unions of stretches, again for every share.

interface JsonEvent {
  readonly ph: string;
  readonly cat?: string;
  readonly name: string;
  readonly ts: number;
  readonly dur: number;
  readonly args?: Readonly<Record<string, unknown>>;
}

type Stretch = readonly [from: number, until: number];

/** µs. */
export interface PlainStep {
  readonly name: string;
  readonly length: number;
  readonly compute: number;
  readonly overlapped: number;
  readonly exposed: number;
  readonly copies: number;
  readonly idle: number;
}

export interface PlainTimes {
  readonly steps: readonly PlainStep[];
  /** All communication, and that which no compute hides, µs. */
  readonly communication: number;
  readonly exposed: number;
  readonly kernels: number;
  readonly kernelTime: number;
  readonly copiedBytes: number;
}

function unionOf(stretches: readonly Stretch[]): Stretch[] {
  const union: [number, number][] = [];
  for (const [from, until] of stretches.toSorted(([a], [b]) => a - b)) {
    const last = union.at(-1);
    if (last !== undefined && from <= last[1]) last[1] = Math.max(last[1], until);
    else union.push([from, until]);
  }
  return union;
}

const sumOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);
const lengthOf = (union: readonly Stretch[]): number => sumOf(union.map(([from, until]) => until - from));
const cutTo = (union: readonly Stretch[], start: number, end: number): Stretch[] =>
  union.map(([from, until]): Stretch => [Math.max(from, start), Math.min(until, end)]).filter(([from, until]) => until > from);

/** The text with times from its first one on: a double does not hold µs since 1970 with decimals. */
function fromFirst(text: string): string {
  let first: bigint | undefined;
  return text.replace(/("ts": ?)(\d+)/g, (_, key: string, micros: string) => {
    first ??= BigInt(micros) - 10_000_000n;
    return `${key}${BigInt(micros) - first}`;
  });
}

/** The shares of every step: a step begins where the one before ends, and ends with the last work that it launched (docs/gpu.md). */
export function plainGpuTimes(text: string): PlainTimes {
  const { traceEvents } = JSON.parse(fromFirst(text)) as { traceEvents: readonly JsonEvent[] };
  const spans = traceEvents.filter(({ ph }) => ph === 'X');
  const of = (...categories: string[]): readonly JsonEvent[] => spans.filter(({ cat = '' }) => categories.includes(cat));
  const stretch = ({ ts, dur }: JsonEvent): Stretch => [ts, ts + dur];
  const kernels = of('kernel', 'Kernel');
  const compute = kernels.filter(({ name }) => !name.startsWith('nccl'));
  const communication = kernels.filter(({ name }) => name.startsWith('nccl'));
  const copies = of('gpu_memcpy', 'gpu_memset', 'Memcpy', 'Memset');
  const device = [...kernels, ...copies];
  const calls = new Map(of('cuda_runtime', 'cuda_driver', 'Runtime').map((call) => [call.args?.correlation, call]));
  const steps = of('user_annotation', 'Operator')
    .filter(({ name }) => name.startsWith('ProfilerStep#'))
    .sort((a, b) => a.ts - b.ts);
  const launchedIn = (step: JsonEvent): readonly JsonEvent[] =>
    device.filter(({ args }) => {
      const call = calls.get(args?.correlation);
      return call !== undefined && call.ts >= step.ts && call.ts < step.ts + step.dur;
    });
  const launched = new Set(steps.flatMap(launchedIn));
  const [firstStep] = steps;
  const first = Math.min(...(firstStep === undefined ? [] : launchedIn(firstStep)).map(({ ts }) => ts));
  const earlier = device.filter((work) => !launched.has(work)).map(({ ts, dur }) => ts + dur);
  let before = Math.max(firstStep?.ts ?? 0, ...earlier.filter((end) => end <= first));
  const unions = {
    busy: unionOf(device.map(stretch)),
    compute: unionOf(compute.map(stretch)),
    communication: unionOf(communication.map(stretch)),
    both: unionOf([...compute, ...communication].map(stretch)),
  };
  return {
    steps: steps.map((step) => {
      const start = Math.max(before, step.ts);
      const end = Math.max(start, step.ts + step.dur, ...launchedIn(step).map(({ ts, dur }) => ts + dur));
      before = end;
      const inside = (union: readonly Stretch[]): number => lengthOf(cutTo(union, start, end));
      const [busy, both] = [inside(unions.busy), inside(unions.both)];
      const [computed, communicated] = [inside(unions.compute), inside(unions.communication)];
      const parts = { compute: both - communicated, overlapped: computed + communicated - both, exposed: both - computed };
      return { name: step.name, length: end - start, ...parts, copies: busy - both, idle: end - start - busy };
    }),
    communication: lengthOf(unions.communication),
    exposed: lengthOf(unions.both) - lengthOf(unions.compute),
    kernels: kernels.length,
    kernelTime: sumOf(kernels.map(({ dur }) => dur)),
    copiedBytes: sumOf(copies.map(({ args }) => Number(args?.bytes ?? 0))),
  };
}
