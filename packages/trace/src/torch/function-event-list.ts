// torch's EventList: one object per function event, with torch's fields in camelCase. The objects are views of the columns of
// `FunctionEvents`: each is three words, and costly fields (children, shapes, stacks) are computed on access.
//
// Invariant: an event has exactly one object: `event.cpuChildren[0].cpuParent === event`.
// Events folded into their parent are not listed, as in torch.

import { framesOf, shapesOf } from './function-averages.ts';
import { aggregateName, type FunctionEvents, isBackwardNode } from './function-events.ts';
import type { KinetoTable } from './kineto-table.ts';

/** Device work that an op started; `duration` in µs. */
export interface FunctionEventKernel {
  readonly name: string;
  readonly device: number;
  readonly duration: number;
}

/** Start and end in µs from the start of the recording. */
export interface FunctionEventInterval {
  readonly start: number;
  readonly end: number;
  /** `end − start`. */
  readonly elapsedUs: number;
}

export interface FunctionEventListOptions {
  /** The device recorded beside the CPU, such as `cuda`; by default one is set only if the recording has device events. */
  readonly useDevice?: string | undefined;
}

/** Data shared by the objects of one list. */
interface Context {
  readonly events: FunctionEvents;
  readonly useDevice: string | undefined;
  /** By event; undefined for folded ones. */
  readonly objects: (FunctionEvent | undefined)[];
  /** By event: ids of memory events, numbered after the largest other id. */
  readonly memoryIds: ReadonlyMap<number, number>;
  children: readonly (readonly FunctionEvent[])[] | undefined;
  kernels: ReadonlyMap<number, readonly FunctionEventKernel[]> | undefined;
}

/** torch's RecordScope. */
const scope = { function: 0, backwardFunction: 1, user: 7 } as const;

const noChildren: readonly FunctionEvent[] = [];
const noKernels: readonly FunctionEventKernel[] = [];

/** One function event: torch's `FunctionEvent`. Times in µs, memory in bytes. */
export class FunctionEvent {
  readonly #context: Context;
  readonly #event: number;

  /** Only `functionEventList` calls this. */
  constructor(context: Context, event: number) {
    this.#context = context;
    this.#event = event;
  }

