// A Unix datagram socket with the sender's process and user on every datagram. Node has none: its `dgram` is UDP alone. koffi calls the C
// library (README.md says why koffi).
//
//   poll, on a thread of koffi ──► readable ──► recvmsg until empty, 64 at most ──► a turn of other work ──► poll …
//
// Invariant: nothing here blocks the event loop or spins: `poll` waits on another thread, all other calls are non-blocking, and a flood is read
// no faster than `datagramsPerTurn` in `turnPauseMs`; it waits in its senders.
// Invariant: the kernel states process and user of a datagram (SCM_CREDENTIALS, in our own namespace); nothing in the datagram can.

import { lstatSync, rmSync } from 'node:fs';
import { endianness } from 'node:os';
import { setTimeout as wait } from 'node:timers/promises';
import { AgentError } from '../model/errors.ts';
import { agentLimits as limits } from '../model/limits.ts';
import { addressBytesMax, pathOf } from './socket-address.ts';

export interface Datagram {
  /** Valid during the call only. */
  readonly bytes: Uint8Array;
  /** Whether the sender's datagram was longer. */
  readonly isCut: boolean;
  /** Address to answer to; empty where the sender has none. */
  readonly from: Uint8Array;
  /** Process and user of the sender, by the kernel. */
  readonly pid: number;
  readonly uid: number;
}

type Call = ((...values: unknown[]) => number) & { async(...values: unknown[]): void };

/** The functions of the C library, and its number of the last error. */
interface Libc {
  readonly socket: Call;
  readonly bind: Call;
  readonly connect: Call;
  readonly setsockopt: Call;
  readonly poll: Call;
  readonly recvmsg: Call;
  readonly sendto: Call;
  readonly close: Call;
  readonly errno: () => number;
  readonly address: (memory: Uint8Array) => bigint;
}

/** Linux's numbers, the same on all of its 64-bit machines that Node runs on. */
const linux = {
  ...{ AF_UNIX: 1, SOCK_DGRAM: 2, SOCK_CLOEXEC: 0o2000000, SOL_SOCKET: 1, SO_PASSCRED: 16, SCM_CREDENTIALS: 2 },
  ...{ POLLIN: 1, MSG_DONTWAIT: 0x40, MSG_TRUNC: 0x20, MSG_NOSIGNAL: 0x4000, EAGAIN: 11, EINTR: 4, EADDRINUSE: 98, ECONNREFUSED: 111 },
} as const;

/** Places of recvmsg's parts in one piece of memory, bytes. */
const place = { header: 0, vector: 64, name: 128, control: 256, data: 512 } as const;
/** A sender's process and user alone: descriptors that a datagram brings find no room, and the kernel closes them. */
const controlBytes = 32;

/** Throws AgentError `sockets_unavailable`. */
async function loadLibc(): Promise<Libc> {
  const unavailable = (why: string, cause?: unknown): AgentError =>
    new AgentError(
      'sockets_unavailable',
      `Cannot speak to Kineto: ${why}; files of torch.profiler can be shipped all the same (ranktrace watch)`,
      { cause },
    );
  if (process.platform !== 'linux') throw unavailable(`its sockets are Linux's, this is ${process.platform}`);
  if (endianness() !== 'LE' || !/64|riscv/.test(process.arch)) throw unavailable(`no layout of its sockets is known for ${process.arch}`);
  try {
    const { default: koffi } = await import('koffi');
    const library = koffi.load(null);
    const call = (definition: string): Call => library.func(definition) as unknown as Call;
    return {
      socket: call('int socket(int, int, int)'),
      bind: call('int bind(int, const void *, uint32_t)'),
      connect: call('int connect(int, const void *, uint32_t)'),
      setsockopt: call('int setsockopt(int, int, int, const void *, uint32_t)'),
      poll: call('int poll(void *, unsigned long, int)'),
      recvmsg: call('int64_t recvmsg(int, void *, int)'),
      sendto: call('int64_t sendto(int, const void *, size_t, int, const void *, uint32_t)'),
      close: call('int close(int)'),
      errno: () => koffi.errno(),
      address: (memory) => koffi.address(memory),
    };
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message.split('\n', 1)[0] : String(cause);
    throw unavailable(`the package koffi cannot be loaded here (${reason}): npm install koffi`, cause);
  }
}

