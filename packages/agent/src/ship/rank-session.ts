// One life of a rank, as the agent sends it: heartbeats (clocks, counters, facts), and detail out of files when there is any.
//
//   clock pings, wall clock, counters, facts ──► heartbeat ──┐
//   file ──► bodies, in their own time                       ├──► sequence numbers ──► shipper (spool, transport, acknowledgement)
//
// Its times are on the host's clock, as a rank's own are, so that the merge aligns it by the same pings.
// Its owner calls `flush` every `heartbeatMs`, for all of its sessions in one turn: each wakening of a process costs more than a batch.
// Invariant: heartbeats move the watermark; detail of files comes after its time, in batches with `since`.
// Invariant: nothing here throws once the session is open.

import { hostname } from 'node:os';
import { deflateRawSync } from 'node:zlib';
import {
  type BatchHeader,
  batchId,
  besideOf,
  type ControlMessage,
  type EncodedBody,
  encodeBatchOf,
  encodeBody,
  ProtocolError,
  limits as protocolLimits,
  rankTime,
  recordedKey,
} from '@ranktrace/protocol';
import {
  BatchBuilder,
  ClockRows,
  guarded,
  hostClock,
  newIncarnation,
  noneRecorded,
  openShipper,
  type RecordedCounts,
  type ResolvedOptions,
  type Shipper,
} from '@ranktrace/sdk/shipping';
import { type CutOf, type KinetoTable, SourceTracks } from '@ranktrace/trace/torch';
import { agentLimits as limits } from '../model/limits.ts';
import { fileBodies } from './file-bodies.ts';
import type { RemoteClocks, WallClocks } from './host-time.ts';

/** Where a file's batches stand in a life, to send the same ones again. Plain data. */
export interface FilePlace {
  readonly run: string;
  readonly rank: number;
  readonly worldSize: number;
  readonly incarnation: string;
  /** Identity of the clock; that clock, ns, at RankTime 0; and what to add to the file's wall times for it, ns. */
  readonly host: string;
  readonly epochNs: string;
  readonly aheadNs: string;
  /** Number of its first batch. */
  readonly sequence: number;
  readonly tracks: ReturnType<SourceTracks['save']>;
}

/** The wall clock of files, which no pings compare with another: of another host, or of this one long ago. */
export interface FileClock {
  readonly hostName: string;
  /** ns since 1970 at RankTime 0. */
  readonly epochNs: bigint;
}

/** How a file continues a recording, as in `KinetoPart`. */
export interface FilePart {
  readonly filesAfter: number;
  readonly cutOf?: CutOf | undefined;
  /** Called before its first batch. */
  readonly begins?: ((place: FilePlace) => void) | undefined;
}

export interface SessionParts {
  readonly options: ResolvedOptions;
  /** Process of the rank. */
  readonly pid: number;
  /** Of this host, for all of its ranks; and against the service of their run. */
  readonly wallClocks: WallClocks;
  readonly remoteClocks: RemoteClocks;
  /** Facts of the rank, sent with its first batch and now and then again. */
  readonly facts: Readonly<Record<string, string>>;
  readonly control?: ((message: ControlMessage) => void) | undefined;
  /** Whether the rank sends its steps itself: this is a recording beside it, and no life of its own. */
  readonly isBeside?: boolean | undefined;
  /** The clock of its times; default: this host's. */
  readonly fileClock?: FileClock | undefined;
  /** Goes on with a life that was cut off: sends the batches of one file again, and nothing else. */
  readonly resume?: FilePlace | undefined;
  readonly notice: (line: string) => void;
}

/** Counter to send with the next batch. */
export interface Counter {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
}

/** Identity of a wall clock: the host's monotonic clock is not known, so it is no host of ours. */
const wallClockOf = (host: string): string => `wall clock of ${host}`.slice(0, protocolLimits.hostCharsMax);

/** The body of a batch without rows. */
const nothing = (): EncodedBody => encodeBody(new BatchBuilder().take(), (body) => body);

/** Track of the agent's own counters: above any thread or stream of a file. */
const hostTrack = 2 ** 30;

export class RankSession {
  readonly options: ResolvedOptions;
  readonly pid: number;
  readonly incarnation: string;
  /** Identity of the clock, and that clock now, ns. */
  readonly host: string;
  readonly now: () => bigint;
  readonly wallClocks: WallClocks;
  readonly remoteClocks: RemoteClocks;
  readonly #parts: SessionParts;
  readonly #epochNs: bigint;
  readonly #shipper: Shipper;
  readonly #clocks: ClockRows;
  readonly #builder = new BatchBuilder();
  readonly #tracks: SourceTracks;
  readonly #recorded = noneRecorded();
  /** The batches of a file that is sent again after a restart have numbers in a row. */
  #isBusy = false;
  #shipped: Promise<void> = Promise.resolve();
  #sequence = 0;
  #watermark = 0;
  #cut = 0;
  #lost = 0;
  #closed = false;

