// Windows that one rank is asked to record.
//
//   record_window ─► waiting ─► asked ─────────► read ─────────► shipped
//                      │  Kineto's  │ recording,    │ the moment from which all
//                      │  request   │ file complete │ ranks count comes
//                      └────────────┴───────────────┴──────────► missed, with the reason
//
// The moment is the service's; each host is asked for its own wall time of it. Kineto asks for work every 5 s and must know a window before its warm-up
// begins, so the service announces windows ahead. Each state is sent as soon as it is reached, and again with each repetition of the request.
// Invariant: every window ends as shipped or missed, within `fileWaitMsMax` after its end.

import { closeSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import { type ControlMessage, limits as protocolLimits, type WindowAnswer, windowKey } from '@ranktrace/protocol';
import { reasonOf } from '@ranktrace/sdk/shipping';
import { ReadBudget } from '@ranktrace/trace';
import { countedEnds, type KinetoTable, kinetoExtent } from '@ranktrace/trace/torch';
import { isGzipFile, mayBeComplete, readKinetoFile } from '../files/read-kineto.ts';
import { makeTraceFolder, openTrace, removeTrace } from '../files/trace-folder.ts';
import { windowConfig, windowFile } from '../kineto/fabric-messages.ts';
import { agentLimits as limits } from '../model/limits.ts';
import type { SeenRank } from '../ranks/rank-finder.ts';
import type { RankSession } from '../ship/rank-session.ts';

export type WindowMessage = Extract<ControlMessage, { type: 'record_window' }>;

export interface RankWindowsParts {
  readonly rank: SeenRank;
  readonly session: RankSession;
  /** Memory for the files of all ranks. */
  readonly memory: ReadBudget;
  /** The reason why the rank has not asked, if it has not. */
  readonly whySilent: () => string;
  /** Whether the rank's process goes on. */
  readonly isAlive: () => boolean;
  readonly notice: (line: string) => void;
}

interface RankWindow {
  readonly message: WindowMessage;
  /** The moment on the host's clock, ns, and on the wall clock, ms since 1970. */
  readonly startNs: bigint;
  readonly startUnixMs: number;
  /** How long before the moment the request came, s; negative after it. */
  readonly aheadS: number;
  /** Name of the file that was asked for, and the folder it is in. */
  file: { readonly folder: string; readonly name: string } | undefined;
  /** Groups whose collectives are counted from an agreed moment, once the file is read; and that moment, ns after the window's, of those that have one. */
  readonly cuts: Map<string, number | undefined>;
  answer: WindowAnswer;
}

/** The windows of all ranks have numbers of their own: the merge counts collectives within a window. */
const windowNumbers = 65_535;

export class RankWindows {
  readonly #parts: RankWindowsParts;
  readonly #windows = new Map<number, RankWindow>();
  readonly #following = new Set<Promise<void>>();
  readonly #closed = new AbortController();

  constructor(parts: RankWindowsParts) {
    this.#parts = parts;
  }

  /** A request of the service, new or repeated. */
  request(message: WindowMessage): void {
    const { session } = this.#parts;
    if (message.run !== session.options.run) return;
    const known = this.#windows.get(message.id);
    if (known === undefined) this.#begin(message);
    else {
      // A message has the cuts of some groups of the job, most of which the rank is not in.
      for (const [group, cut] of message.cuts ?? []) if (known.cuts.has(group)) known.cuts.set(group, cut);
      this.#send(known.answer);
    }
  }

  /** Kineto's text for the rank, which asks now; empty for nothing to do. */
  work(takesActivities: boolean): string {
    if (!takesActivities) return '';
    const { rank, session } = this.#parts;
    for (const window of this.#windows.values()) {
      if (window.answer.state !== 'waiting' || session.now() > window.startNs - BigInt(limits.windowLeadMs) * 1_000_000n) continue;
      try {
        const { run, rank: number } = session.options;
        const folder = makeTraceFolder(rank.place.traceRoot, rank.uid);
        const path = `${folder}/${run}-rank-${number}-${window.message.id}-${session.incarnation}.json`;
        window.file = { folder, name: windowFile(path, rank.ownPid).slice(folder.length + 1) };
        this.#become(window, { state: 'asked' });
        return windowConfig({ path, startUnixMs: window.startUnixMs, durationMs: window.message.durationMs });
      } catch (error) {
        this.#miss(window, reasonOf(error));
      }
    }
    return '';
  }

  /** Gives up all windows whose file is not there: the rank is gone. Resolves once the others are sent. */
  async close(why: string): Promise<void> {
    for (const window of this.#windows.values()) this.#miss(window, why);
    this.#closed.abort();
    await Promise.allSettled(this.#following);
  }

  #begin(message: WindowMessage): void {
    const { session } = this.#parts;
    const known = session.remoteClocks.toHost(BigInt(message.at), message.host);
    const ahead = session.wallClocks.aheadAt(BigInt(message.unixMs) * 1_000_000n);
    const startNs = known ?? BigInt(message.unixMs) * 1_000_000n + ahead;
    const startUnixMs = session.wallClocks.unixMsOf(startNs);
    const note = known === undefined ? 'its clock against the service was not known yet: it began by its wall clock' : undefined;
    const answer: WindowAnswer = { id: message.id, state: 'waiting', ...(note !== undefined && { note }) };
    const window: RankWindow = {
      message,
      startNs,
      startUnixMs,
      aheadS: Number(startNs - session.now()) / 1e9,
      file: undefined,
      cuts: new Map(),
      answer,
    };
    this.#windows.set(message.id, window);
    for (const id of this.#windows.keys()) {
      if (this.#windows.size <= limits.windowsPerRankMax) break;
      this.#windows.delete(id);
    }
    this.#send(answer);
    const following = this.#follow(window)
      .catch((error: unknown) => this.#miss(window, reasonOf(error), true))
      .finally(() => this.#following.delete(following));
    this.#following.add(following);
  }

  /** Sees a window through to its end. */
  async #follow(window: RankWindow): Promise<void> {
    await this.#until(window, -limits.windowLeadMs);
    if (window.answer.state === 'waiting') return this.#miss(window, this.#whyNotAsked(window));
    await this.#until(window, window.message.durationMs);
    const budget = new ReadBudget(limits.readMemoryBytesMax, this.#parts.memory);
    try {
      const table = await this.#read(window, budget);
      if (table !== undefined && window.answer.state === 'asked') await this.#ship(window, table);
    } finally {
      budget.giveAll();
    }
  }

  #whyNotAsked({ aheadS }: RankWindow): string {
    const { rank, whySilent } = this.#parts;
    const leadS = limits.windowLeadMs / 1000;
    if (aheadS < 0) return 'the request came after its moment';
    if (aheadS < leadS) return `the request came ${aheadS.toFixed(1)} s before its moment, and Kineto must know ${leadS} s before`;
    if (rank.askedAt === undefined) return whySilent();
    const agoS = ((performance.now() - rank.askedAt) / 1000).toFixed(1);
    return `it did not ask in time, last ${agoS} s ago: its process may be stopped, or records already`;
  }

  /** Waits until `ms` after the window's begin, or the end of all windows. */
  async #until(window: RankWindow, ms: number): Promise<void> {
    const left = Number(window.startNs - this.#parts.session.now()) / 1e6 + ms;
    if (left > 0) await wait(left, undefined, { signal: this.#closed.signal }).catch(() => {});
  }

  /** The window's file, once it is complete; undefined where it was given up. */
  async #read(window: RankWindow, budget: ReadBudget): Promise<KinetoTable | undefined> {
    const { rank, session, isAlive } = this.#parts;
    const { folder, name } = window.file as NonNullable<RankWindow['file']>;
    const endNs = window.startNs + BigInt(window.message.durationMs) * 1_000_000n;
    let quiet = { size: -1, since: 0 };
    for (let goesOn = true; ; ) {
      const waited = Number(session.now() - endNs) / 1e6;
      // One more look after the process ended: its file may just be complete.
      const hasEnded = goesOn && !isAlive();
      const opened = openTrace(folder, name, rank.uid, limits.fileBytesMax);
      if (opened !== undefined) {
        const { descriptor, about } = opened;
        if (about.size !== quiet.size) quiet = { size: about.size, since: performance.now() };
        if (about.size > 0 && performance.now() - quiet.since >= limits.fileQuietMs && mayBeComplete(descriptor, about.size)) {
          const table = await readKinetoFile(descriptor, { keep: 'all', isGzip: isGzipFile(descriptor), budget });
          if (table.stopped === undefined) return table;
          budget.giveAll();
        } else closeSync(descriptor);
      }
      if (window.answer.state !== 'asked') return undefined;
      if (!goesOn && performance.now() - quiet.since > limits.fileQuietMs * 4) this.#miss(window, 'it ended before its file was complete');
      else if (opened === undefined && waited > limits.fileStartMsMax)
        this.#miss(window, `it wrote no file within ${limits.fileStartMsMax / 1000} s`);
      else if (waited > limits.fileWaitMsMax) this.#miss(window, `its file was not complete within ${limits.fileWaitMsMax / 1000} s`);
      if (window.answer.state !== 'asked') return undefined;
      if (hasEnded) goesOn = false;
      await wait(limits.fileLookMs);
    }
  }

  async #ship(window: RankWindow, table: KinetoTable): Promise<void> {
    const { rank, session } = this.#parts;
    const { folder, name } = window.file as NonNullable<RankWindow['file']>;
    if (table.events.length === 0 && table.spilled === undefined) {
      removeTrace(folder, name, rank.uid);
      return this.#miss(window, 'its file has no events');
    }
    const { first, last } = kinetoExtent(table);
    const ahead = session.wallClocks.aheadAt(first);
    const span = { from: session.rankTimeOf(first + ahead), until: session.rankTimeOf(last + ahead) };
    const extent = { ...span, begins: Number(first + ahead - window.startNs), length: Number(last - first) };
    /** ns after the agreed moment, of a time after the table's epoch. */
    const toWindow = Number(table.epoch + ahead - window.startNs);
    const ends = [...countedEnds(table)]
      .slice(0, protocolLimits.windowGroupsMax)
      .map(([group, times]): [string, number[]] => [group, times.slice(-protocolLimits.windowEndsMax).map((time) => time + toWindow)]);
    const { cuts } = window;
    if (ends.length > 0) {
      for (const [group] of ends) cuts.set(group, undefined);
      this.#become(window, { state: 'read', ...extent, ends });
      const until = performance.now() + limits.cutWaitMs;
      const isAgreed = (): boolean => ![...cuts.values()].includes(undefined);
      while (!isAgreed() && performance.now() < until && !this.#closed.signal.aborted) await wait(limits.fileLookMs);
    }
    const cutOf = (group: string): number | undefined => {
      const cut = cuts.get(group);
      return cut === undefined ? undefined : cut - toWindow;
    };
    await session.shipFile(name, table, first, { filesAfter: windowNumbers - (window.message.id % windowNumbers), cutOf });
    removeTrace(folder, name, rank.uid);
    this.#become(window, { state: 'shipped', ...extent });
  }

  /** `isRead`: though its file was read. */
  #miss(window: RankWindow, why: string, isRead = false): void {
    const { state } = window.answer;
    if (state !== 'waiting' && state !== 'asked' && !(isRead && state === 'read')) return;
    this.#become(window, { state: 'missed', note: why.slice(0, 500) });
    const { run, rank } = this.#parts.session.options;
    this.#parts.notice(`rank ${rank} of run "${run}" has no part in the window of ${new Date(window.startUnixMs).toISOString()}: ${why}`);
  }

  #become(window: RankWindow, state: Omit<WindowAnswer, 'id'>): void {
    const { note } = window.answer;
    window.answer = { ...(note !== undefined && { note }), ...state, id: window.message.id };
    this.#send(window.answer);
  }

  #send(answer: WindowAnswer): void {
    this.#parts.session.addFact(windowKey, fitting(answer));
    this.#parts.session.flush();
  }
}

/** A fact is a string of a batch: names of many groups may be too long for it. */
function fitting(answer: WindowAnswer): string {
  for (let ends = answer.ends ?? []; ; ends = ends.slice(0, -1)) {
    const text = JSON.stringify(ends.length > 0 ? { ...answer, ends } : { ...answer, ends: undefined });
    if (Buffer.byteLength(text) <= protocolLimits.stringBytesMax || ends.length === 0) return text;
  }
}
