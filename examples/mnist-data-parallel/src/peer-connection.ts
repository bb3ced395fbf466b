// A TCP connection to another rank: exact numbers of bytes for the ring, lines of JSON for everything else.
//
// Invariants:
//  - A wait ends: with the bytes, with `peer_lost` when the connection breaks or closes, or with `peer_silent` after `withinMs`.
//  - `send` resolves once the kernel has the bytes, so the caller may overwrite them, and closing loses nothing that was sent.
//  - One `receive` at a time, one `send` at a time.

import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { limits } from './limits.ts';
import { TrainingError } from './training-error.ts';

const newline = 0x0a;

export class PeerConnection implements Disposable {
  /** The other end, for error messages: `rank 3`. */
  peer: string;
  readonly #socket: Socket;
  #brokenBy: Error | undefined;
  #wake: (() => void) | undefined;

  constructor(socket: Socket, peer: string) {
    this.#socket = socket;
    this.peer = peer;
    socket.setNoDelay(true); // A small chunk must not wait for the answer to the one before it.
    socket.setKeepAlive(true); // A host that lost its power never closes its connections.
    socket.on('readable', () => this.#wake?.());
    socket.on('error', (error) => {
      this.#brokenBy = error;
    });
    socket.on('close', () => this.#wake?.());
  }

  get remoteAddress(): string | undefined {
    return this.#socket.remoteAddress;
  }

  send(bytes: Uint8Array): Promise<void> {
    if (bytes.byteLength === 0) return Promise.resolve();
    return new Promise((resolve, reject) => {
      this.#socket.write(bytes, (error) => (error ? reject(this.#lost()) : resolve()));
    });
  }

  /** Exactly `byteLength` bytes, waiting at most `withinMs` milliseconds for each piece. */
  async receive(byteLength: number, withinMs: number = limits.peerWaitMsMax): Promise<Uint8Array> {
    if (byteLength === 0) return new Uint8Array();
    for (;;) {
      const bytes: Buffer | null = this.#socket.read(byteLength);
      if (bytes?.byteLength === byteLength) return bytes; // At the end of the stream, read() returns the rest.
      await this.#moreBytes(withinMs);
    }
  }

  sendJson(message: object): Promise<void> {
    return this.send(Buffer.from(`${JSON.stringify(message)}\n`));
  }

  /** The next line, parsed. The caller checks its content. */
  async receiveJson(withinMs: number = limits.peerWaitMsMax): Promise<unknown> {
    const line = await this.#receiveLine(withinMs);
    try {
      return JSON.parse(line);
    } catch (cause) {
      throw new TrainingError('bad_message', `Cannot read a message from ${this.peer}: "${line.slice(0, 80)}" is not JSON`, { cause });
    }
  }

  [Symbol.dispose](): void {
    this.#socket.destroy();
  }

  async #receiveLine(withinMs: number): Promise<string> {
    let line = Buffer.alloc(0);
    while (line.byteLength <= limits.messageBytesMax) {
      const bytes: Buffer | null = this.#socket.read();
      if (bytes === null) {
        await this.#moreBytes(withinMs);
        continue;
      }
      const end = bytes.indexOf(newline);
      if (end === -1) {
        line = Buffer.concat([line, bytes]);
        continue;
      }
      if (end + 1 < bytes.byteLength) this.#socket.unshift(bytes.subarray(end + 1));
      return Buffer.concat([line, bytes.subarray(0, end)]).toString();
    }
    throw new TrainingError('bad_message', `Cannot read a message from ${this.peer}: it is longer than ${limits.messageBytesMax} bytes`);
  }

  /** Resolves when there may be more to read. */
  #moreBytes(withinMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#socket.destroyed) {
        reject(this.#lost());
        return;
      }
      const timer = setTimeout(() => {
        this.#wake = undefined;
        reject(new TrainingError('peer_silent', `Gave up waiting for ${this.peer}: it has sent nothing for ${withinMs / 1000} s`));
      }, withinMs);
      this.#wake = () => {
        this.#wake = undefined;
        clearTimeout(timer);
        if (this.#socket.closed) reject(this.#lost());
        else resolve();
      };
    });
  }

  #lost(): TrainingError {
    const how = this.#brokenBy ? `broke (${describe(this.#brokenBy)})` : 'was closed by the other end';
    return new TrainingError('peer_lost', `Lost ${this.peer}: its connection ${how}`, { cause: this.#brokenBy });
  }
}

/**
 * Connects to another rank, which may not listen yet: retries until `limits.meetingMsMax` is over.
 * @throws TrainingError `cannot_meet`
 */
export async function connectToPeer(about: { host: string; port: number; peer: string; withinMs?: number }): Promise<PeerConnection> {
  const { host, port, peer, withinMs = limits.meetingMsMax } = about;
  const deadline = performance.now() + withinMs;
  for (;;) {
    const socket = connect(port, host);
    try {
      await once(socket, 'connect');
      return new PeerConnection(socket, peer);
    } catch (cause) {
      socket.destroy();
      if (performance.now() >= deadline) {
        const message = `Cannot reach ${peer} at ${host}:${port} within ${withinMs / 1000} s: ${describe(cause)}`;
        throw new TrainingError('cannot_meet', message, { cause });
      }
      await sleep(limits.connectRetryMs);
    }
  }
}

/** Node's error code if there is one: when `localhost` is two addresses and both refuse, the message is empty. */
function describe(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return code ?? message;
}
