// The entrance through NATS: a durable pull consumer on the stream of batches, answers to clock pings, publication of control messages. No other file
// of this package knows NATS.
//
//   stream RANKTRACE ──► fetch ≤ 128 ──► ingest ──► stored, duplicate: ack   refused: term   unavailable: nak, again in a while (held-runs.ts)
//
// Nothing is acknowledged before it is stored, and a redelivered batch is stored once, so a lost ack, a killed aggregator or a killed server costs a
// redelivery and nothing else. The consumer's name holds the output directory's id: another directory is another reader of the stream and gets
// everything, the same one resumes where it was.
//
//   stream  |  acknowledged, flushed  |  acknowledged just now  |  delivered, no ack known  |  to come  |
//                                     ^ #flushed                ^ ack floor
//
// At every start and after every break the ingest recreates the consumer: at a start from the ack floor, for batches in flight would only be
// redelivered after ack_wait; after a break from #flushed, for a killed server loses its last moments and gives their numbers to other batches.
//
// Works with nats-server 2.9: one filter subject, no stream compression.

import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { checkServerIdentity } from 'node:tls';
import {
  aggregatorInbox,
  type ControlMessage,
  clockSubject,
  clockSubjects,
  controlSubject,
  decodeMessage,
  encodeMessage,
  mayAnswer,
  rankMessageSchema,
  runOfBatch,
  type StreamOptions,
  streamName,
} from '@ranktrace/protocol';
import {
  AckPolicy,
  type ConnectionOptions,
  type Consumer,
  type ConsumerMessages,
  connect,
  credsAuthenticator,
  DebugEvents,
  DeliverPolicy,
  ErrorCode,
  Events,
  type JsMsg,
  type Msg,
  type NatsConnection,
  nanos,
  nkeyAuthenticator,
} from 'nats';
import { AggregatorError, messageOf, systemCode } from '../model/errors.ts';
import { guardedBy } from '../model/guarded.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';
import { clockPong } from './clock-pong.ts';
import { HeldRuns } from './held-runs.ts';
import type { Ingest } from './ingest.ts';
import { StreamUpkeep } from './stream-upkeep.ts';

/** Connection settings of NATS; the same shape as the SDK's. */
export interface NatsConnectOptions {
  /** `nats://host:4222`, one or several. */
  readonly servers: readonly string[];
  readonly user?: string | undefined;
  readonly pass?: string | undefined;
  readonly token?: string | undefined;
  /** Path of a credentials file (JWT and seed). */
  readonly creds?: string | undefined;
  /** NKey seed, `SU…`. */
  readonly nkey?: string | undefined;
  /** Prefix of the subjects for the server's answers. Default `ranktrace.inbox`. */
  readonly inboxPrefix?: string | undefined;
  /** Paths of PEM files. A `tls://` server asks for TLS with the system's authorities. */
  readonly tls?: { readonly ca?: string | undefined; readonly cert?: string | undefined; readonly key?: string | undefined } | undefined;
  /** Bounds and replicas of the stream of batches. */
  readonly stream?: StreamOptions | undefined;
  /** Waits for a server that is not there yet instead of failing at the start. */
  readonly wait?: boolean | undefined;
}

export interface JetStreamIngestOptions {
  readonly nats: NatsConnectOptions;
  /** Reads this run only. */
  readonly run?: string | undefined;
  /** Id of the store that reads: part of the consumer's name. Letters and digits. */
  readonly storeId: string;
  readonly ingest: Ingest;
  /** Runs to send control messages to. */
  readonly runs: () => readonly string[];
  readonly onNotice: (notice: string) => void;
}

export class JetStreamIngest {
  readonly #options: JetStreamIngestOptions;
  readonly #servers: string;
  readonly #durable: string;
  readonly #upkeep: StreamUpkeep;
  readonly #stop = new AbortController();
  #connection: NatsConnection | undefined;
  #messages: ConsumerMessages | undefined;
  #manager: Manager | undefined;
  #consuming: Promise<void> = Promise.resolve();
  #redelivered = 0;
  /** The connection broke: the consumer must be recreated. */
  #broken = false;
  readonly #refusedSubjects = new Set<string>();
  #isEnding = false;
  /** The consumer's delivery number of the last message taken; it counts from 1. */
  #delivered = 0;
  /** Deliveries reached no fetch, as when their fetch had ended: the consumer must be recreated, for it waits before it redelivers. */
  #hasMissed = false;
  readonly #held = new HeldRuns();
  /** Time until which batches that were sent back wait, ms. */
  #sentBackUntil = Number.NEGATIVE_INFINITY;
  /** The last stream sequence at two moments, ms: the server has flushed everything before the first. */
  #flushed = 0;
  #taken = { sequence: 0, at: 0 };

