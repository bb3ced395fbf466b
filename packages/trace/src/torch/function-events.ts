// Function events as in torch.profiler: nesting of ops, self time and self memory, device time of launched work.
// Follows torch 2.13: autograd/profiler.py (_parse_kineto_results) and autograd/profiler_util.py (EventList).
//
//   event       0 1 2 …                  in the order of (start, longest first); a parent comes before its children
//   parent     -1 0 0 …                  index of an event, -1 at the top
//   row         5 4 9 …  ~0              row of the trace's events; ~row of its memory instants that no op claims
//
// torch's less obvious rules, followed here:
//  - An op is charged with every allocation timed within [start, end], whichever thread made it.
//  - An op that is the only child of one with the same name is folded into it, and its kernels replace the outer one's.
//  - A runtime call belongs to the thread of its op.
//  - Python functions are events like ops, but not up to torch 2.11, which did not name the host in a file: then their time is their caller's.
//  - An asynchronous op has no parent, no children and no self time or memory, only totals.
//
// A file holds less than torch knows in the process: torch's files do not mark asynchronous ops (ours do) and lack torch's own
// thread numbers, so a backward op finds its forward op's stack by sequence number alone, in the first op that has it.
//
// Invariant: times are torch's own doubles, bit for bit: µs from the profile's start, lengths as their differences, added in torch's order.
// Exact ns would be nearer the truth by less than 1 ns an event, but an average such as 1.1145 µs would then print as 1.115, not 1.114.
// Invariant: the table is not changed. After one sort every pass is linear, except the search for an op's last allocation.

import { annotationCategories, deviceCategories, indexesOf } from '../model/kineto-categories.ts';
import { sortByTime } from '../model/sort-by-time.ts';
import { functionFlops, opsWithFlops } from './function-flops.ts';
import type { KinetoTable } from './kineto-table.ts';
import { elapsedMicros, LaunchedWork } from './launched-work.ts';

/** Names that torch leaves out: the profiler's own work, and noise. */
const leftOut: ReadonlySet<string> = new Set([
  '[memory]',
  '[OutOfMemory]',
  'profiler::_record_function_enter',
  'profiler::_record_function_enter_new',
  'profiler::_record_function_exit',
  'aten::is_leaf',
  'aten::output_nr',
  'aten::_version',
]);

/** c10::DeviceType of host memory (CPU, MKLDNN, IDEEP); all others are device memory (CUDA, HIP, PrivateUse1). */
const hostMemory: ReadonlySet<number> = new Set([0, 2, 5]);
const deviceMemory: ReadonlySet<number> = new Set([1, 6, 20]);

/** All columns have `length` entries; times in µs, memory in bytes. */
export interface FunctionEvents {
  readonly table: KinetoTable;
  readonly length: number;
  readonly row: Int32Array;
  /** Parent after folding; -1 at the top and for device events. */
  readonly parent: Int32Array;
  /** 1 if the event was folded into its parent and no longer counts. */
  readonly isFolded: Uint8Array;
  /** 1 for device work. */
  readonly isDevice: Uint8Array;
  readonly isUserAnnotation: Uint8Array;
  /** 1 for asynchronous host work: no parent, no children, no self time. */
  readonly isAsync: Uint8Array;
  /** The op that a kernel or runtime call works for, -1 if none; undefined if the trace has no such work. */
  readonly launcher: Int32Array | undefined;
  /** 0 for device events. */
  readonly cpuTotal: Float64Array;
  readonly cpuSelf: Float64Array;
  readonly deviceTotal: Float64Array;
  readonly deviceSelf: Float64Array;
  readonly cpuMemory: Float64Array;
  readonly cpuMemorySelf: Float64Array;
  readonly deviceMemory: Float64Array;
  readonly deviceMemorySelf: Float64Array;
  readonly flops: Float64Array;
  /** Index of the stack's text in the table's strings: the event's own, or for a backward op its forward op's. */
  readonly stack: Uint32Array;
}

export interface FunctionEventOptions {
  /** Compute FLOPs that the trace lacks; defaults to `with_flops` of the recording. */
  readonly withFlops?: boolean;
  /** Take Python functions for events; defaults to what the recording torch did. */
  readonly withPythonFunctions?: boolean | undefined;
}

const hasPythonFunctions = ({ metadata }: KinetoTable): boolean =>
  metadata.has('host_name') || metadata.has('torch_version') || metadata.has('pytorch_version');

