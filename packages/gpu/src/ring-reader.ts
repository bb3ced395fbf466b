// The one reader of a ring (native/ring.h): takes rows in order, as they are published, and moves `read` behind them.
//
//   file ──► rows whose turn is the expected one ──► columns
//              └─ names and groups are kept, by number
//
// The file is read and written with system calls: pages of shared memory and of a file are the same, so a mapping is not needed. Invariant: whatever is in
// the file, a read ends, takes bounded memory, and throws nothing but GpuError.

import { closeSync, constants, fstatSync, openSync, readSync, writeSync } from 'node:fs';
import { GpuError } from './errors.ts';
import { type GpuRows, rowsMax } from './gpu-rows.ts';
import {
  headerBytes,
  headerOffsets,
  messageBytes,
  nameBytesMax,
  nameBytesPerRow,
  ringMagic,
  ringSources,
  ringStates,
  ringVersion,
  rowBytes,
  rowKind,
  rowOffsets,
} from './row-layout.ts';

/** Names and groups of one ring that are kept; a ring has at most as many. */
const namesMax = 16_384;
const groupsMax = 4096;
const capacityMax = 2 ** 22;
const turns = 2n ** 32n;

/** A communicator of NCCL. */
export interface GpuGroup {
  /** Its name, or its identity as NCCL prints it. */
  readonly name: string;
  readonly communicator: bigint;
  /** 0: not known. */
  readonly ranks: number;
  readonly nodes: number;
  /** This process's rank in it. */
  readonly rank: number;
}

export interface RingState {
  readonly state: (typeof ringStates)[number];
  /** Why it was refused, or what cannot be seen. */
  readonly message: string;
  /** Version of the library that reports. */
  readonly library: number;
  /** Since its begin: rows for which there was no room, records that the library dropped, records that are not known, names beyond the limit. */
  readonly dropped: number;
  readonly droppedRecords: number;
  readonly unknownRecords: number;
  readonly droppedNames: number;
}

interface Naming {
  readonly number: number;
  readonly bytes: Buffer;
  done: number;
}

export class RingReader {
  readonly path: string;
  readonly source: 'cupti' | 'nccl';
  readonly pid: number;
  /** Start of the process, ticks after boot; 0: not known. */
  readonly pidStart: number;
  /** Rows of kinds that are not known. */
  malformed = 0;
  /** Rows that a process was writing when it was killed. */
  unpublished = 0;
  readonly names = new Map<number, string>();
  readonly groups = new Map<number, GpuGroup>();
  readonly #descriptor: number;
  readonly #capacity: number;
  readonly #epochLow: number;
  readonly #epochHigh: number;
  readonly #head = Buffer.alloc(headerOffsets.message + messageBytes);
  readonly #chunk = Buffer.alloc(rowsMax * rowBytes);
  #at: bigint;
  /** The name whose bytes come next. */
  #naming: Naming | undefined;

