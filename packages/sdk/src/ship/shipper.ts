// Brings encoded batches to the aggregator in order, through every outage: spool first, then the wire.
//
//   spool   |  acknowledged  |               not acknowledged                                          |
//   memory                   |  in flight (≤ 16)  |  waiting (with in flight ≤ 4 MiB)  |  on disk only  |
//                            ^ window[0]          ^ window[#next]                      ^ loaded         ^ end of the spool
//
// Leftovers of dead incarnations of this rank come first, then our own log. After `down`, #next goes back to 0: the shipper sends batches in
// flight again, and the receiver recognises duplicates by their ids.
// Invariants: a batch leaves the spool only once it is acknowledged or refused; memory holds a contiguous part of the log, oldest first;
// nothing here throws once the shipper is open.

import { join } from 'node:path';
import { batchId, type ControlMessage, decodeBatchHeader, limits as protocolLimits } from '@ranktrace/protocol';
import { hostClock } from '../model/host-clock.ts';
import { limits } from '../model/limits.ts';
import type { ResolvedOptions } from '../model/options.ts';
import { guarded, reasonOf } from '../process/guarded.ts';
import { FileTransport } from '../transport/file.ts';
import type { Transport, TransportHandlers } from '../transport/transport.ts';
import { ClockPinger, type ClockSample } from './clock-pinger.ts';
import { findLeftovers, sweepSpools } from './leftover-spools.ts';
import { type Position, Spool } from './spool.ts';
import { spoolPath } from './spool-folders.ts';
import { processSpace } from './spool-owner.ts';

export interface Shipper {
  /**
   * Takes encoded batches in order of sequence: writes each ahead to the spool, then sends it. Never throws; false when dropped (spool full). The
   * last one of a life finds room where others do not, if it is small.
   */
  ship(bytes: Uint8Array, id: string, isLast?: boolean): boolean;
  /** Whether the last batch found no room on disk. */
  readonly isShort: boolean;
  /** Samples since the last call; none without an aggregator. */
  takeClockSamples(): ClockSample[];
  /**
   * How often to ask for the aggregator's clock, ms between two bursts of pings; by default each second; `undefined`: never. Of several ranks in one
   * process, one that asks is enough.
   */
  setPings(everyMs: number | undefined): void;
  /** Batches that found the spool full, were refused, or could not be read back; since this shipper opened. */
  readonly droppedBatches: number;
  /** Whether everything is acknowledged (for files: on disk); waits for it at most `deadlineMs`. */
  drained(deadlineMs: number): Promise<boolean>;
  /** From here on `drained` does not wait for a receiver that is away. */
  hurry(): void;
  /**
   * Stops sending. Unacknowledged batches stay in the spool for the next incarnation of this rank: the shipper settles and reports this before
   * it returns; the promise is for the connection alone.
   */
  close(): Promise<void>;
}

export interface ShipperIdentity {
  readonly run: string;
  readonly rank: number;
  readonly incarnation: string;
  readonly host: string;
}

export interface ShipperEvents {
  /** Receives messages for the recorder rather than the shipper: `flush`, `pull`, `record`. */
  control(message: ControlMessage): void;
  /** One line for a person; at most one of a kind in 10 s. */
  notice(line: string): void;
}

/** Opens the spool and starts to connect. Throws SdkError `spool_unusable`, and nothing later. `random` (0 … 1) spreads reconnects. */
export function openShipper(
  options: ResolvedOptions,
  identity: ShipperIdentity,
  on: ShipperEvents,
  random: () => number = Math.random,
): Shipper {
  const shipper = new SpooledShipper(options, identity, on);
  if (options.transport === 'file') shipper.connect(new FileTransport());
  else
    loadTransport(options, identity, random).then(
      guarded('connecting', (transport: Transport) => shipper.connect(transport)),
      // Node caches the failure of a module: loading it again fails again.
      (error: unknown) => shipper.down(`the client cannot be loaded: ${reasonOf(error)}`),
    );
  return shipper;
}

/** The clients take 20 to 40 ms to load: load only the one in use, while the spool already takes batches. */
async function loadTransport(options: ResolvedOptions, identity: ShipperIdentity, random: () => number): Promise<Transport> {
  if (options.transport === 'nats') {
    const { NatsTransport } = await import('../transport/nats.ts');
    return new NatsTransport(options.nats, identity, random);
  }
  const { WebSocketTransport } = await import('../transport/web-socket.ts');
  return new WebSocketTransport(options.url ?? '', options.token, random);
}

