// Ships through NATS JetStream: the broker acknowledges a batch once its stream has it, and the aggregator reads the stream at its own pace.
// The only file of this package that knows NATS.
//
//   connect ──► stream exists? ──► up ──► publish fails / connection lost ──► down ──► (client reconnects) ──► stream exists? ──► up …
//                 └─ create it, if we may
//
// Invariants: each batch is published under one Nats-Msg-Id, so the stream takes a repeated batch (within its duplicate window, 2 min; later
// ones the aggregator recognises) only once. That id begins with a secret of this process: the stream answers "duplicate" to any message whose
// id it has, whoever sent it, so that another rank which knew our ids could make it drop our batches. Failures of an older connection
// (`#epoch`) change nothing.

import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { checkServerIdentity } from 'node:tls';
import {
  batchSubject,
  clockSubject,
  controlMessageSchema,
  controlSubject,
  decodeMessage,
  encodeMessage,
  makeStream,
  rankInbox,
  streamErrorOf,
  streamErrors,
  streamName,
  streamProblem,
} from '@ranktrace/protocol';
import {
  type Authenticator,
  type ConnectionOptions,
  connect,
  credsAuthenticator,
  DebugEvents,
  Events,
  type JetStreamClient,
  type Msg,
  type NatsConnection,
  type NatsError,
  nkeyAuthenticator,
} from 'nats';
import { limits } from '../model/limits.ts';
import type { ResolvedOptions } from '../model/options.ts';
import { guarded } from '../process/guarded.ts';
import { reconnectDelayMs, type Transport, type TransportHandlers } from './transport.ts';

export class NatsTransport implements Transport {
  readonly flushMs = limits.brokerFlushMs;
  readonly #options: ResolvedOptions['nats'];
  readonly #run: string;
  readonly #rank: number;
  readonly #random: () => number;
  readonly #secret: string;
  /** Batches published before, oldest first. */
  readonly #published = new Set<string>();
  readonly #stop = new AbortController();
  #handlers: TransportHandlers | undefined;
  #connection: NatsConnection | undefined;
  #jetstream: JetStreamClient | undefined;
  #epoch = 0;
  /** Failed publishes since the last acknowledgement. */
  #failures = 0;
  #living: Promise<void> | undefined;

  /** `secret`: prefix of the ids under which we publish batches; known to nobody else. */
  constructor(options: ResolvedOptions['nats'], identity: { run: string; rank: number }, random: () => number, secret = newSecret()) {
    this.#secret = secret;
    this.#options = options;
    this.#run = identity.run;
    this.#rank = identity.rank;
    this.#random = random;
  }

  open(handlers: TransportHandlers): void {
    this.#handlers = handlers;
    this.#living = this.#live();
  }

  send(bytes: Uint8Array, id: string): void {
    const epoch = this.#epoch;
    const jetstream = this.#jetstream;
    if (jetstream === undefined) return;
    this.#publish(jetstream, bytes, id).then(
      guarded('hearing of a batch', () => {
        this.#failures = 0;
        this.#handlers?.message({ type: 'ack', batch: id });
      }),
      guarded('sending a batch', (error: NatsError) => this.#publishFailed(error, id, epoch)),
    );
  }