export class DatagramSocket {
  readonly #libc: Libc;
  readonly #descriptor: number;
  readonly #address: Uint8Array;
  readonly #memory = Buffer.alloc(place.data + limits.datagramBytesMax);
  readonly #base: bigint;
  #closed = false;
  #reading: Promise<void> = Promise.resolve();

  private constructor(libc: Libc, descriptor: number, address: Uint8Array) {
    this.#libc = libc;
    this.#descriptor = descriptor;
    this.#address = address;
    this.#base = libc.address(this.#memory);
  }

  /** Opens a socket with this address. Throws AgentError `sockets_unavailable`, `name_taken`, `socket_failed`. */
  static async open(address: Uint8Array): Promise<DatagramSocket> {
    const libc = await loadLibc();
    const failed = (what: string): AgentError =>
      new AgentError('socket_failed', `Cannot ${what} a Unix socket: error ${libc.errno()} of the system`);
    const descriptor = libc.socket(linux.AF_UNIX, linux.SOCK_DGRAM | linux.SOCK_CLOEXEC, 0);
    if (descriptor < 0) throw failed('open');
    try {
      const on = Buffer.from(Uint32Array.of(1).buffer);
      if (libc.setsockopt(descriptor, linux.SOL_SOCKET, linux.SO_PASSCRED, on, on.length) < 0) throw failed('read the senders of');
      removeLeftover(libc, address);
      if (bindForAll(libc, descriptor, address) < 0) {
        const path = pathOf(address);
        if (libc.errno() !== linux.EADDRINUSE) throw failed(`name ${path ?? ''}`);
        if (path !== undefined && !isSocket(path))
          throw new AgentError('socket_failed', `Cannot name ${path} a Unix socket: something else has the name`);
        throw new AgentError(
          'name_taken',
          `Cannot take the name of Kineto's daemon (${path ?? 'abstract name "dynolog"'}): another process holds it, such as dynolog or another agent; stop it, or give jobs a folder of their own (KINETO_IPC_SOCKET_DIR, --socket-dir)`,
        );
      }
      return new DatagramSocket(libc, descriptor, address);
    } catch (error) {
      libc.close(descriptor);
      throw error;
    }
  }

  /** Calls `take` for each datagram until closed. Call it once. */
  listen(take: (datagram: Datagram) => void): void {
    this.#reading = this.#read(take);
  }