/** `text` as one word for a shell. */
const shellWord = (text: string): string => (/^[\w./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** An unacknowledged batch in memory. */
interface Waiting {
  readonly id: string;
  readonly bytes: Uint8Array;
  readonly log: Spool;
  readonly end: Position;
  /** Acknowledged or refused, but an earlier batch is not. */
  done: boolean;
}

class SpooledShipper implements Shipper, TransportHandlers {
  readonly #options: ResolvedOptions;
  readonly #on: ShipperEvents;
  /** Clock of this host, ns. */
  readonly #now: () => bigint;
  /** `undefined` until loaded. */
  #transport: Transport | undefined;
  #pinger: ClockPinger | undefined;
  /** Leftovers, oldest first, then our own, which the shipper never removes. */
  readonly #logs: Spool[];
  readonly #own: Spool;
  #window: Waiting[] = [];
  /** Acknowledged batches still in our own spool: the end of each, and the time of its acknowledgement, ms. */
  #flushing: { readonly end: Position; readonly at: number }[] = [];
  #next = 0;
  #windowBytes = 0;
  #up = false;
  /** Reasons for being away that were reported since a batch was last settled. */
  readonly #awayReported = new Set<string>();
  /** ms between two bursts of pings. */
  #pingsEveryMs: number | undefined = limits.clockBurstIntervalMs;
  #pumping = false;
  #hurries = false;
  #closed = false;
  #dropped = 0;
  #corruptSeen = 0;
  readonly #noticed = new Map<string, number>();
  readonly #whenDrained = new Set<() => void>();

  constructor(options: ResolvedOptions, identity: ShipperIdentity, on: ShipperEvents) {
    this.#options = options;
    this.#on = on;
    this.#now = hostClock(options.testClock).now;
    const keep = options.transport === 'file';
    const segmentBytes = Math.min(limits.spoolSegmentBytes, Math.ceil(options.spoolBytesMax / limits.spoolSegmentsMin));
    const owner = processSpace(identity.host);
    if (!keep) sweepSpools(options.spoolDirectory, owner);
    this.#own = Spool.open(spoolPath(options.spoolDirectory, identity), { segmentBytes, keep, owner });
    // Without an aggregator, files of earlier incarnations are the output; with one, they are leftovers.
    this.#logs = [...(keep ? [] : this.#adopt(options.spoolDirectory, identity)), this.#own];
    for (const line of options.notices) on.notice(line);
  }

  /** Sets the transport to send through. */
  connect(transport: Transport): void {
    if (this.#closed) return;
    this.#transport = transport;
    this.#pinger = transport.ping === undefined ? undefined : new ClockPinger((id) => transport.ping?.(id), this.#now);
    transport.open(this);
  }

  get droppedBatches(): number {
    return this.#dropped;
  }

  get isShort(): boolean {
    return this.#own.shortage !== undefined;
  }

  ship(bytes: Uint8Array, id: string, isLast = false): boolean {
    if (this.#closed) return false;
    const follows = this.#logs.every((log) => log.caughtUp) && this.#windowBytes < limits.unackedBytesInMemoryMax;
    const leftoverBytes = this.#logs.reduce((sum, log) => (log === this.#own ? sum : sum + log.bytes), 0);
    const end = this.#own.append(bytes, this.#options.spoolBytesMax - leftoverBytes, isLast);
    if (end === undefined) {
      this.#dropped++;
      this.#notice('full', `${this.#shortage}: batches dropped so far: ${this.#dropped}`);
      return false;
    }
    if (this.#own.shortage !== undefined)
      this.#notice('held', `${this.#shortage}: batches are held in memory, and lost if the process is killed`);
    if (follows) {
      this.#own.passOver(end);
      this.#push({ id, bytes, log: this.#own, end, done: false });
    }
    this.#pump();
    return true;
  }

  takeClockSamples(): ClockSample[] {
    return this.#pinger?.take() ?? [];
  }

  setPings(everyMs: number | undefined): void {
    if (everyMs === this.#pingsEveryMs) return;
    this.#pingsEveryMs = everyMs;
    if (everyMs === undefined) this.#pinger?.stop();
    else if (this.#up) this.#pinger?.start(everyMs);
  }

  async drained(deadlineMs: number): Promise<boolean> {
    this.#pump();
    if (this.#isDrained() || (this.#hurries && !this.#up)) return this.#isDrained();
    await new Promise<void>((resolve) => {
      const done = guarded('shipping the last batches', () => {
        clearTimeout(timer);
        this.#whenDrained.delete(done);
        resolve();
      });
      const timer = setTimeout(done, deadlineMs);
      this.#whenDrained.add(done);
    });
    return this.#isDrained();
  }

  hurry(): void {
    this.#hurries = true;
    if (!this.#up) this.#waitNoMore();
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#up = false;
    this.#pinger?.stop();
    const keep = this.#options.transport === 'file';
    const isDrained = this.#isDrained();
    if (!isDrained) this.#dropped += this.#own.saveMemory();
    if (!keep && isDrained) this.#own.remove();
    else if (!keep)
      this.#on.notice(
        `not everything was acknowledged: the rest stays in "${this.#own.directory}"${this.#nextStart}; to make a trace of it: ${this.#mergeCommand}`,
      );
    if (this.#dropped > 0)
      this.#on.notice(`batches lost in all: ${this.#dropped} (the spool or its disk was full, they were refused, or damaged in the spool)`);
    for (const log of this.#logs) log.close();
    await this.#transport?.close();
  }

  up(): void {
    if (this.#closed) return;
    this.#up = true;
    this.#next = 0;
    if (this.#pingsEveryMs !== undefined) this.#pinger?.start(this.#pingsEveryMs);
    this.#pump();
  }

  down(reason: string): void {
    if (this.#closed) return;
    if (this.#up && this.#flushing.length > 0) this.#sendAgain();
    this.#up = false;
    this.#pinger?.stop();
    if (this.#hurries) this.#waitNoMore();
    // Hours away give one line per reason; a flapping connection gives one when it is down for longer, or every 10 s.
    if (this.#awayReported.has(reason) || this.#awayReported.size >= limits.awayReasonsMax) return;
    // A made-up name is unknown to any later start, so none ships the waiting batches.
    const orMerge = this.#options.isRunNamed ? '' : `; if none connects, make a trace of them with: ${this.#mergeCommand}`;
    if (this.#notice(`away: ${reason}`, `away from ${this.#peer()}: ${reason}; batches wait in the spool${orMerge}`))
      this.#awayReported.add(reason);
  }

  message(message: ControlMessage): void {
    if (this.#closed) return;
    switch (message.type) {
      case 'clock_pong':
        this.#pinger?.pong(message);
        break;
      case 'ack':
        this.#settle(message.batch);
        break;
      case 'refused':
        // The aggregator cannot read the id of a broken batch: an empty id then stands for the oldest unanswered batch.
        if (this.#settle(message.batch || (this.#window.find((waiting) => !waiting.done)?.id ?? ''))) {
          this.#dropped++;
          this.#notice('refused', `batch ${message.batch} refused: ${message.reason}`);
        }
        break;
      default:
        this.#on.control(message);
    }
  }

  notice(line: string): void {
    this.#notice(line, line);
  }

  /** The place that has no room. */
  get #shortage(): string {
    const { directory, shortage = '' } = this.#own;
    if (shortage === 'bound') return `spool full (option spoolBytesMax is ${this.#options.spoolBytesMax} bytes, "${directory}")`;
    return shortage === 'ENOSPC' || shortage === 'EDQUOT'
      ? `the disk of the spool is full (${shortage}, "${directory}")`
      : `the spool cannot be written (${shortage}, "${directory}")`;
  }

  get #nextStart(): string {
    return this.#options.isRunNamed ? ` for the next start of this rank in run "${this.#options.run}"` : '';
  }

  /** For all ranks of the run whose spools are here. */
  get #mergeCommand(): string {
    const { spoolDirectory, run } = this.#options;
    return `ranktrace merge ${shellWord(join(spoolDirectory, run))} -o ${run}.pftrace`;
  }

  #adopt(root: string, identity: ShipperIdentity): Spool[] {
    const owner = processSpace(identity.host);
    return findLeftovers(root, identity, owner, (line) => this.#on.notice(line)).flatMap((directory) => {
      try {
        return [Spool.open(directory, { owner })];
      } catch (error) {
        this.#on.notice(`spool left by an earlier process is not readable: ${(error as Error).message}`);
        return [];
      }
    });
  }

  #push(waiting: Waiting): void {
    this.#window.push(waiting);
    this.#windowBytes += waiting.bytes.length;
  }

  /** Settles one batch and releases the settled ones at the front; false for an unknown id. */
  #settle(id: string): boolean {
    // A receiver that is up counts as back only once it takes something: its store may be full.
    if (this.#up && this.#awayReported.size > 0) {
      this.#on.notice(`back at ${this.#peer()}`);
      this.#awayReported.clear();
    }
    // Acknowledgements come nearly in order: this looks at few entries.
    const waiting = this.#window.find((entry) => entry.id === id && !entry.done);
    if (waiting === undefined) return false;
    waiting.done = true;
    while (this.#window[0]?.done) {
      const { log, end, bytes } = this.#window.shift() as Waiting;
      this.#windowBytes -= bytes.length;
      this.#next = Math.max(0, this.#next - 1);
      if (log === this.#own && this.#transport?.flushMs !== undefined) this.#flushing.push({ end, at: performance.now() });
      else log.acknowledge(end);
    }
    this.#letGo();
    this.#pump();
    return true;
  }

  /** Releases the batches that the receiver has flushed by now. */
  #letGo(): void {
    const before = performance.now() - (this.#transport?.flushMs ?? 0);
    let flushed: Position | undefined;
    while (this.#flushing[0] !== undefined && this.#flushing[0].at <= before) flushed = this.#flushing.shift()?.end;
    if (flushed !== undefined) this.#own.acknowledge(flushed);
  }

  /** Recently acknowledged batches may be lost with the receiver: reads all that the spool still holds of ours and sends it again. */
  #sendAgain(): void {
    this.#letGo();
    this.#flushing = [];
    this.#window = this.#window.filter((waiting) => waiting.log !== this.#own);
    this.#windowBytes = this.#window.reduce((sum, { bytes }) => sum + bytes.length, 0);
    this.#own.rewind();
  }

  /** Sends as far as the window allows. A transport may answer at once, from within `send`: the outer call then goes on. */
  #pump(): void {
    if (this.#pumping) return;
    this.#pumping = true;
    this.#load();
    while (this.#up && this.#next < protocolLimits.inFlightBatchesMax && this.#next < this.#window.length) {
      const waiting = this.#window[this.#next] as Waiting;
      this.#next++;
      if (!waiting.done) this.#transport?.send(waiting.bytes, waiting.id);
      this.#load();
    }
    this.#pumping = false;
    if (this.#isDrained()) this.#waitNoMore();
  }

  #waitNoMore(): void {
    for (const done of this.#whenDrained) done();
  }

  /** Reads on from disk while memory has room. Deletes a leftover that is read and settled to its end. */
  #load(): void {
    for (const log of [...this.#logs]) {
      while (!log.caughtUp && this.#windowBytes < limits.unackedBytesInMemoryMax) this.#loadOne(log);
      if (!log.caughtUp) return;
      if (log === this.#own || this.#window.some((waiting) => waiting.log === log)) continue;
      this.#logs.splice(this.#logs.indexOf(log), 1);
      log.remove();
    }
  }

  #loadOne(log: Spool): void {
    const corruptBefore = log.corruptFrames;
    const frame = log.read();
    const id = frame && idOf(frame.bytes);
    const corrupt = log.corruptFrames - corruptBefore + (frame !== undefined && id === undefined ? 1 : 0);
    if (corrupt > 0) {
      this.#dropped += corrupt;
      this.#corruptSeen += corrupt;
      this.#notice('corrupt', `${this.#corruptSeen} batches in "${log.directory}" could not be read back (cut off by a kill, or damaged)`);
    }
    if (frame !== undefined && id !== undefined) this.#push({ id, bytes: frame.bytes, log, end: frame.end, done: false });
  }

  #isDrained(): boolean {
    return this.#window.length === 0 && this.#logs.every((log) => log.caughtUp);
  }

  #peer(): string {
    return this.#options.url ?? 'the output directory';
  }

  /** Reports `line` unless one of its kind came shortly before; returns whether it did. */
  #notice(kind: string, line: string): boolean {
    const now = performance.now();
    const last = this.#noticed.get(kind);
    if (last !== undefined && now - last < limits.noticeIntervalMs) return false;
    // Kinds may contain a server's answer: without this bound a month of odd answers would stay in memory.
    if (this.#noticed.size >= limits.noticeKindsMax) this.#noticed.clear();
    this.#noticed.set(kind, now);
    this.#on.notice(line);
    return true;
  }
}

function idOf(bytes: Uint8Array): string | undefined {
  try {
    return batchId(decodeBatchHeader(bytes));
  } catch {
    return undefined;
  }
}
