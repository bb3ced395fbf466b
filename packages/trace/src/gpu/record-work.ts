// Merged events → the columns of device work of each process.
//
//   lane of kind `stream`      kernels, copies, sets, syncs; collectives that a kernel moves
//   lane of kind `thread`      ops, annotations, modules and driver calls; collectives that NCCL's plugin saw
//   lane of kind `steps`       steps
//
// What an agent records of a rank that sends its steps itself comes as a process of its own, and goes to the rank's: it is one program.
//
// Invariant: an event costs no object: its fields go into columns, its texts become numbers.

import { deviceStepsKey, readDeviceSteps } from '@ranktrace/protocol';
import { besideOwners } from '../model/beside-owners.ts';
import { argumentOf } from '../model/event-arguments.ts';
import { runtimeCategories } from '../model/kineto-categories.ts';
import { isDeviceKind, isNcclLane } from '../model/lanes.ts';
import { isOfFile } from '../model/of-file.ts';
import type { TraceEvent, TraceHeader, TraceLane, TraceProcess } from '../model/trace-sink.ts';
import { elementBytes } from '../torch/element-bytes.ts';
import { hostKind, RankWork } from './device-work.ts';
import { gpuLimits as limits } from './gpu-limits.ts';
import { classOf, kindOf, kindOfCategory, workClass } from './kernel-class.ts';
import { WorkNames } from './work-names.ts';

/** Kind of a host span by its category. */
const hostKindOf: ReadonlyMap<string, number> = new Map([
  ...['cpu_op', 'Operator', 'data_copy'].map((category) => [category, hostKind.op] as const),
  // A rank's own recording has no category for spans that the program names.
  ...['user_annotation', ''].map((category) => [category, hostKind.annotation] as const),
  ['python_function', hostKind.module] as const,
  ...runtimeCategories.map((category) => [category, hostKind.call] as const),
]);