  /**
   * Opens the ring at `path`, which must be a regular file of user `uid`. `epochNs`: the host's clock at RankTime 0. Throws GpuError `ring_refused`, and the
   * system's errors.
   */
  constructor(path: string, epochNs: bigint, uid: number) {
    this.path = path;
    this.#epochLow = Number(epochNs & 0xffff_ffffn);
    this.#epochHigh = Number(epochNs >> 32n);
    this.#descriptor = openSync(path, constants.O_RDWR | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    try {
      const about = fstatSync(this.#descriptor);
      if (!about.isFile() || about.uid !== uid) throw this.#refused(`it must be a regular file of user ${uid}`);
      this.#readHead();
      const head = this.#head;
      if (head.toString('latin1', 0, 8) !== ringMagic) throw this.#refused('it is no ring');
      const version = head.readUInt32LE(headerOffsets.version);
      if (version !== ringVersion) throw this.#refused(`it must have version ${ringVersion}, got ${version}`);
      const capacity = head.readUInt32LE(headerOffsets.capacity);
      const isPower = capacity > 0 && (capacity & (capacity - 1)) === 0;
      if (!isPower || capacity > capacityMax || about.size !== headerBytes + capacity * rowBytes)
        throw this.#refused(`its ${capacity} rows do not fit its ${about.size} bytes`);
      this.#capacity = capacity;
      this.pid = head.readUInt32LE(headerOffsets.pid);
      this.pidStart = Number(head.readBigUInt64LE(headerOffsets.pidStart));
      const source = ringSources[head.readUInt32LE(headerOffsets.source)];
      if (source !== 'cupti' && source !== 'nccl') throw this.#refused('its source is not known');
      this.source = source;
      this.#at = head.readBigUInt64LE(headerOffsets.read);
    } catch (error) {
      closeSync(this.#descriptor);
      throw error;
    }
  }

  get state(): RingState {
    this.#readHead();
    const head = this.#head;
    const count = (offset: number): number => Number(head.readBigUInt64LE(offset));
    const end = head.indexOf(0, headerOffsets.message);
    return {
      state: ringStates[head.readUInt32LE(headerOffsets.state)] ?? 'ended',
      message: head.toString('utf8', headerOffsets.message, end < 0 ? undefined : end),
      library: head.readUInt32LE(headerOffsets.library),
      dropped: count(headerOffsets.dropped),
      droppedRecords: count(headerOffsets.droppedRecords),
      unknownRecords: count(headerOffsets.unknownRecords),
      droppedNames: count(headerOffsets.droppedNames),
    };
  }

  /**
   * Replaces `rows` by the next ones; returns whether more may be there. `isOver`: its process is gone, so a row that is not whole never will be, and is
   * counted. Throws GpuError `ring_refused` where the positions make no sense.
   */
  read(rows: GpuRows, isOver = false): boolean {
    rows.length = 0;
    this.#readHead();
    const reserve = this.#head.readBigUInt64LE(headerOffsets.reserve);
    const waiting = reserve - this.#at;
    if (waiting < 0n || waiting > BigInt(this.#capacity)) throw this.#refused('its positions were changed by somebody else');
    const place = Number(this.#at % BigInt(this.#capacity));
    const count = Math.min(Number(waiting), rowsMax, this.#capacity - place);
    const length = this.#readAt(this.#chunk, count * rowBytes, headerBytes + place * rowBytes);
    const turn = Number((this.#at / BigInt(this.#capacity) + 1n) % turns);
    let taken = 0;
    for (; (taken + 1) * rowBytes <= length; taken++) {
      const at = taken * rowBytes;
      if (this.#chunk.readUInt32LE(at + rowOffsets.turn) === turn) this.#take(at, rows);
      else if (isOver) this.#skip();
      else break;
    }
    if (taken === 0) return false;
    this.#at += BigInt(taken);
    this.#head.writeBigUInt64LE(this.#at, headerOffsets.read);
    writeSync(this.#descriptor, this.#head, headerOffsets.read, 8, headerOffsets.read);
    return taken === count && Number(waiting) > count;
  }

  /** Whether the process reads it itself: nobody else may, for a row is read once. */
  get isReadInside(): boolean {
    this.#readHead();
    return this.#head.readUInt32LE(headerOffsets.isReadInside) !== 0;
  }

  /** Says that the process reads it itself. */
  keepInside(): void {
    this.#head.writeUInt32LE(1, headerOffsets.isReadInside);
    writeSync(this.#descriptor, this.#head, headerOffsets.isReadInside, 4, headerOffsets.isReadInside);
  }

  close(): void {
    closeSync(this.#descriptor);
  }

  #readHead(): void {
    if (this.#readAt(this.#head, this.#head.length, 0) < this.#head.length) throw this.#refused('it is too short');
  }

  #readAt(into: Buffer, length: number, from: number): number {
    let done = 0;
    for (let read = -1; read !== 0 && done < length; done += read)
      read = readSync(this.#descriptor, into, done, length - done, from + done);
    return done;
  }

  #refused(why: string): GpuError {
    return new GpuError('ring_refused', `Cannot read the ring "${this.path}": ${why}`);
  }

  #skip(): void {
    this.unpublished++;
    this.#naming = undefined;
  }

  #take(at: number, rows: GpuRows): void {
    const kind = this.#chunk[at + rowOffsets.kind] as number;
    // The bytes of a name are behind no kind.
    if (this.#naming !== undefined) this.#addName(this.#naming, at);
    else if (kind === rowKind.name) this.#beginName(at);
    else if (kind === rowKind.group) this.#addGroup(at);
    else if (kind < rowKind.kernel || kind > rowKind.collective) this.malformed++;
    else this.#addRow(kind, at, rows);
  }

  #addRow(kind: number, at: number, rows: GpuRows): void {
    const chunk = this.#chunk;
    const row = rows.length++;
    rows.kind[row] = kind;
    rows.detail[row] = chunk[at + rowOffsets.detail] as number;
    rows.device[row] = chunk.readUInt16LE(at + rowOffsets.device);
    rows.start[row] = this.#timeAt(at + rowOffsets.start);
    rows.end[row] = this.#timeAt(at + rowOffsets.end);
    rows.name[row] = chunk.readUInt32LE(at + rowOffsets.name);
    rows.stream[row] = chunk.readUInt32LE(at + rowOffsets.stream);
    rows.correlation[row] = chunk.readUInt32LE(at + rowOffsets.correlation);
    rows.context[row] = chunk.readUInt32LE(at + rowOffsets.context);
    if (kind === rowKind.kernel) {
      const { grid, block, registers, sharedBytes } = rowOffsets.kernel;
      for (let axis = 0; axis < 3; axis++) {
        rows.grid[3 * row + axis] = chunk.readUInt32LE(at + grid + 4 * axis);
        rows.block[3 * row + axis] = chunk.readUInt16LE(at + block + 2 * axis);
      }
      rows.registers[row] = chunk.readUInt16LE(at + registers);
      rows.sharedBytes[row] = chunk.readUInt32LE(at + sharedBytes);
    } else if (kind === rowKind.copy || kind === rowKind.set) {
      const { bytes, peerDevice, source, destination, isAsync } = rowOffsets.copy;
      rows.bytes[row] = numberAt(chunk, at + bytes);
      rows.peer[row] = chunk.readUInt32LE(at + peerDevice);
      rows.source[row] = chunk[at + source] as number;
      rows.destination[row] = chunk[at + destination] as number;
      rows.isAsync[row] = chunk[at + isAsync] as number;
    } else if (kind === rowKind.sync) rows.event[row] = chunk.readUInt32LE(at + rowOffsets.sync.event);
    else if (kind === rowKind.collective) {
      const { sequence, bytes, group, peer } = rowOffsets.collective;
      rows.sequence[row] = numberAt(chunk, at + sequence);
      rows.bytes[row] = numberAt(chunk, at + bytes);
      rows.group[row] = chunk.readUInt32LE(at + group);
      rows.peer[row] = chunk.readUInt16LE(at + peer);
    }
  }

  /** RankTime of a time in the file, exact however long the host runs; NaN for 0. */
  #timeAt(at: number): number {
    const [low, high] = [this.#chunk.readUInt32LE(at), this.#chunk.readUInt32LE(at + 4)];
    return low === 0 && high === 0 ? Number.NaN : (high - this.#epochHigh) * 2 ** 32 + (low - this.#epochLow);
  }

  #beginName(at: number): void {
    const number = this.#chunk.readUInt32LE(at + rowOffsets.nameRow.number);
    const length = this.#chunk.readUInt32LE(at + rowOffsets.nameRow.length);
    if (number === 0 || length > nameBytesMax || (!this.names.has(number) && this.names.size >= namesMax)) {
      this.malformed++;
      return;
    }
    if (length === 0) this.names.set(number, '');
    else this.#naming = { number, bytes: Buffer.alloc(length), done: 0 };
  }

  #addName(naming: Naming, at: number): void {
    const { number, bytes } = naming;
    const part = Math.min(nameBytesPerRow, bytes.length - naming.done);
    this.#chunk.copy(bytes, naming.done, at + rowBytes - nameBytesPerRow, at + rowBytes - nameBytesPerRow + part);
    naming.done += part;
    if (naming.done < bytes.length) return;
    this.names.set(number, bytes.toString('utf8'));
    this.#naming = undefined;
  }

  #addGroup(at: number): void {
    const { number, ranks, rank, nodes } = rowOffsets.group;
    const communicator = this.#chunk.readBigUInt64LE(at + rowOffsets.group.communicator);
    const key = this.#chunk.readUInt32LE(at + number);
    if (!this.groups.has(key) && this.groups.size >= groupsMax) {
      this.malformed++;
      return;
    }
    const name = this.names.get(this.#chunk.readUInt32LE(at + rowOffsets.name));
    this.groups.set(key, {
      name: name || `communicator 0x${communicator.toString(16)}`,
      communicator,
      nodes: this.#chunk.readUInt32LE(at + nodes),
      ranks: this.#chunk.readUInt32LE(at + ranks),
      rank: this.#chunk.readUInt32LE(at + rank),
    });
  }
}

/** An unsigned number of 64 bits, exact up to 2^53. */
const numberAt = (bytes: Buffer, at: number): number => bytes.readUInt32LE(at + 4) * 2 ** 32 + bytes.readUInt32LE(at);
