// The way in without a broker: one port with HTTP for people and probes, and a WebSocket for ranks.
//
//   GET /healthz      200 "ok"                      always open, says nothing
//   GET /status       status message (protocol)
//   WS  /v1/ingest    binary = batch → text ack / refused; text = clock_ping → clock_pong; we also send control messages
//
// Who may: anybody on this host by default (loopback only); elsewhere only with a bearer token, for /status and /v1/ingest. Browsers have
// no business here: a request with an Origin is refused, and on loopback the Host must be one of loopback (DNS rebinding).
//
// Back-pressure: a batch is handled within its event, so a slow disk is a slow reader is a full TCP window. A peer that does not read its
// answers is not read from either. `unavailable` closes the connection with 1013: the rank keeps the batch and comes back.

import { createHash, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { type ControlMessage, decodeMessage, encodeMessage, type LiveMessage, rankMessageSchema } from '@ranktrace/protocol';
import { type RawData, type WebSocket, WebSocketServer } from 'ws';
import { clockPong } from './clock-pong.ts';
import { AggregatorError, messageOf, systemCode } from './errors.ts';
import type { Ingest } from './ingest.ts';
import { aggregatorLimits as limits } from './limits.ts';

export interface ListenOptions {
  /** Default 127.0.0.1. Anything but loopback needs a token. */
  readonly host?: string | undefined;
  /** 0 (default) = any free port. */
  readonly port?: number | undefined;
}

export interface WebSocketIngestOptions {
  readonly listen: ListenOptions;
  /** What ranks must send as `Authorization: Bearer …`. */
  readonly token?: string | undefined;
  readonly ingest: Ingest;
  readonly status: () => LiveMessage;
  /** Told of bytes that broke the connection before they were a batch. */
  readonly onNotice: (notice: string) => void;
}

export class WebSocketIngest {
  readonly #options: WebSocketIngestOptions;
  readonly #server: Server;
  readonly #sockets: WebSocketServer;
  /** Connections that answered the last ping. */
  readonly #alive = new WeakSet<WebSocket>();
  readonly #pinging: NodeJS.Timeout;
  #broken = 0;

  private constructor(options: WebSocketIngestOptions) {
    this.#options = options;
    this.#sockets = new WebSocketServer({
      noServer: true,
      maxPayload: limits.webSocketPayloadBytesMax,
      perMessageDeflate: false,
      // Answered by us, with the same bound as all answers.
      autoPong: false,
    });
    const { requestMsMax: headersTimeout, requestMsMax: requestTimeout } = limits;
    const timeouts = { headersTimeout, requestTimeout, connectionsCheckingInterval: limits.requestMsMax / 2 };
    this.#server = createServer(timeouts, (request, response) => this.#answer(request, response));
    this.#server.maxConnections = limits.connectionsMax + limits.requestsMax;
    this.#server.on('upgrade', (request, socket, head) => this.#upgrade(request, socket, head));
    this.#pinging = setInterval(() => this.#ping(), limits.pingIntervalMs).unref();
  }

  /** Listens; throws AggregatorError `token_required`, `port_in_use` or `listen_failed`. */
  static async listen(options: WebSocketIngestOptions): Promise<WebSocketIngest> {
    const { host = '127.0.0.1', port = 0 } = options.listen;
    if (!isLoopback(host) && !options.token) {
      throw new AggregatorError(
        'token_required',
        `Cannot listen on ${host}:${port}: other hosts can reach it, so it needs a token (--token)`,
      );
    }
    const ingest = new WebSocketIngest(options);
    try {
      await new Promise<void>((resolve, reject) => {
        ingest.#server.once('error', reject).listen({ host, port }, resolve);
      });
    } catch (cause) {
      clearInterval(ingest.#pinging);
      const inUse = systemCode(cause) === 'EADDRINUSE';
      const what = inUse ? 'another program uses that port; choose another with --listen' : messageOf(cause);
      throw new AggregatorError(inUse ? 'port_in_use' : 'listen_failed', `Cannot listen on ${host}:${port}: ${what}`, { cause });
    }
    ingest.#server.removeAllListeners('error').on('error', (error) => options.onNotice(`HTTP server: ${error.message}`));
    return ingest;
  }

  /** Where it listens, `http://<host>:<port>`. */
  get address(): string {
    const { address, family, port } = this.#server.address() as AddressInfo;
    return family === 'IPv6' ? `http://[${address}]:${port}` : `http://${address}:${port}`;
  }

  /** Connections that ended because of what was sent: too large for a message, or not WebSocket at all. */
  get broken(): number {
    return this.#broken;
  }

  get connections(): number {
    return this.#sockets.clients.size;
  }

  /** Sends a control message to every rank that is connected. */
  broadcast(message: ControlMessage): void {
    const text = encodeMessage(message);
    for (const socket of this.#sockets.clients) socket.send(text);
  }

  /** Takes no more, lets peers close in good order for a moment, then ends. */
  async close(): Promise<void> {
    clearInterval(this.#pinging);
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const socket of this.#sockets.clients) socket.close(1001, 'the aggregator ends');
    this.#server.closeIdleConnections();
    const end = setTimeout(() => {
      for (const socket of this.#sockets.clients) socket.terminate();
      this.#server.closeAllConnections();
    }, limits.closeGraceMs);
    await closed;
    clearTimeout(end);
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const send = (code: number, type: string, body: string): void => {
      response.writeHead(code, { 'content-type': type, 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' }).end(body);
    };
    const path = request.url?.split('?', 1)[0];
    const refusal = path === '/status' ? this.#refusal(request) : undefined;
    if (request.method !== 'GET') send(405, 'text/plain', 'only GET\n');
    else if (path === '/healthz') send(200, 'text/plain', 'ok\n');
    else if (path !== '/status') send(404, 'text/plain', 'not found\n');
    else if (refusal !== undefined) send(refusal.code, 'text/plain', `${refusal.reason}\n`);
    else send(200, 'application/json', encodeMessage(this.#options.status()));
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on('error', () => undefined);
    const refusal = request.url?.split('?', 1)[0] === '/v1/ingest' ? this.#refusal(request) : { code: 404, reason: 'not found' };
    if (refusal !== undefined) refuseUpgrade(socket, refusal.code, refusal.reason);
    else if (this.connections >= limits.connectionsMax) refuseUpgrade(socket, 503, `more than ${limits.connectionsMax} connections`);
    else this.#sockets.handleUpgrade(request, socket, head, (webSocket) => this.#serve(webSocket));
  }

  #refusal(request: IncomingMessage): { code: number; reason: string } | undefined {
    const { authorization, host, origin } = request.headers;
    if (origin !== undefined) return { code: 403, reason: 'not for browsers' };
    const { token } = this.#options;
    if (token) return isSame(authorization ?? '', `Bearer ${token}`) ? undefined : { code: 401, reason: 'wrong or missing token' };
    return isLoopback(hostOf(host ?? '')) ? undefined : { code: 403, reason: 'the Host must be a loopback address' };
  }

  #serve(socket: WebSocket): void {
    this.#alive.add(socket);
    socket.on('pong', () => this.#alive.add(socket));
    socket.on('ping', (data) => {
      socket.pong(data, undefined, () => resumeRead(socket));
      pauseDeaf(socket);
    });
    socket.on('error', (error) => {
      this.#broken++;
      this.#options.onNotice(`A connection was closed: ${error.message}`);
    });
    socket.on('message', (data, isBinary) => {
      const received = process.hrtime.bigint();
      if (isBinary) this.#take(socket, bytesOf(data));
      else this.#reply(socket, String(data), received);
    });
  }

  #take(socket: WebSocket, bytes: Uint8Array): void {
    // After 1013 what was already on its way must not be acknowledged out of order with what was not taken.
    if (socket.readyState !== socket.OPEN) return;
    const taken = this.#options.ingest(bytes);
    if (taken.result === 'unavailable') {
      this.#options.onNotice(`Batches are not taken now: ${taken.reason}`);
      socket.close(1013, cutReason(taken.reason));
    } else if (taken.result === 'refused') send(socket, encodeMessage({ type: 'refused', batch: taken.batch, reason: taken.reason }));
    else send(socket, encodeMessage({ type: 'ack', batch: taken.batch }));
  }

  #reply(socket: WebSocket, text: string, received: bigint): void {
    try {
      const { id } = decodeMessage(rankMessageSchema, text);
      send(socket, clockPong(id, received));
    } catch (error) {
      this.#broken++;
      socket.close(1008, cutReason(messageOf(error)));
    }
  }

  #ping(): void {
    for (const socket of this.#sockets.clients) {
      if (!this.#alive.has(socket)) socket.terminate();
      this.#alive.delete(socket);
      if (socket.readyState === socket.OPEN) socket.ping();
    }
  }
}

function send(socket: WebSocket, text: string): void {
  socket.send(text, () => resumeRead(socket));
  pauseDeaf(socket);
}

/** A peer that does not read its answers is not read from… */
function pauseDeaf(socket: WebSocket): void {
  if (socket.bufferedAmount >= limits.sendBufferBytesMax) socket.pause();
}

/** …until it does. */
function resumeRead(socket: WebSocket): void {
  if (socket.isPaused && socket.bufferedAmount < limits.sendBufferBytesMax) socket.resume();
}

function bytesOf(data: RawData): Uint8Array {
  if (Array.isArray(data)) return Buffer.concat(data);
  return data instanceof ArrayBuffer ? new Uint8Array(data) : data;
}

function refuseUpgrade(socket: Duplex, code: number, reason: string): void {
  const body = `${reason}\n`;
  // An upgraded socket is no longer the HTTP server's: a peer that never closes its side would hold it, and our end, forever.
  socket.once('finish', () => socket.destroy());
  setTimeout(() => socket.destroy(), limits.closeGraceMs).unref();
  socket.end(`HTTP/1.1 ${code} Refused\r\nconnection: close\r\ncontent-type: text/plain\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
}

/** A close frame has room for 123 bytes. */
const cutReason = (reason: string): string =>
  Buffer.from(reason)
    .subarray(0, 120)
    .toString('latin1')
    .replace(/[^ -~]/g, '?');

/** Digests have one length, so the comparison takes the same time for every guess. */
function isSame(a: string, b: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}

const hostOf = (host: string): string => host.replace(/:\d+$/, '').replace(/^\[|\]$/g, '');

/** Whether a listening address or Host name is this host's own. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host);
}