/** The function events of a trace. */
export function functionEvents(table: KinetoTable, options: FunctionEventOptions = {}): FunctionEvents {
  const { columns } = table.events;
  const isLeftOut = indexesOf(table.strings, leftOut);
  const deviceIndexes = indexesOf(table.strings, deviceCategories);
  const annotationIndexes = indexesOf(table.strings, annotationCategories);
  const { withPythonFunctions = hasPythonFunctions(table) } = options;
  const pythonFunction = withPythonFunctions ? undefined : table.strings.find('python_function');

  const memory = memoryInOrder(table);
  const sorted = sortByTime(columns.start, columns.duration, table.events.length);
  const room = sorted.length + memory.length;
  const row = new Int32Array(room);
  const isDevice = new Uint8Array(room);
  const isUserAnnotation = new Uint8Array(room);
  const isAsync = new Uint8Array(room);
  const cpuMemory = new Float64Array(room);
  const deviceMemoryOf = new Float64Array(room);

  // Charge memory to ops, and insert unclaimed memory after the events with the same start.
  let length = 0;
  let next = 0;
  let lastEnd = Number.NEGATIVE_INFINITY;
  const addUnclaimed = (before: number): void => {
    for (; next < memory.length && (memory.time[next] as number) < before; next++) {
      if ((memory.time[next] as number) <= lastEnd && !memory.isOutOfMemory[next]) continue;
      const { bytes, deviceType } = table.memory.columns;
      const from = memory.row[next] as number;
      if (hostMemory.has(deviceType[from] as number)) cpuMemory[length] = bytes[from] as number;
      if (deviceMemory.has(deviceType[from] as number)) deviceMemoryOf[length] = bytes[from] as number;
      row[length++] = ~from;
    }
  };
  for (const at of sorted) {
    if (isLeftOut.has(columns.name[at] as number) || columns.category[at] === pythonFunction) continue;
    const start = columns.start[at] as number;
    addUnclaimed(start);
    row[length] = at;
    const category = columns.category[at] as number;
    if (annotationIndexes.has(category)) isUserAnnotation[length] = 1;
    if (deviceIndexes.has(category)) isDevice[length] = 1;
    else isAsync[length] = columns.isAsync[at] as number;
    if (isDevice[length] === 0 && memory.length > 0) {
      const end = start + (columns.duration[at] as number);
      if (end > lastEnd) lastEnd = end;
      const to = firstAfter(memory.time, next, end);
      cpuMemory[length] = (memory.cpuBefore[to] as number) - (memory.cpuBefore[next] as number);
      deviceMemoryOf[length] = (memory.deviceBefore[to] as number) - (memory.deviceBefore[next] as number);
    }
    length++;
  }
  addUnclaimed(Number.POSITIVE_INFINITY);

  const tree = buildTree(table, row, isDevice, isAsync, length);
  const { parent, isFolded, deviceOwn } = tree;

  const cpuTotal = new Float64Array(length);
  const deviceTotal = new Float64Array(length);
  for (let event = 0; event < length; event++) {
    const at = row[event] as number;
    if (at < 0) continue;
    if (isDevice[event] === 1) deviceTotal[event] = elapsedMicros(table, at);
    else cpuTotal[event] = elapsedMicros(table, at);
  }
  // Time of the children, added up in their order.
  const inside = new Float64Array(length);
  const cpuMemorySelf = cpuMemory.slice(0, length);
  const deviceMemorySelf = deviceMemoryOf.slice(0, length);
  for (let event = 0; event < length; event++) {
    const above = parent[event] as number;
    if (above < 0 || isFolded[event] === 1) continue;
    inside[above] = (inside[above] as number) + (cpuTotal[event] as number);
    cpuMemorySelf[above] = (cpuMemorySelf[above] as number) - (cpuMemory[event] as number);
    deviceMemorySelf[above] = (deviceMemorySelf[above] as number) - (deviceMemoryOf[event] as number);
  }
  const cpuSelf = cpuTotal.map((total, event) => total - (inside[event] as number));
  for (let event = isAsync.indexOf(1); event >= 0; event = isAsync.indexOf(1, event + 1)) {
    cpuSelf[event] = 0;
    cpuMemorySelf[event] = 0;
    deviceMemorySelf[event] = 0;
    deviceTotal[event] = 0;
  }
  const deviceSelf = Float64Array.from(deviceTotal);
  // Children come after their parents, so going backwards every event is complete before it is added to its parent.
  for (let event = tree.launches ? length - 1 : -1; event >= 0; event--) {
    if (isFolded[event] === 1 || isDevice[event] === 1) continue;
    deviceSelf[event] = deviceOwn[event] as number;
    deviceTotal[event] = (deviceTotal[event] as number) + (deviceOwn[event] as number);
    const above = parent[event] as number;
    if (above >= 0) deviceTotal[above] = (deviceTotal[above] as number) + (deviceTotal[event] as number);
  }

  return {
    table,
    length,
    row: row.subarray(0, length),
    parent,
    isFolded,
    isDevice: isDevice.subarray(0, length),
    isUserAnnotation: isUserAnnotation.subarray(0, length),
    isAsync: isAsync.subarray(0, length),
    launcher: tree.launcher,
    cpuTotal,
    cpuSelf,
    deviceTotal,
    deviceSelf,
    cpuMemory: cpuMemory.subarray(0, length),
    cpuMemorySelf,
    deviceMemory: deviceMemoryOf.subarray(0, length),
    deviceMemorySelf,
    flops: flopsOf(table, row, length, options.withFlops ?? table.isOn('with_flops')),
    stack: stacksOf(table, row, parent, length),
  };
}

