// Events of a simulated rank as the text of a torch.profiler file, in the format of a given year.
//
//   today   ns behind µs, counted from a base; `ac2g` arrows; distributedInfo with all process groups
//   2022    whole µs since 1970; distributedInfo without groups; kernels have their correlation as External id
//   2021    whole µs; kernels have the id of their op, in lower case; categories of their own (Operator, Kernel, …), streams by name, threads
//           as text, and no user annotations

/** The year of torch's format. */
export type KinetoVintage = 'today' | '2022' | '2021';

/** `start`, `end`: whole ns of true time. */
export interface DrawnEvent {
  readonly ph: 'X' | 'i' | 's' | 'f';
  readonly cat: string;
  readonly name: string;
  /** A thread, or a stream of `device`. */
  readonly tid: number;
  readonly device?: number;
  readonly start: number;
  readonly end?: number;
  readonly id?: number;
  readonly args?: Readonly<Record<string, unknown>>;
  /** For launched work: the time of the call, and arguments known only from the call, none if it lies before the window. */
  readonly launched?: { readonly call: number; readonly args: Readonly<Record<string, unknown>> };
}

export interface KinetoFile {
  readonly rank: number;
  readonly ranks: number;
  readonly pid: number;
  readonly vintage: KinetoVintage;
  /** ns since 1970. */
  readonly base: bigint;
  /** True time, ns. */
  readonly windowStart: number;
  /** Process groups beside '0' that this rank is in, with their members. */
  readonly groups: readonly { readonly name: string; readonly ranks: readonly number[] }[];
  /** The rank's clock at a true time, ns after the base. */
  shown(time: number): bigint;
}

const categories2021: Readonly<Record<string, string>> = {
  cpu_op: 'Operator',
  user_annotation: 'Operator',
  cuda_runtime: 'Runtime',
  kernel: 'Kernel',
  gpu_memcpy: 'Memcpy',
  gpu_memset: 'Memset',
};

const flows: Readonly<Record<KinetoVintage, { readonly cat: string; readonly name: string }>> = {
  today: { cat: 'ac2g', name: 'ac2g' },
  '2022': { cat: 'async_cpu_to_gpu', name: 'async_gpu' },
  '2021': { cat: 'async', name: 'launch' },
};

/** The file's text, with `events` from the window's start on. */
export function kinetoText(events: readonly DrawnEvent[], file: KinetoFile): string {
  const { vintage, windowStart } = file;
  const inside = events.filter(({ start }) => start >= windowStart);
  const times = new Times(file);
  const lines = [...inside.map((event) => eventLine(event, file, times)), ...nameLines(inside, file, times)];
  const head = JSON.stringify(headOf(file), undefined, 2).slice(0, -2);
  const base = vintage === 'today' ? `,\n  "displayTimeUnit": "ms",\n  "baseTimeNanoseconds": ${file.base}` : '';
  return `${head}${base},\n  "traceEvents": [\n  ${lines.join(',\n  ')}\n  ]\n}\n`;
}

/** Prints times in the vintage's format. */
class Times {
  readonly #file: KinetoFile;

  constructor(file: KinetoFile) {
    this.#file = file;
  }

  at(time: number): string {
    const { vintage, base } = this.#file;
    const shown = this.#file.shown(time);
    return vintage === 'today' ? withDecimals(shown) : `${(base + shown) / 1000n}`;
  }

