// Asks `/v1/view` from Node, as a page does from a browser: for commands in a terminal.
//
// Invariant: every request gets an answer, or rejects with ViewError when the connection ends. At most `viewRequestsPerPageMax` are under way, the
// service's limit.

import type { ViewMessage, ViewRequest } from '@ranktrace/protocol';
import { WebSocket } from 'ws';
import { aggregatorLimits as limits } from '../model/limits.ts';
import { ViewError } from './view-error.ts';

type Question = ViewRequest extends infer R ? (R extends { id: number } ? Omit<R, 'id'> : never) : never;

export interface ViewClientOptions {
  readonly token: string | undefined;
  readonly signal?: AbortSignal;
}

interface Underway {
  readonly resolve: (answer: unknown) => void;
  readonly reject: (error: ViewError) => void;
}

export class ViewClient implements Disposable {
  readonly #socket: WebSocket;
  readonly #underway = new Map<number, Underway>();
  #next = 1;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.on('message', (data, isBinary) => {
      if (!isBinary) this.#receive(String(data));
    });
    socket.on('error', () => undefined);
    socket.on('close', (code, reason) => {
      const error = new ViewError('failed', `The service closed the connection: ${String(reason) || code}`);
      for (const { reject } of this.#underway.values()) reject(error);
      this.#underway.clear();
    });
  }

  /**
   * Connects to the service at `address` (`http://HOST:PORT`, or https); `signal` ends the connection.
   * @throws ViewError `failed` where nobody answers, or the service rejects the connection
   * @example using client = await ViewClient.connect('http://127.0.0.1:7400', { token: undefined });
   */
  static async connect(address: string, { token, signal }: ViewClientOptions): Promise<ViewClient> {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const options = { headers, handshakeTimeout: limits.requestMsMax, maxPayload: limits.viewClientBytesMax };
    const url = new URL('/v1/view', address);
    url.protocol = url.protocol.replace('http', 'ws');
    const socket = new WebSocket(url, options);
    const client = new ViewClient(socket);
    const end = (): void => socket.terminate();
    signal?.addEventListener('abort', end, { once: true });
    socket.once('close', () => signal?.removeEventListener('abort', end));
    if (signal?.aborted === true) end();
    await new Promise<void>((resolve, reject) => {
      socket.once('open', resolve);
      socket.once('error', (cause) => reject(new ViewError('failed', `Cannot connect to ${url.href}: ${cause.message}`, { cause })));
    });
    return client;
  }

  /** Whether the connection accepts requests. */
  get isOpen(): boolean {
    return this.#socket.readyState === WebSocket.OPEN;
  }

  /** The answer to one request; rejects with ViewError. */
  async ask<Answer>(question: Question): Promise<Answer> {
    if (!this.isOpen) throw new ViewError('failed', 'The connection to the service is closed');
    if (this.#underway.size >= limits.viewRequestsPerPageMax) throw new ViewError('too_many', 'Too many requests are under way');
    const id = this.#next++;
    const answer = new Promise<unknown>((resolve, reject) => this.#underway.set(id, { resolve, reject }));
    this.#socket.send(JSON.stringify({ id, ...question }));
    return (await answer) as Answer;
  }

  [Symbol.dispose](): void {
    this.#socket.terminate();
  }

  #receive(text: string): void {
    let message: ViewMessage;
    try {
      message = JSON.parse(text) as ViewMessage;
    } catch {
      this.#socket.close(1002, 'not JSON');
      return;
    }
    if (!('id' in message) || message.type === 'progress') return;
    const underway = this.#underway.get(message.id);
    this.#underway.delete(message.id);
    if (message.type === 'answer') underway?.resolve(message.answer);
    else underway?.reject(new ViewError(message.code, message.message));
  }
}
