// The daemon's side of Kineto's interface: who asks, and what each is answered.
//
//   datagram ──► whole, of a known form? ──► from the process that it names? ──► not too often? ──► what this process is to do
//                  no: malformed              no: forged                          no: too many         answered at once: Kineto waits 90 ms
//
// Invariant: a process gets only the answer that is for itself, as the kernel names it; whatever else arrives is counted, and reported in one line.

import { readFileSync } from 'node:fs';
import { agentLimits as limits } from '../model/limits.ts';
import { type Datagram, DatagramSocket } from './datagram-socket.ts';
import { decodeFabricMessage, encodeFabricMessage } from './fabric-messages.ts';

/** A process that asked for work. */
export interface AskingProcess {
  /** In our namespace. */
  readonly pid: number;
  readonly uid: number;
  /** As the process itself counts: the number in the names of its files. */
  readonly ownPid: number;
  /** Whether it could begin to record activities. */
  readonly takesActivities: boolean;
}

export interface KinetoDaemonParts {
  readonly address: Uint8Array;
  /** Kineto's text for the process; empty for nothing to do. */
  readonly work: (process: AskingProcess) => string;
  readonly notice: (line: string) => void;
  /** Monotonic, ms. */
  readonly nowMs?: () => number;
}

/** Datagrams that were not answered, by reason. */
export interface RefusedDatagrams {
  malformed: number;
  /** The process that they name is not the one that sent them. */
  forged: number;
  tooMany: number;
}

interface Asked {
  since: number;
  count: number;
  /** Its own number for itself, once known to be true. */
  ownPid: number;
}

export class KinetoDaemon {
  readonly refused: RefusedDatagrams = { malformed: 0, forged: 0, tooMany: 0 };
  /** Requests that were answered. */
  answered = 0;
  readonly #parts: KinetoDaemonParts;
  readonly #nowMs: () => number;
  readonly #socket: DatagramSocket;
  /** By process, the one longest without a request first. */
  readonly #asked = new Map<number, Asked>();
  #reportedAt = Number.NEGATIVE_INFINITY;

  private constructor(socket: DatagramSocket, parts: KinetoDaemonParts) {
    this.#socket = socket;
    this.#parts = parts;
    this.#nowMs = parts.nowMs ?? (() => performance.now());
    socket.listen((datagram) => this.#take(datagram));
  }

  /** Throws AgentError `sockets_unavailable`, `name_taken`, `socket_failed`. */
  static async open(parts: KinetoDaemonParts): Promise<KinetoDaemon> {
    return new KinetoDaemon(await DatagramSocket.open(parts.address), parts);
  }

  close(): Promise<void> {
    return this.#socket.close();
  }

  #take({ bytes, isCut, from, pid, uid }: Datagram): void {
    const message = isCut || from.length === 0 ? undefined : decodeFabricMessage(bytes);
    if (message === undefined) {
      this.#refuse('malformed');
      return;
    }
    const asked = this.#askedBy(pid);
    if (asked === undefined) {
      this.#refuse('tooMany');
      return;
    }
    const claimed = message.type === 'ctxt' ? message.pid : (message.pids[0] as number);
    if (!isSender(claimed, pid, asked)) {
      this.#refuse('forged');
      return;
    }
    this.answered++;
    if (message.type === 'ctxt') {
      this.#socket.send(encodeFabricMessage('ctxt', Uint8Array.of(1, 0, 0, 0)), from);
      return;
    }
    const text = this.#parts.work({ pid, uid, ownPid: claimed, takesActivities: message.takesActivities });
    this.#socket.send(encodeFabricMessage('req', new TextEncoder().encode(text)), from);
  }

  /** The count of the process's requests; undefined where there are too many, or it is unknown. */
  #askedBy(pid: number): Asked | undefined {
    if (pid <= 0) return undefined;
    const now = this.#nowMs();
    const asked = this.#asked.get(pid) ?? { since: now, count: 0, ownPid: -1 };
    this.#asked.delete(pid);
    this.#asked.set(pid, asked);
    if (this.#asked.size > limits.processesMax) this.#asked.delete(this.#asked.keys().next().value as number);
    if (now - asked.since > limits.processWindowMs) [asked.since, asked.count] = [now, 0];
    asked.count++;
    return asked.count > limits.processRequestsMax ? undefined : asked;
  }

  #refuse(why: keyof RefusedDatagrams): void {
    this.refused[why]++;
    const now = this.#nowMs();
    if (now - this.#reportedAt < limits.refusalNoticeMs) return;
    this.#reportedAt = now;
    const { malformed, forged, tooMany } = this.refused;
    this.#parts.notice(
      `datagrams to Kineto's name that were not answered so far: ${malformed} of another form, ${forged} in another process's name, ${tooMany} too many of one process`,
    );
  }
}

/** Whether process `pid` calls itself `claimed`: in a container it counts in a namespace of its own. */
function isSender(claimed: number, pid: number, asked: Asked): boolean {
  if (claimed === pid || claimed === asked.ownPid) return true;
  try {
    const inner =
      /^NSpid:\t(.*)$/m
        .exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]
        ?.split('\t')
        .map(Number) ?? [];
    if (!inner.includes(claimed)) return false;
    asked.ownPid = claimed;
    return true;
  } catch {
    return false;
  }
}