interface MemoryInOrder {
  readonly length: number;
  readonly time: Float64Array;
  /** Rows of the table's memory. */
  readonly row: Uint32Array;
  /** Running sum of bytes before each instant; one entry more than rows, so that a range is a difference. */
  readonly cpuBefore: Float64Array;
  readonly deviceBefore: Float64Array;
  readonly isOutOfMemory: Uint8Array;
}

function memoryInOrder({ memory, strings }: KinetoTable): MemoryInOrder {
  const { columns, length } = memory;
  const row = sortByTime(columns.time, columns.time, length);
  const time = new Float64Array(length);
  const cpuBefore = new Float64Array(length + 1);
  const deviceBefore = new Float64Array(length + 1);
  const isOutOfMemory = new Uint8Array(length);
  const outOfMemory = strings.find('[OutOfMemory]');
  for (let at = 0; at < length; at++) {
    const from = row[at] as number;
    time[at] = columns.time[from] as number;
    isOutOfMemory[at] = columns.name[from] === outOfMemory ? 1 : 0;
    const bytes = isOutOfMemory[at] === 1 ? 0 : (columns.bytes[from] as number);
    const type = columns.deviceType[from] as number;
    cpuBefore[at + 1] = (cpuBefore[at] as number) + (hostMemory.has(type) ? bytes : 0);
    deviceBefore[at + 1] = (deviceBefore[at] as number) + (deviceMemory.has(type) ? bytes : 0);
  }
  return { length, time, row, cpuBefore, deviceBefore, isOutOfMemory };
}

/** First index at or after `from` with a time after `end`. Ops are short, so the search takes growing steps. */
function firstAfter(time: Float64Array, from: number, end: number): number {
  let low = from;
  let step = 1;
  while (low + step <= time.length && (time[low + step - 1] as number) <= end) {
    low += step;
    step *= 2;
  }
  let high = Math.min(low + step, time.length);
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((time[middle] as number) <= end) low = middle + 1;
    else high = middle;
  }
  return low;
}

interface Tree {
  readonly parent: Int32Array;
  readonly isFolded: Uint8Array;
  /** Device time of the kernels that an event launched itself, µs. */
  readonly deviceOwn: Float64Array;
  /** Whether any event launched a kernel. */
  readonly launches: boolean;
  readonly launcher: Int32Array | undefined;
}

function buildTree(table: KinetoTable, row: Int32Array, isDevice: Uint8Array, isAsync: Uint8Array, length: number): Tree {
  const { columns } = table.events;
  const parent = new Int32Array(length).fill(-1);
  const children = new Uint32Array(length);
  const isFolded = new Uint8Array(length);
  const gc = table.strings.find('gc');
  const launched = new LaunchedWork(table, row, isDevice, isAsync, length);

  // Open events of each track, outermost first.
  const open: number[][] = table.tracks.map(() => []);
  for (let event = 0; event < length; event++) {
    const at = row[event] as number;
    if (at < 0 || isDevice[event] === 1 || isAsync[event] === 1) continue;
    const owner = launched.ownerOf(event);
    const track = owner < 0 ? at : (row[owner] as number);
    const stack = open[columns.track[track] as number] as number[];
    launched.called(event, stack);
    const start = columns.start[at] as number;
    const end = start + (columns.duration[at] as number);
    while (stack.length > 0) {
      const above = row[stack[stack.length - 1] as number] as number;
      const aboveEnd = (columns.start[above] as number) + (columns.duration[above] as number);
      if (start < aboveEnd && end <= aboveEnd) {
        const outer = stack[stack.length - 1] as number;
        parent[event] = outer;
        // Whether a collection interrupts a call is chance: it hides no only child.
        if (columns.category[at] !== gc) children[outer] = (children[outer] as number) + 1;
        break;
      }
      stack.pop();
    }
    stack.push(event);
  }

  launched.linkByCall();
  const deviceOwn = launched.deviceTime;
  // Parents come first, so one pass reaches torch's fixpoint: folding into a parent affects no earlier event.
  const foldedInto = new Int32Array(length).fill(-1);
  const nameOf = (event: number): string => aggregateName(table.strings.get(columns.name[row[event] as number] as number));
  for (let event = 0; event < length; event++) {
    let above = parent[event] as number;
    if (above < 0) continue;
    if ((foldedInto[above] as number) >= 0) {
      above = foldedInto[above] as number;
      parent[event] = above;
    }
    if (children[above] !== 1) continue;
    const sameName = columns.name[row[above] as number] === columns.name[row[event] as number] || nameOf(above) === nameOf(event);
    if (!sameName) continue;
    isFolded[event] = 1;
    foldedInto[event] = above;
    children[above] = children[event] as number;
    deviceOwn[above] = deviceOwn[event] as number;
  }
  return { parent, isFolded, deviceOwn, launches: launched.any, launcher: launched.owner };
}