  /** Opens the spool and begins to send. Throws SdkError `spool_unusable`. */
  constructor(parts: SessionParts) {
    this.#parts = parts;
    const { options, pid, resume, notice } = parts;
    this.options = options;
    this.incarnation = resume?.incarnation ?? (parts.isBeside ? besideOf(newIncarnation()) : newIncarnation());
    this.pid = pid;
    this.wallClocks = parts.wallClocks;
    const { host, now } = hostClock(options.testClock);
    const { fileClock } = parts;
    const opened = now();
    this.host = resume?.host ?? (fileClock === undefined ? host : wallClockOf(fileClock.hostName));
    this.now = fileClock === undefined ? now : () => fileClock.epochNs + now() - opened;
    this.remoteClocks = parts.remoteClocks;
    this.#epochNs = BigInt(resume?.epochNs ?? fileClock?.epochNs ?? opened);
    this.#sequence = resume?.sequence ?? 0;
    this.#tracks = new SourceTracks(resume?.tracks);
    this.#clocks = new ClockRows(this.#epochNs, this.now, () => this.wallClocks.newest);
    const identity = { run: options.run, rank: options.rank, incarnation: this.incarnation, host };
    const control = guarded('hearing of the service', (message: ControlMessage) => {
      if (message.type === 'flush' && !this.#closed) this.flush();
      else parts.control?.(message);
    });
    this.#shipper = openShipper(options, identity, { control, notice: (line) => notice(`rank ${options.rank}: ${line}`) });
    if (resume !== undefined) return;
    this.flush();
  }

  /** Whether anything was lost on the way: batches that found no room, and parts of files that fit no batch. */
  get lost(): number {
    return this.#lost + this.#shipper.droppedBatches;
  }

  /** RankTime, ns, of a time of the host's clock. */
  rankTimeOf(hostNs: bigint): number {
    return Number(hostNs - this.#epochNs);
  }

  /** Whether this session asks for the service's clock: one of a host is enough. */
  set pings(on: boolean) {
    this.#shipper.setPings(on ? limits.pingIntervalMs : undefined);
  }

  addFact(key: string, value: string): void {
    this.#builder.append('metadata', { key: this.#builder.string(key), value: this.#builder.string(value) });
  }

  addCounters(counters: readonly Counter[]): void {
    const time = this.rankTimeOf(this.now());
    for (const { name, unit, value } of counters) {
      this.#builder.append('counters', {
        time,
        track: hostTrack,
        name: this.#builder.string(name),
        unit: this.#builder.string(unit),
        value,
      });
      this.#recorded.counter++;
    }
  }

  /** RankTime 0 on the host's clock, ns. */
  get epochNs(): bigint {
    return this.#epochNs;
  }

  /** Whether nothing else can be sent for now: events that come now would fill the batch under construction without bound. */
  get isBusy(): boolean {
    return this.#isBusy;
  }

