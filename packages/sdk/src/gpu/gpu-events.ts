// Rows of a ring → events of this rank, as a file of torch.profiler has them, so that every analysis of such files serves these, too.
//
//   kernel, copy, set, sync   spans on `GPU n · stream m`        categories kernel, gpu_memcpy, gpu_memset, cuda_sync
//   call                      a span on its thread's track       cuda_runtime, cuda_driver
//   overhead                  a span on `GPU recording`
//   collective of NCCL        a span where it was enqueued, and a collective where its work is known; `NCCL group`
//
// NCCL numbers the operations of each function of a communicator apart, so a group of ours is a communicator and a function. The plugin may report the
// work of a collective several times, each time whole: the last one counts, so each waits for the next one's.
//
// A call and its work share `correlation`. An op is not named: it lies around the call, on the same thread.

import { type GpuRows, type RingReader, rowKind } from '@ranktrace/gpu';
import { ncclTrackPrefix } from '@ranktrace/protocol';
import type { BatchBuilder } from '../collect/batch-builder.ts';
import { recordingLimits } from '../model/recording-limits.ts';
import { Launches } from './launches.ts';

/** Where events go. */
export interface EventTarget {
  /** Whether an event's batch depends on its launch; if not, none waits for its call. */
  readonly takesLaunches: boolean;
  /** Reads what threads recorded before the events that come now: whether these are sent depends on it. */
  catchUp(): void;
  /** The batch that an event belongs to which starts at `start`, as what was launched at `launched`; RankTime, ns. */
  builderAt(start: number, launched: number): BatchBuilder;
  /** The track of a thread of this process that records, by the system's number. */
  trackOf(tid: number): number | undefined;
  /** Called after each event. */
  added(): void;
}

/** Bits of a collective's detail (native/ring.h, rt_collective_detail). */
const ran = 2;
const isMessage = 4;

/** The work of a collective that was reported last in its communicator. */
interface Work {
  readonly op: string;
  readonly group: string;
  readonly sequence: number;
  readonly bytes: number;
  readonly track: Track;
  start: number;
  end: number;
}

interface Track {
  readonly number: number;
  readonly kind: 'stream' | 'thread';
  readonly name: string;
  readonly tid: number;
  /** Serial of the last batch that names it. */
  serial: number;
}

/** CUPTI's kinds of memory, and of copies, as torch.profiler writes them. */
const memoryNames = ['Unknown', 'Pageable', 'Pinned', 'Device', 'Array', 'Managed', 'Device Static', 'Managed Static'];
const copyNames = ['Unknown', 'HtoD', 'DtoH', 'HtoA', 'AtoH', 'AtoA', 'AtoD', 'DtoA', 'DtoD', 'HtoH', 'PtoP'];
const syncNames = ['Sync', 'Event Sync', 'Stream Wait Event', 'Stream Sync', 'Context Sync'];
const noStream = 0xffff_ffff;

export class GpuEvents {
  readonly #target: EventTarget;
  /** Factor from ns of the monotonic clock to ns of the rank's. */
  readonly #scale: number;
  readonly #firstTrack: number;
  readonly #tracks = new Map<string, Track>();
  /** Devices by context: a sync names its context alone. */
  readonly #devices = new Map<number, number>();
  /** By number of a communicator. */
  readonly #works = new Map<number, Work>();
  /** Events that found no track, or no communicator. */
  lost = 0;
  readonly #launches = new Launches();
  /** By number of a call's name: whether it makes a device do something. */
  readonly #isLaunch = new Map<number, boolean>();

  /** `ring`: which one of the rank's rings it reads, 0, 1, …: each has tracks of its own. */
  constructor(target: EventTarget, scale: number, ring = 0) {
    this.#target = target;
    this.#scale = scale;
    this.#firstTrack = recordingLimits.gpuLineBase + ring * recordingLimits.gpuTracksMax;
  }

  /** All work of launches before has come; RankTime, ns. */
  get workSeenUntil(): number {
    return this.#launches.seenUntil;
  }

  /** Begin of the oldest launch of which no work has come; RankTime, ns; ∞: none. */
  get busyFrom(): number {
    return this.#launches.busyFrom;
  }

  /** Whether work comes, and none of the calls that launched it. */
  get lacksCalls(): boolean {
    return this.#launches.lacksCalls;
  }

  /** Whether work waits for the call that launched it. */
  get awaitsCalls(): boolean {
    return this.#launches.isWaiting;
  }

