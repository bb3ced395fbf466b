// torch's key_averages: function events added up by name, and on request by input shapes and stack.
// Follows torch 2.13: EventList.key_averages, FunctionEventAvg.
//
// Rows come in the order of their first event's start, which breaks ties when a table is sorted.
// Invariant: events are added up in their order, so that times are torch's doubles bit for bit (see function-events.ts).

import { aggregateName, type FunctionEvents } from './function-events.ts';

/** One row: torch's FunctionEventAvg. Times in µs, memory in bytes. */
export interface FunctionAverage {
  readonly key: string;
  readonly count: number;
  /** Where it ran. */
  readonly deviceType: 'cpu' | 'device';
  readonly cpuTimeTotal: number;
  readonly selfCpuTimeTotal: number;
  readonly deviceTimeTotal: number;
  readonly selfDeviceTimeTotal: number;
  /** Bytes allocated less freed while it ran, by any thread. */
  readonly cpuMemoryUsage: number;
  readonly selfCpuMemoryUsage: number;
  readonly deviceMemoryUsage: number;
  readonly selfDeviceMemoryUsage: number;
  /** Floating point operations. */
  readonly flops: number;
  /** Whether the first event is asynchronous. */
  readonly isAsync: boolean;
  /** Whether the first event is at the top level. */
  readonly isTopLevel: boolean;
  readonly isUserAnnotation: boolean;
  /** As Python prints them, such as `[[8, 3], []]`; empty if rows are not grouped by shapes. */
  readonly inputShapes: string;
  /** Frames, innermost first; empty if rows are not grouped by stack. */
  readonly stack: readonly string[];
}

export interface FunctionAveragesOptions {
  readonly groupByInputShape?: boolean;
  /** Number of frames to group by, 0 for none. */
  readonly groupByStackN?: number;
  /** Whether Python functions have rows; the default follows the recording torch's version, the file's `torch_version`. */
  readonly includePythonFunctions?: boolean | undefined;
}

/** First torch version that leaves Python functions out of key averages: before, functions that only wait seemed to take the time. */
const pythonFunctionsUntil = [2, 14] as const;

/** Flags events that have no row of their own. */
function leftOutOf({ row, isFolded, length, table }: FunctionEvents, include: boolean | undefined): Uint8Array {
  const category = table.strings.find('python_function');
  if (category === undefined || (include ?? countsPythonFunctions(table))) return isFolded;
  const { columns } = table.events;
  const leftOut = Uint8Array.from(isFolded);
  for (let event = 0; event < length; event++) {
    const at = row[event] as number;
    if (at >= 0 && columns.category[at] === category) leftOut[event] = 1;
  }
  return leftOut;
}

/** A file without a version counts those that are events: function-events.ts. */
function countsPythonFunctions({ metadata }: FunctionEvents['table']): boolean {
  const version = /^(\d+)\.(\d+)/.exec(String(metadata.get('torch_version') ?? metadata.get('pytorch_version') ?? ''));
  if (version === null) return true;
  const [major, minor] = [Number(version[1]), Number(version[2])];
  return major < pythonFunctionsUntil[0] || (major === pythonFunctionsUntil[0] && minor < pythonFunctionsUntil[1]);
}

/** Frames that torch leaves out of stacks: those that contain both parts of an entry. */
const leftOutFrames = [
  ['autograd/__init__', '_make_grads'],
  ['autograd/__init__', 'backward'],
  ['torch/tensor', 'backward'],
  ['_internal/common_utils', 'prof_callable'],
  ['_internal/common_utils', 'prof_func_call'],
  ['_internal/common_utils', 'prof_meth_call'],
] as const;

type Sum = (typeof sums)[number];
const sums = [
  'cpuTotal',
  'cpuSelf',
  'deviceTotal',
  'deviceSelf',
  'cpuMemory',
  'cpuMemorySelf',
  'deviceMemory',
  'deviceMemorySelf',
  'flops',
] as const;

