// The recorder of this thread, if it has one: the target of `recordFunction`.
//
// One per thread and not an argument, for code deep inside a model must be able to name its parts without receiving a profile.
// In the thread that started a profile it is that profile's. In other threads of the process the first `recordFunction` makes it, as soon
// as there is a session (session.ts explains how a thread learns of it); it closes when the thread or the session ends.

import { AsyncLocalStorage } from 'node:async_hooks';
import { readlinkSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { BroadcastChannel, getEnvironmentData, isMainThread, setEnvironmentData, threadId } from 'node:worker_threads';
import { guarded } from '../process/guarded.ts';
import { calibrateZero, originOf } from '../process/thread-clock.ts';
import { Recorder, type SpanContext } from '../record/recorder.ts';
import { createRing, RingWriter } from '../record/ring.ts';
import { type AttachedThread, type ChannelMessage, channelName, detailWord, hasEnded, type Session } from '../record/session.ts';
import { hookTfjs, type TfjsHooks } from '../tfjs/attach-tfjs.ts';

let active: Recorder | undefined;
let listening = false;
/** Whether this thread is or was a rank of its own: then it is never part of one beside it. */
let hadProfile = false;

const threadsKey = `${channelName}.threads`;
/** This thread and those above it, the nearest first, as far as they have loaded this module; the main thread is above all. */
const threadsAbove: readonly number[] = [threadId, ...((getEnvironmentData(threadsKey) as readonly number[] | undefined) ?? [0])];
setEnvironmentData(threadsKey, threadsAbove as never);

/** How far above this thread a session's is; beyond all of them if it is beside it. */
const distanceTo = ({ thread }: Session): number => (threadsAbove.includes(thread) ? threadsAbove.indexOf(thread) : threadsAbove.length);

/** This thread's recorder. In a thread of its own, the first call looks for a session. */
export function threadRecorder(): Recorder | undefined {
  if (active === undefined && !isMainThread && !listening) listen();
  return active;
}

export function setThreadRecorder(recorder: Recorder | undefined): void {
  active = recorder;
  hadProfile ||= recorder !== undefined;
}

/** Makes a recorder for this thread, whose first step has this number, and the description of the thread for the shipper. */
export function createRecorder(session: Session, name: string, firstStep = 0): { recorder: Recorder; thread: AttachedThread } {
  const ring = createRing(session.ringBytes);
  const recorder = new Recorder({
    ring: new RingWriter(ring),
    now: () => performance.now(),
    context: new AsyncLocalStorage<SpanContext>(),
    // Ids are doubles: 2^13 threads of 2^40 spans each.
    idBase: (threadId % 8192) * 2 ** 40,
    detail: detailWord(session),
    firstStep,
  });
  const origin = originOf(
    calibrateZero(() => performance.now(), process.hrtime.bigint),
    session.epochNs,
  );
  return { recorder, thread: { type: 'attach', session: session.id, thread: threadId, name, tid: systemThreadId(), ring, origin } };
}

function listen(): void {
  listening = true;
  const channel = new BroadcastChannel(channelName);
  let attached: AttachedThread | undefined;
  let followed: Session | undefined;
  let hooks: TfjsHooks | undefined;
  const post = (message: ChannelMessage) => channel.postMessage(message);
  const open = (session: Session) => {
    if (attached?.session !== session.id) {
      if (active !== undefined && attached === undefined) return; // It has a profile of its own.
      const distance = distanceTo(session);
      if (hadProfile && distance === threadsAbove.length) return;
      const other = followed === undefined || followed.thread === session.thread || hasEnded(followed) ? undefined : followed;
      if (other !== undefined && distance >= distanceTo(other)) return;
      active?.close();
      const made = createRecorder(session, `worker ${threadId}`);
      active = made.recorder;
      attached = made.thread;
      followed = session;
      hooks?.remove();
      hooks = session.hooks === undefined ? undefined : hookTfjs(warn, made.recorder, session.hooks);
      if (hooks !== undefined && session.hooks?.withStack !== false) made.recorder.stacks = hooks.stacks;
    }
    // Again, too: the shipper that sends `open` may have missed the first one.
    post(attached);
  };
  channel.onmessage = guarded('hearing of a profile', (event: unknown) => {
    const message = (event as { data: ChannelMessage }).data;
    if (message.type === 'open') open(message.session);
    if (message.type !== 'close' || message.session !== attached?.session) return;
    hooks?.remove();
    active?.close();
    active = undefined;
    attached = undefined;
    followed = undefined;
    hooks = undefined;
  });
  channel.unref();
  process.once(
    'exit',
    guarded('closing the recorder', () => active?.close()),
  );
  // The session that the thread inherited may have ended since, and another begun: ask in any case.
  const session = getEnvironmentData(channelName) as Session | undefined;
  // A thread that finds no memory for its ring goes on without.
  const openNow = guarded('recording this thread', open);
  if (session !== undefined && !hasEnded(session)) openNow(session);
  post({ type: 'ask' });
}

const warn = (text: string): void => process.emitWarning(text, 'RanktraceWarning');

/** Linux gives the calling thread's id here; elsewhere Node's own number must do. */
function systemThreadId(): number {
  try {
    return Number(readlinkSync('/proc/thread-self').split('/').at(-1)) || threadId;
  } catch {
    return isMainThread ? process.pid : threadId;
  }
}