  /** The id that links kernels and runtime calls to their op; 0 if none. */
  get id(): number {
    const { events, memoryIds } = this.#context;
    const row = this.#row;
    return row < 0 ? (memoryIds.get(this.#event) as number) : (events.table.events.columns.externalId[row] as number);
  }

  /** Always -1: torch stores a rank here for remote events, which live in their own rank's trace. */
  get nodeId(): number {
    return -1;
  }

  /** All steps are `ProfilerStep*`. */
  get name(): string {
    return aggregateName(this.#recordedName);
  }

  /** The name in the trace, such as `ProfilerStep#3`; undefined for memory, which has none there. */
  get traceName(): string | undefined {
    return this.#row < 0 ? undefined : this.#recordedName;
  }

  get overloadName(): string {
    return '';
  }

  /** The name that averages are grouped by. */
  get key(): string {
    return this.name;
  }

  get timeRange(): FunctionEventInterval {
    const { table } = this.#context.events;
    const row = this.#row;
    const { columns } = table.events;
    const from = (row < 0 ? (table.memory.columns.time[~row] as number) : (columns.start[row] as number)) - table.profileStart;
    const start = from / 1000;
    const end = row < 0 ? start : (from + (columns.duration[row] as number)) / 1000;
    return { start, end, elapsedUs: end - start };
  }

  /** The system's thread, or a device's stream; a runtime call has the thread of its op. */
  get thread(): number | string {
    const { events } = this.#context;
    const { launcher, table } = events;
    const owner = launcher === undefined || events.isDevice[this.#event] === 1 ? -1 : (launcher[this.#event] as number);
    return trackOf(table, owner < 0 ? this.#row : (events.row[owner] as number)).tid;
  }

  /** For a backward op the thread of its forward op; 0 for others. */
  get fwdThread(): number {
    const row = this.#row;
    return row < 0 ? 0 : (this.#context.events.table.events.columns.forwardThread[row] as number);
  }

  /** Device work that the op itself started; where ops are folded into it, that of the innermost. */
  get kernels(): readonly FunctionEventKernel[] {
    const context = this.#context;
    context.kernels ??= kernelsOf(context.events);
    return context.kernels.get(this.#event) ?? noKernels;
  }

  get count(): number {
    return 1;
  }

  get cpuChildren(): readonly FunctionEvent[] {
    const context = this.#context;
    context.children ??= childrenOf(context);
    return context.children[this.#event] ?? noChildren;
  }

  get cpuParent(): FunctionEvent | undefined {
    return this.#context.objects[this.#context.events.parent[this.#event] as number];
  }

  /** Whether it is at the top level. */
  get isTopLevel(): boolean {
    return this.#context.events.parent[this.#event] === -1;
  }

  /** Sizes of each input; none for non-tensors. */
  get inputShapes(): readonly (readonly number[])[] {
    return shapesOf(this.#text('shapes'));
  }

  /** Sizes of each output; torch does not record them. */
  get outputShapes(): readonly (readonly number[])[] {
    return shapesOf(this.#text('outputs'));
  }

  /** Inputs that are not tensors; '' for tensors. */
  get concreteInputs(): readonly unknown[] {
    const text = this.#text('concrete');
    return text === '' ? [] : (JSON.parse(text) as unknown[]);
  }

  /** Frames, innermost first; a backward op has those of its forward op. */
  get stack(): readonly string[] {
    const { table, stack } = this.#context.events;
    return framesOf(table.strings.get(stack[this.#event] as number));
  }

  /** The module layers around it, as recorded; empty if not recorded. */
  get moduleHierarchy(): string {
    return this.#text('modules');
  }

  /** torch's RecordScope: 0 function, 1 backward function, 7 user scope. */
  get scope(): number {
    if (this.isUserAnnotation) return scope.user;
    return isBackwardNode(this.name, this.cpuParent?.name, this.fwdThread) ? scope.backwardFunction : scope.function;
  }

  get useDevice(): string | undefined {
    return this.#context.useDevice;
  }

  get cpuMemoryUsage(): number {
    return this.#context.events.cpuMemory[this.#event] as number;
  }

  get selfCpuMemoryUsage(): number {
    return this.#context.events.cpuMemorySelf[this.#event] as number;
  }

  get deviceMemoryUsage(): number {
    return this.#context.events.deviceMemory[this.#event] as number;
  }

  get selfDeviceMemoryUsage(): number {
    return this.#context.events.deviceMemorySelf[this.#event] as number;
  }

  get isAsync(): boolean {
    return this.#context.events.isAsync[this.#event] === 1;
  }

  /** Always false: remote work is in the other rank's recording. */
  get isRemote(): boolean {
    return false;
  }

  get isLegacy(): boolean {
    return false;
  }

  /** Pairs a forward op with its backward ones; -1 for others. */
  get sequenceNr(): number {
    const row = this.#row;
    return row < 0 ? -1 : (this.#context.events.table.events.columns.sequence[row] as number);
  }

  /** Device type it ran on. */
  get deviceType(): 'cpu' | 'device' {
    return this.#context.events.isDevice[this.#event] === 1 ? 'device' : 'cpu';
  }

  /** Number of the device; 0 for the CPU. */
  get deviceIndex(): number {
    return this.deviceType === 'cpu' ? 0 : trackOf(this.#context.events.table, this.#row).pid;
  }

  get flops(): number {
    return this.#context.events.flops[this.#event] as number;
  }

  get isUserAnnotation(): boolean {
    return this.#context.events.isUserAnnotation[this.#event] === 1;
  }

  get cpuTimeTotal(): number {
    return this.#context.events.cpuTotal[this.#event] as number;
  }

  get selfCpuTimeTotal(): number {
    return this.#context.events.cpuSelf[this.#event] as number;
  }

  get deviceTimeTotal(): number {
    return this.#context.events.deviceTotal[this.#event] as number;
  }

  get selfDeviceTimeTotal(): number {
    return this.#context.events.deviceSelf[this.#event] as number;
  }

  /** Time per call; an event is one call. */
  get cpuTime(): number {
    return this.cpuTimeTotal;
  }

  get deviceTime(): number {
    return this.deviceTimeTotal;
  }

  /** Everything recorded about it beside its times, as JSON text of Kineto's `args`. */
  get metadataJson(): string {
    const row = this.#row;
    if (row < 0) return '{}';
    const lists: readonly (readonly [string, TextColumn])[] = [
      ['Input Dims', 'shapes'],
      ['Input type', 'types'],
      ['Concrete Inputs', 'concrete'],
      ['Output Dims', 'outputs'],
    ];
    const members = lists.filter(([, column]) => this.#text(column) !== '').map(([key, column]) => `"${key}":${this.#text(column)}`);
    if (this.sequenceNr >= 0) members.unshift(`"Sequence number":${this.sequenceNr}`, `"Fwd thread id":${this.fwdThread}`);
    if (this.id > 0) members.unshift(`"External id":${this.id}`);
    if (this.moduleHierarchy !== '') members.push(`"Module Hierarchy":${JSON.stringify(this.moduleHierarchy)}`);
    return `{${members.join(',')}}`;
  }

  /** Main fields, for JSON.stringify and logs; other events appear by id. */
  toJSON(): object {
    const { id, name, traceName, timeRange, thread, fwdThread, inputShapes, stack, scope, sequenceNr, deviceType, flops } = this;
    const { cpuTimeTotal, selfCpuTimeTotal, deviceTimeTotal, selfDeviceTimeTotal, cpuMemoryUsage, selfCpuMemoryUsage } = this;
    const { deviceMemoryUsage, selfDeviceMemoryUsage, isAsync, isUserAnnotation } = this;
    return {
      ...{ id, name, traceName, timeRange, thread, fwdThread, inputShapes, stack, scope, sequenceNr, deviceType, flops },
      ...{ cpuTimeTotal, selfCpuTimeTotal, deviceTimeTotal, selfDeviceTimeTotal, cpuMemoryUsage, selfCpuMemoryUsage },
      ...{ deviceMemoryUsage, selfDeviceMemoryUsage, isAsync, isUserAnnotation },
      cpuParent: this.cpuParent?.id,
      cpuChildren: this.cpuChildren.map((child) => child.id),
    };
  }

  /** Row of the table's events, or ~row of its memory. */
  get #row(): number {
    return this.#context.events.row[this.#event] as number;
  }

  get #recordedName(): string {
    return recordedName(this.#context.events.table, this.#row);
  }

  #text(column: TextColumn): string {
    const { table } = this.#context.events;
    const row = this.#row;
    return row < 0 ? '' : table.strings.get(table.events.columns[column][row] as number);
  }
}

type TextColumn = 'shapes' | 'types' | 'concrete' | 'outputs' | 'modules';

/** torch's `prof.events()`: all function events by (start, longest first), including memory that no op claims. */
export function functionEventList(events: FunctionEvents, options: FunctionEventListOptions = {}): FunctionEvent[] {
  const { length, row, isFolded, isDevice, table } = events;
  const { externalId } = table.events.columns;
  let lastId = 0;
  const memoryIds = new Map<number, number>();
  for (let event = 0; event < length; event++) {
    const at = row[event] as number;
    if (at >= 0) lastId = Math.max(lastId, externalId[at] as number);
  }
  for (let event = 0; event < length; event++) if ((row[event] as number) < 0) memoryIds.set(event, ++lastId);
  const objects: (FunctionEvent | undefined)[] = new Array(length).fill(undefined);
  const useDevice = options.useDevice ?? (isDevice.includes(1) ? 'cuda' : undefined);
  const context: Context = { events, useDevice, objects, memoryIds, children: undefined, kernels: undefined };
  const list: FunctionEvent[] = [];
  for (let event = 0; event < length; event++) {
    if (isFolded[event] === 1) continue;
    const object = new FunctionEvent(context, event);
    objects[event] = object;
    list.push(object);
  }
  return list;
}

const recordedName = ({ strings, events, memory }: KinetoTable, row: number): string =>
  strings.get(row < 0 ? (memory.columns.name[~row] as number) : (events.columns.name[row] as number));

const trackOf = ({ tracks, events, memory }: KinetoTable, row: number) =>
  tracks[row < 0 ? (memory.columns.track[~row] as number) : (events.columns.track[row] as number)] as KinetoTable['tracks'][number];

function childrenOf({ events, objects }: Context): FunctionEvent[][] {
  const children: FunctionEvent[][] = [];
  for (const [event, object] of objects.entries()) {
    const parent = events.parent[event] as number;
    if (object === undefined || parent < 0) continue;
    const siblings = children[parent];
    if (siblings === undefined) children[parent] = [object];
    else siblings.push(object);
  }
  return children;
}

function kernelsOf({ table, row, launcher, isDevice, isFolded, parent, length }: FunctionEvents): Map<number, FunctionEventKernel[]> {
  const kernels = new Map<number, FunctionEventKernel[]>();
  if (launcher === undefined) return kernels;
  const { start, duration } = table.events.columns;
  for (let event = 0; event < length; event++) {
    const op = launcher[event] as number;
    if (op < 0 || isDevice[event] === 0) continue;
    const at = row[event] as number;
    const from = (start[at] as number) - table.profileStart;
    const kernel = {
      name: recordedName(table, at),
      device: trackOf(table, at).pid,
      duration: (from + (duration[at] as number)) / 1000 - from / 1000,
    };
    const others = kernels.get(op);
    if (others === undefined) kernels.set(op, [kernel]);
    else others.push(kernel);
  }
  // Folding replaces the outer event's kernels by the inner one's, the innermost last.
  for (let event = 0; event < length; event++) {
    if (isFolded[event] === 0) continue;
    const inner = kernels.get(event);
    if (inner === undefined) kernels.delete(parent[event] as number);
    else kernels.set(parent[event] as number, inner);
  }
  return kernels;
}
