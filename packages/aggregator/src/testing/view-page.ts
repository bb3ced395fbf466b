// A page of the viewer for tests: a real WebSocket, and every message that came over it.

import { once } from 'node:events';
import { decodeTiles, type Tile, type ViewMessage } from '@ranktrace/protocol';
import { WebSocket } from 'ws';
import { waitUntil } from './wait-until.ts';

/** The end of a request. */
type Answered = Extract<ViewMessage, { type: 'answer' | 'error' }>;

/** Acts like a page in a browser: sends requests, keeps the messages. */
export class ViewPage implements AsyncDisposable {
  readonly socket: WebSocket;
  readonly messages: ViewMessage[] = [];
  readonly frames: { readonly request: number; readonly tiles: Tile[]; readonly bytes: number }[] = [];
  #next = 1;

  private constructor(socket: WebSocket) {
    this.socket = socket;
    socket.on('error', () => undefined);
    socket.on('message', (data: Buffer, isBinary) => {
      if (isBinary) this.frames.push({ ...decodeTiles(Uint8Array.from(data)), bytes: data.length });
      else this.messages.push(JSON.parse(String(data)) as ViewMessage);
    });
  }

  static async connect(address: string): Promise<ViewPage> {
    const page = new ViewPage(new WebSocket(`${address.replace('http', 'ws')}/v1/view`, { maxPayload: 0 }));
    await once(page.socket, 'open');
    return page;
  }

  /** Returns the number of the request. */
  send(request: Record<string, unknown>): number {
    const id = this.#next++;
    this.socket.send(JSON.stringify({ id, ...request }));
    return id;
  }

  answerTo(id: number): Answered | undefined {
    return this.messages.find((message): message is Answered => 'id' in message && message.id === id && message.type !== 'progress');
  }

  /** The answer, or `code: message` in place of one. */
  async ask<Answer = unknown>(request: Record<string, unknown>): Promise<Answer | string> {
    const id = this.send(request);
    await waitUntil(`request ${id} is answered`, () => this.answerTo(id) !== undefined);
    const answer = this.answerTo(id);
    return answer?.type === 'error' ? `${answer.code}: ${answer.message}` : (answer?.answer as Answer);
  }

  /** The names of the run that the page received since it opened it. Throws when a part of them is missing. */
  namesOf(run: string): string[] {
    const names: string[] = [];
    for (const message of this.messages) {
      if (message.type !== 'grown' || message.run !== run) continue;
      if (message.namesFrom !== names.length) throw new Error(`names from ${message.namesFrom} on, and there are ${names.length}`);
      names.push(...message.names);
    }
    return names;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.socket.readyState === WebSocket.CLOSED) return;
    const closed = once(this.socket, 'close');
    this.socket.terminate();
    await closed;
  }
}
