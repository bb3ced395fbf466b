// The page's line to the service: requests with answers, tiles, and a run's growth, over one WebSocket that reconnects by itself.
//
//   closed ──► connecting ──► open ──► closed …      0.25 s, 0.5 s, … 8 s between attempts
//
// A request made while the line is down waits for it; one under way when it breaks is rejected with `ConnectionLost`, as the service has dropped it.
// Followers of a run open it again on `up`, before requests that waited: the service knows no run of an earlier line. So nothing is closed or cancelled
// without a line, either.

import { signal } from '@preact/signals';
import type { Tile, ViewMessage, ViewRequest } from '@ranktrace/protocol';
import { decodeTiles } from '@ranktrace/protocol';

type WithoutId<T> = T extends unknown ? Omit<T, 'id'> : never;
/** A request without its number, which is assigned here. */
export type Asked = WithoutId<ViewRequest>;
/** A message that answers no request. */
export type Announcement = Extract<ViewMessage, { type: 'runs' | 'grown' }>;

export class ConnectionLost extends Error {
  constructor() {
    super('The connection to ranktrace was lost');
    this.name = 'ConnectionLost';
  }
}

/** The service's error: its code and one line. */
export class RequestRefused extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.name = 'RequestRefused';
    this.code = code;
  }
}

export interface RequestOptions {
  readonly signal?: AbortSignal;
  readonly onProgress?: (done: number, total: number) => void;
  readonly onTiles?: (tiles: readonly Tile[]) => void;
}

interface Pending extends RequestOptions {
  readonly resolve: (answer: unknown) => void;
  readonly reject: (error: Error) => void;
}

const retryMsMin = 250;
const retryMsMax = 8000;

export class Connection {
  readonly state = signal<'connecting' | 'open' | 'closed'>('connecting');
  readonly #url: string;
  readonly #pending = new Map<number, Pending>();
  readonly #listeners = new Set<(reported: Announcement) => void>();
  readonly #ups = new Set<() => void>();
  /** Requests for the next line, by their numbers. */
  readonly #waiting = new Map<number, string>();
  #socket: WebSocket | undefined;
  #next = 1;
  #retryMs = retryMsMin;

  constructor(url: string) {
    this.#url = url;
    this.#connect();
  }

  /** The answer to a request. Rejects with RequestRefused, ConnectionLost, or the signal's reason. */
  request<Answer>(asked: Asked, options: RequestOptions = {}): Promise<Answer> {
    const id = this.#next++;
    return new Promise<Answer>((resolve, reject) => {
      const { signal: abort } = options;
      if (abort?.aborted === true) return reject(abort.reason as Error);
      if (asked.type === 'close' && !this.#isOpen) return reject(new ConnectionLost());
      const giveUp = (): void => {
        this.#pending.delete(id);
        if (!this.#waiting.delete(id)) this.#send(JSON.stringify({ id: this.#next++, type: 'cancel', request: id }));
        reject(abort?.reason as Error);
      };
      abort?.addEventListener('abort', giveUp, { once: true });
      const settled = (): void => abort?.removeEventListener('abort', giveUp);
      this.#pending.set(id, {
        ...options,
        resolve: (answer) => {
          settled();
          resolve(answer as Answer);
        },
        reject: (error) => {
          settled();
          reject(error);
        },
      });
      const text = JSON.stringify({ id, ...asked });
      if (this.#isOpen) this.#send(text);
      else this.#waiting.set(id, text);
    });
  }

  /** Calls `listener` with unasked messages, until the returned function is called. */
  listen(listener: (reported: Announcement) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Calls `listener` whenever the line is up (again), at once if it is. */
  onUp(listener: () => void): () => void {
    this.#ups.add(listener);
    if (this.state.value === 'open') listener();
    return () => this.#ups.delete(listener);
  }

  #connect(): void {
    this.state.value = 'connecting';
    const socket = new WebSocket(this.#url);
    socket.binaryType = 'arraybuffer';
    this.#socket = socket;
    socket.addEventListener('open', () => {
      this.#retryMs = retryMsMin;
      this.state.value = 'open';
      for (const up of this.#ups) up();
      for (const text of this.#waiting.values()) socket.send(text);
      this.#waiting.clear();
    });
    socket.addEventListener('message', ({ data }) => this.#receive(data));
    socket.addEventListener('close', () => {
      this.state.value = 'closed';
      // Unsent requests are sent when the line is back; sent ones are lost.
      for (const [id, pending] of [...this.#pending]) {
        if (this.#waiting.has(id)) continue;
        this.#pending.delete(id);
        pending.reject(new ConnectionLost());
      }
      setTimeout(() => this.#connect(), this.#retryMs);
      this.#retryMs = Math.min(2 * this.#retryMs, retryMsMax);
    });
  }

  #send(text: string): void {
    if (this.#isOpen) this.#socket?.send(text);
  }

  get #isOpen(): boolean {
    return this.#socket?.readyState === WebSocket.OPEN;
  }

  #receive(data: string | ArrayBuffer): void {
    if (typeof data !== 'string') {
      const { request, tiles } = decodeTiles(new Uint8Array(data));
      this.#pending.get(request)?.onTiles?.(tiles);
      return;
    }
    const message = JSON.parse(data) as ViewMessage;
    switch (message.type) {
      case 'runs':
      case 'grown':
        for (const listener of this.#listeners) listener(message);
        return;
      case 'progress':
        this.#pending.get(message.id)?.onProgress?.(message.done, message.total);
        return;
      case 'answer':
        this.#take(message.id)?.resolve(message.answer);
        return;
      case 'error':
        this.#take(message.id)?.reject(new RequestRefused(message.code, message.message));
    }
  }

  #take(id: number): Pending | undefined {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    return pending;
  }
}