  between(start: number, end: number): string {
    const { vintage, base } = this.#file;
    const [from, until] = [this.#file.shown(start), this.#file.shown(end)];
    return vintage === 'today' ? withDecimals(until - from) : `${(base + until) / 1000n - (base + from) / 1000n}`;
  }
}

function withDecimals(ns: bigint): string {
  const digits = `${ns}`.padStart(4, '0');
  return `${digits.slice(0, -3)}.${digits.slice(-3)}`;
}

function eventLine(event: DrawnEvent, { pid, vintage, windowStart }: KinetoFile, times: Times): string {
  const { ph, cat, name, tid, device, start, end, id, args, launched } = event;
  const isFlow = cat === 'ac2g';
  const isOld = vintage === '2021';
  const category = isFlow ? flows[vintage].cat : isOld ? (categories2021[cat] ?? cat) : cat;
  const thread = isOld && device !== undefined ? `"stream ${tid}"` : isOld && ph === 'X' ? `"${tid}"` : tid;
  let line = `{"ph":"${ph}"`;
  if (id !== undefined) line += `,"id":${id}`;
  if (!isOld || ph !== 'i') line += `,"cat":"${category}"`;
  line += `,"name":"${isFlow ? flows[vintage].name : name}","pid":${device ?? pid},"tid":${thread}`;
  if (ph === 'i') line += ',"s":"t"';
  if (ph === 'f') line += ',"bp":"e"';
  line += `, "ts": ${times.at(start)}`;
  if (end !== undefined) line += `, "dur": ${times.between(start, end)}`;
  const all = launched !== undefined && launched.call >= windowStart ? { ...launched.args, ...args } : args;
  if (all !== undefined) line += `, "args": ${JSON.stringify(isOld && category !== 'Operator' ? inSmallLetters(all) : all)}`;
  return `${line}}`;
}

/** In 2021 work done for an op had the op's id in lower case. */
const inSmallLetters = ({ 'External id': id, ...args }: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> =>
  id === undefined ? args : { ...args, 'external id': id };

/** Names of the process, its GPU, threads and streams, and the profiler's own marks, which belong to no process. */
function nameLines(events: readonly DrawnEvent[], { rank, pid, windowStart, vintage }: KinetoFile, times: Times): string[] {
  const ts = `"ts": ${times.at(windowStart)}`;
  const named = (what: string, of: number, tid: number, name: string): string =>
    `{"name": "${what}", "ph": "M", ${ts}, "pid": ${of}, "tid": ${tid}, "args": {"name": "${name}"}}`;
  const streams = new Set(events.flatMap(({ device, tid }) => (device === undefined ? [] : [tid])));
  const last = events.reduce((until, { start, end = start }) => Math.max(until, end), windowStart);
  const span = `"pid": "Spans", "tid": "PyTorch Profiler", "name": "PyTorch Profiler (0)", "args": {"Op count": 0}`;
  return [
    named('process_name', pid, 0, 'python'),
    named('thread_name', pid, pid, `thread ${pid} (python)`),
    named('thread_name', pid, pid + 1, `thread ${pid + 1} (pt_autograd_0)`),
    ...(vintage === '2021' ? [] : [...streams].map((stream) => named('thread_name', rank, stream, `stream ${stream} `))),
    `{"ph": "X", "cat": "Trace", ${ts}, "dur": ${times.between(windowStart, last)}, ${span}}`,
    `{"name": "Iteration Start: PyTorch Profiler", "ph": "i", "s": "g", "pid": "Traces", "tid": "Trace PyTorch Profiler", ${ts}}`,
  ];
}

function headOf({ rank, ranks, vintage, groups }: KinetoFile): Readonly<Record<string, unknown>> {
  if (vintage === '2021') return { schemaVersion: 1 };
  const distributed = { backend: 'nccl', rank, world_size: ranks };
  if (vintage === '2022') return { schemaVersion: 1, distributedInfo: distributed };
  const all = [{ name: '0', ranks: Array.from({ length: ranks }, (_, member) => member) }, ...groups];
  const configs = all.map(({ name, ranks: members }) => ({ pg_name: name, pg_size: members.length, ranks: members }));
  return {
    schemaVersion: 1,
    deviceProperties: [{ id: rank, name: 'Simulated GPU', totalGlobalMem: 85_028_372_480, numSms: 132 }],
    distributedInfo: { ...distributed, pg_count: configs.length, pg_config: configs, nccl_version: '2.28.9' },
    record_shapes: 1,
    profile_memory: 1,
    trace_id: `0C571551EC6949FFB601113B0DCC5E${rank.toString(16).padStart(2, '0')}`,
  };
}
