// torch's EventList: one object for each function event, with torch's fields in camelCase. A view of the columns of `FunctionEvents`:
// an object is three words, and what costs more (children, shapes, stacks) is worked out when it is asked for.
//
// Invariant: an event is one object: `event.cpuChildren[0].cpuParent === event`.
// Events that were folded into the one around them are not listed, as in torch.

import { framesOf, shapesOf } from './function-averages.ts';
import { aggregateName, type FunctionEvents } from './function-events.ts';
import type { KinetoTable } from './kineto-table.ts';

/** Work of a device that an op started; `duration` in µs. */
export interface FunctionEventKernel {
  readonly name: string;
  readonly device: number;
  readonly duration: number;
}

/** Both in µs from the start of the recording. */
export interface FunctionEventInterval {
  readonly start: number;
  readonly end: number;
  /** `end − start`. */
  readonly elapsedUs: number;
}

export interface FunctionEventListOptions {
  /** The device that was recorded beside the CPU, such as `cuda`; without it none unless the recording has events of one. */
  readonly useDevice?: string | undefined;
}

/** What the objects of one list share. */
interface Context {
  readonly events: FunctionEvents;
  readonly useDevice: string | undefined;
  /** By event; undefined where it is folded. */
  readonly objects: (FunctionEvent | undefined)[];
  /** Ids of memory events, counted on from the largest of all others, by event. */
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

  /** Made by `functionEventList` alone. */
  constructor(context: Context, event: number) {
    this.#context = context;
    this.#event = event;
  }

  /** What kernels and runtime calls are linked to an op by; 0 where there is none. */
  get id(): number {
    const { events, memoryIds } = this.#context;
    const row = this.#row;
    return row < 0 ? (memoryIds.get(this.#event) as number) : (events.table.events.columns.externalId[row] as number);
  }

  /** Always -1: torch names a rank here for remote events, which have traces of their own. */
  get nodeId(): number {
    return -1;
  }

  /** All steps are `ProfilerStep*`. */
  get name(): string {
    return aggregateName(this.#recordedName);
  }

  /** The name it stands under in a trace, `ProfilerStep#3`; undefined for memory, which is not in it. */
  get traceName(): string | undefined {
    return this.#row < 0 ? undefined : this.#recordedName;
  }

  get overloadName(): string {
    return '';
  }

  /** The name under which events are added up. */
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

  /** The system's thread, or the stream of a device; a runtime call has the thread of the op that it works for. */
  get thread(): number | string {
    const { events } = this.#context;
    const { launcher, table } = events;
    const owner = launcher === undefined || events.isDevice[this.#event] === 1 ? -1 : (launcher[this.#event] as number);
    return trackOf(table, owner < 0 ? this.#row : (events.row[owner] as number)).tid;
  }

  /** Thread of the forward op that this is the backward of; 0 for others. */
  get fwdThread(): number {
    const row = this.#row;
    return row < 0 ? 0 : (this.#context.events.table.events.columns.forwardThread[row] as number);
  }

  /** What it started on a device itself; of what is folded into it, the innermost's. */
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

  /** Whether it is inside no other. */
  get isTopLevel(): boolean {
    return this.#context.events.parent[this.#event] === -1;
  }

  /** Sizes of each input; none for what is no tensor. */
  get inputShapes(): readonly (readonly number[])[] {
    return shapesOf(this.#text('shapes'));
  }

  /** Sizes of each output, which torch does not record. */
  get outputShapes(): readonly (readonly number[])[] {
    return shapesOf(this.#text('outputs'));
  }

  /** Inputs that are no tensors, '' for those that are. */
  get concreteInputs(): readonly unknown[] {
    const text = this.#text('concrete');
    return text === '' ? [] : (JSON.parse(text) as unknown[]);
  }

  /** Frames, innermost first; of a backward op those of its forward op. */
  get stack(): readonly string[] {
    const { table, stack } = this.#context.events;
    return framesOf(table.strings.get(stack[this.#event] as number));
  }

  /** The layers that it ran in, as recorded; empty where they were not. */
  get moduleHierarchy(): string {
    return this.#text('modules');
  }

  /** torch's RecordScope: 0 function, 1 backward function, 7 user scope. */
  get scope(): number {
    if (this.isUserAnnotation) return scope.user;
    const isBackward = this.fwdThread > 0 || this.name.startsWith('autograd::engine::evaluate_function: ');
    return isBackward ? scope.backwardFunction : scope.function;
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

  /** Always false: what another rank did for this one is in that rank's recording. */
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

  /** Where it ran. */
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

  /** Per call; an event is one. */
  get cpuTime(): number {
    return this.cpuTimeTotal;
  }

  get deviceTime(): number {
    return this.deviceTimeTotal;
  }

  /** What is recorded of it beside its times, as JSON text of Kineto's `args`. */
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

  /** Its main fields, for JSON.stringify and for logs; links to other events by id. */
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

  /** Row of the table's events, ~row of its memory. */
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

/** torch's `prof.events()`: all function events in the order of (start, longest first), with the memory that no op claims. */
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
  // Folding puts the inner event's kernels in place of the outer's, the innermost last.
  for (let event = 0; event < length; event++) {
    if (isFolded[event] === 0) continue;
    const inner = kernels.get(event);
    if (inner === undefined) kernels.delete(parent[event] as number);
    else kernels.set(parent[event] as number, inner);
  }
  return kernels;
}