/** The name to group averages by: all steps share one. */
export const aggregateName = (name: string): string => (name.startsWith('ProfilerStep#') ? 'ProfilerStep*' : name);

/** FLOPs as recorded, else by torch's formulas, computed once per distinct set of inputs. */
function flopsOf({ events, strings }: KinetoTable, row: Int32Array, length: number, withFlops: boolean): Float64Array {
  const { columns } = events;
  const flops = new Float64Array(length);
  const formulas = new Set([...opsWithFlops].map((name) => strings.find(name)).filter((index) => index !== undefined));
  const conv2d = strings.find('aten::conv2d');
  // Keyed by op, then by the formula's two inputs: the product of two indexes is exact.
  const known = new Map<number, Map<number, number>>([...formulas].map((name) => [name, new Map()]));
  for (let event = 0; event < length; event++) {
    const at = row[event] as number;
    if (at < 0) continue;
    const recorded = columns.flops[at] as number;
    const name = columns.name[at] as number;
    const values = recorded === 0 && withFlops && formulas.has(name) ? known.get(name) : undefined;
    if (values === undefined) {
      flops[event] = recorded;
      continue;
    }
    const [shapes, types, concrete] = [columns.shapes[at] as number, columns.types[at] as number, columns.concrete[at] as number];
    const key = shapes * strings.strings.length + (name === conv2d ? concrete : types);
    let value = values.get(key);
    if (value === undefined) {
      value = functionFlops(strings.get(name), strings.get(shapes), strings.get(types), strings.get(concrete));
      values.set(key, value);
    }
    flops[event] = value;
  }
  return flops;
}

const engineCall = 'autograd::engine::evaluate_function: ';

/**
 * Whether an op is a node of the backward graph: torch's scope BACKWARD_FUNCTION. The engine's call around a node has its numbers, and is none; a node
 * without a forward op (AccumulateGrad) has none.
 */
export const isBackwardNode = (name: string, parent: string | undefined, forwardThread: number): boolean =>
  !name.startsWith(engineCall) && (forwardThread > 0 || parent === `${engineCall}${name}`);

/** Stacks; backward ops take those of their forward op. */
function stacksOf({ events, strings }: KinetoTable, row: Int32Array, parent: Int32Array, length: number): Uint32Array {
  const { columns } = events;
  const stack = new Uint32Array(length);
  let any = false;
  for (let event = 0; event < length; event++) {
    const at = row[event] as number;
    if (at < 0) continue;
    stack[event] = columns.stack[at] as number;
    any ||= stack[event] !== 0;
  }
  if (!any) return stack;
  const nameOf = (event: number): string | undefined => {
    const at = event < 0 ? -1 : (row[event] as number);
    return at < 0 ? undefined : strings.get(columns.name[at] as number);
  };
  // The backward op that an event is or lies in, -1 if none.
  const backward = new Int32Array(length).fill(-1);
  const forwardStack = new Map<number, number>();
  for (let event = 0; event < length; event++) {
    const at = row[event] as number;
    if (at < 0) continue;
    const above = parent[event] as number;
    const isBackward = isBackwardNode(nameOf(event) ?? '', nameOf(above), columns.forwardThread[at] as number);
    backward[event] = isBackward ? event : above < 0 ? -1 : (backward[above] as number);
    const sequence = columns.sequence[at] as number;
    if (backward[event] === -1 && sequence >= 0 && !forwardStack.has(sequence)) forwardStack.set(sequence, stack[event] as number);
  }
  for (let event = 0; event < length; event++) {
    const of = backward[event] as number;
    if (of >= 0) stack[event] = forwardStack.get(columns.sequence[row[of] as number] as number) ?? 0;
  }
  return stack;
}
