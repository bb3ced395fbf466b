// Ships directly to an aggregator: binary frames are batches, text frames are protocol messages, in both directions.
//
// Invariant: at most one socket lives at a time, and only its events count; a late event of an older one changes nothing.

import type { ClientRequest, IncomingMessage } from 'node:http';
import { controlMessageSchema, decodeMessage, encodeMessage, limits as protocolLimits } from '@ranktrace/protocol';
import { type RawData, WebSocket } from 'ws';
import { limits } from '../model/limits.ts';
import { guarded } from '../process/guarded.ts';
import { reconnectDelayMs, type Transport, type TransportHandlers } from './transport.ts';

const ingestPath = '/v1/ingest';
const looksPerSilence = 3;

export class WebSocketTransport implements Transport {
  readonly #url: string;
  readonly #token: string | undefined;
  readonly #random: () => number;
  #handlers: TransportHandlers | undefined;
  #socket: WebSocket | undefined;
  #attempt = 0;
  /** Looks since the peer was heard last. */
  #unanswered = 0;
  #looks: NodeJS.Timeout | undefined;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  /** `url`: `ws://host:port`, with a path before `/v1/ingest` when the aggregator stands behind a proxy. */
  constructor(url: string, token: string | undefined, random: () => number) {
    const whole = new URL(url);
    whole.hash = ''; // The client throws on a fragment.
    const path = whole.pathname.replace(/\/+$/, '');
    whole.pathname = path.endsWith(ingestPath) ? path : path + ingestPath;
    this.#url = whole.href;
    this.#token = token;
    this.#random = random;
  }

  open(handlers: TransportHandlers): void {
    this.#handlers = handlers;
    this.#connect();
  }

  send(bytes: Uint8Array): void {
    this.#socket?.send(bytes, { binary: true }, ignore);
  }

  ping(id: number): void {
    this.#socket?.send(encodeMessage({ type: 'clock_ping', id }), ignore);
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    clearInterval(this.#looks);
    const socket = this.#socket;
    if (socket === undefined || socket.readyState === WebSocket.CLOSED) return;
    const gone = new Promise<void>((resolve) => {
      socket.once('close', guarded('closing the connection', resolve));
    });
    const terminate = guarded('closing the connection', () => socket.terminate());
    const cut = setTimeout(terminate, limits.closeTimeoutMs);
    if (socket.readyState === WebSocket.CONNECTING) socket.terminate();
    else socket.close(1000);
    await gone;
    clearTimeout(cut);
  }

  #connect(): void {
    const socket = new WebSocket(this.#url, {
      headers: this.#token === undefined ? {} : { authorization: `Bearer ${this.#token}` },
      handshakeTimeout: limits.connectTimeoutMs,
      maxPayload: protocolLimits.messageBytesMax,
      // Batches are compressed already.
      perMessageDeflate: false,
    });
    this.#socket = socket;
    let reason: string | undefined;
    const opened = guarded('connecting', () => {
      this.#attempt = 0;
      this.#unanswered = 0;
      this.#looks = setInterval(look, limits.silenceMsMax / looksPerSilence).unref();
      this.#handlers?.up();
    });
    const look = guarded('asking whether the aggregator is there', () => this.#look(socket));
    const answered = guarded('hearing the aggregator', () => {
      this.#unanswered = 0;
    });
    const heard = guarded('hearing the aggregator', (data: RawData, isBinary: boolean) => {
      this.#unanswered = 0;
      if (!isBinary) this.#receive(String(data));
    });
    const refused = guarded('connecting', (_request: ClientRequest, response: IncomingMessage) => {
      reason = describeStatus(response.statusCode ?? 0, this.#token !== undefined);
      response.destroy();
      socket.terminate();
    });
    const failed = guarded('connecting', (error: NodeJS.ErrnoException) => {
      reason ??= describeError(error);
    });
    const closed = guarded('connecting again', (code: number, why: Buffer) => {
      clearInterval(this.#looks);
      if (this.#closed) return;
      // First, so that it tries again whatever fails below.
      const again = guarded('connecting again', () => this.#connect());
      this.#timer = setTimeout(again, reconnectDelayMs(this.#attempt++, this.#random));
      this.#handlers?.down(reason ?? `connection closed (${code}${why.length > 0 ? ` ${String(why)}` : ''})`);
    });
    socket.on('open', opened);
    socket.on('message', heard);
    socket.on('pong', answered);
    socket.on('unexpected-response', refused);
    socket.on('error', failed);
    socket.on('close', closed);
  }

  /**
   * A peer that vanished silently (a pulled cable) keeps TCP quiet for minutes; missing answers reveal it earlier. Looks are counted, not time: where this
   * thread was held up, answers that have come are read before the next one.
   */
  #look(socket: WebSocket): void {
    if (++this.#unanswered > looksPerSilence) socket.terminate();
    else socket.ping(undefined, undefined, ignore);
  }

  #receive(text: string): void {
    try {
      this.#handlers?.message(decodeMessage(controlMessageSchema, text));
    } catch (error) {
      this.#handlers?.notice(`message from the aggregator not understood: ${(error as Error).message}`);
    }
  }
}

function describeStatus(status: number, withToken: boolean): string {
  if (status !== 401 && status !== 403) return `HTTP status ${status} instead of a WebSocket; is the URL an aggregator's?`;
  return withToken
    ? `the aggregator refused the token (HTTP ${status}); set option token, or variable RANKTRACE_TOKEN or RANKTRACE_RANK_TOKEN, to the aggregator's`
    : `the aggregator wants a token (HTTP ${status}); set option token, or variable RANKTRACE_TOKEN or RANKTRACE_RANK_TOKEN`;
}

/** Node's codes for an untrusted certificate; retrying does not help. */
const untrusted = /^(DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_\w+|CERT_\w+|ERR_TLS_CERT_ALTNAME_INVALID)$/;

function describeError({ code, message }: NodeJS.ErrnoException): string {
  if (code === undefined || !untrusted.test(code)) return code ?? message;
  const remedy = code === 'ERR_TLS_CERT_ALTNAME_INVALID' ? message : 'set NODE_EXTRA_CA_CERTS to the file of its issuer';
  return `the aggregator's certificate is not trusted (${code}): ${remedy}`;
}

/** A failed write also closes the socket; the handler of `close` deals with it. */
function ignore(): void {}