  /** Resolves once the stream has it. An async function also turns errors that `publish` throws (connection closed, too large) into a rejection. */
  async #publish(jetstream: JetStreamClient, bytes: Uint8Array, id: string): Promise<void> {
    const publish = (secret: string) =>
      jetstream.publish(batchSubject(this.#run, this.#rank), bytes, { msgID: `${secret}.${id}`, timeout: limits.publishTimeoutMs });
    const isNew = !this.#published.has(id);
    this.#published.add(id);
    for (const oldest of this.#published) {
      if (this.#published.size <= limits.publishedIdsMax) break;
      this.#published.delete(oldest);
    }
    // The stream cannot have a batch that was never sent: another message has that id.
    if (!(await publish(this.#secret)).duplicate || !isNew) return;
    if ((await publish(newSecret())).duplicate) throw new Error(`the stream ${streamName} calls each batch a duplicate`);
  }

  ping(id: number): void {
    const request = async () => {
      const options = { timeout: limits.clockPingTimeoutMs };
      const answer = await this.#connection?.request(clockSubject(this.#run), encodeMessage({ type: 'clock_ping', id }), options);
      if (answer !== undefined) this.#receive(answer.string());
    };
    // No aggregator is listening: there is no clock, and the batches wait in the stream.
    request().catch(() => {});
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.#epoch++;
    this.#jetstream = undefined;
    await Promise.race([this.#connection?.close(), wait(limits.closeTimeoutMs, undefined, { ref: false })]);
    await Promise.race([this.#living, wait(limits.closeTimeoutMs, undefined, { ref: false })]);
  }

  get #closed(): boolean {
    return this.#stop.signal.aborted;
  }

  /** Connects until closed. The client reconnects by itself; it gives up only on refused credentials, and then this begins anew. */
  async #live(): Promise<void> {
    for (let attempt = 0; !this.#closed; attempt++) {
      try {
        const connection = await connect(this.#connectionOptions());
        if (this.#closed) return await connection.close();
        attempt = 0;
        this.#connection = connection;
        this.#subscribe(connection);
        // Not awaited: the client's status iterator does not end with the connection.
        void this.#watch(connection);
        await this.#establish(connection);
        const error = await connection.closed();
        if (this.#closed) return;
        this.#lost(describe(error as NatsError | undefined));
      } catch (error) {
        if (this.#closed) return;
        this.#lost(describe(error as NatsError));
      }
      await this.#pause(attempt);
    }
  }

  #connectionOptions(): ConnectionOptions {
    const { servers, user, pass, token, creds, nkey, inboxPrefix, tls } = this.#options;
    const authenticator =
      creds !== undefined ? credsFrom(creds) : nkey !== undefined ? nkeyAuthenticator(new TextEncoder().encode(nkey)) : undefined;
    const files = {
      ...(tls.ca !== undefined && { caFile: tls.ca }),
      ...(tls.cert !== undefined && { certFile: tls.cert }),
      ...(tls.key !== undefined && { keyFile: tls.key }),
    };
    const authenticated = { ...files, checkServerIdentity: serverIdentity(servers) };
    const secure = Object.keys(files).length > 0 || servers.some((server) => new URL(server).protocol === 'tls:');
    return {
      servers: [...servers],
      name: `ranktrace ${this.#run} rank ${this.#rank}`,
      inboxPrefix: inboxPrefix ?? rankInbox(this.#run, this.#rank),
      timeout: limits.connectTimeoutMs,
      maxReconnectAttempts: -1,
      reconnectDelayHandler: () => reconnectDelayMs(4, this.#random),
      pingInterval: limits.silenceMsMax / 3,
      maxPingOut: 2,
      ...(user !== undefined && { user }),
      ...(pass !== undefined && { pass }),
      ...(token !== undefined && { token }),
      ...(authenticator !== undefined && { authenticator }),
      ...(secure && { tls: authenticated }),
    };
  }

  #subscribe(connection: NatsConnection): void {
    connection.subscribe(controlSubject(this.#run), {
      callback: guarded('hearing the aggregator', (error: NatsError | null, message: Msg) => {
        if (error === null) this.#receive(message.string(), true);
        else this.#handlers?.notice(`no control messages over NATS: ${describe(error)}`);
      }),
    });
  }

  async #watch(connection: NatsConnection): Promise<void> {
    for await (const status of connection.status()) {
      if (status.type === Events.Disconnect) this.#lost('connection lost');
      // Repeated at each attempt, to make up for a notice held back while the connection flapped.
      else if (status.type === DebugEvents.Reconnecting) this.#handlers?.down('connection lost');
      else if (status.type === Events.Reconnect) void this.#establish(connection);
      else if (status.type === Events.Error && status.permissionContext !== undefined) {
        const { operation, subject } = status.permissionContext;
        // Missing permission to look for the stream or to create it is fine as long as it exists: publishing will show.
        if (!subject.startsWith('$JS.'))
          this.#handlers?.notice(`NATS does not permit to ${operation} "${subject}": allow it for these credentials`);
      }
    }
  }

  /** Makes sure that the stream exists, then calls `up`. Before that, publishing would only time out. */
  async #establish(connection: NatsConnection): Promise<void> {
    const epoch = ++this.#epoch;
    for (let attempt = 0; ; attempt++) {
      const problem = await ensureStream(connection);
      if (this.#closed || epoch !== this.#epoch) return;
      if (problem === undefined) break;
      this.#handlers?.down(problem);
      await this.#pause(attempt);
      if (this.#closed || epoch !== this.#epoch) return;
    }
    this.#jetstream = connection.jetstream({ timeout: limits.publishTimeoutMs });
    this.#handlers?.up();
  }

  #publishFailed(error: NatsError, id: string, epoch: number): void {
    if (this.#closed || epoch !== this.#epoch) return;
    if (error.code === 'MAX_PAYLOAD_EXCEEDED' || streamErrorOf(error) === streamErrors.messageTooLarge) {
      this.#handlers?.message({ type: 'refused', batch: id, reason: describe(error) });
      return;
    }
    this.#lost(describe(error));
    const connection = this.#connection;
    // One failure of a window of 16 is enough: the epoch moves on, and the others are ignored.
    const failed = this.#epoch;
    if (connection === undefined || connection.isClosed()) return;
    void this.#pause(this.#failures++).then(() => {
      if (failed === this.#epoch && !this.#closed) void this.#establish(connection);
    });
  }

  #lost(reason: string): void {
    this.#epoch++;
    this.#jetstream = undefined;
    if (!this.#closed) this.#handlers?.down(reason);
  }

  async #pause(attempt: number): Promise<void> {
    await wait(reconnectDelayMs(attempt, this.#random), undefined, { signal: this.#stop.signal }).catch(() => {});
  }

  /** A broadcast is no answer: a client that can make the server answer on our control subject must not set our clock by it. */
  #receive(text: string, isBroadcast = false): void {
    try {
      const message = decodeMessage(controlMessageSchema, text);
      if (!isBroadcast || message.type !== 'clock_pong') this.#handlers?.message(message);
    } catch (error) {
      this.#handlers?.notice(`message from the aggregator not understood: ${(error as Error).message}`);
    }
  }
}

const newSecret = (): string => randomBytes(16).toString('hex');

/** `undefined`, or the reason why no batch can be stored now. Another client may create the stream at the same time, or be the only one that may. */
async function ensureStream(connection: NatsConnection): Promise<string | undefined> {
  try {
    const manager = await connection.jetstreamManager({ checkAPI: false, timeout: limits.publishTimeoutMs });
    await makeStream(manager.streams);
    return undefined;
  } catch (error) {
    const { code, api_error } = error as NatsError;
    if (code === '503' && api_error === undefined) return 'the NATS server has no JetStream (yet); start it with JetStream on';
    // Permission denied, or no answer: the stream may exist all the same.
    if (api_error === undefined) return undefined;
    return `cannot create the stream ${streamName}: ${api_error.description}`;
  }
}

/** Reads credentials at every connect: they expire and are replaced in place. */
function credsFrom(file: string): Authenticator {
  return (nonce) => credsAuthenticator(readFileSync(file))(nonce);
}

/**
 * Node's check that a certificate is the server's. For a numeric server address the client passes no name, and Node then takes "localhost": so
 * a certificate for one of the configured addresses is valid, too.
 */
function serverIdentity(servers: readonly string[]): typeof checkServerIdentity {
  const addresses = servers.map((server) => new URL(server).hostname.replace(/^\[|\]$/g, '')).filter((host) => isIP(host) !== 0);
  return (host, certificate) => {
    const refusals = [...addresses, host].map((name) => checkServerIdentity(name, certificate));
    return refusals.includes(undefined) ? undefined : refusals[0];
  };
}

function describe(error: NatsError | undefined): string {
  const problem = streamProblem(error);
  if (problem !== undefined) return problem;
  switch (error?.code) {
    case undefined:
      return error?.message ?? 'connection closed';
    case 'AUTHORIZATION_VIOLATION':
    case 'AUTHENTICATION_EXPIRED':
    case 'ACCOUNT_EXPIRED':
      return 'the NATS server refused the credentials; check options nats.user, pass, token, creds, nkey or variables RANKTRACE_NATS_*';
    case '503':
      return `no JetStream stream takes the batches: there is no stream ${streamName}, or the server shut its JetStream off (its log says why)`;
    case 'TIMEOUT':
      return 'the NATS server did not answer in time';
    case 'CONNECTION_REFUSED':
      return 'connection refused';
    case 'SERVER_OPT_NA':
      // The client names what is missing, and that alone.
      if (error.message !== 'tls') return error.message;
      return 'the NATS server offers no TLS, which tls:// and the files of option nats.tls ask for; use nats:// without them, or turn TLS on';
    default:
      if (!/CERT|ISSUER|SIGNATURE/.test(error?.code ?? '')) return error?.message ?? 'unknown';
      return `the TLS certificate of the NATS server is not trusted (${error?.message}); check option nats.tls.ca or variable RANKTRACE_NATS_TLS_CA`;
  }
}