  /** For events that come with the heartbeats: the batch under construction. */
  builderAt(start: number): BatchBuilder {
    if (start < this.#watermark) this.#builder.reachBack(start);
    return this.#builder;
  }

  /** Called after each such event. */
  added(): void {
    if (this.#builder.full) this.flush();
  }

  /** Counts such events that were lost on their way here. */
  addLost(events: number): void {
    this.#lost += events;
  }

  /** Sends what there is, with the clocks. */
  flush(): void {
    if (this.#closed || this.#isBusy || this.#parts.resume !== undefined) return;
    if (this.#parts.fileClock === undefined) this.#addClocks();
    this.#sendHeartbeat(false);
  }

  #sendHeartbeat(last: boolean): void {
    const { recorded, reachesBack } = this.#builder;
    for (const kind of Object.keys(recorded) as (keyof RecordedCounts)[]) this.#recorded[kind] += recorded[kind];
    const since = Math.min(reachesBack, this.#watermark);
    this.#watermark = this.rankTimeOf(this.now());
    const body = this.#encoded();
    if (body === undefined) this.#lost += Object.values(recorded).reduce((sum, count) => sum + count, 0);
    // Without its events it still is a sign of life.
    this.#send(body ?? nothing(), Number.isFinite(reachesBack) ? since : undefined, last);
  }

  #addClocks(): void {
    const samples = this.#shipper.takeClockSamples();
    this.remoteClocks.add(samples);
    const reading = this.#clocks.add(this.#builder, samples);
    // A service that starts later, or reads only the newest batches, learns them, too.
    if (reading === undefined) return;
    for (const [key, value] of Object.entries(this.#parts.facts)) this.addFact(key, value);
  }

  /**
   * Sends a file's events as detail of this rank. `unixNs`: a wall time in the file. Gives other work its turn between batches; resolves once all of it is in
   * the spool or sent. Files go one after the other. Throws what `begins` throws.
   */
  shipFile(name: string, table: KinetoTable, unixNs: bigint, part: FilePart): Promise<void> {
    const shipping = this.#shipped.then(() => this.#shipNow(name, table, unixNs, part));
    this.#shipped = shipping.catch(() => undefined);
    return shipping;
  }

  async #shipNow(name: string, table: KinetoTable, unixNs: bigint, { filesAfter, cutOf, begins }: FilePart): Promise<void> {
    const place = this.#placeOf(unixNs);
    begins?.(place);
    const { run, rank, worldSize, incarnation, host, aheadNs } = place;
    const clock = { host, epochNs: this.#epochNs, aheadNs: BigInt(aheadNs) };
    const owner = { run, rank, worldSize, incarnation, ...clock, tracks: this.#tracks, filesAfter, cutOf };
    this.#isBusy = begins !== undefined;
    try {
      for (const { body, since, counts, cut, lost } of fileBodies(name, table, owner)) {
        if (this.#closed) return;
        for (const kind of Object.keys(counts) as (keyof RecordedCounts)[]) this.#recorded[kind] += counts[kind];
        this.#cut += cut;
        this.#lost += lost;
        this.#send(body, since, false);
        await new Promise((resolve) => setImmediate(resolve));
      }
    } finally {
      this.#isBusy = false;
    }
  }

  /** Where a file with this wall time in it stands. */
  #placeOf(unixNs: bigint): FilePlace {
    const { run, rank, worldSize } = this.options;
    const ahead = this.#parts.fileClock === undefined ? this.wallClocks.aheadAt(unixNs) : 0n;
    const aheadNs = this.#parts.resume?.aheadNs ?? `${ahead}`;
    const clock = { host: this.host, epochNs: `${this.#epochNs}`, aheadNs };
    return { run, rank, worldSize, incarnation: this.incarnation, ...clock, sequence: this.#sequence, tracks: this.#tracks.save() };
  }

  /** Resolves once everything is acknowledged; false after `deadlineMs`. */
  drained(deadlineMs: number): Promise<boolean> {
    return this.#shipper.drained(deadlineMs);
  }

  /** Ends the session, once files that are being shipped are. `ended`: the rank ended in good order, as far as one can see; otherwise it falls silent. */
  async close(ended: boolean): Promise<void> {
    await this.#shipped;
    if (this.#closed) return;
    if (ended) {
      // With what is still under construction.
      const { recorded } = this.#builder;
      const kinds = Object.keys(recorded) as (keyof RecordedCounts)[];
      this.addFact(recordedKey, JSON.stringify(Object.fromEntries(kinds.map((kind) => [kind, this.#recorded[kind] + recorded[kind]]))));
      this.#sendHeartbeat(true);
    } else this.flush();
    this.#closed = true;
    await this.#shipper.drained(limits.exitDeadlineMs);
    await this.#shipper.close();
  }

  /** Undefined where it is too large for the wire. */
  #encoded(): EncodedBody | undefined {
    if (this.#builder.tables.counters.length > 0) {
      this.#builder.append('tracks', {
        track: hostTrack,
        kind: this.#builder.string('thread'),
        name: this.#builder.string('host'),
        tid: 0,
      });
    }
    const batch = this.#builder.take();
    try {
      return encodeBody(batch, (body) => (body.length < limits.deflateBytesMin ? body : deflateRawSync(body)));
    } catch (error) {
      if (error instanceof ProtocolError && error.code === 'oversized') return undefined;
      throw error;
    }
  }

  #send(body: EncodedBody, since: number | undefined, last: boolean): void {
    const { run, rank, worldSize } = this.options;
    const header: BatchHeader = {
      run,
      rank,
      worldSize,
      incarnation: this.incarnation,
      sequence: this.#sequence++,
      host: this.host,
      hostName: (this.#parts.fileClock?.hostName ?? hostname()).slice(0, protocolLimits.hostCharsMax) || 'unknown',
      pid: this.pid,
      epoch: `${this.#epochNs}`,
      watermark: rankTime(this.#watermark),
      since: since === undefined ? undefined : rankTime(Math.min(since, this.#watermark)),
      last,
      dropped: {
        events: Math.min(Number.MAX_SAFE_INTEGER, this.#lost),
        arguments: this.#cut,
        names: 0,
        batches: this.#shipper.droppedBatches,
      },
    };
    this.#shipper.ship(encodeBatchOf(header, body), batchId(header), last);
  }
}