/** Annotations of torch itself, which files of 2021 show as ops. */
const annotationName = /^(?:enumerate\(Data(?:Loader|Pipe)\)#|Optimizer\.(?:step|zero_grad)#|(?:Distributed)?DataParallel\.forward$)/;
const moduleName = /^nn\.Module: /;
const streamName = /GPU (\d+) · .*?stream (-?\d+)/i;

/** Where the events of a lane go. */
interface LanePlace {
  readonly rank: RankRecord;
  /** Index into the rank's streams, -1: not known before its first event, -2: beyond the limit. */
  stream: number;
  /** Number of its thread, -1: beyond the limit. */
  readonly thread: number;
}

export interface RankRecord {
  readonly process: TraceProcess;
  /** Indices of that process and of what was recorded beside it. */
  readonly members: Set<number>;
  /** Whether it has a lane of a device. */
  hasDevice: boolean;
  readonly work: RankWork;
  readonly threads: Map<string, number>;
  readonly streams: Map<number, number>;
}

export class WorkRecord {
  readonly names = new WorkNames();
  readonly ranks: RankRecord[] = [];
  /** Events beyond a limit, and events without a stream. */
  leftOut = 0;
  readonly #ranks = new Map<number, RankRecord>();
  /** By lane index. */
  readonly #lanes: (LanePlace | undefined)[] = [];
  /** By name: whether an op of that name is an annotation, and whether a Python function is a module. */
  readonly #isAnnotation = new Map<string, boolean>();
  readonly #isModule = new Map<string, boolean>();
  readonly #classes = new Map<string, number>();
  #workRows = 0;
  #hostRows = 0;
  #epoch = 0n;
  #busyBefore: TraceHeader['busyBefore'];
  /** By index of a process that an agent recorded beside the rank's own: that one. */
  #owners: ReadonlyMap<number, TraceProcess> = new Map();
  /** Indices of the processes that are known to have no device, beside them neither. */
  #withoutDevices: ReadonlySet<number> = new Set();

  begin({ unixEpoch = 0n, processes, busyBefore }: TraceHeader): void {
    this.#epoch = unixEpoch;
    this.#busyBefore = busyBefore;
    this.#owners = besideOwners(processes);
    const without = new Set(processes.filter(({ hasDevices }) => hasDevices === false).map(({ index }) => index));
    for (const process of processes) if (process.hasDevices !== false) without.delete(this.#ownerOf(process).index);
    this.#withoutDevices = without;
  }

  lane(lane: TraceLane): void {
    // A host's spans are held for the device work that they launched: here there is none, and steps are enough.
    if (this.#withoutDevices.has(this.#ownerOf(lane.process).index) && lane.kind !== 'steps') return;
    const rank = this.#rankOf(lane.process);
    if (isDeviceKind(lane.kind)) rank.hasDevice = true;
    while (this.#lanes.length <= lane.index) this.#lanes.push(undefined);
    this.#lanes[lane.index] = { rank, stream: -1, thread: lane.kind === 'thread' ? threadOf(rank, lane) : -1 };
  }

  event(event: TraceEvent): void {
    const { kind, lane } = event;
    if (kind !== 'span' && kind !== 'collective' && kind !== 'step') return;
    // A span that began in an earlier batch comes again, whole, when it ends.
    if (event.state === 'open') return;
    const place = this.#lanes[lane.index];
    if (place === undefined) return;
    if (kind === 'step') this.#addStep(place.rank, event);
    else if (isDeviceKind(lane.kind)) this.#addWork(place, event);
    else if (kind === 'collective') this.#addCollective(place.rank.work, event);
    else if (kind === 'span' && lane.kind === 'thread') this.#addHost(place, event);
  }

  #ownerOf(process: TraceProcess): TraceProcess {
    return this.#owners.get(process.index) ?? process;
  }

  #rankOf(recorded: TraceProcess): RankRecord {
    const process = this.#ownerOf(recorded);
    let rank = this.#ranks.get(process.index);
    if (rank === undefined) {
      rank = {
        process,
        members: new Set(),
        hasDevice: false,
        work: new RankWork(this.names, {
          origin: this.#epoch - baseOf(process),
          coverage: isOfFile(process) ? 'all' : 'some',
          whole: readDeviceSteps(process.metadata.get(deviceStepsKey) ?? ''),
          busyBefore: this.#busyBefore?.get(process.index),
        }),
        threads: new Map(),
        streams: new Map(),
      };
      this.#ranks.set(process.index, rank);
      this.ranks.push(rank);
    }
    rank.members.add(recorded.index);
    if (rank.members.size > 1) rank.work.coverage = 'beside';
    return rank;
  }

  #addStep({ work }: RankRecord, { step, start, length }: TraceEvent): void {
    work.steps.push({ number: step, start, end: start + length });
    if (work.steps.length > 2 * limits.gpuStepsMax) work.steps = work.steps.slice(-limits.gpuStepsMax);
  }

  #addHost({ rank: { work, hasDevice }, thread }: LanePlace, event: TraceEvent): void {
    let kind = hostKindOf.get(event.category);
    if (kind === undefined) return;
    const { name } = event;
    if (kind === hostKind.module && !this.#test(this.#isModule, moduleName, name)) return;
    if (kind === hostKind.op && event.category === 'Operator' && this.#test(this.#isAnnotation, annotationName, name)) {
      kind = hostKind.annotation;
    }
    if (thread < 0 || this.#hostRows >= limits.gpuHostSpansMax) {
      this.leftOut++;
      return;
    }
    const { host } = work;
    if (!hasDevice && host.length >= limits.gpuHostSpansPendingMax) {
      this.#hostRows -= host.length;
      host.length = 0;
    }
    this.#hostRows++;
    const row = host.add();
    const { columns } = host;
    columns.start[row] = event.start;
    columns.end[row] = event.start + event.length;
    columns.name[row] = this.names.index(name);
    columns.thread[row] = thread;
    columns.kind[row] = kind;
    columns.correlation[row] = kind === hostKind.call ? numberOf(event, 'correlation') : 0;
  }

  #addWork(place: LanePlace, event: TraceEvent): void {
    const kind = event.kind === 'collective' ? kindOf.kernel : kindOfCategory.get(event.category);
    const { work } = place.rank;
    if (kind === undefined) {
      if (event.category === 'gpu_user_annotation') this.#addAnnotation(work, event);
      return;
    }
    if (place.stream === -1) place.stream = streamOf(place.rank, event);
    if (place.stream < 0 || this.#workRows >= limits.gpuWorkMax) {
      this.leftOut++;
      return;
    }
    this.#workRows++;
    const table = work.work;
    const row = table.add();
    const { columns } = table;
    const name = nameOf(event);
    columns.start[row] = event.start;
    columns.end[row] = event.start + event.length;
    columns.name[row] = this.names.index(name);
    columns.stream[row] = place.stream;
    columns.kind[row] = kind;
    columns.class[row] = isCollective(event) ? classOf.communication : this.#classOf(kind, name);
    columns.correlation[row] = numberOf(event, 'correlation');
    columns.shape[row] = kind === kindOf.kernel ? addShape(work, event) : 0;
    const isGrouped = columns.class[row] === classOf.communication && groupOf(event) !== '';
    const isTransfer = kind !== kindOf.kernel || event.kind === 'collective' || isGrouped;
    columns.transfer[row] = isTransfer ? this.#addTransfer(work, event) : 0;
  }

  /** NCCL's plugin says which collective a kernel is; its time tells which kernel. */
  #addCollective(work: RankWork, event: TraceEvent): void {
    if (!isNcclLane(event.lane) || event.state !== 'whole') return;
    if (this.#workRows >= limits.gpuWorkMax) {
      this.leftOut++;
      return;
    }
    this.#workRows++;
    const row = work.collectives.add();
    const { columns } = work.collectives;
    columns.start[row] = event.start;
    columns.end[row] = event.start + event.length;
    columns.transfer[row] = this.#addTransfer(work, event);
  }

  #addAnnotation({ annotations }: RankWork, { start, length, name }: TraceEvent): void {
    if (this.#workRows >= limits.gpuWorkMax) {
      this.leftOut++;
      return;
    }
    this.#workRows++;
    const row = annotations.add();
    const { columns } = annotations;
    columns.start[row] = start;
    columns.end[row] = start + length;
    columns.name[row] = this.names.index(name);
  }

  #classOf(kind: number, name: string): number {
    if (kind !== kindOf.kernel) return workClass(kind, name);
    return remembered(this.#classes, name, () => workClass(kind, name));
  }

  #test(known: Map<string, boolean>, pattern: RegExp, name: string): boolean {
    return remembered(known, name, () => pattern.test(name));
  }

  #addTransfer({ transfers }: RankWork, event: TraceEvent): number {
    const row = transfers.add();
    const { columns } = transfers;
    const [isMatched, group] = [event.kind === 'collective', groupOf(event)];
    columns.bytes[row] = isMatched ? event.bytes : numberOf(event, 'bytes') || messageBytes(event);
    columns.bandwidth[row] = isMatched ? 0 : numberOf(event, 'memory bandwidth (GB/s)');
    columns.group[row] = this.names.index(group);
    columns.op[row] = isMatched ? this.names.index(event.name) : group === '' ? 0 : this.names.index(textOf(event, 'Collective name'));
    columns.sequence[row] = isMatched ? event.sequence : Number.NaN;
    columns.peer[row] = isMatched ? event.peerRank + 1 : 0;
    columns.ranks[row] = group === '' ? 0 : numberOf(event, 'Group size');
    columns.waitsFor[row] = isMatched ? 0 : numberOf(event, 'wait_on_cuda_event_record_corr_id');
    columns.waitsOn[row] = isMatched ? 0 : numberOf(event, 'wait_on_stream');
    return row + 1;
  }
}