  private constructor(options: JetStreamIngestOptions) {
    this.#options = options;
    this.#servers = serversOf(options.nats);
    const { run, storeId, nats, onNotice } = options;
    this.#durable = run === undefined ? `aggregator-${storeId}` : `aggregator-${storeId}-${run}`;
    this.#upkeep = new StreamUpkeep({ stream: nats.stream, run, durable: this.#durable, onNotice });
  }

  /**
   * Connects, makes stream and consumer where they are missing, and consumes until `close`.
   * Throws AggregatorError `nats_unreachable`, `nats_refused` or `bad_option`; with `wait`, only the last.
   */
  static async start(options: JetStreamIngestOptions): Promise<JetStreamIngest> {
    const ingest = new JetStreamIngest(options);
    const consumer = options.nats.wait
      ? undefined
      : await ingest.#prepare().catch(async (error: unknown) => {
          await ingest.#connection?.close();
          throw error;
        });
    ingest.#consuming = ingest.#consume(consumer);
    return ingest;
  }

  /** Whether this ingest reads the run. */
  takes(run: string): boolean {
    return this.#options.run === undefined || this.#options.run === run;
  }

  /** Whether no batch can come: the server is out of reach, or its consumer is being made again. */
  get isAway(): boolean {
    return this.#manager === undefined || this.#broken || (this.#stop.signal.aborted && !this.#isEnding);
  }

  /** Messages that came more than once. */
  get redelivered(): number {
    return this.#redelivered;
  }

  /** Batches that the stream deleted before they could be read. */
  get expired(): number {
    return this.#upkeep.expired;
  }

  /** Publishes a control message to the ranks of the run that it names, or of every run. Disconnected ranks miss it. */
  broadcast(message: ControlMessage): void {
    const connection = this.#connection;
    if (connection === undefined || connection.isClosed()) return;
    const runs = 'run' in message ? [message.run] : this.#options.runs();
    for (const run of runs) connection.publish(controlSubject(run), encodeMessage(message));
  }

  /** Publishes text to the current subscribers. Resolves when the server has it; rejects while the server is out of reach. */
  async publish(subject: string, text: string): Promise<void> {
    const connection = this.#connection;
    // A disconnected client keeps publications and sends them later, in addition to the retries.
    if (connection === undefined || connection.isClosed() || this.#broken) throw new Error(`no connection to NATS at ${this.#servers}`);
    connection.publish(subject, text);
    const late = wait(limits.natsConnectTimeoutMs, undefined, { ref: false }).then(() => {
      throw new Error(`NATS at ${this.#servers} did not answer within ${limits.natsConnectTimeoutMs / 1000} s`);
    });
    await Promise.race([connection.flush(), late]);
    await wait(0); // A refusal comes before the answer to the flush, and to #watch a moment later.
    if (this.#refusedSubjects.delete(subject)) throw new Error(`the user of NATS at ${this.#servers} may not publish on "${subject}"`);
  }

  /** Takes no more batches; what comes already is stored. Control messages and alerts still go out. */
  stopReading(): void {
    this.#stop.abort();
    this.#messages?.stop();
  }

  /** Takes what the stream holds now, for `natsDrainMsMax` at most, and then no more batches. Alerts still go out. */
  async end(): Promise<void> {
    this.#isEnding = true;
    await this.#drain();
    this.stopReading();
    await this.#consuming;
  }

  /** Ends, sends the last acknowledgements, disconnects. */
  async close(): Promise<void> {
    await this.end();
    const connection = this.#connection;
    if (connection === undefined || connection.isClosed()) return;
    // A server that is gone takes no acknowledgements: it will redeliver, and deduplication drops the copies.
    await Promise.race([connection.flush().catch(() => undefined), wait(limits.closeGraceMs, undefined, { ref: false })]);
    await connection.close();
  }

  /** Resolves when everything in the stream now is taken and acknowledged, or after `natsDrainMsMax`: the next start reads on from there. */
  async #drain(): Promise<void> {
    const deadline = performance.now() + limits.natsDrainMsMax;
    let last: number | undefined;
    while (this.#manager !== undefined && !this.#broken && !this.#stop.signal.aborted && performance.now() < deadline) {
      try {
        last ??= (await this.#manager.streams.info(streamName)).state.last_seq;
        const { ack_floor, num_pending, num_ack_pending } = await this.#manager.consumers.info(streamName, this.#durable);
        if (num_pending + num_ack_pending === 0 || ack_floor.stream_seq >= last) return;
      } catch {
        // The consumer is being recreated, or the server is gone.
      }
      await this.#delay(limits.natsDrainLookMs);
    }
  }

  async #consume(prepared: Consumer | undefined): Promise<void> {
    let consumer = prepared;
    let retryMs: number = limits.natsRetryMs;
    let said = '';
    while (!this.#stop.signal.aborted) {
      try {
        if (this.#broken || this.#hasMissed) consumer = undefined;
        consumer ??= await this.#prepare();
        await this.#fetch(consumer);
        if (this.#manager !== undefined && !this.#broken) await this.#upkeep.look(this.#manager);
        retryMs = limits.natsRetryMs;
        said = '';
      } catch (error) {
        if (this.#stop.signal.aborted) return;
        consumer = undefined; // it may have been deleted, or the server lost it: look again
        const message = messageOf(error);
        if (message !== said) this.#options.onNotice(`${message}; trying again`);
        said = message;
        await this.#delay(retryMs);
        retryMs = Math.min(retryMs * 2, limits.natsRetryMsMax);
      }
    }
  }

  async #fetch(consumer: Consumer): Promise<void> {
    const messages = await consumer.fetch({ max_messages: limits.natsFetchMessagesMax, expires: limits.natsFetchExpiresMs });
    this.#messages = messages;
    if (this.#stop.signal.aborted) messages.stop();
    // After `stop` this still yields messages that have arrived: otherwise they would be redelivered only after ack_wait.
    let count = 0;
    for await (const message of messages) {
      this.#take(message);
      count++;
    }
    if (this.#held.isOverdue(performance.now())) this.#hasMissed = true;
    if (count > 0 || performance.now() < this.#sentBackUntil || this.#stop.signal.aborted) return;
    // Every delivery that arrived is acknowledged or sent back.
    if ((await consumer.info()).num_ack_pending > 0) this.#hasMissed = true;
  }

  #take(message: JsMsg): void {
    if (message.redelivered) this.#redelivered++;
    this.#note(message.seq);
    if (message.info.deliverySequence !== this.#delivered + 1) {
      this.#hasMissed = true;
      // The sooner it comes again, the less the stream has deleted by then.
      this.#messages?.stop();
    }
    this.#delivered = message.info.deliverySequence;
    // The missed message was not deleted: it comes again, followed by this one.
    this.#upkeep.took(message.seq, this.#hasMissed);
    const run = runOfBatch(message.subject);
    if (this.#held.passesOver(run, message.seq)) {
      message.ack();
      return;
    }
    const taken = this.#options.ingest(message.data, message.subject);
    if (taken.result === 'unavailable') {
      this.#options.onNotice(`Batches wait in NATS: ${taken.reason}`);
      this.#held.hold(run, message.seq, performance.now());
      message.nak(limits.natsRetryMsMax);
      this.#sentBackUntil = performance.now() + 2 * limits.natsRetryMsMax;
    } else if (this.#held.mustReadAgain(run)) {
      this.#hasMissed = true;
      this.#messages?.stop();
    } else if (taken.result === 'refused') {
      this.#options.onNotice(`A batch on "${message.subject}" was refused: ${taken.reason}`);
      message.term();
    } else message.ack();
  }

  #note(sequence: number): void {
    const now = performance.now();
    if (now - this.#taken.at < limits.natsFlushMs) return;
    this.#flushed = this.#taken.sequence;
    this.#taken = { sequence, at: now };
  }

  async #prepare(): Promise<Consumer> {
    const connection = await this.#connect();
    try {
      const manager = await connection.jetstreamManager();
      await this.#upkeep.prepare(manager);
      const after = await this.#endConsumer(manager);
      const from = await this.#upkeep.begin(manager, after === undefined ? undefined : Math.min(after, this.#held.first - 1));
      await manager.consumers.add(streamName, {
        durable_name: this.#durable,
        deliver_policy: DeliverPolicy.StartSequence,
        opt_start_seq: from,
        ack_policy: AckPolicy.Explicit,
        ack_wait: nanos(limits.natsAckWaitMs),
        max_ack_pending: limits.natsAckPendingMax,
        inactive_threshold: nanos(limits.natsConsumerIdleMs),
        filter_subject: this.#upkeep.filter,
      });
      this.#manager = manager;
      this.#broken = this.#hasMissed = false;
      this.#delivered = 0;
      this.#held.clear();
      return await connection.jetstream().consumers.get(streamName, this.#durable);
    } catch (cause) {
      if (cause instanceof AggregatorError) throw cause;
      const off = systemCode(cause) === '503';
      const what = off ? 'its JetStream is off; start it with deploy/nats.conf or -js' : messageOf(cause);
      throw new AggregatorError('nats_refused', `Cannot use NATS at ${this.#servers}: ${what}`, { cause });
    }
  }

  /** Deletes the previous consumer, ours or an earlier life's; returns the stream sequence to resume after, undefined where there was none. */
  async #endConsumer(manager: Manager): Promise<number | undefined> {
    try {
      const { ack_floor, config } = await manager.consumers.info(streamName, this.#durable);
      await manager.consumers.delete(streamName, this.#durable);
      const after = Math.max(ack_floor.stream_seq, (config.opt_start_seq ?? 1) - 1);
      return this.#broken ? Math.min(after, this.#flushed) : after;
    } catch (error) {
      if (systemCode(error) !== '404') throw error;
      return undefined;
    }
  }

  async #connect(): Promise<NatsConnection> {
    if (this.#connection !== undefined && !this.#connection.isClosed()) return this.#connection;
    const connection = await connectTo(this.#options.nats);
    this.#connection = connection;
    const subject = this.#options.run === undefined ? clockSubjects : clockSubject(this.#options.run);
    const guarded = guardedBy(this.#options.onNotice);
    const onPing = (_error: unknown, message: Msg): void => answerPing(message);
    connection.subscribe(subject, { callback: guarded('a clock ping', onPing) });
    guarded('the watch of NATS', () => this.#watch(connection))();
    return connection;
  }

  async #watch(connection: NatsConnection): Promise<void> {
    for await (const status of connection.status()) {
      if (status.type === Events.Disconnect) {
        this.#options.onNotice(`NATS at ${this.#servers} is gone; trying again`);
        this.#broken = true;
        this.#messages?.stop(); // a fetch that waits for a server that forgot it
      } else if (status.type === Events.Reconnect) this.#options.onNotice(`NATS at ${this.#servers} is back`);
      else if (status.type === Events.Error) {
        const { operation = '', subject = '' } = status.permissionContext ?? {};
        if (operation === 'publish') this.#refusedSubjects.add(subject);
        this.#options.onNotice(`NATS at ${this.#servers}: ${String(status.data)} ${operation} ${subject}`.trimEnd());
      } else if (status.type === DebugEvents.StaleConnection) this.#messages?.stop();
    }
  }

  /** Resolves after `ms`, or when this is closed. */
  async #delay(ms: number): Promise<void> {
    await wait(ms, undefined, { signal: this.#stop.signal }).catch(() => undefined);
  }
}

/**
 * Whether a server can be used: its version, one round trip in ns, whether its JetStream is on.
 * Throws AggregatorError `nats_unreachable`, `nats_refused` or `bad_option`.
 */
export async function checkNats(nats: NatsConnectOptions): Promise<{ version: string; roundTripNs: number; jetStream: boolean }> {
  const connection = await connectTo(nats);
  try {
    const roundTripNs = (await connection.rtt()) * 1e6;
    const { version = 'of unknown version', jetstream = false } = connection.info ?? {};
    return { version, roundTripNs, jetStream: jetstream };
  } finally {
    await connection.close();
  }
}

async function connectTo(nats: NatsConnectOptions): Promise<NatsConnection> {
  const options = connectionOptions(nats);
  try {
    return await connect(options);
  } catch (cause) {
    if (cause instanceof AggregatorError) throw cause;
    const { code, what } = whyNot(cause);
    throw new AggregatorError(code, `Cannot connect to NATS at ${serversOf(nats)}: ${what}`, { cause });
  }
}

function whyNot(cause: unknown): { readonly code: 'nats_refused' | 'nats_unreachable'; readonly what: string } {
  const code = systemCode(cause);
  if (/AUTH|PERMISSION|VIOLATION/i.test(code)) {
    return {
      code: 'nats_refused',
      what: `it refused the credentials (${messageOf(cause)}); check RANKTRACE_NATS_USER and RANKTRACE_NATS_PASS`,
    };
  }
  if (/CERT|ISSUER|SIGNATURE/.test(code)) {
    return { code: 'nats_refused', what: `its TLS certificate is not trusted (${messageOf(cause)}); check RANKTRACE_NATS_TLS_CA` };
  }
  if (code === ErrorCode.ServerOptionNotAvailable) {
    return { code: 'nats_refused', what: 'it has no TLS; give nats:// without RANKTRACE_NATS_TLS_*, or turn its TLS on' };
  }
  if (code === ErrorCode.Tls) {
    return { code: 'nats_refused', what: `TLS is not possible (${messageOf(cause)}); check RANKTRACE_NATS_TLS_CA, _CERT and _KEY` };
  }
  if (code === ErrorCode.BadCreds || /^nkeys: /.test(messageOf(cause))) {
    const which = 'check RANKTRACE_NATS_CREDS or RANKTRACE_NATS_NKEY';
    return { code: 'nats_refused', what: `the credentials for it cannot be used (${messageOf(cause)}); ${which}` };
  }
  return { code: 'nats_unreachable', what: 'no server answers there' };
}

type Manager = Awaited<ReturnType<NatsConnection['jetstreamManager']>>;

function answerPing(message: Msg): void {
  const received = process.hrtime.bigint();
  try {
    const { id } = decodeMessage(rankMessageSchema, message.string());
    const [, , run = ''] = message.subject.split('.');
    if (mayAnswer(run, message.reply ?? '')) message.respond(Buffer.from(clockPong(id, received)));
  } catch {
    // A message that is no ping, or of no run, gets no answer, and its request times out.
  }
}

function connectionOptions(nats: NatsConnectOptions): ConnectionOptions {
  const { user, pass, token, creds, nkey, inboxPrefix = aggregatorInbox, tls } = nats;
  const options: ConnectionOptions = {
    servers: [...nats.servers],
    name: 'ranktrace aggregator',
    inboxPrefix,
    timeout: limits.natsConnectTimeoutMs,
    maxReconnectAttempts: -1,
    reconnectTimeWait: limits.natsRetryMs,
    pingInterval: limits.pingIntervalMs,
  };
  if (user !== undefined) options.user = user;
  if (pass !== undefined) options.pass = pass;
  if (token !== undefined) options.token = token;
  if (creds !== undefined) {
    readCreds(creds);
    // Reads the file at every connect: operators replace expired credentials in place.
    options.authenticator = (nonce) => credsAuthenticator(readCreds(creds))(nonce);
  }
  if (nkey !== undefined) {
    options.authenticator = nkeyAuthenticator(Buffer.from(nkey));
  }
  const files = {
    ...(tls?.ca !== undefined && { caFile: tls.ca }),
    ...(tls?.cert !== undefined && { certFile: tls.cert }),
    ...(tls?.key !== undefined && { keyFile: tls.key }),
  };
  // Set only when needed: with `tls` set the client rejects a server without TLS.
  if (Object.keys(files).length > 0 || nats.servers.some((server) => /^tls:/i.test(server))) {
    const authenticated = { ...files, checkServerIdentity: serverIdentity(nats.servers) };
    options.tls = authenticated;
  }
  return options;
}

/**
 * Node's check that a certificate is the server's. The client passes no name when the server's address is a number, and Node then checks for
 * "localhost": so this accepts a certificate for one of the given addresses, too.
 */
function serverIdentity(servers: readonly string[]): typeof checkServerIdentity {
  const addresses = servers.map((server) => new URL(server).hostname.replace(/^\[|\]$/g, '')).filter((host) => isIP(host) !== 0);
  return (host, certificate) => {
    const refusals = [...addresses, host].map((name) => checkServerIdentity(name, certificate));
    return refusals.includes(undefined) ? undefined : refusals[0];
  };
}

function readCreds(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (cause) {
    throw new AggregatorError('bad_option', `Cannot read the NATS credentials "${path}": ${messageOf(cause)}`, { cause });
  }
}

/** The servers as text, without possible secrets in their URLs. */
const serversOf = (nats: NatsConnectOptions): string => nats.servers.map((server) => server.replace(/\/\/[^@/]*@/, '//')).join(', ');