  add(rows: GpuRows, reader: RingReader): void {
    if (this.#target.takesLaunches) this.#readCalls(rows, reader);
    for (let row = 0; row < rows.length; row++) {
      const kind = rows.kind[row] as number;
      if (kind === rowKind.collective) this.#addCollective(rows, row, reader);
      else if (isWork(kind)) this.#addWork(rows, row, reader);
      else this.#addRow(rows, row, reader, rows.start[row] as number);
    }
    this.#settle(reader, false);
  }

  /** Adds what waits: work whose call has not come, and that of collectives which no other report can follow any more. */
  finish(reader: RingReader): void {
    this.#settle(reader, true);
    for (const work of this.#works.values()) this.#addRan(work);
    this.#works.clear();
  }

  #readCalls(rows: GpuRows, reader: RingReader): void {
    for (let row = 0; row < rows.length; row++) {
      if (rows.kind[row] !== rowKind.call) continue;
      const name = rows.name[row] as number;
      let launches = this.#isLaunch.get(name);
      if (launches === undefined) {
        launches = launchCall.test(nameOf(rows, row, reader));
        this.#isLaunch.set(name, launches);
      }
      this.#launches.called(rows.correlation[row] as number, (rows.start[row] as number) * this.#scale, launches);
    }
  }

  #addWork(rows: GpuRows, row: number, reader: RingReader): void {
    const start = (rows.start[row] as number) * this.#scale;
    // One at no time that can be is lost, and waits for no call.
    const isTimed = Number.isSafeInteger(Math.round(start));
    const launched = isTimed && this.#target.takesLaunches ? this.#launches.launchOf(rows.correlation[row] as number, start) : start;
    if (launched === undefined && this.#launches.wait(rows, row)) return;
    this.#addRow(rows, row, reader, launched ?? start);
  }

  #settle(reader: RingReader, isOver: boolean): void {
    this.#launches.settle((rows, row, launched) => this.#addRow(rows, row, reader, launched), this.#scale, isOver);
  }