/** Unix time in ns that a file of torch.profiler counts its times from. */
function baseOf({ metadata }: TraceProcess): bigint {
  const text = metadata.get('baseTimeNanoseconds');
  return text !== undefined && /^\d{1,20}$/.test(text) ? BigInt(text) : 0n;
}

/** A name's answer, worked out once; a run with names that never repeat gains nothing from more. */
function remembered<Value>(known: Map<string, Value>, name: string, answer: () => Value): Value {
  let value = known.get(name);
  if (value === undefined) {
    value = answer();
    if (known.size >= limits.gpuNamesMax) known.clear();
    known.set(name, value);
  }
  return value;
}

/** A number that is not below 0; 0 for anything else. */
function numberOf(event: TraceEvent, key: string): number {
  const value = argumentOf(event, key);
  return typeof value === 'number' && value > 0 && value < Number.MAX_SAFE_INTEGER ? value : 0;
}

function textOf(event: TraceEvent, key: string): string {
  const value = argumentOf(event, key);
  return typeof value === 'string' ? value : '';
}

/** Our own Chrome JSON, read again, has collectives as spans. */
const isCollective = (event: TraceEvent): boolean => event.kind === 'collective' || event.category === 'collective';

/** The kernel's own name, which a collective carries as an argument. */
const nameOf = (event: TraceEvent): string => (isCollective(event) && textOf(event, 'event')) || event.name;

