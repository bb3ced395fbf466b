// The pages' entrance: one WebSocket per page, at `/v1/view` of http-service.ts. Protocol's view-messages.ts defines their messages.

import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { limits as messageLimits } from '@ranktrace/protocol';
import { type WebSocket, WebSocketServer } from 'ws';
import { guardedBy } from '../model/guarded.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';
import { startPings } from '../model/ping-turns.ts';
import type { ViewRuns } from './run-view.ts';
import { Turns } from './turns.ts';
import { ViewSocket } from './view-socket.ts';

export interface ViewSocketsOptions {
  readonly runs: ViewRuns;
  /** Receives one line about each request that failed, and about each broken connection. */
  readonly onNotice: (notice: string) => void;
  /** Time without reading after which a page is closed; default `viewSilenceMsMax`. */
  readonly silenceMsMax?: number | undefined;
}

export class ViewSockets {
  readonly #options: ViewSocketsOptions;
  readonly #sockets: WebSocketServer;
  readonly #pages = new Map<WebSocket, ViewSocket>();
  readonly #turns = new Turns();
  readonly #silenceMsMax: number;
  readonly #pinging: NodeJS.Timeout;

  constructor(options: ViewSocketsOptions) {
    this.#options = options;
    this.#silenceMsMax = options.silenceMsMax ?? limits.viewSilenceMsMax;
    this.#sockets = new WebSocketServer({
      noServer: true,
      maxPayload: messageLimits.messageBytesMax,
      perMessageDeflate: false,
      // The page's socket answers pings, within its bound.
      autoPong: false,
    });
    const intervalMs = Math.min(limits.pingIntervalMs, this.#silenceMsMax / 4);
    this.#pinging = startPings(guardedBy(options.onNotice), 'the pings of pages', intervalMs, (judges) => this.#ping(judges));
  }

  get connections(): number {
    return this.#pages.size;
  }

  /** Upgrades a request that access control has let through. */
  accept(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const { runs, onNotice } = this.#options;
    const guarded = guardedBy(onNotice);
    const serve = (webSocket: WebSocket): void => {
      this.#pages.set(webSocket, new ViewSocket({ socket: webSocket, runs, turns: this.#turns, onNotice }));
      const onClose = (): unknown => this.#pages.delete(webSocket);
      webSocket.on('close', guarded('the end of a page', onClose));
    };
    this.#sockets.handleUpgrade(request, socket, head, guarded('the connection of a page', serve));
  }

  /** Asks every page to close. */
  close(): void {
    clearInterval(this.#pinging);
    for (const socket of this.#pages.keys()) socket.close(1001, 'the service ends');
  }

  /** Ends the connections that are still there. */
  terminate(): void {
    for (const socket of this.#pages.keys()) socket.terminate();
  }

  #ping(judges: boolean): void {
    for (const [socket, page] of this.#pages) {
      if (judges && performance.now() - page.readAt > this.#silenceMsMax) socket.terminate();
      else if (socket.readyState === socket.OPEN) socket.ping();
    }
  }
}
