// One port for everything: people and probes over HTTP, ranks and pages over WebSockets.
//
//   GET /healthz      200 "ok"                      always open, says nothing
//   GET /status       status message (protocol)
//   GET /metrics      for Prometheus                metrics/metrics.ts
//   GET /v1/alerts    alerts of all runs, or of ?run=…
//   POST /v1/capture  the same steps of all ranks   http/capture-requests.ts
//   GET /v1/trace     a window of a run as a file   http/trace-requests.ts
//   GET /v1/captures/RUN/NAME   a capture's trace   http/trace-requests.ts
//   WS  /v1/ingest    ranks                         web-socket-ingest.ts
//   WS  /v1/view      pages                         view/view-socket.ts
//   GET …             the page                      page-files.ts
//
// HEAD answers as GET does, without the body.
//
// page-access.ts decides on access, before anything else. Every answer carries headers that let a page load and reach only this port, forbid framing,
// and send no referrer: names in a trace cannot make a browser do anything.

import {
  createServer,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http';
import { createServer as createSecureServer, type Server as SecureServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { type Alert, encodeMessage, type LiveMessage } from '@ranktrace/protocol';
import type { WebSocketIngest } from '../ingest/web-socket-ingest.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { AggregatorError, messageOf, systemCode } from '../model/errors.ts';
import { guardedBy } from '../model/guarded.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';
import { isRunName } from '../store/run-directory.ts';
import type { ViewRuns } from '../view/run-view.ts';
import { ViewSockets } from '../view/view-sockets.ts';
import type { AnswerCapture } from './capture-requests.ts';
import { Certificate, type TlsFiles } from './certificate.ts';
import { Access, type AccessTokens, hasToken, isLoopback, type Refusal } from './page-access.ts';
import { PageFiles } from './page-files.ts';
import { pathOf, queryOf } from './request-target.ts';
import { type AnswerTrace, traceRequests } from './trace-requests.ts';

export interface ListenOptions {
  /** Default 127.0.0.1. Anything but loopback needs a token. */
  readonly host?: string | undefined;
  /** 0 (default) = any free port. */
  readonly port?: number | undefined;
  /** Files of the certificate (with its issuers) and of its key, PEM: the port then speaks only https and wss. */
  readonly tls?: TlsFiles | undefined;
}

export interface HttpServiceOptions {
  readonly listen: ListenOptions;
  /** Tokens that ranks and people must send as `Authorization: Bearer …`; a page may also enter by `/?token=…`. */
  readonly token?: AccessTokens | undefined;
  /** Makes the answer to `GET /status`; without it there is no such path. */
  readonly status?: (() => LiveMessage) | undefined;
  /** Makes the answer to `GET /metrics`; without it there is no such path. */
  readonly metrics?: Pick<Metrics, 'text' | 'contentType'> | undefined;
  /** Makes the answer to `GET /v1/alerts`, undefined for an unknown run; without it there is no such path. */
  readonly alerts?: ((run?: string) => readonly Alert[] | undefined) | undefined;
  /** Handles `POST /v1/capture`; without it there is no such path. */
  readonly capture?: AnswerCapture | undefined;
  /** Accepts the ranks; closed with the service. Without it there is no `/v1/ingest`. */
  readonly ingest?: WebSocketIngest | undefined;
  /** Directory of the built page. Without it there is none. */
  readonly page?: string | undefined;
  /** The runs that pages show. Without it there is no `/v1/view`. */
  readonly view?: ViewRuns | undefined;
  /** Receives one line for the operator. */
  readonly onNotice: (notice: string) => void;
}

/** An entrance over WebSockets. */
interface Entrance {
  readonly sockets: WebSocketIngest | ViewSockets;
  readonly connectionsMax: number;
  readonly refusal: (request: IncomingMessage) => Refusal | undefined;
}

export interface Answer {
  /** Default 200. */
  readonly code?: number;
  /** Text, bytes, or a function that sends a body of any length; it never throws. */
  readonly body: string | Uint8Array | ((response: ServerResponse) => Promise<void>);
  /** Default: plain text that no cache keeps. */
  readonly headers?: OutgoingHttpHeaders;
}

const securityHeaders = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
} as const;

export class HttpService {
  readonly #options: HttpServiceOptions;
  readonly #access: Access;
  readonly #files: PageFiles | undefined;
  readonly #entrances = new Map<string, Entrance>();
  readonly #server: Server;
  readonly #certificate: Certificate | undefined;
  readonly #traces: AnswerTrace | undefined;

  private constructor(options: HttpServiceOptions, files: PageFiles | undefined, certificate: Certificate | undefined) {
    this.#options = options;
    this.#files = files;
    const access = new Access(options.token);
    this.#access = access;
    const { ingest, view, onNotice } = options;
    this.#traces = view && traceRequests(view, onNotice);
    if (ingest !== undefined) {
      const refusal = (request: IncomingMessage): Refusal | undefined => access.rankRefusal(request);
      this.#entrances.set('/v1/ingest', { sockets: ingest, connectionsMax: limits.connectionsMax, refusal });
    }
    if (view !== undefined) {
      const refusal = (request: IncomingMessage): Refusal | undefined => access.pageRefusal(request);
      const sockets = new ViewSockets({ runs: view, onNotice });
      this.#entrances.set('/v1/view', { sockets, connectionsMax: limits.viewPagesMax, refusal });
    }
    const { requestMsMax: headersTimeout, requestMsMax: requestTimeout } = limits;
    const timeouts = { headersTimeout, requestTimeout, connectionsCheckingInterval: limits.requestMsMax / 2 };
    const guarded = guardedBy(onNotice);
    const answer: RequestListener = guarded('an answer', (request, response) => this.#answer(request, response));
    this.#certificate = certificate;
    this.#server =
      certificate === undefined
        ? createServer(timeouts, answer)
        : createSecureServer({ ...timeouts, ...certificate.pair, handshakeTimeout: limits.requestMsMax }, answer);
    certificate?.follow(this.#server as SecureServer);
    this.#server.maxConnections = limits.connectionsMax + limits.viewPagesMax + limits.requestsMax;
    const upgrade = (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
      if (request.headers.upgrade?.toLowerCase() === 'websocket') this.#upgrade(request, socket, head);
      else this.#answerAsItIs(request, socket, head);
    };
    this.#server.on('upgrade', guarded('a new connection', upgrade));
  }

  /**
   * Listens; throws AggregatorError `token_required`, `port_in_use`, `listen_failed`, `bad_certificate`, or `bad_option` where `page` is no page.
   */
  static async listen(options: HttpServiceOptions): Promise<HttpService> {
    const { host = '127.0.0.1', port = 0 } = options.listen;
    if (!isLoopback(host) && !hasToken(options.token)) {
      throw new AggregatorError(
        'token_required',
        `Cannot listen on ${host}:${port}: other hosts can reach it, so it needs a token (--token-file FILE, or variable RANKTRACE_TOKEN)`,
      );
    }
    const { tls } = options.listen;
    const files = options.page === undefined ? undefined : new PageFiles(options.page);
    const service = new HttpService(options, files, tls === undefined ? undefined : new Certificate(tls, options.onNotice));
    try {
      await new Promise<void>((resolve, reject) => {
        service.#server.once('error', reject).listen({ host, port }, resolve);
      });
    } catch (cause) {
      for (const { sockets } of service.#entrances.values()) sockets.close();
      service.#certificate?.[Symbol.dispose]();
      const inUse = systemCode(cause) === 'EADDRINUSE';
      const what = inUse ? 'another program uses that port; choose another with --listen' : messageOf(cause);
      throw new AggregatorError(inUse ? 'port_in_use' : 'listen_failed', `Cannot listen on ${host}:${port}: ${what}`, { cause });
    }
    service.#server.removeAllListeners('error').on('error', (error) => options.onNotice(`HTTP server: ${error.message}`));
    return service;
  }

  /** The address that the service listens on, `http://<host>:<port>` or `https://…`. */
  get address(): string {
    const { address, family, port } = this.#server.address() as AddressInfo;
    const protocol = this.#certificate === undefined ? 'http' : 'https';
    return family === 'IPv6' ? `${protocol}://[${address}]:${port}` : `${protocol}://${address}:${port}`;
  }

  /** Accepts no more connections, lets peers close in good order for a moment, then ends the rest, the ranks' sockets too. */
  async close(): Promise<void> {
    this.#certificate?.[Symbol.dispose]();
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const { sockets } of this.#entrances.values()) sockets.close();
    this.#server.closeIdleConnections();
    const terminate = (): void => {
      for (const { sockets } of this.#entrances.values()) sockets.terminate();
      this.#server.closeAllConnections();
    };
    const end = setTimeout(guardedBy(this.#options.onNotice)('the end of connections', terminate), limits.closeGraceMs);
    await closed;
    clearTimeout(end);
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const answer = await this.#answerTo(request, response).catch((error: unknown): Answer => {
      this.#options.onNotice(`Cannot answer ${request.method} ${pathOf(request)}: ${messageOf(error)}`);
      return { code: 500, body: 'this failed; the service said why where it runs\n' };
    });
    const { code = 200, body, headers } = answer;
    if (typeof body === 'function') {
      response.writeHead(code, { 'cache-control': 'no-store', ...securityHeaders, ...headers });
      if (request.method === 'HEAD') response.end();
      else await body(response);
      return;
    }
    const length = { 'content-length': Buffer.byteLength(body) };
    response
      .writeHead(code, { 'content-type': 'text/plain', 'cache-control': 'no-store', ...length, ...securityHeaders, ...headers })
      .end(request.method === 'HEAD' ? undefined : body);
  }

  async #answerTo(request: IncomingMessage, response: ServerResponse): Promise<Answer> {
    const path = pathOf(request);
    const { status, metrics, capture, alerts } = this.#options;
    const captures = request.method === 'POST' && path === '/v1/capture' ? capture : undefined;
    const reads = request.method === 'GET' || request.method === 'HEAD';
    if (!reads && captures === undefined) return { code: 405, body: 'only GET and HEAD\n', headers: { allow: 'GET, HEAD' } };
    if (path === '/healthz') return { body: 'ok\n' };
    const entry = this.#access.pageEntry(request);
    if (entry !== undefined) return { code: 303, body: '', headers: { location: entry.location, 'set-cookie': entry.cookie } };
    const refusal = this.#access.pageRefusal(request, captures === undefined ? 'read' : 'capture');
    if (refusal !== undefined) {
      const { code, reason } = refusal;
      return { code, body: `${reason}\n`, ...(code === 401 ? { headers: { 'www-authenticate': 'Bearer' } } : {}) };
    }
    if (captures !== undefined) return await captures(request, response);
    if (path === '/v1/alerts' && alerts !== undefined) {
      const run = queryOf(request).get('run') ?? undefined;
      const found = alerts(run);
      // A name that no run can have may be of any length.
      if (found === undefined) return { code: 404, body: isRunName(run ?? '') ? `There is no run "${run}"\n` : 'There is no such run\n' };
      return { body: JSON.stringify({ alerts: found }), headers: { 'content-type': 'application/json' } };
    }
    if (path === '/status' && status !== undefined) {
      return { body: encodeMessage(status()), headers: { 'content-type': 'application/json' } };
    }
    if (path === '/metrics' && metrics !== undefined) {
      return { body: await metrics.text(), headers: { 'content-type': metrics.contentType } };
    }
    const trace = await this.#traces?.(request);
    if (trace !== undefined) return trace;
    const file = this.#files?.get(path);
    if (file !== undefined) return { body: file.bytes, headers: { 'content-type': file.type, 'cache-control': file.cacheControl } };
    return { code: 404, body: path === '/' ? 'not found: this service has no page\n' : 'not found\n' };
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on('error', () => undefined);
    const entrance = this.#entrances.get(pathOf(request));
    const refusal = entrance === undefined ? { code: 404, reason: 'not found' } : refusalOf(entrance, request);
    if (refusal === undefined) entrance?.sockets.accept(request, socket, head);
    else refuseUpgrade(socket, refusal);
  }

  /** A request that offers another protocol, as HTTP/2, is answered in HTTP/1.1: the server reads it again, without the offer. */
  #answerAsItIs({ method, url, httpVersion, rawHeaders }: IncomingMessage, socket: Duplex, head: Buffer): void {
    const names = rawHeaders.filter((_, at) => at % 2 === 0);
    const headers = names.flatMap((name, at) => (name.toLowerCase() === 'upgrade' ? [] : [`${name}: ${rawHeaders[at * 2 + 1]}\r\n`]));
    const begin = `${method} ${url} HTTP/${httpVersion}\r\n${headers.join('')}\r\n`;
    socket.unshift(Buffer.concat([Buffer.from(begin, 'latin1'), head]));
    this.#server.emit(this.#certificate === undefined ? 'connection' : 'secureConnection', socket);
  }
}

function refusalOf({ sockets, connectionsMax, refusal }: Entrance, request: IncomingMessage): Refusal | undefined {
  const refused = refusal(request);
  if (refused !== undefined || sockets.connections < connectionsMax) return refused;
  return { code: 503, reason: `more than ${connectionsMax} connections` };
}

function refuseUpgrade(socket: Duplex, { code, reason }: Refusal): void {
  const body = `${reason}\n`;
  // An upgraded socket no longer belongs to the HTTP server: a peer that never closes its side would keep it, and our end, open forever.
  socket.once('finish', () => socket.destroy());
  setTimeout(() => socket.destroy(), limits.closeGraceMs).unref();
  socket.end(`HTTP/1.1 ${code} Refused\r\nconnection: close\r\ncontent-type: text/plain\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
}