  /** Sends without waiting; false where the receiver is gone, or has no room after a few tries. */
  send(bytes: Uint8Array, to: Uint8Array): boolean {
    if (this.#closed) return false;
    for (let attempt = 0; attempt < limits.answerTriesMax; attempt++) {
      const sent = this.#libc.sendto(this.#descriptor, bytes, bytes.length, linux.MSG_DONTWAIT | linux.MSG_NOSIGNAL, to, to.length);
      if (sent >= 0) return true;
      if (this.#libc.errno() !== linux.EAGAIN && this.#libc.errno() !== linux.EINTR) return false;
    }
    return false;
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    // Wakes the thread that waits.
    this.send(new Uint8Array(0), this.#address);
    this.#closed = true;
    await this.#reading;
    this.#libc.close(this.#descriptor);
    const path = pathOf(this.#address);
    if (path !== undefined) rmSync(path, { force: true });
  }

  async #read(take: (datagram: Datagram) => void): Promise<void> {
    const waited = Buffer.alloc(8);
    waited.writeInt32LE(this.#descriptor, 0);
    let [taken, since] = [0, performance.now()];
    while (!this.#closed) {
      waited.writeInt32LE(linux.POLLIN, 4);
      const ready = await new Promise<number>((resolve) => {
        this.#libc.poll.async(waited, 1, limits.receiveWaitMs, (error: unknown, count: number) => resolve(error ? -1 : count));
      });
      if (this.#closed) return;
      // A signal interrupts the wait.
      if (ready < 0) await wait(limits.turnPauseMs);
      if (ready <= 0) continue;
      // A sender on another core may find the queue empty after each datagram: many short turns are one.
      if (performance.now() - since >= limits.turnPauseMs) [taken, since] = [0, performance.now()];
      for (; taken < limits.datagramsPerTurn && !this.#closed; taken++) {
        const datagram = this.#receive();
        if (datagram === undefined) break;
        take(datagram);
      }
      if (taken === limits.datagramsPerTurn) await wait(limits.turnPauseMs);
    }
  }

  #receive(): Datagram | undefined {
    const memory = this.#memory;
    const base = this.#base;
    // struct msghdr: name, name length, vectors, count, control, control length, flags; struct iovec: base, length.
    memory.writeBigUInt64LE(base + BigInt(place.name), 0);
    memory.writeUInt32LE(addressBytesMax, 8);
    memory.writeBigUInt64LE(base + BigInt(place.vector), 16);
    memory.writeBigUInt64LE(1n, 24);
    memory.writeBigUInt64LE(base + BigInt(place.control), 32);
    memory.writeBigUInt64LE(BigInt(controlBytes), 40);
    memory.writeBigUInt64LE(0n, 48);
    memory.writeBigUInt64LE(base + BigInt(place.data), place.vector);
    memory.writeBigUInt64LE(BigInt(limits.datagramBytesMax), place.vector + 8);
    const length = this.#libc.recvmsg(this.#descriptor, memory, linux.MSG_DONTWAIT);
    if (length < 0) return undefined;
    const nameLength = Math.min(addressBytesMax, memory.readUInt32LE(8));
    const [pid, uid] = this.#sender();
    return {
      bytes: memory.subarray(place.data, place.data + length),
      isCut: (memory.readInt32LE(48) & linux.MSG_TRUNC) !== 0,
      from: nameLength > 2 ? Buffer.from(memory.subarray(place.name, place.name + nameLength)) : new Uint8Array(0),
      pid,
      uid,
    };
  }

  /** struct cmsghdr: length (8 bytes), level, type; then struct ucred: pid, uid, gid. -1 where the kernel states none. */
  #sender(): [pid: number, uid: number] {
    const memory = this.#memory;
    const length = Number(memory.readBigUInt64LE(40));
    const at = place.control;
    if (length < 28 || memory.readInt32LE(at + 8) !== linux.SOL_SOCKET || memory.readInt32LE(at + 12) !== linux.SCM_CREDENTIALS)
      return [-1, -1];
    return [memory.readInt32LE(at + 16), memory.readUInt32LE(at + 20)];
  }
}

/**
 * Binds, where root does, so that ranks of all users may send: a path has permissions, as a file has. They are set as the path is made, for it may lead
 * elsewhere later.
 */
function bindForAll(libc: Libc, descriptor: number, address: Uint8Array): number {
  if (pathOf(address) === undefined || process.getuid?.() !== 0) return libc.bind(descriptor, address, address.length);
  const mask = process.umask(0);
  try {
    return libc.bind(descriptor, address, address.length);
  } finally {
    process.umask(mask);
  }
}

/** A path stays when its process is killed: it goes where nobody answers to it. A socket of its own looks, for looking names a socket. */
function removeLeftover(libc: Libc, address: Uint8Array): void {
  const path = pathOf(address);
  if (path === undefined || !isSocket(path)) return;
  const descriptor = libc.socket(linux.AF_UNIX, linux.SOCK_DGRAM | linux.SOCK_CLOEXEC, 0);
  const isLeft = libc.connect(descriptor, address, address.length) < 0 && libc.errno() === linux.ECONNREFUSED;
  libc.close(descriptor);
  try {
    if (isLeft) rmSync(path, { force: true });
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? 'error';
    throw new AgentError('socket_failed', `Cannot remove ${path}, which a process left that has ended: ${code}`, { cause });
  }
}

function isSocket(path: string): boolean {
  try {
    return lstatSync(path).isSocket();
  } catch {
    return false;
  }
}
