// Messages to one page, in order, and the bytes that the page has not taken yet.
//
//   │ part │ part │ part │ … messages …          queue, here
//     └► at most one part is in the socket; its callback says that the system took it
//
// One part at a time makes progress visible: a slow page takes a part now and then, a dead one none. Senders wait for `isFull` to end before they
// make a message, so a page that does not read costs this bound and no more.
//
// Invariant: buffered ≤ viewSendBufferBytesMax + one answer, for senders that wait; short refusals are bounded because the service stops reading from
// a page at twice that.

import type { WebSocket } from 'ws';
import { aggregatorLimits as limits } from '../model/limits.ts';

interface Message {
  readonly bytes: Uint8Array;
  readonly isBinary: boolean;
  /** Bytes handed to the socket. */
  sent: number;
  readonly flushed: () => void;
}

/** Approximate memory of a message beside its bytes: many small ones count. */
const messageOverheadBytes = 256;

export class PageOutlet {
  readonly #socket: WebSocket;
  #queue: Message[] = [];
  #waiting: (() => void)[] = [];
  #buffered = 0;
  #tookAt = 0;
  #isEnded = false;

  constructor(socket: WebSocket) {
    this.#socket = socket;
  }

  /** Bytes that the system has not taken yet. */
  get buffered(): number {
    return this.#buffered;
  }

  get isFull(): boolean {
    return this.#buffered >= limits.viewSendBufferBytesMax;
  }

  /** Time when the system last took bytes (`performance.now()`), 0 before that. */
  get tookAt(): number {
    return this.#tookAt;
  }

  /** Text, or a binary frame. Resolves when the system took it, or the page is gone. */
  send(data: string | Uint8Array): Promise<void> {
    if (this.#isEnded) return Promise.resolve();
    const isBinary = typeof data !== 'string';
    const bytes = isBinary ? data : Buffer.from(data);
    this.#buffered += bytes.length + messageOverheadBytes;
    return new Promise((flushed) => {
      this.#queue.push({ bytes, isBinary, sent: 0, flushed });
      if (this.#queue.length === 1) this.#sendPart();
    });
  }

  /** Resolves when the outlet is not full, or the page is gone. */
  drained(): Promise<void> {
    if (this.#isEnded || !this.isFull) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** The page is gone: releases all waiters. */
  end(): void {
    this.#isEnded = true;
    this.#buffered = 0;
    const waiting = [...this.#waiting, ...this.#queue.map(({ flushed }) => flushed)];
    this.#waiting = [];
    this.#queue = [];
    for (const resolve of waiting) resolve();
  }

  #sendPart(): void {
    const [message] = this.#queue;
    if (message === undefined) return;
    const part = message.bytes.subarray(message.sent, message.sent + limits.viewFrameBytesMax);
    message.sent += part.length;
    const fin = message.sent === message.bytes.length;
    this.#socket.send(part, { binary: message.isBinary, fin }, (error) => {
      // The socket reports its end itself.
      if (error != null || this.#isEnded) return;
      this.#tookAt = performance.now();
      this.#buffered -= part.length;
      if (fin) {
        this.#buffered -= messageOverheadBytes;
        this.#queue.shift();
        message.flushed();
      }
      if (!this.isFull) {
        for (const resolve of this.#waiting) resolve();
        this.#waiting = [];
      }
      this.#sendPart();
    });
  }
}
