// The ranks' entrance without a broker: one WebSocket per rank, at `/v1/ingest` of http-service.ts.
//
//   rank ──► binary = batch                 ◄── text ack / refused
//   rank ──► text = clock_ping              ◄── clock_pong
//                                           ◄── control messages
//
// Back-pressure: each batch is handled within its event, so a slow disk makes a slow reader and a full TCP window. The service stops reading from a
// peer that does not read its answers. `unavailable` closes the connection with 1013: the rank keeps the batch and reconnects.

import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { type ControlMessage, decodeMessage, encodeMessage, rankMessageSchema } from '@ranktrace/protocol';
import { type RawData, type WebSocket, WebSocketServer } from 'ws';
import { closeReason } from '../model/close-reason.ts';
import { messageOf } from '../model/errors.ts';
import { type Guarded, guardedBy } from '../model/guarded.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';
import { startPings } from '../model/ping-turns.ts';
import { clockPong } from './clock-pong.ts';
import type { Ingest } from './ingest.ts';

export interface WebSocketIngestOptions {
  readonly ingest: Ingest;
  /** Called with the id of the last batch of a connection that its rank ended, or that broke. */
  readonly onLeft?: ((batch: string) => void) | undefined;
  /** Receives a notice about bytes that broke the connection before they formed a batch. */
  readonly onNotice: (notice: string) => void;
}

export class WebSocketIngest {
  readonly #options: WebSocketIngestOptions;
  readonly #guarded: Guarded;
  readonly #sockets: WebSocketServer;
  /** Connections that were heard since the last ping: its answer lies behind all batches that are under way. */
  readonly #alive = new WeakSet<WebSocket>();
  /** Id of the last batch of a connection. A connection closed for its silence is removed: a stopped process is not gone. */
  readonly #lastBatches = new WeakMap<WebSocket, string>();
  readonly #pinging: NodeJS.Timeout;
  #broken = 0;
  #isClosed = false;

  constructor(options: WebSocketIngestOptions) {
    this.#options = options;
    this.#guarded = guardedBy(options.onNotice);
    this.#sockets = new WebSocketServer({
      noServer: true,
      maxPayload: limits.webSocketPayloadBytesMax,
      perMessageDeflate: false,
      // The service answers pings itself, with the same bound as all answers.
      autoPong: false,
    });
    this.#pinging = startPings(this.#guarded, 'the pings of ranks', limits.pingIntervalMs, (judges) => this.#ping(judges));
  }

  /** Connections that ended because of a message that was too large, or bytes that were not WebSocket at all. */
  get broken(): number {
    return this.#broken;
  }

  get connections(): number {
    return this.#sockets.clients.size;
  }

  /** Sends a control message to the ranks of the run that it names, or to every rank: ranks receive nothing about other runs. */
  broadcast(message: ControlMessage): void {
    const text = encodeMessage(message);
    for (const socket of this.#sockets.clients) {
      if (!('run' in message) || this.#lastBatches.get(socket)?.startsWith(`${message.run}.`)) socket.send(text);
    }
  }

  /** Upgrades a request that access control has let through. */
  accept(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    this.#sockets.handleUpgrade(
      request,
      socket,
      head,
      this.#guarded('the connection of a rank', (webSocket: WebSocket) => this.#serve(webSocket)),
    );
  }

  /** Takes no more batches, and asks every peer to close: ranks keep what is not acknowledged. */
  close(): void {
    this.#isClosed = true;
    clearInterval(this.#pinging);
    for (const socket of this.#sockets.clients) socket.close(1001, 'the aggregator ends');
  }

  /** Ends the connections that are still there. */
  terminate(): void {
    for (const socket of this.#sockets.clients) socket.terminate();
  }

  #serve(socket: WebSocket): void {
    if (this.#isClosed) socket.close(1001, 'the aggregator ends');
    this.#alive.add(socket);
    const guarded = this.#guarded;
    socket.on(
      'pong',
      guarded('the pong of a rank', () => this.#alive.add(socket)),
    );
    const onPing = (data: Buffer): void => {
      socket.pong(data, undefined, () => resumeRead(socket));
      pauseDeaf(socket);
    };
    socket.on('ping', guarded('the ping of a rank', onPing));
    const onError = (error: Error): void => {
      this.#broken++;
      this.#options.onNotice(`A connection was closed: ${error.message}`);
    };
    socket.on('error', guarded('the error of a connection', onError));
    const onClose = (): void => {
      const batch = this.#lastBatches.get(socket);
      if (batch !== undefined) this.#options.onLeft?.(batch);
    };
    socket.on('close', guarded('the end of a connection', onClose));
    const onMessage = (data: RawData, isBinary: boolean): void => {
      const received = process.hrtime.bigint();
      this.#alive.add(socket);
      if (isBinary) this.#take(socket, bytesOf(data));
      else this.#reply(socket, String(data), received);
    };
    socket.on('message', guarded('the message of a rank', onMessage));
  }

  #take(socket: WebSocket, bytes: Uint8Array): void {
    // After 1013, batches already in flight must not be acknowledged out of order with the rejected one.
    if (socket.readyState !== socket.OPEN) return;
    const taken = this.#options.ingest(bytes);
    if (taken.batch !== '') this.#lastBatches.set(socket, taken.batch);
    if (taken.result === 'unavailable') {
      this.#options.onNotice(`Batches are not taken now: ${taken.reason}`);
      socket.close(1013, closeReason(taken.reason));
    } else if (taken.result === 'refused') send(socket, encodeMessage({ type: 'refused', batch: taken.batch, reason: taken.reason }));
    else send(socket, encodeMessage({ type: 'ack', batch: taken.batch }));
  }

  #reply(socket: WebSocket, text: string, received: bigint): void {
    try {
      const { id } = decodeMessage(rankMessageSchema, text);
      send(socket, clockPong(id, received));
    } catch (error) {
      this.#broken++;
      socket.close(1008, closeReason(messageOf(error)));
    }
  }

  #ping(judges: boolean): void {
    for (const socket of this.#sockets.clients) {
      if (judges && !this.#alive.has(socket)) {
        this.#lastBatches.delete(socket);
        socket.terminate();
      }
      if (judges) this.#alive.delete(socket);
      if (socket.readyState === socket.OPEN) socket.ping();
    }
  }
}

function send(socket: WebSocket, text: string): void {
  socket.send(text, () => resumeRead(socket));
  pauseDeaf(socket);
}

/** Stops reading from a peer that does not read its answers… */
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