/** Rows of function events: torch's `prof.key_averages(group_by_input_shape, group_by_stack_n)`. */
export function functionAverages(events: FunctionEvents, options: FunctionAveragesOptions = {}): FunctionAverage[] {
  const { groupByInputShape = false, groupByStackN = 0 } = options;
  const { row, parent, isDevice, isUserAnnotation, isAsync, stack, length, table } = events;
  const { columns } = table.events;
  const { strings } = table;
  const isLeftOut = leftOutOf(events, options.includePythonFunctions);
  const names = new Names(table.strings.strings, aggregateName);
  const shapes = new Names(table.strings.strings, printShapes);
  const stacks = new Names(table.strings.strings, (text) => framesOf(text).slice(0, groupByStackN).join('\n'));

  // An event's group is found in steps, each keyed by a pair of small integers.
  const byKey = new Map<number, number>();
  const byShape = new Map<number, number>();
  const byStack = new Map<number, number>();
  const first: number[] = [];
  const groups = new Uint32Array(length);
  const pairs = strings.strings.length + 1;
  for (let event = 0; event < length; event++) {
    if (isLeftOut[event] === 1) continue;
    const at = row[event] as number;
    const name = names.index(at < 0 ? (table.memory.columns.name[~at] as number) : (columns.name[at] as number));
    let key = name * 4 + (isDevice[event] as number) * 2 + (isUserAnnotation[event] as number);
    if (groupByInputShape) {
      key = small(byShape, key) * pairs + shapes.index(at < 0 ? 0 : (columns.shapes[at] as number));
    }
    if (groupByStackN > 0) key = small(byStack, key) * pairs + stacks.index(stack[event] as number);
    const group = small(byKey, key);
    if (group === first.length) first.push(event);
    groups[event] = group;
  }

  const counts = new Float64Array(first.length);
  for (let event = 0; event < length; event++) {
    if (isLeftOut[event] === 1) continue;
    const group = groups[event] as number;
    counts[group] = (counts[group] as number) + 1;
  }
  const totals = Object.fromEntries(sums.map((sum) => [sum, addUp(events[sum], groups, isLeftOut, first.length)])) as Record<
    Sum,
    Float64Array
  >;

  return first.map((event, group): FunctionAverage => {
    const at = row[event] as number;
    const of = (sum: Sum): number => (totals[sum] as Float64Array)[group] as number;
    return {
      key: aggregateName(strings.get(at < 0 ? (table.memory.columns.name[~at] as number) : (columns.name[at] as number))),
      count: counts[group] as number,
      deviceType: isDevice[event] === 1 ? 'device' : 'cpu',
      ...rowOf(of),
      isAsync: isAsync[event] === 1,
      isTopLevel: parent[event] === -1,
      isUserAnnotation: isUserAnnotation[event] === 1,
      inputShapes: groupByInputShape ? printShapes(at < 0 ? '' : strings.get(columns.shapes[at] as number)) : '',
      stack: framesOf(strings.get(stack[event] as number)).slice(0, groupByStackN),
    };
  });
}

/** torch's `events().total_average()`: one row over all events; with options, over those that have a row under these options. */
export function totalAverage(events: FunctionEvents, options?: FunctionAveragesOptions): FunctionAverage {
  const { isDevice, isAsync, length } = events;
  const isLeftOut = options === undefined ? events.isFolded : leftOutOf(events, options.includePythonFunctions);
  const all = new Uint32Array(length);
  const of = (sum: Sum): number => addUp(events[sum], all, isLeftOut, 1)[0] as number;
  return {
    ...rowOf(of),
    key: 'Total',
    count: isLeftOut.reduce((count, leftOut) => count + 1 - leftOut, 0),
    deviceType: isDevice[0] === 1 ? 'device' : 'cpu',
    isAsync: isAsync[0] === 1,
    isTopLevel: true,
    isUserAnnotation: false,
    inputShapes: '',
    stack: [],
  };
}

/** The numbers of a row. */
const rowOf = (of: (sum: Sum) => number) => ({
  cpuTimeTotal: of('cpuTotal'),
  selfCpuTimeTotal: of('cpuSelf'),
  deviceTimeTotal: of('deviceTotal'),
  selfDeviceTimeTotal: of('deviceSelf'),
  cpuMemoryUsage: of('cpuMemory'),
  selfCpuMemoryUsage: of('cpuMemorySelf'),
  deviceMemoryUsage: of('deviceMemory'),
  selfDeviceMemoryUsage: of('deviceMemorySelf'),
  flops: of('flops'),
});

/** Adds up a column by group; one column at a time stays in the cache. */
function addUp(column: Float64Array, groups: Uint32Array, isLeftOut: Uint8Array, count: number): Float64Array {
  const totals = new Float64Array(count);
  for (let event = 0; event < groups.length; event++) {
    const value = column[event] as number;
    if (value === 0 || isLeftOut[event] === 1) continue;
    const group = groups[event] as number;
    totals[group] = (totals[group] as number) + value;
  }
  return totals;
}

/** Number of a key, in order of first use. */
function small<Key>(numbers: Map<Key, number>, key: Key): number {
  let number = numbers.get(key);
  if (number === undefined) {
    number = numbers.size;
    numbers.set(key, number);
  }
  return number;
}

/** Caches a mapping of strings under which several may become one: string index → index of the result. */
class Names {
  readonly #strings: readonly string[];
  readonly #become: (text: string) => string;
  readonly #indexes: Int32Array;
  readonly #numbers = new Map<string, number>();

  constructor(strings: readonly string[], become: (text: string) => string) {
    this.#strings = strings;
    this.#become = become;
    this.#indexes = new Int32Array(strings.length).fill(-1);
  }

  index(string: number): number {
    const known = this.#indexes[string] as number;
    if (known >= 0) return known;
    const text = this.#become(this.#strings[string] as string);
    const number = small(this.#numbers, text);
    this.#indexes[string] = number;
    return number;
  }
}

/** `Input Dims` as Python prints torch's own list: a list of tensors has no shape in it. */
const printShapes = (json: string): string =>
  `[${shapesOf(json)
    .map((sizes) => `[${sizes.join(', ')}]`)
    .join(', ')}]`;

/** Sizes of each input from the JSON text of `Input Dims`; none for a non-tensor or a list of tensors. */
export function shapesOf(json: string): number[][] {
  if (json === '') return [];
  const inputs = JSON.parse(json) as unknown[];
  return inputs.map((sizes) => (Array.isArray(sizes) && !sizes.some(Array.isArray) ? sizes : []));
}

/** Frames of a `Call stack`, innermost first, less those that torch leaves out; torch ends each frame with a semicolon, the last one too. */
export const framesOf = (stack: string): string[] =>
  stack.split(';').filter((frame) => frame !== '' && !leftOutFrames.some(([file, name]) => frame.includes(file) && frame.includes(name)));