  #addRow(rows: GpuRows, row: number, reader: RingReader, launched: number): void {
    const kind = rows.kind[row] as number;
    const track = this.#trackOf(rows, row, kind);
    if (track === undefined) this.lost++;
    else if (kind === rowKind.kernel) this.#addKernel(rows, row, track, reader, launched);
    else if (kind === rowKind.copy || kind === rowKind.set) this.#addTransfer(rows, row, track, launched);
    else if (kind === rowKind.sync) this.#addSpan(rows, row, track, syncNames[rows.detail[row] as number] ?? 'Sync', 'cuda_sync');
    else if (kind === rowKind.call)
      this.#addSpan(rows, row, track, nameOf(rows, row, reader), rows.detail[row] === 1 ? 'cuda_runtime' : 'cuda_driver');
    else if (kind === rowKind.overhead) this.#addSpan(rows, row, track, nameOf(rows, row, reader), 'overhead');
  }

  #addCollective(rows: GpuRows, row: number, reader: RingReader): void {
    const number = rows.group[row] as number;
    const about = reader.groups.get(number);
    const track = about && this.#named('thread', `${ncclTrackPrefix}${about.name}`.slice(0, 256), 0);
    if (about === undefined || track === undefined) {
      this.lost++;
      return;
    }
    const detail = rows.detail[row] as number;
    const op = nameOf(rows, row, reader);
    const [sequence, bytes] = [rows.sequence[row] as number, rows.bytes[row] as number];
    if ((detail & ran) === 0 || (detail & isMessage) !== 0) {
      const peer = rows.peer[row] as number;
      const name = peer === 0xffff ? op : `${op} ${peer}`;
      this.#addSpan(rows, row, track, name, 'nccl', `{"bytes":${bytes}}`, sequence);
      return;
    }
    const work = {
      op,
      group: `${about.name} ${op}`,
      sequence,
      bytes,
      track,
      start: rows.start[row] as number,
      end: rows.end[row] as number,
    };
    const before = this.#works.get(number);
    if (before !== undefined && (before.group !== work.group || before.sequence !== sequence)) this.#addRan(before);
    if (before === undefined && this.#works.size >= recordingLimits.gpuTracksMax) this.lost++;
    else this.#works.set(number, work);
  }

  #addRan({ op, group, sequence, bytes, track, start: from, end: to }: Work): void {
    const [start, end] = [Math.round(from * this.#scale), Math.round(to * this.#scale)];
    if (!Number.isSafeInteger(start) || !Number.isSafeInteger(end) || !Number.isSafeInteger(sequence) || !Number.isSafeInteger(bytes)) {
      this.lost++;
      return;
    }
    const builder = this.#target.builderAt(start, start);
    this.#nameTrack(track, builder);
    builder.append('collectives', {
      ...{ start, length: Math.max(0, end - start), track: track.number, op: builder.string(op), group: builder.string(group) },
      ...{ sequence, bytes, id: 0, parent: 0, state: 0, peer: 0 },
    });
    builder.recorded.collective++;
    this.#target.added();
  }

  #nameTrack(track: Track, builder: BatchBuilder): void {
    if (track.serial === builder.serial) return;
    track.serial = builder.serial;
    const { number, kind, tid } = track;
    builder.append('tracks', { track: number, kind: builder.string(kind), name: builder.string(track.name), tid });
  }

  #trackOf(rows: GpuRows, row: number, kind: number): Track | number | undefined {
    if (kind === rowKind.overhead) return this.#named('thread', 'GPU recording', 0);
    const stream = rows.stream[row] as number;
    if (kind === rowKind.call) return this.#target.trackOf(stream) ?? this.#named('thread', `thread ${stream}`, stream);
    const context = rows.context[row] as number;
    const known = rows.device[row] as number;
    if (known !== 0xffff && this.#devices.size < recordingLimits.gpuContextsMax) this.#devices.set(context, known);
    const device = known === 0xffff ? (this.#devices.get(context) ?? 0) : known;
    return this.#named('stream', `GPU ${device} · ${stream === noStream ? 'context' : `stream ${stream}`}`, 0);
  }

  #named(kind: Track['kind'], name: string, tid: number): Track | undefined {
    let track = this.#tracks.get(name);
    if (track === undefined) {
      if (this.#tracks.size >= recordingLimits.gpuTracksMax) return undefined;
      track = { number: this.#firstTrack + this.#tracks.size, kind, name, tid, serial: 0 };
      this.#tracks.set(name, track);
    }
    return track;
  }

  #addKernel(rows: GpuRows, row: number, track: Track | number, reader: RingReader, launched: number): void {
    const numbers = (from: Uint32Array | Uint16Array): string => `[${from[3 * row]},${from[3 * row + 1]},${from[3 * row + 2]}]`;
    const shape = `"grid":${numbers(rows.grid)},"block":${numbers(rows.block)}`;
    const use = `"registers per thread":${rows.registers[row]},"shared memory":${rows.sharedBytes[row]}`;
    this.#addSpan(rows, row, track, nameOf(rows, row, reader), 'kernel', `{${shape},${use}}`, 0, launched);
  }

  #addTransfer(rows: GpuRows, row: number, track: Track | number, launched: number): void {
    const to = memoryNames[rows.destination[row] as number] ?? 'Unknown';
    const isCopy = rows.kind[row] === rowKind.copy;
    const name = isCopy
      ? `Memcpy ${copyNames[rows.detail[row] as number] ?? 'Unknown'} (${memoryNames[rows.source[row] as number] ?? 'Unknown'} -> ${to})`
      : `Memset (${to})`;
    const bytes = rows.bytes[row] as number;
    const length = (rows.end[row] as number) - (rows.start[row] as number);
    // Bytes per ns are GB/s.
    const speed = length > 0 ? Number((bytes / length).toPrecision(4)) : 0;
    const peer = isCopy && rows.peer[row] !== rows.device[row] ? `,"to device":${rows.peer[row]}` : '';
    const signature = `{"bytes":${bytes},"memory bandwidth (GB/s)":${speed}${peer}}`;
    this.#addSpan(rows, row, track, name, isCopy ? 'gpu_memcpy' : 'gpu_memset', signature, 0, launched);
  }

  /** `signature`: arguments as JSON text; many calls share them. `launched`: RankTime, ns; of what no call launched, its own begin. */
  #addSpan(
    rows: GpuRows,
    row: number,
    track: Track | number,
    name: string,
    category: string,
    signature?: string,
    sequence = 0,
    launched?: number,
  ): void {
    const start = Math.round((rows.start[row] as number) * this.#scale);
    const end = Math.round((rows.end[row] as number) * this.#scale);
    if (!Number.isSafeInteger(start) || !Number.isSafeInteger(end)) {
      this.lost++;
      return;
    }
    const builder = this.#target.builderAt(start, launched ?? start);
    if (typeof track !== 'number') this.#nameTrack(track, builder);
    const line = typeof track === 'number' ? track : track.number;
    const at = builder.appendSpan(start, Math.max(0, end - start), line, builder.string(name), builder.string(category), 0, 0, 0);
    builder.recorded.span++;
    if (signature !== undefined) builder.appendOp(at, builder.string(signature), 0, 0, 0, 0, 0, 0, 0);
    const [key, value] = sequence > 0 ? ['sequence', sequence] : ['correlation', rows.correlation[row] as number];
    if (value !== 0)
      builder.append('numberArguments', {
        table: builder.tableIndex('spans'),
        row: at,
        key: builder.string(key as string),
        value: value as number,
      });
    this.#target.added();
  }
}

/** Calls that make a device do something, one way or the other. */
const launchCall = /^(?:cuda|cu)(?:GraphLaunch|Launch(?!Host)|Memcpy|Memset)/;

const isWork = (kind: number): boolean => kind === rowKind.kernel || kind === rowKind.copy || kind === rowKind.set;

/** A name that found no room in the library's table is not known. */
const nameOf = (rows: GpuRows, row: number, { names }: RingReader): string =>
  (names.get(rows.name[row] as number) ?? 'unnamed').slice(0, 1024);