/** The process group, also of a kernel whose collective cannot be matched: it is recorded all the same. '' for none. */
const groupOf = (event: TraceEvent): string =>
  event.kind === 'collective' ? event.group : textOf(event, 'group') || textOf(event, 'Process Group Name');

/** Bytes of a message that cannot be matched, as torch records it: what the rank puts in, or gets if it puts in none. */
function messageBytes(event: TraceEvent): number {
  const elements = numberOf(event, 'In msg nelems') || numberOf(event, 'Out msg nelems');
  return elements === 0 ? 0 : elements * (elementBytes(textOf(event, 'dtype')) ?? 0);
}

const lineOfThread = / \(\d+\)$/;

/** Number of a lane's thread: lines on which spans of one thread overflow belong to it. */
function threadOf({ threads }: RankRecord, { tid, name, overflow }: TraceLane): number {
  const key = `${tid} ${overflow > 0 ? name.replace(lineOfThread, '') : name}`;
  let thread = threads.get(key);
  if (thread === undefined) {
    if (threads.size >= limits.gpuThreadsMax) return -1;
    thread = threads.size;
    threads.set(key, thread);
  }
  return thread;
}

/** Index of the event's stream, by its arguments, else by the lane's name; -2 beyond the limit. */
function streamOf({ streams, work }: RankRecord, event: TraceEvent): number {
  const named = streamName.exec(event.lane.name);
  const number = (key: string, otherwise: string | undefined): number => {
    const value = argumentOf(event, key);
    return typeof value === 'number' && Number.isInteger(value) && Math.abs(value) < 2 ** 24 ? value : Number(otherwise ?? 0);
  };
  const device = number('device', named?.[1]);
  const stream = number('stream', named?.[2]);
  const key = device * 2 ** 26 + stream;
  let index = streams.get(key);
  if (index === undefined) {
    if (streams.size >= limits.gpuStreamsMax) return -2;
    index = work.streams.push({ device, stream }) - 1;
    streams.set(key, index);
  }
  return index;
}

/** Row + 1 of how the kernel filled its device; a launch like the one before shares its row. */
function addShape({ shapes }: RankWork, event: TraceEvent): number {
  const [blocks, occupancy] = [argumentOf(event, 'blocks per SM'), argumentOf(event, 'est. achieved occupancy %')];
  if (typeof blocks !== 'number' && typeof occupancy !== 'number') return 0;
  const { columns } = shapes;
  const values = [typeof blocks === 'number' ? blocks : Number.NaN, typeof occupancy === 'number' ? occupancy : Number.NaN] as const;
  const last = shapes.length - 1;
  if (last >= 0 && Object.is(columns.blocksPerSm[last], values[0]) && Object.is(columns.occupancy[last], values[1])) return last + 1;
  const row = shapes.add();
  shapes.columns.blocksPerSm[row] = values[0];
  shapes.columns.occupancy[row] = values[1];
  return row + 1;
}
