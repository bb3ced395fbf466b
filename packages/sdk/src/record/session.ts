// State that the threads of one process share while a profile is active: the control word, and the messages on their channel.
//
//   main thread      start ──► new Worker ───────── stop ─► Atomics.wait until FLUSHED (or a deadline)
//   shipper worker        STARTING ──► READY ──► … ──────► FLUSHED          ERROR: it cannot work; recording ends
//                                        ▲──── failed ───────┘
//
//   user thread      asks or hears `open` ──► makes its ring ──► `attach` ──► the shipper drains it
//
// A thread may start before or after the profile and before or after the shipper is up, and either event loop may be blocked: so a
// session travels by environment data (to threads started later) and by `open` (to earlier ones, from the main thread and from the
// shipper). Where several threads have a profile, all of them are heard, and a thread records in the nearest one above it. The shipper listens for
// `attach`; until it is up, the main thread does and forwards it. All of it is idempotent.

import type { MessagePort } from 'node:worker_threads';
import type { ResolvedOptions } from '../model/options.ts';
import { endingSignals } from '../process/signal-claims.ts';
import { captureSlotsBytes } from './capture-slots.ts';

/** Values of the control word. */
export const sessionState = { starting: 0, ready: 1, flushed: 2, error: 3 } as const;

/** BroadcastChannel and environment data key; channels do not leave the process. */
export const channelName = 'ranktrace';

export interface Session {
  /** The incarnation. */
  readonly id: string;
  /** `threadId` of the thread that opened it. */
  readonly thread: number;
  /** Int32: a `sessionState`, bits of `detail` (detail.ts), the requested steps (capture-slots.ts), the watched signals. */
  readonly control: SharedArrayBuffer;
  /** Monotonic clock at RankTime 0, ns. */
  readonly epochNs: bigint;
  readonly ringBytes: number;
  /** How each thread with a tfjs engine records it; undefined if ops are not wanted. */
  readonly hooks:
    | { readonly fence: boolean; readonly withMemory: boolean; readonly withModules: boolean; readonly withStack: boolean | 'walk' }
    | undefined;
}

const watchedAt = 8 + captureSlotsBytes;
export const controlBytes = watchedAt + 4 * endingSignals.length;

/** The session's word of `detail` bits. */
export const detailWord = ({ control }: Session): Int32Array => new Int32Array(control, 4, 1);

/** The session's words of requested steps. */
export const captureWords = ({ control }: Session): Int32Array => new Int32Array(control, 8, captureSlotsBytes / 4);

/** The session's words of signals that its shipper watches (signal-claims.ts). */
export const watchedWords = ({ control }: Session): Int32Array => new Int32Array(control, watchedAt);

/** Whether the session has no shipper any more. */
export function hasEnded({ control }: Session): boolean {
  const state = Atomics.load(new Int32Array(control), 0);
  return state === sessionState.flushed || state === sessionState.error;
}

/** A thread and its ring. */
export interface AttachedThread {
  readonly type: 'attach';
  readonly session: string;
  /** `threadId`, 0 for the main thread: the track number. */
  readonly thread: number;
  readonly name: string;
  /** The system's thread id. */
  readonly tid: number;
  readonly ring: SharedArrayBuffer;
  /** The thread's `performance.now()`, ms, at RankTime 0. */
  readonly origin: number;
}

export type ChannelMessage =
  | { readonly type: 'open'; readonly session: Session }
  /** From a thread that looks for a session. */
  | { readonly type: 'ask' }
  | { readonly type: 'close'; readonly session: string }
  | AttachedThread;

/** Arguments for the start of the shipper worker. */
export interface ShipperStart {
  readonly session: Session;
  readonly main: AttachedThread;
  readonly options: ResolvedOptions;
  readonly pid: number;
  /** From signal-claims.ts. */
  readonly signalWords: SharedArrayBuffer;
}

export type ToShipper =
  | AttachedThread
  /**
   * `until`: the deadline, ns of `process.hrtime`, which all threads of a process share. `pulls`: also ship the flight recorder's detail.
   * `waits`: stay for a `failed`.
   */
  | { readonly type: 'stop'; readonly until: bigint; readonly pulls: boolean; readonly waits: boolean }
  /** After FLUSHED: the program fails all the same, by the `error` if it is known. The control word is READY again. */
  | { readonly type: 'failed'; readonly until: bigint; readonly error: string | undefined }
  | { readonly type: 'toggleDevices'; readonly on: boolean }
  /** The program began to listen for a signal, or ceased to. */
  | { readonly type: 'signals' }
  /** Asks for `HeldResults` on `port`; `answered` (one Int32) becomes 1 once they are there. */
  | { readonly type: 'results'; readonly port: MessagePort; readonly answered: SharedArrayBuffer };
